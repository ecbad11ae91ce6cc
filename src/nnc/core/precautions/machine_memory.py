"""What memory this machine has, what a control group leaves of it, and what this process can have in all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nnc.errors import MemoryLimitError

SYSTEM = Path("/")
# Where the first version says that there is no limit: the largest number of whole pages.
UNLIMITED = 1 << 60
# This many entries of a list fit in any memory.
FEW_ENTRIES = 1 << 20


def machine_memory() -> int | None:
    """Bytes of this machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def group_limit(root: Path = SYSTEM) -> int | None:
    """The least limit of the control groups that this process is in; None where there is none."""
    return min(_limits(root), default=None)


def obtainable_memory(root: Path = SYSTEM) -> int | None:
    """What is free, swap too, and what this process has: at most the machine's and the control group's.

    None where the system does not tell.
    """
    known = [given for given in (machine_memory(), group_limit(root), _free_and_own(root)) if given is not None]
    return min(known, default=None)


def check_entries(subject: str, count: int) -> None:
    """MemoryLimitError for a list that takes more than a quarter of the memory there is, at 8 bytes an entry."""
    memory = obtainable_memory() if count > FEW_ENTRIES else None
    if memory is not None and count > memory // 32:
        need = f"at most {memory // 32}, whose list takes a quarter of the memory there is"
        raise MemoryLimitError(subject, got=f"{count} parts", need=need)


def _limits(root: Path) -> Iterator[int]:
    """Those of each group from ours up, in either version; a container may see its own group as the topmost."""
    for folder, name in _groups(root):
        with suppress(OSError, ValueError):
            limit = int((folder / name).read_text())
            if limit < UNLIMITED:
                yield limit


def _groups(root: Path) -> Iterator[tuple[Path, str]]:
    mounted = root / "sys/fs/cgroup"
    yield mounted, "memory.max"
    yield mounted / "memory", "memory.limit_in_bytes"
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, kinds, place = line.split(":", 2)
            top, name = (mounted, "memory.max") if not kinds else (mounted / "memory", "memory.limit_in_bytes")
            if not kinds or "memory" in kinds.split(","):
                own = top / place.strip("/")
                yield from ((folder, name) for folder in (own, *own.parents) if folder.is_relative_to(top))


def _free_and_own(root: Path) -> int | None:
    """As Linux tells it."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        told = {name: int(rest.split()[0]) << 10 for name, rest in (line.split(":", 1) for line in lines)}
        own = int((root / "proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return told["MemAvailable"] + told.get("SwapFree", 0) + own
    except (OSError, ValueError, KeyError, IndexError):
        return None
