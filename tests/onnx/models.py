"""Small models for tests, from nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

import onnx
from onnx import NodeProto, helper

Dims = Sequence[int | str | None]


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Dims],
    outputs: Sequence[str],
    initializers: Mapping[str, ArrayLike] | None = None,
    *,
    opset: int = 21,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model of f32 inputs."""
    given = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims) for name, dims in inputs.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    arrays = [onnx.numpy_helper.from_array(np.asarray(one), name) for name, one in (initializers or {}).items()]
    graph = helper.make_graph(nodes, "test", given, results, arrays)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, functions=functions)


def node(operator: str, inputs: str, outputs: str, domain: str = "", **attributes: object) -> NodeProto:
    """A node; names are separated by blanks, `-` leaves one out."""
    given, results = (["" if name == "-" else name for name in names.split()] for names in (inputs, outputs))
    return helper.make_node(operator, given, results, domain=domain, **attributes)
