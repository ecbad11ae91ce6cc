"""copy: the same elements in fresh contiguous memory. y[i…] = x[i…]."""

from __future__ import annotations

from nnc.ops.operand import T, apply
from nnc.ops.precision import FOLLOW
from nnc.ops.rules import Applied, Gradients, NoAttrs, Pattern, Specs, operator

__all__ = ["contiguous", "stop_gradient"]


def _infer(attrs: NoAttrs, specs: Specs) -> Specs:
    return specs


def _gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    return gradients


def _no_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    return (None,)


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

STOP_GRADIENT = operator(
    "stop_gradient",
    NoAttrs,
    ("x",),
    infer=_infer,
    gradient=_no_gradient,
    pattern=Pattern.ELEMENTWISE,
    precision=FOLLOW,
    doc="y[i…] = x[i…], through which no gradient flows",
)

OPERATORS = (COPY, STOP_GRADIENT)


def contiguous(x: T) -> T:
    """A row-major copy of `x`."""
    return apply(COPY, NoAttrs(), x)


def stop_gradient(x: T) -> T:
    """The same elements, as a constant in the eyes of whoever differentiates."""
    return apply(STOP_GRADIENT, NoAttrs(), x)
