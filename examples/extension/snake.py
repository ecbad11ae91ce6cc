"""The operator `snake` of somebody else's package: y = x + sin²(frequency · x) / frequency, element by element.

Everything that nnc asks of an operator is said here: attributes, shape and type inference, what may share memory, a
gradient in operators (so derivatives of every order exist), and a kernel. (Ziyin, Hartwig, Ueda: Neural networks fail
to learn periodic functions and how to fix it, 2020.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.errors import AttributeValueError
from nnc.graph import OP_LEVEL, Registry
from nnc.ops.composed.custom import Arrays, custom_operator
from nnc.ops.elementwise.pointwise import affine, multiply, sin
from nnc.ops.operand import Operand, T, apply
from nnc.ops.rules import FLOATS, PATTERN, Applied, Gradients, Inplace, Pattern, Specs, check_kinds


@dataclass(frozen=True, slots=True)
class SnakeAttrs:
    """How often the function winds: `frequency` > 0."""

    frequency: float = 1.0

    def __post_init__(self) -> None:
        if not self.frequency > 0.0:
            raise AttributeValueError("snake", got="a frequency that is not positive", need="frequency > 0")


def _infer(attrs: SnakeAttrs, specs: Specs) -> Specs:
    check_kinds(FLOATS, *specs)
    return specs


def _gradient(call: Applied[SnakeAttrs], gradients: Gradients) -> Gradients:
    """dy/dx = 1 + sin(2 · frequency · x)."""
    (g,) = gradients
    assert g is not None
    slope: Operand = affine(sin(affine(call.inputs[0], 2.0 * call.attrs.frequency)), 1.0, 1.0)
    return (multiply(g, slope),)


def _kernel(attrs: SnakeAttrs, inputs: Arrays, outputs: Sequence[NDArray[Any]]) -> None:
    """The formula, in NumPy; y may be the memory of x."""
    (x,), (y,) = inputs, outputs
    assert x is not None
    y[...] = x + np.sin(attrs.frequency * x) ** 2 / attrs.frequency


# A registry of our own: names of other packages cannot collide with ours.
REGISTRY = Registry("examples.extension")

SNAKE = custom_operator(
    "snake",
    SnakeAttrs,
    infer=_infer,
    kernel=_kernel,
    gradient=_gradient,
    inplace=Inplace(allowed=((0, 0),)),
    registry=REGISTRY,
    doc="y = x + sin²(frequency · x) / frequency",
)
# Custom operators are opaque to fusion unless somebody who knows better says so, at a higher level.
PATTERN.set(SNAKE, Pattern.ELEMENTWISE, OP_LEVEL + 1)


def snake(x: T, frequency: float = 1.0) -> T:
    """y = x + sin²(frequency · x) / frequency."""
    return apply(SNAKE, SnakeAttrs(frequency), x)
