"""What the environment and the caller ask of the whole process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from nnc.errors import UsageError


@dataclass(slots=True)
class Settings:
    """Process-wide choices; `threads` 0 means one worker per usable core."""

    threads: int = 0
    cache_folder: Path | None = None
    debug: bool = False

    def worker_count(self) -> int:
        """Workers that share a kernel: `threads`, or the cores this process may use."""
        return (
            self.threads
            if self.threads > 0
            else len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )


def from_environment() -> Settings:
    """NNC_THREADS (≥ 0), NNC_CACHE_DIR (empty = no cache on disk), NNC_DEBUG (1 = poison freed memory, verify)."""
    text = os.environ.get("NNC_THREADS", "0")
    if not text.isdecimal():
        raise UsageError("NNC_THREADS", got=repr(text), need="an integer ≥ 0")
    folder = os.environ.get("NNC_CACHE_DIR")
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "nnc"
    cache = default if folder is None else Path(folder) if folder else None
    return Settings(int(text), cache, os.environ.get("NNC_DEBUG", "") not in ("", "0"))


SETTINGS = from_environment()
