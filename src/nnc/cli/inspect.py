"""nnc inspect: what is in an ONNX file, without running it."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Protocol

from nnc.cli.onnx_model import ModelFile, extra
from nnc.cli.options import AsJson
from nnc.cli.terminal import Json, add_row, count, output, table, write_json


def inspect(model: ModelFile, json: AsJson = False) -> int:
    """Say what an ONNX file reads and gives, which operators it has, how many weights, and what is not supported.

    nnc inspect model.onnx
    """
    module = extra()
    file = module.read(model)
    loaded, tensors = module.OnnxModel(file), file.graph.initializer
    operators = Counter(f"{one.domain}.{one.op_type}".removeprefix(".") for one in file.graph.node)
    facts: dict[str, Json] = {
        "operator_set": file.opsets.get("", 0),
        "inputs": {name: _type(one) for name, one in loaded.inputs.items()},
        "outputs": {one.name: _type(one) for one in file.graph.output},
        "nodes": len(file.graph.node),
        "operators": dict(operators.most_common()),
        "weights": len(tensors),
        "elements": sum(math.prod(one.dims) for one in tensors),
        "weight_bytes": sum(math.prod(one.dims) * file.itemsize(one) for one in tensors),
        "unsupported": [*sorted(module.unsupported(file))],
    }
    if json:
        write_json(facts)
        return 0
    rows = table(model.name, "what", "value")
    for name, value in facts.items():
        if isinstance(value, dict):
            shown = ", ".join(f"{key} {one}" for key, one in value.items())
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
    dims = [str(one.dim_value) if one.HasField("dim_value") else one.dim_param or "?" for one in tensor.shape.dim]
    return f"{extra('nnc.onnx.file').kind_name(tensor.elem_type)}[{', '.join(dims)}]"
