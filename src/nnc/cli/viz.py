"""nnc viz: a memory plan as a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from nnc.cli.files.onnx_model import Sizes, load
from nnc.cli.options import AsJson, BackendName, bytes_of
from nnc.cli.terminal import count, output, write_json
from nnc.concrete.profiling import RunProfile, profile
from nnc.core.precautions.replacement import check_writable, write_atomically
from nnc.errors import UsageError
from nnc.nn.zoo.networks import NETWORKS, network
from nnc.planning import MapView, page_of_views, read_csv, smallest_plan
from nnc.planning.pictures import WRITERS
from nnc.symbolic import Compiled
from nnc.symbolic.stages import recorded_stages

KINDS = ("train", "evaluate", "predict")

What = Annotated[
    str,
    typer.Argument(metavar="WHAT", help=f"FILE.onnx, FILE.csv (see memplan), or a network: {', '.join(NETWORKS)}."),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help=f"Default: ./WHAT.html; or another of {', '.join(WRITERS)} (json: a trace for Perfetto).",
    ),
]
Batch = Annotated[int, typer.Option(min=1, help="Examples of a step of a network.")]
Kind = Annotated[str, typer.Option(metavar="KIND", help=f"The step of a network: {', '.join(KINDS)}.")]
Limit = Annotated[int | None, typer.Option(parser=bytes_of, metavar="BYTES", help="The limit on a network's arena.")]
Profiled = Annotated[bool, typer.Option("--profile", help="Run the step a few times, and show when what ran.")]

RUNS = 3


def viz(
    what: What,
    output_file: Output = None,
    batch: Batch = 1,
    kind: Kind = "train",
    limit: Limit = None,
    profile: Profiled = False,
    size: Sizes = None,
    backend: BackendName = "",
    json: AsJson = False,
) -> int:
    """Draw where every byte lies at every step: one HTML page, which needs no other file and no network.

    The page also has the graph behind each pass and, with --limit, the plan without it. By its suffix the file is
    a picture (.svg, .png), a table (.csv) or a trace (.json) instead.

    nnc viz resnet50 --batch 8 --limit 400MB -o resnet50.html

    nnc viz model.onnx --size batch=8 --profile

    nnc viz blocks.csv -o blocks.png
    """
    place = Path(f"{Path(what).stem}.html") if output_file is None else output_file
    if place.suffix not in (".html", *WRITERS):
        raise UsageError("--output", got=str(place), need=f"a file that ends with .html or {', '.join(WRITERS)}")
    check_writable(place)
    content = _content(place.suffix, what, batch, kind, limit, profile, size, backend)
    write_atomically(place, [content])
    if json:
        write_json({"file": str(place), "bytes": len(content)})
    else:
        output().print(f"{place}: {count(len(content))} B", markup=False, highlight=False)
    return 0


def _content(
    suffix: str,
    what: str,
    batch: int,
    kind: str,
    limit: int | None,
    profiled: bool,
    size: list[str] | None,
    backend: str,
) -> bytes:
    path = Path(what)
    if what not in NETWORKS and path.suffix == ".csv":
        problem = read_csv(path)
        view = MapView(problem, smallest_plan(problem), path.name)
        return page_of_views(path.name, [view]).encode() if suffix == ".html" else WRITERS[suffix](view)
    if what not in NETWORKS and path.suffix != ".onnx":
        raise UsageError("viz", got=what, need=f"FILE.onnx, FILE.csv or one of {', '.join(NETWORKS)}")
    if kind not in KINDS:
        raise UsageError("--kind", got=repr(kind), need=f"one of {', '.join(KINDS)}")
    title = f"{what}, {kind}, batch {batch}" if what in NETWORKS else path.name
    with recorded_stages() as stages:
        compiled = (
            _of_network(what, batch, kind, limit, backend) if what in NETWORKS else load(path, size, backend).compiled()
        )
    if suffix != ".html":
        return WRITERS[suffix](compiled.view(title))
    before = None if limit is None or compiled.budget is None else _of_network(what, batch, kind, None, backend)
    timeline = _profile(compiled) if profiled else None
    return compiled.page(title, stages=stages, profile=timeline, before=before).encode()


def _of_network(name: str, batch: int, kind: str, limit: int | None, backend: str) -> Compiled:
    model = network(name, memory_limit=limit, backend=backend)
    steps = {"train": model.training_step, "evaluate": model.evaluation_step, "predict": model.prediction_step}
    return steps[kind](batch).compiled


def _profile(compiled: Compiled) -> RunProfile:
    """A few runs on zeros, behind one that warms up."""
    copied, roots = compiled.copied, compiled.planned.inputs()
    graph = compiled.planned.graph if copied is None else copied.graph
    asked = {} if copied is None else {new: old for old, new in copied.tensors.items()}
    inputs = [graph.symbol(asked.get(root, root)) for root in roots]

    def run() -> None:
        compiled.views([(operand, np.zeros(operand.shape, operand.spec.dtype.numpy)) for operand in inputs], ())

    with profile():
        run()
    with profile() as timeline:
        for _ in range(RUNS):
            run()
    return timeline
