"""Files that are replaced whole or not at all.

    new content → hidden file `.NAME.XXXXXXXX.part` in the same folder → flushed to the disk → renamed over the old file

A crash at any moment leaves the old file or the new one, and at most one hidden file, which the next writer of that
name removes: who is at work holds a lock on his. The old file's permissions stay, and a link is followed.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from nnc.arguments import checked
from nnc.core.precautions.shield import Shield
from nnc.errors import UsageError

if sys.platform != "win32":
    import fcntl

Chunk = bytes | memoryview

_PERMISSIONS = 0o777
_USUAL = 0o666
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


@checked
def write_atomically(path: Path, chunks: Iterable[Chunk], *, keep: int = 1) -> None:
    """Replace `path` by a file of `chunks`, or leave it as it was. UsageError when it cannot be written.

    With `keep`, so many files are kept, this one included: `model.safetensors`, the one before as
    `model.1.safetensors`, and so on.
    """
    if keep < 1:
        raise UsageError("keep", got=str(keep), need="an integer ≥ 1")
    try:
        target = _target(path)
        _remove_leftovers(target)
        part = _Part(target)
        try:
            part.open()
            part.write(chunks)
            with Shield():
                _shift(target, keep)
                part.replace_target()
        finally:
            part.discard()
    except OSError as error:
        raise _unwritable(path, error) from None
    # The new file is whole and in place; a file system that cannot flush a folder is no reason to say otherwise.
    with contextlib.suppress(OSError):
        _sync_folder(target.parent)


@checked
def check_writable(path: Path) -> None:
    """UsageError now rather than after hours of work when `path` could not be written."""
    try:
        part = _Part(_target(path))
        with Shield():
            part.open()
            part.discard()
    except OSError as error:
        raise _unwritable(path, error) from None


@checked
def older(path: Path, number: int) -> Path:
    """Where the file is kept that was at `path` so many writes ago.

    >>> older(Path("model.safetensors"), 2)
    PosixPath('model.2.safetensors')
    """
    return path.with_name(f"{path.stem}.{number}{path.suffix}")


class _Part:
    """The new file in the making: hidden, locked, and gone unless it has taken its place."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = target
        self.file: IO[bytes] | None = None

    def open(self) -> None:
        """Make the file, for nobody but those who may read the old one."""
        permissions = _permissions(self.target)
        # Others must not open an empty file that they may not read when it is full.
        mode = _USUAL if permissions is None else stat.S_IRUSR | stat.S_IWUSR
        while self.file is None:
            with Shield():
                self.path = self.target.with_name(f".{self.target.name}.{os.urandom(4).hex()}.part")
                self.file = os.fdopen(os.open(self.path, _NEW, mode), "wb")
                if not _locked(self.file):
                    self.discard()
        if permissions is not None and hasattr(os, "fchmod"):
            os.fchmod(self.file.fileno(), permissions)

    def write(self, chunks: Iterable[Chunk]) -> None:
        """Fill the file and flush it to the disk."""
        assert self.file is not None
        self.file.writelines(chunks)
        self.file.flush()
        os.fsync(self.file.fileno())

    def replace_target(self) -> None:
        """Rename the file over the old one."""
        if sys.platform == "win32" and self.file is not None:
            self.file.close()
        os.replace(self.path, self.target)

    def discard(self) -> None:
        """Close the file, and remove it unless it has taken its place."""
        with Shield():
            file, self.file = self.file, None
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
                with contextlib.suppress(OSError):
                    os.unlink(self.path)


def _target(path: Path) -> Path:
    """The file that is replaced: what a link points to. UsageError for what is no plain file."""
    try:
        target = Path(os.path.realpath(path))
    except ValueError:
        raise UsageError(str(path), got="a zero byte, or half a character", need="the name of a file") from None
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise UsageError(str(path), got="a folder, a device or a circle of links", need="the name of a file")
    return target


def _permissions(target: Path) -> int | None:
    """The permissions of the old file; None without one, where the process's own rule holds."""
    try:
        return stat.S_IMODE(target.stat().st_mode) & _PERMISSIONS
    except FileNotFoundError:
        return None


def _shift(target: Path, keep: int) -> None:
    """Number older files one further, up to `keep` in all, and keep the old file as number 1, where it also stays."""
    last = 1
    while last < keep - 1 and older(target, last).exists():
        last += 1
    for number in range(last, 1, -1):
        with contextlib.suppress(FileNotFoundError):
            os.replace(older(target, number - 1), older(target, number))
    if keep > 1 and target.exists():
        first = older(target, 1)
        first.unlink(missing_ok=True)
        try:
            os.link(target, first)
        except OSError:
            # A file system without hard links: for a moment there is no file of the name.
            os.replace(target, first)


def _remove_leftovers(target: Path) -> None:
    """Remove what killed writers of this file have left."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-z_]{{8}}\.part")
    with os.scandir(target.parent) as entries:
        left = [entry.path for entry in entries if pattern.fullmatch(entry.name)]
    for path in left:
        with contextlib.suppress(OSError), Shield():
            handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
            try:
                if _is_free(handle):
                    os.unlink(path)
            finally:
                os.close(handle)


def _locked(file: IO[bytes]) -> bool:
    """Whether the new file is ours: between its making and its lock another writer may have removed it."""
    # Some file systems of a network have no locks; there, what is left behind stays.
    _is_free(file.fileno())
    return sys.platform == "win32" or os.fstat(file.fileno()).st_nlink > 0


def _is_free(handle: int) -> bool:
    """Whether no living process writes this file; if so, we are now the one that does."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@checked
def make_folder(path: Path) -> None:
    """Make a folder and those above it; UsageError where that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        got = reason_of(error) if isinstance(error, OSError) else str(error)
        raise UsageError(
            str(path), got=got, need="a folder that can be written to", fix="name another folder"
        ) from None


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(str(path), got=reason_of(error), need="a file that can be written", fix="name another folder")


def reason_of(error: OSError) -> str:
    """What the system says, as a part of a sentence."""
    return (error.strerror or str(error)).lower()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
