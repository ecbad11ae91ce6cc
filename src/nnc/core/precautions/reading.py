"""Files of unknown origin: opened without waiting, plain files alone, read whole up to a limit or mapped when asked.

A device has no end, a pipe has no writer yet, a folder is no file, and files of /proc may wait for ever: all of them
are refused. What is written into a file while it is read is noticed by its size and the time of its last write: half of
what is read may be old, and pages that were cut off meanwhile read as zeros. A file that takes its name, as all that
nnc writes does, is another one.
"""

from __future__ import annotations

import io
import mmap
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nnc.core.precautions.replacement import reason_of
from nnc.core.precautions.shield import Shield
from nnc.errors import FormatError, MemoryLimitError

# Bytes in one go, so that Ctrl-C is seen and a file that grows is noticed.
PART = 1 << 26
FIRST_BYTES = (
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"PK\3\4", "a ZIP archive"),
    (b"GGUF", "a GGUF file"),
    (b"\x80\2", "a pickle"),
    (b"\x80\3", "a pickle"),
    (b"\x80\4", "a pickle"),
    (b"\x80\5", "a pickle"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\x93NUMPY", "an array of NumPy"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"SQLite", "a database"),
)
KINDS = (
    (stat.S_ISDIR, "is a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@contextmanager
def opened(path: Path | str, need: str = "a readable file", *, writable: bool = False) -> Iterator[tuple[int, int]]:
    """The handle and the size of a plain file; FormatError for anything else. Links are followed.

    FormatError at the end too, where somebody wrote into the file meanwhile; not where it was opened to be written.
    """
    place = Path(path)
    flags = (
        (os.O_RDWR if writable else os.O_RDONLY)
        | getattr(os, "O_NONBLOCK", 0)
        | getattr(os, "O_CLOEXEC", 0)
        | getattr(os, "O_BINARY", 0)
    )
    with Shield():
        try:
            handle = os.open(place, flags)
        except (OSError, ValueError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            raise FormatError(str(place), got=reason, need=need) from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            kind = next((name for is_kind, name in KINDS if is_kind(status.st_mode)), "no plain file")
            raise FormatError(str(place), got=kind, need=need)
        if not status.st_size and not _is_empty(handle):
            raise FormatError(str(place), got="a file without a size, as those of the system are", need=need)
        yield handle, status.st_size
        if not writable:
            _check_unwritten(place, handle, status)
    finally:
        os.close(handle)


def _check_unwritten(path: Path | str, handle: int, before: os.stat_result) -> None:
    """FormatError where a file has another size, or was written, since `before`."""
    now = os.fstat(handle)
    if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        got = f"{now.st_size:,} bytes: it was written while it was read"
        raise FormatError(str(path), got=got, need="a file that nobody writes into", fix="read it again")


def _is_empty(handle: int) -> bool:
    """Whether a file of no bytes has none: those of /proc give some, wait for some, or never end."""
    try:
        return not os.read(handle, 1)
    except OSError:
        return False


def kind_of(path: Path | str) -> str:
    """What the first bytes of a file say that it is; nothing where they say nothing."""
    with opened(path) as (handle, size):
        first = bytearray(min(size, 8))
        fill(path, handle, memoryview(first), 0)
    return kind_of_bytes(first)


def kind_of_bytes(first: bytes | bytearray) -> str:
    """The same of the first bytes themselves."""
    return next((name for start, name in FIRST_BYTES if first.startswith(start)), "")


def read_file(path: Path | str, need: str = "a readable file", most_bytes: int | None = None) -> bytearray:
    """The whole content of a plain file; FormatError for anything else, and for more than `most_bytes`."""
    with opened(path, need) as (handle, size):
        if most_bytes is not None and size > most_bytes:
            raise FormatError(str(path), got=f"{size:,} bytes", need=f"{need} of at most {most_bytes:,}")
        try:
            content = bytearray(size)
        except MemoryError:
            raise MemoryLimitError(str(path), got=f"{size:,} bytes", need="memory that this machine has") from None
        fill(path, handle, memoryview(content), 0)
        return content


def fill(path: Path | str, handle: int, target: memoryview, offset: int) -> None:
    """Read a file from `offset` on until the target is full; FormatError where the file has no more."""
    done = 0
    while done < len(target):
        try:
            taken = _read_at(handle, target[done : done + PART], offset + done)
        except OSError as error:
            raise FormatError(str(path), got=reason_of(error), need="a readable file") from None
        if not taken:
            got = f"{offset + done:,} bytes: it became shorter while it was read"
            raise FormatError(str(path), got=got, need=f"{offset + len(target):,} bytes", fix="read it again")
        done += taken


def _read_at(handle: int, target: memoryview, offset: int) -> int:
    """How many bytes were read; where the handle stands is not moved, which threads and children of a fork share."""
    if sys.platform == "win32":
        with io.FileIO(handle, closefd=False) as file:
            file.seek(offset)
            return file.readinto(target)
    return os.preadv(handle, [target], offset)


class HeldFile:
    """A plain file that stays open, whichever takes its name: its bytes are read when they are asked for."""

    __slots__ = ("__weakref__", "_handle", "_opened", "path", "size")

    def __init__(self, path: Path | str, need: str = "a readable file", *, writable: bool = False) -> None:
        self.path = str(path)
        with opened(path, need, writable=writable) as (handle, size):
            self.size = size
            self._opened = None if writable else os.fstat(handle)
            self._handle = os.dup(handle)

    def read(self, target: memoryview, offset: int) -> None:
        """Fill the target from `offset` on; FormatError where the file has no more, or was written since it was opened.

        Threads may read at once.
        """
        fill(self.path, self._handle, target, offset)
        if self._opened is not None:
            _check_unwritten(self.path, self._handle, self._opened)

    def __reduce__(self) -> tuple[Callable[[str], HeldFile], tuple[str]]:
        # Copies open the file anew: of two that share a handle the first to go would close it.
        return type(self), (self.path,)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            os.close(handle)


class MappedFile(HeldFile):
    """The bytes of a plain file as they are on the disk, read where they are touched. `check` before each use.

    What somebody writes into the file is seen; of one that became shorter a touch beyond its end would end the
    process (SIGBUS), so `check` says so before. A `private` one may be written, which only this process sees: pages
    that are written are its own from then on.
    """

    __slots__ = ("content",)

    def __init__(
        self, path: Path | str, need: str = "a readable file", *, writable: bool = False, private: bool = False
    ) -> None:
        super().__init__(path, need, writable=writable)
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_COPY if private else mmap.ACCESS_READ
        try:
            self.content = mmap.mmap(self._handle, self.size, access=access) if self.size else b""
        except (OSError, ValueError) as error:
            # ValueError: it became shorter between the two calls.
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            raise FormatError(self.path, got=reason, need=need) from None

    def check(self) -> None:
        """FormatError where the file has become shorter than it was when it was mapped."""
        size = os.fstat(self._handle).st_size
        if size < self.size:
            got = f"{size:,} bytes of the {self.size:,} that were mapped: it became shorter meanwhile"
            raise FormatError(self.path, got=got, need="a file that nobody shortens", fix="load it without mapped=True")
