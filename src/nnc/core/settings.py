"""What the environment and the caller ask of the whole process."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from nnc.classes import dataclass
from nnc.errors import UsageError

ROOT = Path("/")


@dataclass(slots=True)
class Settings:
    """Process-wide choices; `threads` 0 means that `NNC_THREADS` decides, and without it `usable_cores`.

    `kept_programs` is how many compiled programs a model, and how many gradient programs a dynamic graph, keeps for
    the next time, and `kept_bytes` what their objects may take by their statements; the one that was not used for
    longest goes first. `kept_kernel_bytes` is what the kernels may take that the process keeps for commands to come; a
    program keeps its own anyway. `cached_code_bytes` is what machine code on disk may take; who sets it, sets it before
    the first kernel is made. `cached_weight_bytes` is what the weights on disk may take that processes share.

    `repeating_seconds` is how long a compilation within a limit may look for what to run again; None waits for all that
    there is to find. What was found by then is used, so another machine, or another run, may repeat other execs.

    With `strict_types` operators of variables refuse operands of two element types, which else meet in one of both.
    """

    threads: int = 0
    cache_folder: Path | None = None
    debug: bool = False
    environment_threads: str = ""
    kept_programs: int = 32
    kept_bytes: int = 256 << 20
    kept_kernel_bytes: int = 64 << 20
    cached_code_bytes: int = 1 << 30
    cached_weight_bytes: int = 8 << 30
    repeating_seconds: float | None = None
    strict_types: bool = False

    def worker_count(self) -> int:
        """Workers that share a kernel. UsageError when `NNC_THREADS` is asked and is no number ≥ 0."""
        if self.threads > 0:
            return self.threads
        text = self.environment_threads or "0"
        if not text.isdecimal():
            raise UsageError("NNC_THREADS", got=repr(text), need="an integer ≥ 0")
        return int(text) or usable_cores()


def usable_processors() -> list[int]:
    """The numbers of the processors that this process may use; those of all where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(os.cpu_count() or 1)]


def usable_cores(system: Path = ROOT) -> int:
    """min(usable processors, the quota of processor time of the control groups that we are in, rounded up)."""
    return min(len(usable_processors()), _most_workers(system))


@cache
def _most_workers(system: Path) -> int:
    """What the quotas allow; read once, as whoever runs a kernel asks."""
    return min((max(math.ceil(quota), 1) for quota in _quotas(system)), default=sys.maxsize)


def _quotas(system: Path) -> Iterator[float]:
    """Processors' worth of time in each period: of our control group, and of those around it, as containers set it."""
    for row in _text(system / "proc/self/cgroup").splitlines():
        number, _, names = row.partition(":")
        controllers, _, place = names.partition(":")
        if number == "0" and not controllers:
            yield from _quotas_upwards(system / "sys/fs/cgroup", place, _unified_quota)
        elif "cpu" in controllers.split(","):
            yield from _quotas_upwards(system / "sys/fs/cgroup" / controllers, place, _older_quota)
            yield from _quotas_upwards(system / "sys/fs/cgroup/cpu", place, _older_quota)


def _quotas_upwards(root: Path, place: str, quota: Callable[[Path], str]) -> Iterator[float]:
    """Of the group at `place`, which inside of a container may not be there, and of all above it."""
    relative = Path(place.lstrip("/"))
    for folder in (root / relative, *(root / parent for parent in relative.parents)):
        words = quota(folder).split()
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
            yield int(words[0]) / int(words[1])


def _unified_quota(folder: Path) -> str:
    """Microseconds of processor time and of a period; `max` where there is no limit."""
    return _text(folder / "cpu.max")


def _older_quota(folder: Path) -> str:
    """The same of the first version of control groups; -1 where there is no limit."""
    return f"{_text(folder / 'cpu.cfs_quota_us')} {_text(folder / 'cpu.cfs_period_us')}"


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""


def from_environment() -> Settings:
    """NNC_THREADS, NNC_CACHE_DIR (empty = no cache on disk), NNC_DEBUG (1 = poison freed memory, verify)."""
    folder = os.environ.get("NNC_CACHE_DIR")
    return Settings(
        cache_folder=_usual_folder() if folder is None else Path(folder) if folder else None,
        debug=os.environ.get("NNC_DEBUG", "") not in ("", "0"),
        environment_threads=os.environ.get("NNC_THREADS", ""),
    )


def _usual_folder() -> Path | None:
    """`nnc` in the user's folder for caches; None for a user without a home."""
    caches = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(caches) if caches else Path("~/.cache").expanduser()) / "nnc"
    except RuntimeError:
        return None


SETTINGS = from_environment()
