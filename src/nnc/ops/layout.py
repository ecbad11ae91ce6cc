"""Layout conversion: where the channels of an activation are.

NHWC → NCHW:  y[n, c, s…] = x[n, s…, c]        NCHW → NHWC:  y[n, s…, c] = x[n, c, s…]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnc.core.spec import Layout
from nnc.errors import LayoutError
from nnc.ops.operand import T, apply
from nnc.ops.rules import Applied, Gradients, Pattern, Specs, operator


@dataclass(frozen=True, slots=True)
class LayoutAttrs:
    """The layout of the result."""

    target: Layout


def _infer(attrs: LayoutAttrs, specs: Specs) -> Specs:
    (x,) = specs
    if x.rank < 2 or x.layout is attrs.target:
        raise LayoutError(
            "convert_layout", got=f"{x} to {attrs.target.value}", need="an activation in the other layout"
        )
    shape = (
        (x.shape[0], *x.shape[2:], x.shape[1])
        if attrs.target is Layout.NHWC
        else (x.shape[0], x.shape[-1], *x.shape[1:-1])
    )
    return (replace(x, shape=shape, layout=attrs.target),)


def _gradient(call: Applied[LayoutAttrs], gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    return (apply(CONVERT_LAYOUT, LayoutAttrs(call.inputs[0].spec.layout), g),)


CONVERT_LAYOUT = operator(
    "convert_layout",
    LayoutAttrs,
    ("x",),
    infer=_infer,
    gradient=_gradient,
    pattern=Pattern.INJECTIVE,
    doc="the same activation with its channels last (NHWC) or behind the batch (NCHW)",
)


def convert_layout(x: T, target: Layout) -> T:
    """`x` in the layout `target`; the same operand when it already is."""
    return x if x.spec.layout is target else apply(CONVERT_LAYOUT, LayoutAttrs(target), x)
