"""What the environment and the caller ask of the whole process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from nnc.errors import UsageError


@dataclass(slots=True)
class Settings:
    """Process-wide choices; `threads` 0 means that `NNC_THREADS` decides, and without it one worker per usable core.

    `kept_programs` is how many compiled programs a model, and how many gradient programs a dynamic graph, keeps for
    the next time; the one that was not used for longest goes first. `kept_kernels` is how many kernels the process
    keeps for commands to come; a program keeps its own anyway.
    """

    threads: int = 0
    cache_folder: Path | None = None
    debug: bool = False
    environment_threads: str = ""
    kept_programs: int = 32
    kept_kernels: int = 1024

    def worker_count(self) -> int:
        """Workers that share a kernel. UsageError when `NNC_THREADS` is asked and is no number ≥ 0."""
        if self.threads > 0:
            return self.threads
        text = self.environment_threads or "0"
        if not text.isdecimal():
            raise UsageError("NNC_THREADS", got=repr(text), need="an integer ≥ 0")
        return int(text) or len(usable_processors())


def usable_processors() -> list[int]:
    """The numbers of the processors that this process may use; those of all where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(os.cpu_count() or 1)]


def from_environment() -> Settings:
    """NNC_THREADS, NNC_CACHE_DIR (empty = no cache on disk), NNC_DEBUG (1 = poison freed memory, verify)."""
    folder = os.environ.get("NNC_CACHE_DIR")
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "nnc"
    return Settings(
        cache_folder=default if folder is None else Path(folder) if folder else None,
        debug=os.environ.get("NNC_DEBUG", "") not in ("", "0"),
        environment_threads=os.environ.get("NNC_THREADS", ""),
    )


SETTINGS = from_environment()
