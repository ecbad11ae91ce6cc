"""What the system says of this machine's first processor."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

PROCESSORS = Path("/proc/cpuinfo")
# So much of it has the first one's lines.
TOLD_BYTES = 8192


@cache
def processor_facts() -> dict[str, str]:
    """Values by name, in small letters; nothing where the system does not tell."""
    try:
        with open(PROCESSORS, "rb") as file:
            first = file.read(TOLD_BYTES).decode(errors="replace").partition("\n\n")[0]
    except OSError:
        return {}
    rows = (line.partition(":") for line in first.splitlines())
    return {name.strip().lower(): value.strip() for name, _, value in rows}


def processor_name() -> str:
    """The processor's name, as exact as the system tells it."""
    return processor_facts().get("model name") or platform.processor() or platform.machine()
