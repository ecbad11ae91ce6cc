"""nnc warm: the kernels of a model on disk before anybody waits for them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated

import typer

from nnc.backends.llvm.run.compilations import Compilations, compilations
from nnc.cli.files.onnx_model import ModelFile, load, named
from nnc.cli.options import AsJson, BackendName
from nnc.cli.terminal import Json, add_row, output, size, table, write_json
from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.settings import SETTINGS
from nnc.errors import UsageError

Ranges = Annotated[
    list[str] | None,
    typer.Option(
        "--sizes", metavar="NAME=1,8 or NAME=32..320:32", help="The sizes of an open dimension, each in turn."
    ),
]
# A mistyped range is told before it runs for a day.
MOST_RUNS = 10_000


def warm(model: ModelFile, sizes: Ranges = None, backend: BackendName = "", json: AsJson = False) -> int:
    """Run an ONNX model once at each size, on zeros, so that later processes find its kernels on disk.

    nnc warm model.onnx --sizes batch=1,8 --sizes width=32..320:32
    """
    if SETTINGS.cache_folder is None:
        raise UsageError("warm", got="no folder for kernels", need="one that can be written", fix="set NNC_CACHE_DIR")
    objects = DiskCache(SETTINGS.cache_folder)
    before, runs = compilations(objects), []
    for sizes_of_run in _combinations([_range(text) for text in sizes or ()]):
        began = time.perf_counter()
        loaded = load(model, [f"{name}={value}" for name, value in sizes_of_run.items()], backend)
        loaded.run(loaded.placeholders())
        runs.append((sizes_of_run, time.perf_counter() - began))
    _tell(model.name, runs, before, compilations(objects), json=json)
    return 0


def _tell(
    name: str, runs: Sequence[tuple[Mapping[str, int], float]], before: Compilations, after: Compilations, *, json: bool
) -> None:
    kernels, seconds = after.kernels - before.kernels, after.seconds - before.seconds
    if json:
        each: list[Json] = [{"sizes": dict(sizes_of_run), "seconds": taken} for sizes_of_run, taken in runs]
        write_json({"runs": each, "new_kernels": kernels, "compiling_seconds": seconds})
        return
    rows = table(name, "sizes", "seconds", numbers=("seconds",))
    for sizes_of_run, taken in runs:
        add_row(
            rows,
            ", ".join(f"{label}={value}" for label, value in sizes_of_run.items()) or "as in the file",
            f"{taken:.2f}",
        )
    output().print(rows)
    output().print(f"{kernels} kernels compiled in {seconds:.1f} s of a processor; {size(after.nbytes)} on disk")


def _combinations(ranges: Sequence[tuple[str, Sequence[int]]]) -> Iterator[dict[str, int]]:
    """Each size of a dimension with each of the others."""
    runs = 1
    for _, values in ranges:
        runs *= len(values)
    if runs > MOST_RUNS:
        raise UsageError("--sizes", got=f"{runs:,} combinations", need=f"at most {MOST_RUNS:,}", fix="name fewer sizes")
    names = [name for name, _ in ranges]
    return (dict(zip(names, values, strict=True)) for values in product(*(values for _, values in ranges)))


def _range(text: str) -> tuple[str, Sequence[int]]:
    """NAME and the sizes of `1,8` or `32..320:32`."""
    name, value = named("--sizes", text)
    first, dots, rest = value.partition("..")
    if not dots:
        return name, [_number(text, part) for part in value.split(",")]
    last, colon, step = rest.partition(":")
    stride = _number(text, step) if colon else 1
    sizes_of_run = range(_number(text, first), _number(text, last) + 1, max(stride, 1))
    if not sizes_of_run or not stride:
        raise _wrong(text)
    return name, sizes_of_run


def _number(text: str, part: str) -> int:
    if not part.isdecimal():
        raise _wrong(text)
    return int(part)


def _wrong(text: str) -> UsageError:
    return UsageError("--sizes", got=repr(text), need="NAME=1,8 or NAME=FIRST..LAST or NAME=FIRST..LAST:STEP")
