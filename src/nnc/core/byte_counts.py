"""Bytes as people write them."""

from __future__ import annotations

import re

from nnc.errors import UsageError

UNITS = {"": 1, **{f"{prefix}B": 1000**power for power, prefix in enumerate(("", "K", "M", "G", "T"))}}
UNITS |= {f"{prefix}IB": 1024**power for power, prefix in enumerate(("K", "M", "G", "T"), 1)}


def bytes_in(text: str) -> int:
    """Bytes in powers of 1,000 (MB) and of 1,024 (MiB); UsageError for other texts.

    >>> bytes_in("512MB"), bytes_in("1.5 GiB"), bytes_in("4096")
    (512000000, 1610612736, 4096)
    """
    parsed = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    unit = UNITS.get(parsed[2].upper()) if parsed else None
    if parsed is None or unit is None:
        raise UsageError("bytes", got=repr(text), need="bytes such as 4096, 512MB or 1.5GiB")
    whole, _, part = parsed[1].partition(".")
    nbytes: int = int(whole + part) * unit // 10 ** len(part)
    return nbytes
