"""nnc warm: the kernels of a model on disk before anybody waits for them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from nnc.backends.llvm.run.compilations import Compilations, compilations
from nnc.cli.files.onnx_model import ModelFile, load
from nnc.cli.files.size_ranges import combinations, text_of
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


def warm(model: ModelFile, sizes: Ranges = None, backend: BackendName = "", json: AsJson = False) -> int:
    """Run an ONNX model at each size, on zeros, so that later processes find its kernels and programs on disk.

    nnc warm model.onnx --sizes batch=1,8 --sizes width=32..320:32
    """
    if SETTINGS.cache_folder is None:
        raise UsageError("warm", got="no folder for kernels", need="one that can be written", fix="set NNC_CACHE_DIR")
    objects = DiskCache(SETTINGS.cache_folder)
    before, runs = compilations(objects), []
    loaded = load(model, None, backend)
    for sizes_of_run in combinations("--sizes", sizes or ()):
        began = time.perf_counter()
        for _ in range(2):  # a program of a further size is kept when that has come twice
            loaded.run(loaded.placeholders(**sizes_of_run))
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
            text_of(sizes_of_run),
            f"{taken:.2f}",
        )
    output().print(rows)
    output().print(f"{kernels} kernels compiled in {seconds:.1f} s of a processor; {size(after.nbytes)} on disk")
