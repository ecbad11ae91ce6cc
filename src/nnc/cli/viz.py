"""nnc viz: a memory plan as a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnc.cli.onnx_model import Sizes, load
from nnc.cli.options import AsJson, BackendName, bytes_of
from nnc.cli.terminal import count, output, write_json
from nnc.core.replacement import write_atomically
from nnc.errors import UsageError
from nnc.nn.zoo.networks import NETWORKS, network
from nnc.planning import memory_map, read_csv, smallest_plan

KINDS = ("train", "evaluate", "predict")

What = Annotated[
    str,
    typer.Argument(metavar="WHAT", help=f"FILE.onnx, FILE.csv (see memplan), or a network: {', '.join(NETWORKS)}."),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE.html", help="Default: ./WHAT.html.")]
Batch = Annotated[int, typer.Option(min=1, help="Examples of a step of a network.")]
Kind = Annotated[str, typer.Option(metavar="KIND", help=f"The step of a network: {', '.join(KINDS)}.")]
Limit = Annotated[int | None, typer.Option(parser=bytes_of, metavar="BYTES", help="The limit on a network's arena.")]


def viz(
    what: What,
    output_file: Output = None,
    batch: Batch = 1,
    kind: Kind = "train",
    limit: Limit = None,
    size: Sizes = None,
    backend: BackendName = "",
    json: AsJson = False,
) -> int:
    """Draw where every byte lies at every step: one HTML page, which needs no other file and no network.

    nnc viz resnet50 --batch 8 --limit 400MB -o resnet50.html
    """
    place = Path(f"{Path(what).stem}.html") if output_file is None else output_file
    page = _page(what, batch, kind, limit, size, backend)
    write_atomically(place, [page.encode()])
    if json:
        write_json({"file": str(place), "bytes": len(page.encode())})
    else:
        output().print(f"{place}: {count(len(page.encode()))} B, open it in a browser", markup=False, highlight=False)
    return 0


def _page(what: str, batch: int, kind: str, limit: int | None, size: list[str] | None, backend: str) -> str:
    if what in NETWORKS:
        return _of_network(what, batch, kind, limit, backend)
    path = Path(what)
    if path.suffix == ".csv":
        problem = read_csv(path)
        return memory_map(problem, smallest_plan(problem), path.name)
    if path.suffix != ".onnx":
        raise UsageError("viz", got=what, need=f"FILE.onnx, FILE.csv or one of {', '.join(NETWORKS)}")
    return load(path, size, backend).compiled().page(path.name)


def _of_network(name: str, batch: int, kind: str, limit: int | None, backend: str) -> str:
    if kind not in KINDS:
        raise UsageError("--kind", got=repr(kind), need=f"one of {', '.join(KINDS)}")
    model = network(name, memory_limit=limit, backend=backend)
    steps = {"train": model.training_step, "evaluate": model.evaluation_step, "predict": model.prediction_step}
    return steps[kind](batch).compiled.page(f"{name}, {kind}, batch {batch}")
