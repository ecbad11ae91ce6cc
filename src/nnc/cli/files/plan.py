"""nnc plan: the memory of an ONNX model, known before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from nnc.cli.files.curve import curve_of, curves_of, print_curve, rows_of
from nnc.cli.files.onnx_model import LoadedModel, extra, load
from nnc.cli.files.size_ranges import combinations, is_range, text_of
from nnc.cli.language.model_file import (
    ALL_OF_F32,
    CacheKind,
    Caching,
    Context,
    DraftOf,
    Prefix,
    Sinks,
    Window,
    is_language_file,
)
from nnc.cli.language.planning import plan_language
from nnc.cli.options import AsJson, BackendName, DeviceName, bytes_of, placed
from nnc.cli.terminal import Json, add_row, complain, count, output, print_map, table, write_json
from nnc.core.precautions.replacement import check_writable, write_atomically
from nnc.errors import UsageError
from nnc.nn import MeanSquaredError, Model
from nnc.symbolic import Compiled, least_memory
from nnc.symbolic.stages import recorded_stages

Train = Annotated[bool, typer.Option("--train", help="A step of training all weights, within the limit if it can be.")]
Limit = Annotated[int | None, typer.Option(parser=bytes_of, metavar="BYTES", help="Exit code 1 if more is needed.")]

AsCurve = Annotated[bool, typer.Option("--curve", help="With --train: work at 20 limits, down to the smallest.")]
AsProof = Annotated[bool, typer.Option("--prove", help="Search for what no order can be below, with execs again too.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE.html", help="Write the memory map as a page too.")]


Ranges = Annotated[
    list[str] | None,
    typer.Option("--size", metavar="NAME=N", help="The size of an open dimension, or sizes: NAME=1..64, NAME=1,8."),
]
PlannedFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="An ONNX or GGUF file, or a folder of Hugging Face.")
]
Rows = Annotated[
    int, typer.Option("--batch", min=1, metavar="B", help="Of a language model: texts at a time, or slots.")
]


def plan(
    model: PlannedFile,
    size: Ranges = None,
    train: Train = False,
    limit: Limit = None,
    context: Context = 0,
    batch: Rows = 1,
    cache: CacheKind = "f32",
    window: Window = 0,
    sinks: Sinks = 0,
    prefix: Prefix = 0,
    draft: DraftOf = None,
    backend: BackendName = "",
    device: DeviceName = "",
    curve: AsCurve = False,
    prove: AsProof = False,
    html: Html = None,
    json: AsJson = False,
) -> int:
    """Say how many bytes a run (or a step of training) of a model takes, and draw them; nothing is allocated.

    nnc plan model.onnx --size batch=8 --limit 512MB

    nnc plan model.onnx --size width=32..320:32 --limit 64MB

    nnc plan model.onnx --train --limit 1.5GiB --html map.html

    nnc plan model.onnx --train --curve --html curve.html

    nnc plan model.onnx --prove

    nnc plan model.gguf --context 4096 --batch 8 --prefix 1024 --cache int8 --limit 500MB
    """
    if curve and (not train or limit is not None or prove):
        raise UsageError("plan", got="--curve", need="--train beside it, and no --limit or --prove")
    caching = Caching(cache, window, sinks, prefix)
    with placed(device):
        if is_language_file(model):
            if train or html is not None or size or prove:
                raise UsageError("plan", got="--train, --size, --html or --prove", need="an ONNX file for these")
            return plan_language(model, context, batch, caching, draft, limit, json=json)
        if caching != ALL_OF_F32 or context or batch > 1 or draft is not None:
            got = "--context, --batch, --cache, --window, --sinks, --prefix or --draft"
            raise UsageError("plan", got=got, need="a language model for these", fix="--size NAME=N of an ONNX file")
        if any(map(is_range, size or ())):
            alone = not train and html is None and not prove
            return _plan_sizes(model, size or (), limit, backend, alone=alone, json=json)
        if curve:
            return _plan_curve(model, size, backend, html, json=json)
        return _plan_size(model, size, limit, backend, html, train=train, prove=prove, json=json)


def _plan_size(
    model: Path,
    size: list[str] | None,
    limit: int | None,
    backend: str,
    html: Path | None,
    *,
    train: bool,
    prove: bool,
    json: bool,
) -> int:
    """The bytes of one size, and their picture."""
    if html is not None:
        check_writable(html)
    with recorded_stages() as stages:
        loaded = load(model, size, backend)
        compiled = _training(model, loaded, limit, backend) if train else loaded.compiled()
    statement = compiled.memory() if train else loaded.memory()
    if html is not None:
        compiled.html(html, model.name, stages=stages)
    facts = {
        "arena_bytes": statement.arena,
        "lower_bound_bytes": statement.lower_bound,
        "any_order_bound_bytes": statement.any_order_bound,
        "weight_bytes": statement.bound,
        "workspace_bytes": statement.workspace,
        "without_reuse_bytes": statement.without_reuse,
        "result_bytes": statement.outputs,
        "program_bytes": statement.program,
        "worker_bytes": statement.scratch,
        "compiling_bytes": statement.compiling,
        "process_bytes": statement.process,
        "peak_step": statement.peak_step,
        **(_proven(compiled) if prove else {}),
    }
    if json:
        write_json({**facts, "peak_tensors": list(statement.peak_tensors)})
    else:
        rows = table(model.name, "what", "bytes", numbers=("bytes",))
        for name, value in facts.items():
            add_row(rows, name.removesuffix("_bytes").replace("_", " "), count(value))
        for label in statement.peak_tensors:
            add_row(rows, f"at the peak: {label}", "")
        output().print(rows)
        problem, drawn = compiled.plan()
        for memory in problem.memories:
            print_map(problem, drawn, memory)
    if limit is not None and statement.arena > limit:
        complain(f"plan: got an arena of {statement.arena} bytes; need at most {limit}. Fix: smaller sizes")
        return 1
    return 0


def _proven(compiled: Compiled) -> dict[str, int]:
    """Below which no order is; a search that is broken off gives what it knows."""
    least = least_memory(compiled)
    return {"least_of_any_order_bytes": least.any_order.nbytes, "least_with_execs_again_bytes": least.again.nbytes}


def _plan_curve(path: Path, size: list[str] | None, backend: str, html: Path | None, *, json: bool) -> int:
    """What a step of training costs at ever smaller limits."""
    if html is not None:
        check_writable(html)
    loaded = load(path, size, backend)
    free = _training(path, loaded, None, backend)
    points = curve_of(free, lambda limit: _training(path, loaded, limit, backend))
    if html is not None:
        page = free.page(path.name, curves=curves_of(points))
        write_atomically(html, [page.encode()])
    if json:
        write_json({"curve": rows_of(points)})
    else:
        print_curve(points, path.name)
    return 0


def _plan_sizes(path: Path, sizes: Sequence[str], limit: int | None, backend: str, *, alone: bool, json: bool) -> int:
    """The bytes of each size, and the sizes that take most: a limit holds for all of them."""
    if not alone:
        raise UsageError("plan", got="several sizes", need="one size of each for --train, --html and --prove")
    loaded = load(path, None, backend)
    rows = [(each, loaded.memory(**each)) for each in combinations("--size", sizes)]
    worst, statement = max(rows, key=lambda row: row[1].arena)
    if json:
        listed: list[Json] = [
            {"sizes": dict(each), "arena_bytes": row.arena, "process_bytes": row.process} for each, row in rows
        ]
        write_json({"runs": listed, "largest": dict(worst), "arena_bytes": statement.arena})
    else:
        shown = table(path.name, "sizes", "arena", "process", numbers=("arena", "process"))
        for each, row in rows:
            add_row(shown, text_of(each), count(row.arena), count(row.process))
        output().print(shown)
        output().print(f"at most {count(statement.arena)} bytes of arena, at {text_of(worst)}")
    if limit is not None and statement.arena > limit:
        got = f"an arena of {statement.arena} bytes at {text_of(worst)}"
        complain(f"plan: got {got}; need at most {limit}. Fix: smaller sizes")
        return 1
    return 0


def _training(path: Path, loaded: LoadedModel, limit: int | None, backend: str) -> Compiled:
    """A step of Adam on the mean squared error of the first output; the batch is the first size of the input."""
    module = extra()
    shape = next(iter(loaded.placeholders().values())).shape
    body = module.OnnxLayer(module.read(path))
    trained = Model(body, shape[1:], loss=MeanSquaredError(), memory_limit=limit, backend=backend)
    return trained.training_step(shape[0]).compiled
