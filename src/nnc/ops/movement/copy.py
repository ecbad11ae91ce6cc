"""copy: the same elements in fresh contiguous memory. y[i…] = x[i…]."""

from __future__ import annotations

from nnc.ops.function import UnaryOperator
from nnc.ops.precision import FOLLOW
from nnc.ops.rules import Applied, Gradients, NoAttrs, Pattern, Specs, describe

__all__ = ["contiguous", "stop_gradient"]


def _infer(attrs: NoAttrs, specs: Specs) -> Specs:
    return specs


def _gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    return gradients


def _no_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    return (None,)


contiguous = UnaryOperator("copy", ("x",), "y[i…] = x[i…], in row-major memory of its own")
describe(contiguous, infer=_infer, gradient=_gradient, pattern=Pattern.ELEMENTWISE, precision=FOLLOW)

stop_gradient = UnaryOperator(
    "stop_gradient", ("x",), "y[i…] = x[i…], a constant in the eyes of whoever differentiates"
)
describe(stop_gradient, infer=_infer, gradient=_no_gradient, pattern=Pattern.ELEMENTWISE, precision=FOLLOW)
