"""Options that several commands share."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from nnc.core.byte_counts import bytes_in
from nnc.core.running.device_context import present
from nnc.core.settings import SETTINGS
from nnc.core.values.device import device_of
from nnc.errors import UsageError

MAX_THREADS = 1024
MAX_SEED = 2**63 - 1


def bytes_of(text: str | int) -> int:
    """Bytes as people write them: powers of 1,000 (MB) and of 1,024 (MiB).

    >>> bytes_of("512MB"), bytes_of("1.5 GiB"), bytes_of("4096")
    (512000000, 1610612736, 4096)
    """
    try:
        return bytes_in(str(text))
    except UsageError as error:
        raise typer.BadParameter(f"got {text!r}; need {error.need}") from None


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


DeviceName = Annotated[
    str,
    typer.Option("--device", metavar="NAME", help="Where it runs: cpu, cuda, vulkan:1, …"),
]


def placed(device: str) -> AbstractContextManager[object]:
    """Inside, models are made on the device that --device names; UsageError for one that is not there."""
    return present(device_of(device)) if device else nullcontext()


def checkpoint_of(program: str, given: Path | None = None) -> Path:
    """The file that was named, or the usual one of a program."""
    return given if given is not None else Path(f"{program}.safetensors")


def leave_cache(no_cache: bool) -> None:
    """Act on --no-cache, before anything is compiled."""
    if no_cache:
        SETTINGS.cache_folder = None
