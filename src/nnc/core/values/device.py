"""Devices: a kind of memory and a number."""

from __future__ import annotations

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.errors import DeviceError

KINDS = ("cpu", "cuda")


@checked
@dataclass(frozen=True, slots=True)
class Device:
    """A place for tensors, printed as `cpu:0`."""

    kind: str = "cpu"
    index: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.index < 0:
            raise DeviceError(
                "device", got=f"{self.kind}:{self.index}", need="one of " + " ".join(KINDS) + " with index ≥ 0"
            )

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"


CPU = Device()
