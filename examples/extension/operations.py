"""An open attribute: OPERATIONS[op](attrs, inputs, outputs) = additions and multiplications of one run.

The attribute is an object of this module. It holds rules for operators of nnc, for a whole group of them and for the
operator of this package alike; whoever imports it may add more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from examples.extension.snake import SNAKE, SnakeAttrs
from nnc.core.values.spec import TensorSpec
from nnc.graph import Group, OpRule
from nnc.ops.convolutions.convolutions import CONVOLUTION, ConvolutionAttrs
from nnc.ops.movement.broadcast import REDUCE_SUM, ReduceAttrs
from nnc.ops.operators import OPERATORS
from nnc.ops.products.products import GEMM, GemmAttrs
from nnc.ops.rules import PATTERN, Pattern

Specs = tuple[TensorSpec | None, ...]

OPERATIONS = OpRule[[Specs, Specs], int]("operations")
ELEMENTWISE = Group("elementwise of examples.extension")


def elements(specs: Iterable[TensorSpec | None]) -> int:
    """Elements of all tensors that are there."""
    return sum(spec.elements for spec in specs if spec is not None)


@OPERATIONS.register(GEMM)
def _gemm(attrs: GemmAttrs, inputs: Specs, outputs: Specs) -> int:
    """One multiplication and one addition per element of y and step of k."""
    a = inputs[0]
    assert a is not None
    return 2 * elements(outputs) * a.shape[-2 if attrs.transpose_a else -1]


@OPERATIONS.register(CONVOLUTION)
def _convolution(attrs: ConvolutionAttrs, inputs: Specs, outputs: Specs) -> int:
    """One multiplication and one addition per element of y and element of one output channel's kernel."""
    w = inputs[1]
    assert w is not None
    return 2 * elements(outputs) * math.prod(w.shape[:-1])


@OPERATIONS.register(REDUCE_SUM)
def _reduce_sum(attrs: ReduceAttrs, inputs: Specs, outputs: Specs) -> int:
    """One addition per element of x."""
    return elements(inputs)


@OPERATIONS.register(SNAKE)
def _snake(attrs: SnakeAttrs, inputs: Specs, outputs: Specs) -> int:
    """frequency · x, its sine, the square, the quotient and the sum."""
    return 5 * elements(outputs)


def _one_per_element(attrs: object, inputs: Specs, outputs: Specs) -> int:
    return elements(outputs)


# A group's value has the lower level, so a member's own rule wins whenever it comes.
ELEMENTWISE.include(*(op for op in OPERATORS if PATTERN[op] <= Pattern.BROADCAST))
OPERATIONS.set_group(ELEMENTWISE, _one_per_element)
