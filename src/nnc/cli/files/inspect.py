"""nnc inspect: what is in an ONNX file, without running it."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Protocol

from nnc.cli.files.onnx_model import ModelFile, extra
from nnc.cli.options import AsJson
from nnc.cli.terminal import Json, add_row, count, output, table, write_json


def inspect(model: ModelFile, json: AsJson = False) -> int:
    """Say what an ONNX file reads and gives, which operators it has, how many weights, and what is not supported.

    nnc inspect model.onnx
    """
    module = extra()
    file = module.read(model)
    loaded, tensors = module.OnnxModel(file), file.graph.initializer
    operators = Counter(f"{entry.domain}.{entry.op_type}".removeprefix(".") for entry in file.graph.node)
    facts: dict[str, Json] = {
        "operator_set": file.opsets.get("", 0),
        "inputs": {name: _type(operand) for name, operand in loaded.inputs.items()},
        "outputs": {entry.name: _type(entry) for entry in file.graph.output},
        "nodes": len(file.graph.node),
        "operators": dict(operators.most_common()),
        "weights": len(tensors),
        "elements": sum(math.prod(entry.dims) for entry in tensors),
        "weight_bytes": sum(math.prod(entry.dims) * file.itemsize(entry) for entry in tensors),
        "unsupported": [*sorted(module.unsupported(file))],
    }
    if json:
        write_json(facts)
        return 0
    rows = table(model.name, "what", "value")
    for name, value in facts.items():
        if isinstance(value, dict):
            shown = ", ".join(f"{key} {entry}" for key, entry in value.items())
        else:
            shown = (
                count(value)
                if isinstance(value, int)
                else ", ".join(map(str, value))
                if isinstance(value, list)
                else ""
            )
        add_row(rows, name.replace("_", " "), shown or "none")
    output().print(rows)
    return 0


class Typed(Protocol):
    """What is read of ONNX's ValueInfoProto."""

    type: Any


def _type(info: Typed) -> str:
    """`float32[batch, 3, 224, 224]`; `?` for a size without a name."""
    tensor = info.type.tensor_type
    if not info.type.HasField("tensor_type"):
        return "no tensor"
    dims = [
        str(entry.dim_value) if entry.HasField("dim_value") else entry.dim_param or "?" for entry in tensor.shape.dim
    ]
    return f"{extra('nnc.onnx.stored.external').kind_name(tensor.elem_type)}[{', '.join(dims)}]"
