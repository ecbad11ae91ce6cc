"""The memory that this process has now, as the system counts it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

# What a process has that has imported nnc and read a tokenizer, where the system does not say it.
USUAL = 150_000_000


def resident_bytes() -> int:
    """Bytes of memory that are in use for this process: `USUAL` where /proc/self/statm is not there."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return USUAL
