"""The light files of the package `onnx` as programs of ExecuTorch: their nodes by PyTorch's functions, then exported.

write_program(path, image, made)        made is the file that ExecuTorch's runtime loads
"""

# ruff: noqa: ANN401  the peer may be absent, so nothing here can name its types

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch.nn import functional

import onnx
from onnx import numpy_helper


def _pads(given: Mapping[str, Any]) -> list[int]:
    return given.get("pads", [0, 0, 0, 0])


def _max_pool(x: Any, given: Mapping[str, Any]) -> Any:
    top, left, bottom, right = _pads(given)
    padded = functional.pad(x, (left, right, top, bottom), value=float("-inf"))
    return functional.max_pool2d(padded, given["kernel_shape"], given["strides"])


# Operands and attributes of a node → its result.
STEPS: Mapping[str, Callable[[list[Any], Mapping[str, Any]], Any]] = {
    "Conv": lambda x, a: functional.conv2d(
        *x, stride=a.get("strides", 1), padding=_pads(a)[:2], groups=a.get("group", 1)
    ),
    "MaxPool": lambda x, a: _max_pool(x[0], a),
    "AveragePool": lambda x, a: functional.avg_pool2d(
        x[0], a["kernel_shape"], a.get("strides"), _pads(a)[:2], count_include_pad=False
    ),
    "GlobalAveragePool": lambda x, a: x[0].mean((2, 3), keepdim=True),
    "BatchNormalization": lambda x, a: functional.batch_norm(x[0], x[3], x[4], x[1], x[2], eps=a.get("epsilon", 1e-5)),
    "Gemm": lambda x, a: functional.linear(*x),
    "Reshape": lambda x, a: x[0].reshape(x[1]) if len(x) > 1 else x[0],
    "Transpose": lambda x, a: x[0].permute(a["perm"]),
    "Flatten": lambda x, a: x[0].flatten(1),
    "Softmax": lambda x, a: x[0].softmax(a.get("axis", -1)),
    "Concat": lambda x, a: torch.cat(x, a["axis"]),
    "Relu": lambda x, a: x[0].relu(),
    "Sum": lambda x, a: x[0] + x[1],
    "Dropout": lambda x, a: x[0],
}


class LightFile(torch.nn.Module):
    """A file whose outputs have the shape that is theirs in front of reshapes by shapes that it computes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.graph = onnx.load(path).graph
        arrays = {value.name: numpy_helper.to_array(value) for value in self.graph.initializer}
        arrays |= {
            node.output[0]: numpy_helper.to_array(node.attribute[0].t)
            for node in self.graph.node
            if node.op_type == "Constant"
        }
        self.shapes = {name: array.tolist() for name, array in arrays.items() if array.dtype != np.float32}
        for name in arrays.keys() - self.shapes.keys():
            self.register_buffer(name.replace(".", "_"), torch.tensor(arrays[name]))

    def forward(self, image: Any) -> Any:
        weights = dict(self.named_buffers())
        known = {**self.shapes, self.graph.input[0].name: image}
        known |= {
            value.name: weights[key]
            for value in self.graph.initializer
            if (key := value.name.replace(".", "_")) in weights
        }
        for node in self.graph.node:
            if node.op_type in STEPS:
                given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
                operands = [known[name] for name in node.input if name in known]
                known[node.output[0]] = STEPS[node.op_type](operands, given)
        return known[self.graph.output[0].name]


def write_program(path: Path, image: np.ndarray, made: Path) -> None:
    """By XNNPACK where it can."""
    exported = torch.export.export(LightFile(path).eval(), (torch.from_numpy(image),))
    program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
    made.write_bytes(program.buffer)
