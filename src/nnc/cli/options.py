"""Options that several commands share."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from nnc.core.settings import SETTINGS

MAX_THREADS = 1024
MAX_SEED = 2**63 - 1
UNITS = {"": 1, **{f"{prefix}B": 1000**power for power, prefix in enumerate(("", "K", "M", "G", "T"))}}
UNITS |= {f"{prefix}IB": 1024**power for power, prefix in enumerate(("K", "M", "G", "T"), 1)}


def bytes_of(text: str | int) -> int:
    """Bytes as people write them: powers of 1,000 (MB) and of 1,024 (MiB).

    >>> bytes_of("512MB"), bytes_of("1.5 GiB"), bytes_of("4096")
    (512000000, 1610612736, 4096)
    """
    parsed = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", str(text))
    unit = UNITS.get(parsed[2].upper()) if parsed else None
    if parsed is None or unit is None:
        raise typer.BadParameter(f"got {text!r}; need bytes such as 4096, 512MB or 1.5GiB")
    return int(Fraction(parsed[1]) * unit)


BackendName = Annotated[str, typer.Option(help="The backend to prefer; the best that is present if left out.")]
Checkpoint = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The model's file. Default: ./PROGRAM.safetensors.")
]
Threads = Annotated[
    int | None,
    typer.Option(min=0, max=MAX_THREADS, help="Workers; 0 for one per core. Results do not depend on it."),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Neither read nor write the cache of compiled kernels and of measurements.")
]
Temperature = Annotated[float | None, typer.Option(help="Below 1 likely tokens become likelier. Default: 0.8.")]
TopK = Annotated[int | None, typer.Option(min=1, help="Draw from so many of the likeliest tokens only.")]
TopP = Annotated[float | None, typer.Option(help="Draw from the fewest that are so likely together.")]
Seed = Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Same seed, same text.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output and nothing else there.")]


def checkpoint_of(program: str, given: Path | None = None) -> Path:
    """The file that was named, or the usual one of a program."""
    return given if given is not None else Path(f"{program}.safetensors")


def leave_cache(no_cache: bool) -> None:
    """Act on --no-cache, before anything is compiled."""
    if no_cache:
        SETTINGS.cache_folder = None
