"""Files as memory: each allocation is a file without a name in its folder, so that nothing is ever left of it.

    address    counts over all files of the process; a file has [begin, begin + nbytes)
    upload     a write at once: the system puts it on the disk behind our back, while programs go on
    download   a read; the one that came behind it last time is announced to the system, which reads it ahead

Room is made when a file is: a disk that is full is an error before a run begins, and none in the middle of it. A forked
child has files of its own, as it has memory of its own.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from weakref import WeakValueDictionary

from nnc.core.precautions.forking import fork_safe_lock
from nnc.core.precautions.replacement import reason_of
from nnc.core.running.devices import DeviceFacts
from nnc.core.running.file_device import checked_folder, folder_count, folder_of
from nnc.core.values.device import FILE, Device
from nnc.core.values.storage import DeviceStorage, Storage
from nnc.errors import DeviceError, OutOfMemoryError

# Bytes that one call writes or reads at most: Linux takes no more than 2 GB.
LONGEST = 1 << 30
PAGE = 1 << 12
CLOSED = -1


class FileMemory:
    """A file without a name, of a fixed size, from `begin` on in the addresses of its driver."""

    def __init__(self, folder: Path, begin: int, nbytes: int) -> None:
        self.folder = folder
        self.begin = begin
        self.nbytes = nbytes
        self._file = CLOSED
        self._open()

    def _open(self) -> None:
        # The system frees its blocks when it is closed, whatever ends the process.
        with tempfile.TemporaryFile(dir=self.folder, buffering=0) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, max(self.nbytes, 1))
            else:
                os.truncate(file.fileno(), self.nbytes)
            self._file = os.dup(file.fileno())
        self._process = os.getpid()
        self._behind: dict[int, tuple[int, int]] = {}
        self._last = -1

    def __del__(self) -> None:
        self._close()

    def _close(self) -> None:
        file, self._file = self._file, CLOSED
        if file != CLOSED:
            os.close(file)

    def write(self, address: int, content: memoryview) -> None:
        """Let these bytes be there."""
        self._each(os.pwrite, address, content)

    def read(self, address: int, content: memoryview) -> None:
        """Read into these bytes, and let the system read ahead what was read behind this place last time."""
        self._each(lambda file, part, at: os.preadv(file, [part], at), address, content)
        place = address - self.begin
        self._behind[self._last] = (place, content.nbytes)
        self._last = place
        if place in self._behind and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file, *self._behind[place], os.POSIX_FADV_WILLNEED)

    def _each(self, move: Callable[[int, memoryview, int], int], address: int, content: memoryview) -> None:
        if self._process != os.getpid():
            self._close()
            self._open()
        place, moved = address - self.begin, 0
        while moved < content.nbytes:
            part = content[moved : moved + LONGEST]
            try:
                count = move(self._file, part, place + moved)
            except OSError as error:
                got = f"{self.folder}: {reason_of(error)}"
                raise DeviceError("offload", got=got, need="a disk that answers") from error
            if not count:
                raise DeviceError("offload", got=f"a file of {self.folder} that became shorter", need="its bytes")
            moved += count


class FileDriver:
    """The folders that `file_device` made devices."""

    kind = FILE

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._end = PAGE
        self._files: WeakValueDictionary[int, FileMemory] = WeakValueDictionary()

    def absence(self) -> str:
        """Why there is no such device."""
        return "" if folder_count() else "no folder was named: offload_folder=…"

    def count(self) -> int:
        """How many folders there are."""
        return folder_count()

    def facts(self, device: Device) -> DeviceFacts:
        """The folder, and what is free on its disk."""
        folder = folder_of(device)
        free = os.statvfs(folder)
        return DeviceFacts(str(folder), free.f_bavail * free.f_frsize, 1, 1, 0)

    def allocate(self, device: Device, nbytes: int, label: str = "") -> Storage:
        """A file of so many bytes. OutOfMemoryError where the disk has no room, UsageError where the folder is gone."""
        with self._lock:
            begin, self._end = self._end, self._end + -(-max(nbytes, 1) // PAGE) * PAGE
        folder = folder_of(device)
        try:
            memory = FileMemory(folder, begin, nbytes)
        except OSError as error:
            checked_folder(folder)
            got, fix = f"{nbytes} bytes in {folder}: {reason_of(error)}", "free some, or name another folder"
            raise OutOfMemoryError("offload_folder", got=got, need="room on its disk", fix=fix) from error
        with self._lock:
            self._files[begin] = memory
        return DeviceStorage(device, memory, begin, nbytes, label)

    def upload(self, device: Device, target: int, source: int, nbytes: int) -> None:
        """Write bytes of the host."""
        if nbytes:
            self._file(target).write(target, _bytes_at(source, nbytes))

    def download(self, device: Device, target: int, source: int, nbytes: int) -> None:
        """Read bytes to the host."""
        if nbytes:
            self._file(source).read(source, _bytes_at(target, nbytes))

    def copy(self, device: Device, target: int, source: int, nbytes: int) -> None:
        """Copy bytes from a file to the same one or another."""
        content = memoryview(bytearray(nbytes))
        if nbytes:
            self._file(source).read(source, content)
            self._file(target).write(target, content)

    def fill(self, device: Device, target: int, nbytes: int, byte: int) -> None:
        """Make bytes all the same."""
        if nbytes:
            self._file(target).write(target, memoryview(bytes([byte]) * nbytes))

    def synchronize(self, device: Device) -> None:
        """Nothing waits: what was written is there for whoever reads."""

    def _file(self, address: int) -> FileMemory:
        with self._lock:
            begins = sorted(self._files)
            return self._files[begins[bisect_right(begins, address) - 1]]


def _bytes_at(address: int, nbytes: int) -> memoryview:
    return memoryview((ctypes.c_ubyte * nbytes).from_address(address)).cast("B")


def file_driver() -> FileDriver:
    """The driver of all folders."""
    return FileDriver()
