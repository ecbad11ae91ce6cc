"""nnc convert: between ONNX files, named tensors, and the networks of the zoo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnc.cli.files.onnx_model import Sizes, extra, load
from nnc.cli.options import AsJson
from nnc.cli.terminal import write_json
from nnc.core.values.serialize import load_tensors, save_tensors
from nnc.core.values.tensor import Tensor
from nnc.errors import UsageError
from nnc.nn.zoo import NETWORKS, network

Source = Annotated[Path, typer.Argument(metavar="FROM", help="A .onnx or .safetensors file.")]
Target = Annotated[Path, typer.Argument(metavar="TO", help="A .onnx or .safetensors file.")]
NetworkName = Annotated[str, typer.Option("--network", help=f"Whose tensors they are: {', '.join(NETWORKS)}.")]
External = Annotated[bool, typer.Option("--external", help="Tensors in a file beside the model.")]
PREFIX = "model."


def convert(
    source: Source,
    target: Target,
    network_name: NetworkName = "",
    size: Sizes = None,
    external: External = False,
    json: AsJson = False,
) -> int:
    """Write a model in another form: ONNX as nnc writes it (for fixed sizes), its tensors, or a network with tensors.

    nnc convert digits.safetensors digits.onnx --network digits
    """
    kinds = (source.suffix, target.suffix)
    if kinds == (".safetensors", ".onnx"):
        _network(source, target, network_name, external=external)
    elif kinds == (".onnx", ".safetensors"):
        file = extra().read(source)
        save_tensors(target, {value.name: Tensor.from_numpy(file.array(value)) for value in file.graph.initializer})
    elif kinds == (".onnx", ".onnx"):
        extra().save(extra().exported(load(source, size, "")), target, external=external)
    else:
        got = f"{source.suffix or 'no suffix'} to {target.suffix or 'no suffix'}"
        raise UsageError("convert", got=got, need=".onnx or .safetensors, at least one of them .onnx")
    if json:
        write_json({"target": str(target), "bytes": target.stat().st_size})
    return 0


def _network(source: Path, target: Path, name: str, *, external: bool) -> None:
    """A network with the tensors of a file: a state_dict, or a checkpoint of training."""
    if not name:
        raise UsageError("convert", got="tensors without a network", need="--network", fix="--network digits")
    model = network(name)
    tensors = load_tensors(source).tensors
    own = {path: tensors.get(PREFIX + path, tensors.get(path)) for path in model.specs}
    model.load_state_dict({path: value.numpy() for path, value in own.items() if value is not None})
    extra().save(model, target, external=external)
