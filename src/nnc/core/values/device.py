"""Devices: a kind of memory and a number. As a context, one is where arrays are made inside."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Self

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.errors import DeviceError

KINDS = ("cpu", "cuda", "vulkan")
# Of folders that programs may leave values in (`file_device`): memory where nothing is computed.
FILE = "file"
SPELLING = re.compile(r"([a-z]+)(?::(\d{1,9}))?")


@checked
@dataclass(frozen=True, slots=True)
class Device:
    """A place for tensors, printed as `cpu:0`."""

    kind: str = "cpu"
    index: int = 0

    def __post_init__(self) -> None:
        if self.kind not in (*KINDS, FILE) or self.index < 0:
            raise DeviceError(
                "device", got=f"{self.kind}:{self.index}", need="one of " + " ".join(KINDS) + " with index ≥ 0"
            )

    @property
    def is_host(self) -> bool:
        """Whether its memory is that of the process."""
        return self.kind == "cpu"

    @property
    def is_file(self) -> bool:
        """Whether its memory is a file's, and no memory at all."""
        return self.kind == FILE

    @property
    def space(self) -> Device:
        """The device whose addresses it has: memories of the host, of several nodes too, are read by one another."""
        return CPU if self.kind == "cpu" else self

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"

    def __enter__(self) -> Self:
        _AROUND.set((*_AROUND.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        _AROUND.set(_AROUND.get()[:-1])


CPU = Device()
# Its memory, as statements and plans name it.
HOST = str(CPU)
# The devices whose contexts this thread (or asynchronous task) is in, innermost last.
_AROUND: ContextVar[tuple[Device, ...]] = ContextVar("devices around", default=())


def current_device() -> Device:
    """Where arrays of numbers are made here: in a context that of its device, else the host."""
    around = _AROUND.get()
    return around[-1] if around else CPU


AnyDevice = Device | str


def device_of(value: AnyDevice) -> Device:
    """The device that `cuda`, `cuda:1` or a `Device` names; DeviceError for other texts.

    >>> print(device_of("vulkan"), device_of("cuda:1"))
    vulkan:0 cuda:1
    """
    if isinstance(value, Device):
        return value
    match = SPELLING.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        got = repr(value) if isinstance(value, str) else f"a {type(value).__name__}"
        raise DeviceError("device", got=got, need="KIND or KIND:NUMBER", fix="'cpu', 'cuda', 'vulkan:1'")
    return Device(match[1], int(match[2] or 0))
