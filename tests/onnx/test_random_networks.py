"""Random small networks with channels first give natively, with channels last, what the file says step by step."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.onnx.models import model

import onnx
from nnc.core.values.spec import Shape
from nnc.onnx import load
from onnx import helper

NETWORKS = int(os.environ.get("NNC_EXAMPLES", "10"))
LENGTH = 8


@dataclass(slots=True)
class Network:
    """Nodes so far, their constants, and the shape of each value; the last one is read next more often than others."""

    random: np.random.Generator
    shapes: dict[str, Shape]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, NDArray[np.generic]] = field(default_factory=dict)

    def constant(self, value: object) -> str:
        """The name of a new constant."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def weights(self, *shape: int) -> str:
        """Numbers whose sums over all axes but the first are about 1."""
        drawn = self.random.normal(size=shape) / max(1, math.prod(shape[1:])) ** 0.5
        return self.constant(drawn.astype(np.float32))

    def number(self, low: int, high: int) -> int:
        """low ≤ number ≤ high"""
        return int(self.random.integers(low, high + 1))

    def value(self) -> str:
        """One of the last values."""
        return [*self.shapes][-min(self.number(1, 3), len(self.shapes))]

    def append(self, operator: str, inputs: list[str], shape: Shape, **attributes: object) -> None:
        """A node with one result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        self.shapes[name] = shape

    def image(self) -> tuple[str, Shape]:
        """A value [batch, channels, height, width]."""
        images = [(name, shape) for name, shape in self.shapes.items() if len(shape) == 4]
        return images[-min(self.number(1, 2), len(images))]


def window(net: Network, shape: Shape, dilated: bool) -> tuple[dict[str, object], Shape]:
    """Attributes of a window over an image, and the sizes of the result."""
    kernel = [net.number(1, min(3, size)) for size in shape[2:]]
    strides = [net.number(1, 2) for _ in kernel]
    dilations = [2 if dilated and 2 * size - 1 <= whole else 1 for size, whole in zip(kernel, shape[2:], strict=True)]
    pads = [net.number(0, size - 1) for size in (*kernel, *kernel)]
    reaches = [dilation * (size - 1) for dilation, size in zip(dilations, kernel, strict=True)]
    rows = zip(shape[2:], pads[:2], pads[2:], reaches, strides, strict=True)
    sizes = tuple((size + low + high - reach - 1) // step + 1 for size, low, high, reach, step in rows)
    return {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads}, sizes


def convolution(net: Network) -> None:
    (x, shape), groups = net.image(), 1
    if net.number(0, 2) == 0:
        groups = shape[1]
    attributes, sizes = window(net, shape, dilated=net.number(0, 3) == 0)
    filters = groups * net.number(1, max(1, 12 // groups))
    inputs = [x, net.weights(filters, shape[1] // groups, *attributes["kernel_shape"]), net.weights(filters)]  # type: ignore[misc]  # a list of integers
    net.append("Conv", inputs, (shape[0], filters, *sizes), group=groups, **attributes)


def pool(net: Network) -> None:
    x, shape = net.image()
    attributes, sizes = window(net, shape, dilated=False)
    operator = ("MaxPool", "AveragePool")[net.number(0, 1)]
    del attributes["dilations"]
    net.append(operator, [x], (*shape[:2], *sizes), **attributes)


def batch_norm(net: Network) -> None:
    x, shape = net.image()
    rows = [net.weights(shape[1]) for _ in range(3)]
    variance = net.constant(net.random.uniform(0.3, 2, shape[1]).astype(np.float32))
    net.append("BatchNormalization", [x, *rows, variance], shape)


def activation(net: Network) -> None:
    x = net.value()
    net.append(("Relu", "Tanh", "Sigmoid", "LeakyRelu")[net.number(0, 3)], [x], net.shapes[x])


def addition(net: Network) -> None:
    x = net.value()
    shape = net.shapes[x]
    others = [name for name, other in net.shapes.items() if other == shape]
    net.append(("Add", "Mul")[net.number(0, 1)], [x, others[net.number(0, len(others) - 1)]], shape)


def concatenation(net: Network) -> None:
    x, shape = net.image()
    net.append("Concat", [x, x], (shape[0], 2 * shape[1], *shape[2:]), axis=1)


def shuffle(net: Network) -> None:
    x, (batch, channels, *sizes) = net.image()
    groups = next((one for one in (2, 3) if channels % one == 0), 1)
    split = (batch, groups, channels // groups, *sizes)
    net.append("Reshape", [x, net.constant(split)], split)
    split = (batch, channels // groups, groups, *sizes)
    net.append("Transpose", [[*net.shapes][-1]], split, perm=[0, 2, 1, 3, 4])
    net.append("Reshape", [[*net.shapes][-1], net.constant((batch, -1, *sizes))], (batch, channels, *sizes))


def transposition(net: Network) -> None:
    x = net.value()
    shape = net.shapes[x]
    order = [0, *(int(axis) + 1 for axis in net.random.permutation(len(shape) - 1))]
    net.append("Transpose", [x], tuple(shape[axis] for axis in order), perm=order)


def merge(net: Network) -> None:
    x = net.value()
    batch, first, second, *rest = (*net.shapes[x], 1, 1)
    net.append("Reshape", [x, net.constant((batch, first * second, *rest))], (batch, first * second, *rest))


def pad(net: Network) -> None:
    x = net.value()
    shape = net.shapes[x]
    before, after = ([0, *(net.number(0, 1) for _ in shape[1:])] for _ in range(2))
    sizes = tuple(map(sum, zip(shape, before, after, strict=True)))
    net.append("Pad", [x, net.constant([*before, *after])], sizes)


def reduction(net: Network) -> None:
    x, shape = net.image()
    net.append("ReduceMean", [x, net.constant([2, 3])], (*shape[:2], 1, 1))


def softmax(net: Network) -> None:
    x = net.value()
    net.append("Softmax", [x], net.shapes[x], axis=net.number(1, len(net.shapes[x]) - 1))


STEPS: tuple[Callable[[Network], None], ...] = (
    *(convolution, convolution, pool, batch_norm, batch_norm, activation, addition, concatenation),
    *(shuffle, transposition, merge, pad, reduction, softmax),
)


@pytest.mark.parametrize("seed", range(NETWORKS))
def test_a_network_gives_what_its_nodes_give(seed: int) -> None:
    random = np.random.default_rng(seed)
    shape = (int(random.integers(1, 3)), int(random.choice([1, 3, 4, 6])), *map(int, random.integers(3, 9, 2)))
    net = Network(random, {"x": shape})
    while len(net.nodes) < LENGTH:
        STEPS[net.number(0, len(STEPS) - 1)](net)
    read = {name for one in net.nodes for name in one.input}
    results = [name for one in net.nodes for name in one.output if name not in read]
    file = model(net.nodes, {"x": ["n", *shape[1:]]}, results, net.constants, opset=18)
    x = random.standard_normal(shape).astype(np.float32)
    plain = load(file, backend="reference")
    plain.passes = ()
    found, wanted = load(file).run({"x": x}), plain.run({"x": x})
    for name in results:
        want = np.asarray(wanted[name])
        np.testing.assert_allclose(found[name], want, rtol=1e-3, atol=1e-4 * max(1.0, np.abs(want).max(initial=0)))
