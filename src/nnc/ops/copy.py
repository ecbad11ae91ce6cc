"""copy: the same elements in fresh contiguous memory. y[i…] = x[i…]."""

from __future__ import annotations

from nnc.ops.operand import T, apply
from nnc.ops.precision import FOLLOW
from nnc.ops.rules import Applied, Gradients, NoAttrs, Pattern, Specs, operator

__all__ = ["contiguous"]


def _infer(attrs: NoAttrs, specs: Specs) -> Specs:
    return specs


def _gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    return gradients


COPY = operator(
    "copy",
    NoAttrs,
    ("x",),
    infer=_infer,
    gradient=_gradient,
    pattern=Pattern.ELEMENTWISE,
    precision=FOLLOW,
    doc="y[i…] = x[i…]",
)

OPERATORS = (COPY,)


def contiguous(x: T) -> T:
    """A row-major copy of `x`."""
    return apply(COPY, NoAttrs(), x)
