"""Layout conversion: where the channels of an activation are, and blocks that kernels read weights in.

NHWC → NCHW:  y[n, c, s…] = x[n, s…, c]        NCHW → NHWC:  y[n, s…, c] = x[n, c, s…]

NHWC → blocks of an axis (`Blocked`), 0 where x has no place, and back, whatever is there
"""

from __future__ import annotations

from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import AnyLayout, Blocked, Layout, TensorSpec
from nnc.errors import LayoutError
from nnc.ops.examples import IMAGE, Example
from nnc.ops.movement.movement import TRANSPOSE, TransposeAttrs
from nnc.ops.operand import T, apply
from nnc.ops.permutation import Permutation
from nnc.ops.precision import FOLLOW
from nnc.ops.rules import Applied, Gradients, Pattern, Specs, operator, single

__all__ = ["convert_layout"]


@dataclass(frozen=True, slots=True)
class LayoutAttrs:
    """The layout of the result."""

    target: AnyLayout


def _infer(attrs: LayoutAttrs, specs: Specs) -> Specs:
    (x,) = specs
    if isinstance(attrs.target, Blocked):
        if x.layout is not Layout.NHWC or x.shape != attrs.target.sizes:
            need = f"{list(attrs.target.sizes)} in NHWC"
            raise LayoutError("convert_layout", got=f"{x} to {attrs.target}", need=need)
        return (replace(x, shape=attrs.target.shape, layout=attrs.target),)
    if isinstance(x.layout, Blocked) and attrs.target is Layout.NHWC:
        return (x.plain,)
    if x.rank < 2 or x.layout is attrs.target:
        raise LayoutError("convert_layout", got=f"{x} to {attrs.target}", need="an activation in the other layout")
    shape = (
        (x.shape[0], *x.shape[2:], x.shape[1])
        if attrs.target is Layout.NHWC
        else (x.shape[0], x.shape[-1], *x.shape[1:-1])
    )
    return (replace(x, shape=shape, layout=attrs.target),)


def _gradient(call: Applied[LayoutAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (apply(CONVERT_LAYOUT, LayoutAttrs(call.inputs[0].spec.layout), g),)


CONVERT_LAYOUT = operator(
    "convert_layout",
    LayoutAttrs,
    ("x",),
    infer=_infer,
    gradient=_gradient,
    pattern=Pattern.INJECTIVE,
    precision=FOLLOW,
    example=Example(LayoutAttrs(Layout.NCHW), (IMAGE,)),
    doc="the same activation with its channels last (NHWC) or behind the batch (NCHW), or weights in blocks",
)


def convert_layout(x: T, target: AnyLayout) -> T:
    """`x` in the layout `target`; the same operand when it already is."""
    return x if x.spec.layout == target else apply(CONVERT_LAYOUT, LayoutAttrs(target), x)


def permutation_of(command: AnyCommand, x: TensorSpec) -> Permutation | None:
    """The permutation that a conversion command applies to x; None for other commands, and where there are blocks."""
    if command.op is TRANSPOSE:
        permutation: Permutation = command.attrs.permutation
        return permutation
    if command.op is not CONVERT_LAYOUT or isinstance(x.layout, Blocked):
        return None
    target = command.attrs.target
    return layout_permutation(target, x.rank) if isinstance(target, Layout) else None


def layout_permutation(target: Layout, rank: int) -> Permutation:
    """The permutation of a conversion to `target` from the other layout."""
    if target is Layout.NHWC:
        return (0, *range(2, rank), 1)
    return (0, rank - 1, *range(1, rank - 1))


def conversion(x: TensorSpec, permutation: Permutation, target: AnyLayout) -> AnyCommand | None:
    """The command that permutes x and gives it the layout `target`; None when no single command does both."""
    if not isinstance(target, Layout) or not isinstance(x.layout, Layout):
        return None
    if target is x.layout:
        return Command(TRANSPOSE, TransposeAttrs(permutation))
    fits = x.rank > 1 and permutation == layout_permutation(target, x.rank)
    return Command(CONVERT_LAYOUT, LayoutAttrs(target)) if fits else None
