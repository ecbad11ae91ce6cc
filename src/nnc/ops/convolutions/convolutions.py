"""Convolution and its two gradients. The three are bilinear, and each one's gradients are the other two.

    forward:          y[n, o…, f] = sum_{k…, c} x[n, o·stride + k·dilation - before…, c] · w[k…, c, f] + bias[f]
    data gradient:    x'[n, i…, c] = sum_{o…, k…, f} g[n, o…, f] · w[k…, c, f] where o·stride + k·dilation - before = i
    weight gradient:  w'[k…, c, f] = sum_{n, o…} x[n, o·stride + k·dilation - before…, c] · g[n, o…, f]

x is [batch, spatial…, channels]; w is [kernel…, channels / groups, filters]. With groups, filter f reads the
channels of its own group only. A transposed convolution is the data gradient, used forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nnc.classes import dataclass
from nnc.core.values.spec import Layout, OptionalSpecs, TensorSpec, spec
from nnc.errors import AttributeValueError, DTypeError, ShapeError
from nnc.ops.batching import BatchedCall
from nnc.ops.convolutions.window import Window, check_layout, output_sizes, window_of
from nnc.ops.elementwise.pointwise import add
from nnc.ops.examples import IMAGE, ROW, Example
from nnc.ops.movement.broadcast import reduce_sum
from nnc.ops.movement.layout import convert_layout
from nnc.ops.operand import Operand, T, apply
from nnc.ops.precision import LOW
from nnc.ops.rules import NUMBERS, Applied, Gradients, Pattern, Specs, check_kinds, operator, single
from nnc.ops.work import present

__all__ = ["convolution", "convolution_transpose"]


@dataclass(frozen=True, slots=True)
class ConvolutionAttrs:
    """The window and the number of channel groups."""

    window: Window
    groups: int = 1


@dataclass(frozen=True, slots=True)
class ConvolutionGradientAttrs:
    """As the forward, with the spatial sizes that a stride forgets: of the data, or of the kernel."""

    window: Window
    groups: int
    sizes: tuple[int, ...]


def _check(subject: str, x: TensorSpec, w: TensorSpec, groups: int, rank: int) -> None:
    shown = f"x={x}, w={w}, groups={groups}"
    check_kinds(NUMBERS, x)
    check_layout(subject, x)
    if x.rank != rank + 2 or w.rank != rank + 2:
        raise ShapeError(
            subject, got=shown, need=f"x[batch, {rank} spatial, channels], w[{rank} kernel, channels, filters]"
        )
    if x.dtype is not w.dtype:
        raise DTypeError(subject, got=shown, need="one element type", fix="cast() one of them")
    if groups < 1 or x.shape[-1] != w.shape[-2] * groups or w.shape[-1] % groups:
        equation = f"x's channels ({x.shape[-1]}) == w's channels ({w.shape[-2]}) · groups ({groups})"
        raise ShapeError(subject, got=shown, need=f"{equation}, filters divisible by groups")


def _check_result(subject: str, g: TensorSpec, x: TensorSpec, w: TensorSpec, window: Window) -> None:
    """`g` must be what the forward makes of `x` and `w`."""
    spatial = output_sizes(subject, x.shape[1:-1], w.shape[:-2], window)
    need = replace(x, shape=(x.shape[0], *spatial, w.shape[-1]))
    if g != need:
        raise ShapeError(subject, got=f"g={g}, x={x}, w={w}", need=f"g={need}")


def _check_ranks(subject: str, rank: int, *specs: TensorSpec) -> None:
    if any(spec.rank != rank for spec in specs):
        raise ShapeError(subject, got=", ".join(map(str, specs)), need=f"{rank} dimensions each")


def _infer(attrs: ConvolutionAttrs, specs: tuple[TensorSpec | None, ...]) -> Specs:
    x, w, bias = specs
    assert x is not None
    assert w is not None
    w = w.plain
    rank = len(attrs.window.strides)
    _check("convolution", x, w, attrs.groups, rank)
    if bias is not None and (bias.shape != (w.shape[-1],) or bias.dtype is not x.dtype):
        raise ShapeError("convolution", got=f"w={w}, bias={bias}", need=f"bias {x.dtype}[{w.shape[-1]}]")
    spatial = output_sizes("convolution", x.shape[1:-1], w.shape[:-2], attrs.window)
    return (replace(x, shape=(x.shape[0], *spatial, w.shape[-1])),)


def _infer_data(attrs: ConvolutionGradientAttrs, specs: Specs) -> Specs:
    g, w = specs[0], specs[1].plain
    _check_ranks("convolution_data_gradient", len(attrs.window.strides) + 2, g, w)
    x = replace(g, shape=(g.shape[0], *attrs.sizes, w.shape[-2] * attrs.groups))
    _check("convolution_data_gradient", x, w, attrs.groups, len(attrs.window.strides))
    _check_result("convolution_data_gradient", g, x, w, attrs.window)
    return (x,)


def _infer_weight(attrs: ConvolutionGradientAttrs, specs: Specs) -> Specs:
    x, g = specs
    _check_ranks("convolution_weight_gradient", len(attrs.window.strides) + 2, x, g)
    w = replace(x, shape=(*attrs.sizes, x.shape[-1] // max(attrs.groups, 1), g.shape[-1]))
    _check("convolution_weight_gradient", x, w, attrs.groups, len(attrs.window.strides))
    _check_result("convolution_weight_gradient", g, x, w, attrs.window)
    return (w,)


def _gradient(call: Applied[ConvolutionAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    x, w = call.inputs[0], convert_layout(call.inputs[1], Layout.NHWC)
    window, groups = call.attrs.window, call.attrs.groups
    data = data_gradient(g, w, window, groups, x.shape[1:-1]) if call.needed[0] else None
    weight = weight_gradient(x, g, window, groups, w.shape[:-2]) if call.needed[1] else None
    weight = None if weight is None else convert_layout(weight, call.inputs[1].spec.layout)
    bias = reduce_sum(g, tuple(range(g.spec.rank - 1))) if len(call.inputs) > 2 and call.needed[2] else None
    return (data, weight, bias)


def _data_gradient_gradient(call: Applied[ConvolutionGradientAttrs], gradients: Gradients) -> Gradients:
    h = single(gradients)
    g, w = call.inputs[0], convert_layout(call.inputs[1], Layout.NHWC)
    window, groups = call.attrs.window, call.attrs.groups
    back = apply(CONVOLUTION, ConvolutionAttrs(window, groups), h, w, None) if call.needed[0] else None
    weight = weight_gradient(h, g, window, groups, w.shape[:-2]) if call.needed[1] else None
    return (back, None if weight is None else convert_layout(weight, call.inputs[1].spec.layout))


def _weight_gradient_gradient(call: Applied[ConvolutionGradientAttrs], gradients: Gradients) -> Gradients:
    h = single(gradients)
    x, g = call.inputs
    window, groups = call.attrs.window, call.attrs.groups
    data = data_gradient(g, h, window, groups, x.shape[1:-1]) if call.needed[0] else None
    back = apply(CONVOLUTION, ConvolutionAttrs(window, groups), x, h, None) if call.needed[1] else None
    return (data, back)


def _work(attrs: ConvolutionAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    return _products(outputs[0], present(inputs[1]).plain)


def _data_work(attrs: ConvolutionGradientAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    return _products(present(inputs[0]), present(inputs[1]).plain)


def _weight_work(attrs: ConvolutionGradientAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    return _products(present(inputs[1]), outputs[0])


def _products(y: TensorSpec, w: TensorSpec) -> int:
    """2 · |y| · |w| / filters: each element of y is a sum over the kernel and its channels."""
    return 2 * y.elements * (w.elements // max(w.shape[-1], 1))


def _batched(call: BatchedCall[ConvolutionAttrs]) -> tuple[Operand, ...]:
    if call.batched == (True, False, False) or call.batched == (True, False):
        inputs = [call.merged(0, 0), call.plain(1), call.plain(2)]
        return tuple(call.parted(y, 0) for y in call.apply(inputs))
    if call.specs[2] is not None:
        return call.composed(lambda xwb: [add(apply(CONVOLUTION, call.attrs, *xwb[:2], None), xwb[2])])
    return _by_groups(call, (None,))


def _batched_gradient(call: BatchedCall[ConvolutionGradientAttrs]) -> tuple[Operand, ...]:
    if call.batched[1]:
        return _by_groups(call)
    return tuple(call.parted(y, 0) for y in call.apply([call.merged(0, 0), call.plain(1)]))


def _by_groups(call: BatchedCall[Any], absent: tuple[None, ...] = ()) -> tuple[Operand, ...]:
    """Where each example has weights of its own, it has groups of channels of its own."""
    attrs = replace(call.attrs, groups=call.attrs.groups * call.size)
    outputs = call.apply([call.merged(0, -1), call.merged(1, -1), *absent], attrs)
    return tuple(call.parted(y, -1) for y in outputs)


_SAME, _FILTER = window_of(3, padding="same"), spec((3, 3, 4, 4))

CONVOLUTION = operator(
    "convolution",
    ConvolutionAttrs,
    ("x", "w", "bias"),
    infer=_infer,
    gradient=_gradient,
    pattern=Pattern.FUSABLE_OUTPUT,
    optional=(2,),
    precision=LOW,
    work=_work,
    batched=_batched,
    example=Example(ConvolutionAttrs(_SAME), (IMAGE, _FILTER, ROW)),
    doc="y[n, o…, f] = sum_{k…, c} x[n, o·stride + k·dilation - before…, c] · w[k…, c, f] + bias[f]",
)
CONVOLUTION_DATA_GRADIENT = operator(
    "convolution_data_gradient",
    ConvolutionGradientAttrs,
    ("g", "w"),
    ("x",),
    infer=_infer_data,
    gradient=_data_gradient_gradient,
    precision=LOW,
    work=_data_work,
    batched=_batched_gradient,
    example=Example(ConvolutionGradientAttrs(_SAME, 1, (8, 8)), (IMAGE, _FILTER)),
    doc="the gradient of convolution by its data (a transposed convolution)",
)
CONVOLUTION_WEIGHT_GRADIENT = operator(
    "convolution_weight_gradient",
    ConvolutionGradientAttrs,
    ("x", "g"),
    ("w",),
    infer=_infer_weight,
    gradient=_weight_gradient_gradient,
    precision=LOW,
    work=_weight_work,
    batched=_by_groups,
    example=Example(ConvolutionGradientAttrs(_SAME, 1, (3, 3)), (IMAGE, IMAGE)),
    doc="the gradient of convolution by its weights",
)


def convolution(x: T, w: T, bias: T | None = None, *, window: Window, groups: int = 1) -> T:
    """Cross-correlation of x with the filters w, as deep learning calls convolution."""
    return apply(CONVOLUTION, ConvolutionAttrs(window, groups), x, w, bias)


def convolution_transpose(
    x: T,
    w: T,
    bias: T | None = None,
    *,
    window: Window,
    groups: int = 1,
    output_padding: tuple[int, ...] = (),
) -> T:
    """y[n, i…, c] = sum of x[n, o…, f] · w[k…, c, f] where o·stride + k·dilation - before = i, plus bias[c].

    x is [batch, spatial…, filters] and w as for `convolution`, whose data this makes of its result. A stride maps
    several sizes to one; `output_padding` (less than the stride) says how much larger than the smallest y is.
    """
    extra = output_padding or (0,) * len(window.strides)
    if len(extra) != len(window.strides) or any(not 0 <= e < s for e, s in zip(extra, window.strides)):
        got = f"output_padding {list(extra)}, strides {list(window.strides)}"
        raise AttributeValueError("convolution_transpose", got=got, need="0 ≤ output_padding < stride on each axis")
    if x.spec.rank != len(extra) + 2 or w.spec.rank != len(extra) + 2:
        got = f"x={x.spec}, w={w.spec}"
        raise ShapeError("convolution_transpose", got=got, need=f"{len(extra) + 2} dimensions each")
    moves = zip(x.shape[1:-1], w.shape[:-2], window.strides, window.padding, window.dilations, extra, strict=True)
    sizes = tuple(
        max((size - 1) * stride + dilation * (extent - 1) + 1 - sum(edges) + more, 0)
        for size, extent, stride, edges, dilation, more in moves
    )
    y = data_gradient(x, w, window, groups, sizes)
    return y if bias is None else add(y, bias)


def data_gradient(g: T, w: T, window: Window, groups: int, sizes: tuple[int, ...]) -> T:
    """Gradient by the data, whose spatial sizes are `sizes`."""
    return apply(CONVOLUTION_DATA_GRADIENT, ConvolutionGradientAttrs(window, groups, sizes), g, w)


def weight_gradient(x: T, g: T, window: Window, groups: int, sizes: tuple[int, ...]) -> T:
    """Gradient by the weights, whose kernel sizes are `sizes`."""
    return apply(CONVOLUTION_WEIGHT_GRADIENT, ConvolutionGradientAttrs(window, groups, sizes), x, g)
