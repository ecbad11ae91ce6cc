"""Memory: a run of bytes, aligned for vector loads, shared by the tensors that view it."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from typing import Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import explained, shown
from nnc.classes import dataclass
from nnc.core.precautions.reading import MappedFile
from nnc.core.values.device import CPU, Device
from nnc.core.values.recorder import PROFILER, Allocated, now
from nnc.errors import ArgumentError, DeviceError, MemoryLimitError, OutOfMemoryError
from nnc.faces import wire

ALIGNMENT = 64
MAX_BYTES = 2**62

Bytes = NDArray[np.uint8]


def aligned(nbytes: int) -> int:
    """Bytes up to where another block may begin.

    >>> aligned(0), aligned(1), aligned(64)
    (0, 64, 64)
    """
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


Content = bytes


def bytes_of_system(nbytes: int, zeroed: bool) -> Bytes:
    """Fresh bytes, zeroed or not initialized; MemoryError where there are not so many."""
    return np.zeros(nbytes, np.uint8) if zeroed else np.empty(nbytes, np.uint8)


@dataclass(slots=True)
class Allocator:
    """All fresh memory of tensors, arenas, workspaces and native code is taken here.

    `source` may be replaced by one that counts, or fails at a chosen call: `scripts/fuzz allocations`.
    """

    source: Callable[[int, bool], Bytes] = bytes_of_system

    def take(self, nbytes: int, *, zeroed: bool = False) -> tuple[Bytes, int]:
        """Bytes and their address, a multiple of 64. OutOfMemoryError when the system has not that much."""
        try:
            raw = self.source(nbytes + ALIGNMENT, zeroed)
        except MemoryError:
            raise OutOfMemoryError("storage", got=f"{nbytes} bytes", need="memory that this machine has") from None
        begin = int(raw.ctypes.data)
        skip = -begin % ALIGNMENT
        return raw[skip : skip + nbytes], begin + skip


ALLOCATOR = Allocator()


class WatchedMemory:
    """The checksum (CRC-32) of bytes when they were last read, and at which reading another one was found."""

    __slots__ = ("_seen", "changed")

    def __init__(self) -> None:
        self._seen: int | None = None
        self.changed = -1

    def read(self, content: Bytes, number: int) -> None:
        """Note reading `number`; numbers grow."""
        checksum = crc32(content.data)
        if checksum != self._seen and self._seen is not None:
            self.changed = number
        self._seen = checksum

    def is_as_read(self, content: Bytes, number: int) -> bool:
        """Whether reading `number` found what is there now."""
        return self.changed <= number and self._seen in (None, crc32(content.data))


def check_label(label: str) -> None:
    """ArgumentError unless it is a text."""
    if not isinstance(label, str):
        raise ArgumentError("storage", got=f"label={shown(label)}", need="a text")


class Storage:
    """`nbytes` bytes from `address` on, a multiple of 64, or bytes that somebody else owns.

    `watch` is set where somebody outside may write them while a gradient needs them, `file` where they are those of a
    file on the disk.
    """

    __slots__ = ("__weakref__", "_bytes", "address", "file", "label", "nbytes", "owner", "read_only", "watch")
    device: Device = CPU

    def __init__(self, data: Bytes, label: str = "") -> None:
        self._bytes: Bytes | None = data
        self.owner: object = data
        # Kept, because asking NumPy for it takes longer than a small kernel.
        self.address = int(data.ctypes.data)
        self.nbytes = int(data.nbytes)
        self.label = label
        self.read_only = not data.flags.writeable
        self.watch: WatchedMemory | None = None
        self.file: MappedFile | None = None

    @classmethod
    def mapping(cls, file: MappedFile, offset: int = 0) -> Storage:
        """The bytes of a file from `offset` on, read-only."""
        storage = cls(np.frombuffer(file.content, np.uint8)[offset:], "file")
        storage.file = file
        return storage

    @classmethod
    def owned(cls, owner: object, address: int, nbytes: int, label: str = "") -> Storage:
        """Bytes that live as long as `owner`, which is an array of them in NumPy's eyes; made one when asked for."""
        check_label(label)
        made = cls.__new__(cls)
        made._bytes, made.owner, made.watch, made.file = None, owner, None, None
        made.address, made.nbytes, made.label, made.read_only = address, nbytes, label, False
        return made

    @property
    def bytes(self) -> Bytes:
        """The bytes as NumPy's."""
        if self._bytes is None:
            self._bytes = np.asarray(self.owner)
        return self._bytes

    @classmethod
    @explained
    def allocate(cls, nbytes: int, label: str = "", *, zeroed: bool = False) -> Storage:
        """Fresh memory, not initialized unless `zeroed`. OutOfMemoryError when the system has not that much.

        Pages of large zeroed memory are there only once they are written.
        """
        if not 0 <= nbytes <= MAX_BYTES:
            raise MemoryLimitError("storage", got=f"{nbytes} bytes", need="0..2^62 bytes")
        data, address = ALLOCATOR.take(nbytes, zeroed=zeroed)
        if PROFILER.recorders:
            PROFILER.note(Allocated(label, nbytes, now()))
        return cls.owned(data, address, nbytes, label)

    @classmethod
    def holding(cls, content: Content, label: str = "") -> Storage:
        """Fresh memory that holds `content`."""
        storage = cls.allocate(len(content), label)
        storage.bytes[:] = np.frombuffer(content, np.uint8)
        return storage

    def __copy__(self) -> Storage:
        copy = Storage.allocate(self.nbytes, "copy")
        copy.bytes[:] = self.bytes
        return copy

    def __deepcopy__(self, memo: dict[int, object]) -> Storage:
        return self.__copy__()

    def __reduce__(self) -> tuple[Callable[[Content, str], Storage], tuple[Content, str]]:
        # By value: an address means nothing in another process, and not the same memory in this one.
        return Storage.holding, (self.bytes.tobytes(), "copy")

    def __repr__(self) -> str:
        return f"Storage({self.nbytes} bytes{f', {self.label}' if self.label else ''})"


class DeviceStorage(Storage):
    """Bytes of a device, which the process does not see: `address` counts in the device's own address space.

    `owner` is what the device's driver gave; with its last holder the memory goes back to the driver.
    """

    __slots__ = ("device",)

    def __init__(self, device: Device, owner: object, address: int, nbytes: int, label: str = "") -> None:
        check_label(label)
        self._bytes, self.owner, self.watch, self.file = None, owner, None, None
        self.address, self.nbytes, self.label, self.read_only = address, nbytes, label, False
        self.device = device

    @property
    def bytes(self) -> Bytes:
        """Always a DeviceError: a copy in host memory has such bytes."""
        raise DeviceError("memory", got=f"bytes of {self.device}", need="bytes of the host", fix="copy it: x.to('cpu')")

    def read(self, offset: int, nbytes: int) -> Bytes:
        """A copy of these bytes in host memory, behind all that was queued on the device."""
        copy, address = ALLOCATOR.take(nbytes)
        memory_of(self.device).download(self.device, address, self.address + offset, nbytes)
        return copy

    def write(self, offset: int, content: Bytes) -> None:
        """Let these bytes, which are contiguous, be there from `offset` on."""
        source = int(content.ctypes.data)
        memory_of(self.device).upload(self.device, self.address + offset, source, content.nbytes)

    def __copy__(self) -> Storage:
        raise DeviceError("copy", got=f"storage of {self.device}", need="storage of the host", fix="copy the tensor")

    def __reduce__(self) -> tuple[Callable[[Content, str], Storage], tuple[Content, str]]:
        raise DeviceError("pickle", got=f"storage of {self.device}", need="storage of the host", fix="x.to('cpu')")


@explained
def allocate_on(device: Device, nbytes: int, label: str = "") -> Storage:
    """Fresh memory of a device, not initialized. OutOfMemoryError when it has not that much."""
    return Storage.allocate(nbytes, label) if device.is_host else memory_of(device).allocate(device, nbytes, label)


class DeviceMemory(Protocol):
    """Memory of devices of one kind, and copies in the order in which they were asked for."""

    def allocate(self, device: Device, nbytes: int, label: str = "") -> Storage:
        """Memory of it, not initialized. OutOfMemoryError when it has not that much."""

    def upload(self, device: Device, target: int, source: int, nbytes: int) -> None:
        """Copy bytes of the host to it; the host's bytes may change when this returns."""

    def download(self, device: Device, target: int, source: int, nbytes: int) -> None:
        """Copy bytes of it to the host; they are there when this returns."""

    def copy(self, device: Device, target: int, source: int, nbytes: int) -> None:
        """Copy bytes inside it."""

    def fill(self, device: Device, target: int, nbytes: int, byte: int) -> None:
        """Make bytes of it all the same."""

    def synchronize(self, device: Device) -> None:
        """Wait for all that was queued."""


_FIND_MEMORY: list[Callable[[Device], DeviceMemory]] = []


def use_devices(find: Callable[[Device], DeviceMemory]) -> None:
    """From now on `find(device)` gives the driver of a device that is there."""
    _FIND_MEMORY[:] = [find]


def memory_of(device: Device) -> DeviceMemory:
    """The driver of a device; DeviceError for one that is not there."""
    if not _FIND_MEMORY:
        wire()
    return _FIND_MEMORY[0](device)


def trim_free_memory() -> None:
    """Let the system have the memory that Python and the C library hold and nobody uses, where glibc can be asked.

    Planning and code generation leave such memory behind. A process that then fills an arena would have both. Cycles
    are looked for among what was made lately: a look at all, modules of the process too, takes 60 ms.
    """
    gc.collect(1)
    trim()


def trim() -> None:
    """The same for memory that nobody in Python holds."""
    give = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if give is not None:
        give(0)
