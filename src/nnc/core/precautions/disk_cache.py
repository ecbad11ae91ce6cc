"""What took long to make, on disk, by the key of what it was made of: native code, and trails of programs that repeat.

    entry = magic | sha256(key, content) | content

What is loaded from here runs: nobody else may write it. The folder is this user's alone (0700). An entry is used when
it is a plain file of this user that nobody else can write, no link, and matches its checksum; else it is made again. It
is written to a temporary file and renamed, so processes may share the folder. A folder that is another user's, or that
cannot be written, is not used. Entries that nobody used for longest make room for new ones.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from nnc.classes import dataclass
from nnc.core.precautions.reading import MappedFile
from nnc.core.precautions.shield import Shield
from nnc.errors import FormatError

MAGIC = b"NNCOBJ2\n"
CHECKSUM_BYTES = 32
# Where the content of an entry begins.
FRONT_BYTES = len(MAGIC) + CHECKSUM_BYTES
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
PRIVATE = 0o700
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
# A listing of 77,000 entries takes 0.3 s: it is done about once while this share of the limit is written.
SHARE_BETWEEN_LISTINGS = 64
# A use that much after the last one is noted: at most one write for each entry and hour.
NOTED_SECONDS = 3600


@dataclass(slots=True)
class DiskCache:
    """Entries of one kind by key; `folder` None keeps nothing.

    Where new entries make them more than `most_bytes`, those go that were not used for longest. They are counted about
    once while a 64th of it is written, by whichever process, so they may be that much more.
    """

    folder: Path | None
    kind: str = "object"
    suffix: str = ".o"
    most_bytes: int | None = None
    hits: int = 0
    misses: int = 0
    warned: bool = False

    @property
    def entries(self) -> Path | None:
        """The folder of the entries."""
        return self.folder / f"{self.kind}s" if self.folder else None

    def load(self, key: str) -> bytes | None:
        """The content of `key`, or None when it is absent, unreadable, foreign or does not match its checksum."""
        content = self.view(key)
        return None if content is None else bytes(content)

    def view(self, key: str) -> memoryview | None:
        """The same as it was read: nothing is copied."""
        folder = self.entries
        path = folder / f"{key}{self.suffix}" if folder is not None and self._is_usable(folder) else None
        entry = _read(path) if path is not None else None
        if path is not None and entry is not None:
            content = memoryview(entry)[FRONT_BYTES:]
            if entry[:FRONT_BYTES] == MAGIC + _checksum(key, content):
                self.hits += 1
                _note_use(path)
                return content
            self._warn("damaged or foreign entries are ignored and made again")
        self.misses += 1
        return None

    def mapped(self, key: str) -> MappedFile | None:
        """The whole entry of `key`, mapped, whose content begins at `FRONT_BYTES`; None as `load` has it.

        Processes that map it have it in memory once. Who makes room, or an entry anew, leaves what is mapped as it was.
        """
        folder = self.entries
        if folder is None or not self._is_usable(folder):
            return None
        path = folder / f"{key}{self.suffix}"
        try:
            if not _is_trusted(path.lstat()):
                return None
            file = MappedFile(path)
        except (OSError, FormatError):
            return None
        content = memoryview(file.content)
        if content[:FRONT_BYTES] != MAGIC + _checksum(key, content[FRONT_BYTES:]):
            self._warn("damaged or foreign entries are ignored and made again")
            with suppress(OSError):
                path.unlink()
            return None
        _note_use(path)
        return file

    def holds(self, key: str) -> bool:
        """Whether there is an entry of this key, whatever is in it."""
        return self.entries is not None and (self.entries / f"{key}{self.suffix}").is_file()

    def store(self, key: str, content: bytes | memoryview, *, first: bool = False) -> None:
        """Keep it; a folder that cannot be written, or is not ours, is left alone.

        Of those who store a key as the `first`, one does: all map the same file.
        """
        folder = self.entries
        if folder is None:
            return
        with suppress(OSError, ValueError):
            folder.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
            folder.mkdir(exist_ok=True, mode=PRIVATE)
            if self._is_usable(folder):
                checksum = _checksum(key, content)
                nbytes = len(MAGIC) + len(checksum) + len(content)
                if self._is_turn(checksum, nbytes):
                    self._make_room(folder, nbytes)
                _write(folder, f"{key}{self.suffix}", (MAGIC, checksum, content), first)

    def sizes(self) -> tuple[tuple[str, int], ...]:
        """The keys of all entries with their bytes; none of a folder that is not used."""
        folder = self.entries
        if folder is None or not self._is_usable(folder):
            return ()
        entries = ((path.name.removesuffix(self.suffix), size) for _, size, path in _ages(folder) if path.suffix)
        return tuple(sorted(entries))

    def _is_turn(self, checksum: bytes, nbytes: int) -> bool:
        """True for one entry, by its checksum, in about a 64th of the limit: no process needs to know of the others."""
        if self.most_bytes is None:
            return False
        draw = int.from_bytes(checksum[:4]) / (1 << 32)
        return draw * self.most_bytes < nbytes * SHARE_BETWEEN_LISTINGS

    def _make_room(self, folder: Path, nbytes: int) -> None:
        """Remove what was not used for longest until so many bytes more are not too many."""
        aged = sorted(_ages(folder))
        total = sum(size for _, size, _ in aged) + nbytes
        for _, size, path in aged:
            if self.most_bytes is None or total <= self.most_bytes:
                return
            with suppress(OSError):
                path.unlink(missing_ok=True)
                total -= size

    def _is_usable(self, folder: Path) -> bool:
        """Whether the folder is there and this user's alone; one that is ours, but open to others, is closed."""
        try:
            status = folder.lstat()
        except (OSError, ValueError):
            return False
        if stat.S_ISDIR(status.st_mode) and _is_own(status):
            if os.name == "posix" and stat.S_IMODE(status.st_mode) != PRIVATE:
                # What others may have put there meanwhile fails the checks of an entry.
                with suppress(OSError):
                    folder.chmod(PRIVATE)
            return True
        self._warn("the folder is another user's or a link, and is not used")
        return False

    def _warn(self, reason: str) -> None:
        if not self.warned:
            self.warned = True
            warnings.warn(f"nnc: {self.kind} cache {self.folder}: {reason}", RuntimeWarning, stacklevel=3)


def can_write(folder: Path) -> bool:
    """Whether files can be made in `folder`, which is made itself when it is first needed."""
    try:
        nearest = next((place for place in (folder, *folder.parents) if place.exists()), None)
        return nearest is not None and nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    except (OSError, ValueError):
        # Of a name that is too long, or that no file can have, the system does not even say that nothing is there.
        return False


def _ages(folder: Path) -> Iterator[tuple[int, int, Path]]:
    """(last use in ns, bytes, path) of each entry; other processes may remove some meanwhile."""
    for path in folder.iterdir():
        with suppress(OSError):
            status = path.lstat()
            yield status.st_mtime_ns, status.st_size, path


def _note_use(path: Path) -> None:
    with suppress(OSError):
        if time.time() - path.lstat().st_mtime > NOTED_SECONDS:
            os.utime(path)


def _checksum(key: str, content: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(key.encode() + b"\0")
    digest.update(content)
    return digest.digest()


def _is_own(status: os.stat_result) -> bool:
    """True for what belongs to this user; where users have no numbers, folders of a profile are closed to others."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _is_trusted(status: os.stat_result) -> bool:
    """Whether it is a plain file of this user that nobody else can write, and no link."""
    closed = os.name != "posix" or not status.st_mode & OTHERS_WRITE
    return stat.S_ISREG(status.st_mode) and _is_own(status) and closed


def _read(path: Path) -> bytes | None:
    """The content of a file that nobody else can have written; nothing (b"") of any other; None without a file."""
    with Shield():
        try:
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        except FileNotFoundError:
            return None
        except OSError:
            return b""
        try:
            if not _is_trusted(os.fstat(handle)):
                return b""
            with os.fdopen(handle, "rb", closefd=False) as file:
                return file.read()
        except OSError:
            return b""
        finally:
            os.close(handle)


def _write(folder: Path, name: str, parts: Sequence[bytes | memoryview], first: bool) -> None:
    with Shield():
        temporary = folder / f".{os.urandom(8).hex()}.part"
        handle = os.open(temporary, NEW, stat.S_IRUSR | stat.S_IWUSR)
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(parts)
            if first:
                with suppress(FileExistsError):
                    os.link(temporary, folder / name)
                temporary.unlink()
            else:
                os.replace(temporary, folder / name)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
