"""What the system says of this process."""

from __future__ import annotations

from pathlib import Path

STATUS = Path("/proc/self/status")


def high_water() -> int:
    """The most bytes that this process has had in memory (VmHWM)."""
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
