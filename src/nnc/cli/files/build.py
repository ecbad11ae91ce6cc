"""nnc build: a model as a C library for a processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from nnc.cli.files.onnx_model import load
from nnc.cli.files.size_ranges import is_range, size_range
from nnc.cli.options import AsJson
from nnc.cli.terminal import Json, add_row, output, table, write_json
from nnc.core.values.serialize import load_tensors
from nnc.errors import UsageError
from nnc.export import CLibrary, library
from nnc.export.c_names import lettered
from nnc.nn import Model
from nnc.nn.zoo import NETWORKS, network

Source = Annotated[str, typer.Argument(metavar="MODEL", help="A .onnx or .safetensors file, or a network of the zoo.")]
Target = Annotated[
    str, typer.Option(metavar="NAME[,FEATURES]", help="A row of the table of targets, with features of LLVM's.")
]
Folder = Annotated[Path, typer.Option("--output", metavar="DIR", help="Where the files are written.")]
Name = Annotated[str, typer.Option(help="What functions and files begin with; that of the model if left out.")]
NetworkName = Annotated[str, typer.Option("--network", help="Whose tensors a .safetensors file has.")]
Batch = Annotated[int, typer.Option(min=1, help="Examples of a run, for networks.")]
Sizes = Annotated[
    list[str] | None,
    typer.Option("--size", metavar="NAME=N", help="The size of an open dimension, or sizes of one: NAME=1..8."),
]
Quantize = Annotated[
    Literal["none", "weights", "dynamic"], typer.Option(help="Weights in 8 bits, or activations too, for networks.")
]
What = Annotated[
    Literal["predict", "train", "apply"],
    typer.Option(help="Outputs by constants, an update, or outputs by the state that updates leave."),
]
Weights = Annotated[
    Literal["auto", "inside", "file"], typer.Option(help="Weights as constants, or in NAME.weights to be mapped.")
]
Pool = Annotated[bool, typer.Option("--pool", help="A function too that workers of the caller's share.")]
Shared = Annotated[bool, typer.Option("--shared", help="A shared library too, where a linker for the target is here.")]
Small = Annotated[bool, typer.Option("--small", help="Code and scratch memory of few bytes, which takes more time.")]
PREFIX = "model."


def build(
    model: Source,
    target: Target = "native",
    function: What = "predict",
    folder: Folder = Path(),
    name: Name = "",
    network_name: NetworkName = "",
    batch: Batch = 1,
    size: Sizes = None,
    quantize: Quantize = "none",
    weights: Weights = "auto",
    pool: Pool = False,
    shared: Shared = False,
    small: Small = False,
    json: AsJson = False,
) -> int:
    """Write a C library: archive, header, an example, a check of recorded answers, and its memory as numbers.

    nnc build digits --target aarch64 --output build
    nnc build digits --target thumbv7em --small --output build
    nnc build model.onnx --size batch=1..8 --target x86-64-v3 --output build
    """
    mode = None if quantize == "none" else quantize
    inside = None if weights == "auto" else weights == "inside"
    title = name or lettered(Path(model).stem, "model")
    opened = dict(size_range("build", text) for text in size or () if is_range(text))
    if Path(model).suffix == ".onnx":
        loaded = load(Path(model), [text for text in size or () if not is_range(text)], "")
        made = library(
            loaded,  # type: ignore[arg-type]  # has compiled_for
            title,
            target=target,
            sizes=opened,
            constants_inside=inside,
            pool=pool,
            shared=shared,
            small=small,
        )
    else:
        zoo, batches = _network(model, network_name), _batches(size or (), batch, opened)
        made = library(
            zoo,
            title,
            target=target,
            function=function,
            batch=batches,
            quantize=mode,
            constants_inside=inside,
            pool=pool,
            shared=shared,
            small=small,
        )
    made.write(folder)
    if json:
        files: list[Json] = [*sorted(made.files)]
        write_json({"files": files, **_facts(made)})
        return 0
    rows = table(f"{made.name} for {made.target.name} in {folder}", "bytes", "of")
    for what, number in _facts(made).items():
        add_row(rows, f"{number:,}", what)
    output().print(rows)
    return 0


def _batches(size: Sequence[str], batch: int, opened: Mapping[str, Sequence[int]]) -> int | Sequence[int]:
    """The batch of a network, or those of `--size batch=1..8`; UsageError for other sizes."""
    if not size:
        return batch
    if set(opened) != {"batch"} or len(size) > 1:
        raise UsageError("build", got=" ".join(size), need="--size batch=1..8 or --batch 8 for a network")
    return opened["batch"]


def _facts(made: CLibrary) -> dict[str, Json]:
    return {
        "code": made.code_bytes,
        "constants": made.constant_bytes,
        "arena": made.arena_bytes,
        "state": made.state_bytes,
    }


def _network(source: str, name: str) -> Model:
    if Path(source).suffix != ".safetensors":
        if source not in NETWORKS:
            need = f"a .onnx or .safetensors file, or one of {', '.join(NETWORKS)}"
            raise UsageError("build", got=repr(source), need=need)
        return network(source)
    if not name:
        raise UsageError("build", got="tensors without a network", need="--network", fix="--network digits")
    model = network(name)
    tensors = load_tensors(Path(source)).tensors
    own = {path: tensors.get(PREFIX + path, tensors.get(path)) for path in model.specs}
    model.load_state_dict({path: value.numpy() for path, value in own.items() if value is not None})
    return model
