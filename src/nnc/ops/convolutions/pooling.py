"""Maximum and average over sliding windows, with their gradients.

    max_pool:                y[n, o…, c] = max_k x[n, o·stride + k·dilation - before…, c]
    max_pool_gradient:       each g[n, o…, c] goes to the first place of its window where x equals y, or the last nan
    max_pool_gather:         y'[n, o…, c] = h at that same position (the gradient of the gradient)
    average_pool:            y[n, o…, c] = sum_k x[…] / count, count = window positions inside the border
    average_pool_gradient:   each g / count goes to every position of its window

With `count_border` the border counts as zeros; without, only real positions count. Global pools are reductions.
Adaptive pools make y of given sizes: window i of `count` over `size` positions is [⌊i·size/count⌋, ⌈(i+1)·size/count⌉).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.spec import OptionalSpecs, TensorSpec
from nnc.errors import ShapeError
from nnc.ops.batching import batched_within
from nnc.ops.convolutions.window import Window, check_layout, output_sizes, window_of
from nnc.ops.examples import HALF_IMAGE, IMAGE, Example
from nnc.ops.movement.movement import concatenate, slice_axis
from nnc.ops.operand import Operand, T, apply
from nnc.ops.precision import FOLLOW
from nnc.ops.reduction.reduction import reduce_max, reduce_mean
from nnc.ops.rules import FLOATS, NUMBERS, Applied, Gradients, Specs, check_kinds, operator, single
from nnc.ops.work import present

__all__ = [
    "adaptive_average_pool",
    "adaptive_max_pool",
    "average_pool",
    "global_average_pool",
    "global_max_pool",
    "max_pool",
]


@dataclass(frozen=True, slots=True)
class PoolAttrs:
    """Window extent per spatial axis, how it moves, and whether the border counts in an average."""

    kernel: tuple[int, ...]
    window: Window
    count_border: bool = False


@dataclass(frozen=True, slots=True)
class AveragePoolGradientAttrs:
    """As the forward, with the spatial sizes of the data, which a stride forgets."""

    pool: PoolAttrs
    sizes: tuple[int, ...]


def _infer(attrs: PoolAttrs, specs: Specs) -> Specs:
    x = specs[0]
    check_kinds(NUMBERS, x)
    check_layout("pool", x)
    if x.rank != len(attrs.kernel) + 2 or len(attrs.window.strides) != len(attrs.kernel):
        raise ShapeError(
            "pool", got=f"x={x}, kernel {list(attrs.kernel)}", need=f"x[batch, {len(attrs.kernel)} spatial, channels]"
        )
    window, sizes = attrs.window, x.shape[1:-1]
    reaches = [dilation * (extent - 1) + 1 for extent, dilation in zip(attrs.kernel, window.dilations, strict=True)]
    if any(max(edges) >= reach for edges, reach in zip(window.padding, reaches, strict=True)):
        raise ShapeError("pool", got=f"padding {window.padding}", need=f"less than the window's reach {reaches}")
    spatial = output_sizes("pool", sizes, attrs.kernel, window)
    rows = zip(sizes, spatial, window.strides, window.padding, window.dilations, strict=True)
    for size, count, stride, (before, _), dilation in rows:
        # The first place of a window that is not before the data, which a dilation may step over.
        if any(begin % dilation >= size for begin in range(-before, min(count * stride - before, 0), stride)):
            need = f"an element in every window, of dilations {list(window.dilations)}"
            raise ShapeError("pool", got=f"x={x}, padding {window.padding}", need=need)
    return (replace(x, shape=(x.shape[0], *spatial, x.shape[-1])),)


def _infer_average(attrs: PoolAttrs, specs: Specs) -> Specs:
    check_kinds(FLOATS, *specs)
    return _infer(attrs, specs)


def _infer_max_gradient(attrs: PoolAttrs, specs: Specs) -> Specs:
    g, x, y = specs
    _check_pooled("max_pool_gradient", g, _infer(attrs, (x,))[0])
    _check_pooled("max_pool_gradient", y, _infer(attrs, (x,))[0])
    return (x,)


def _infer_gather(attrs: PoolAttrs, specs: Specs) -> Specs:
    h, x, y = specs
    if h != x:
        raise ShapeError("max_pool_gather", got=f"h={h}, x={x}", need="equal shapes and element types")
    _check_pooled("max_pool_gather", y, _infer(attrs, (x,))[0])
    return (y,)


def _infer_average_gradient(attrs: AveragePoolGradientAttrs, specs: Specs) -> Specs:
    (g,) = specs
    if g.rank != len(attrs.sizes) + 2:
        raise ShapeError("average_pool_gradient", got=f"g={g}", need=f"g[batch, {len(attrs.sizes)} spatial, channels]")
    x = replace(g, shape=(g.shape[0], *attrs.sizes, g.shape[-1]))
    _check_pooled("average_pool_gradient", g, _infer_average(attrs.pool, (x,))[0])
    return (x,)


def _check_pooled(subject: str, got: TensorSpec, need: TensorSpec) -> None:
    if got != need:
        raise ShapeError(subject, got=str(got), need=str(need))


def _max_gradient(call: Applied[PoolAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (apply(MAX_POOL_GRADIENT, call.attrs, g, call.inputs[0], call.outputs[0]),)


def _max_gradient_gradient(call: Applied[PoolAttrs], gradients: Gradients) -> Gradients:
    h = single(gradients)
    return (apply(MAX_POOL_GATHER, call.attrs, h, call.inputs[1], call.inputs[2]), None, None)


def _gather_gradient(call: Applied[PoolAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (apply(MAX_POOL_GRADIENT, call.attrs, g, call.inputs[1], call.inputs[2]), None, None)


def _average_gradient(call: Applied[PoolAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (apply(AVERAGE_POOL_GRADIENT, AveragePoolGradientAttrs(call.attrs, call.inputs[0].shape[1:-1]), g),)


def _average_gradient_gradient(call: Applied[AveragePoolGradientAttrs], gradients: Gradients) -> Gradients:
    h = single(gradients)
    return (apply(AVERAGE_POOL, call.attrs.pool, h),)


def _work(attrs: PoolAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """|y| · |window|"""
    return min(outputs[0].elements, present(inputs[0]).elements) * math.prod(attrs.kernel)


def _average_work(attrs: AveragePoolGradientAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    return _work(attrs.pool, inputs, outputs)


_EXAMPLE = PoolAttrs((2, 2), window_of(2, stride=2))

MAX_POOL = operator(
    "max_pool",
    PoolAttrs,
    ("x",),
    infer=_infer,
    gradient=_max_gradient,
    precision=FOLLOW,
    work=_work,
    batched=batched_within(),
    example=Example(_EXAMPLE, (IMAGE,)),
    doc="y = max over each window of x",
)
MAX_POOL_GRADIENT = operator(
    "max_pool_gradient",
    PoolAttrs,
    ("g", "x", "y"),
    infer=_infer_max_gradient,
    gradient=_max_gradient_gradient,
    precision=FOLLOW,
    work=_work,
    batched=batched_within(),
    example=Example(_EXAMPLE, (HALF_IMAGE, IMAGE, HALF_IMAGE)),
    doc="g goes to the first position of each window where x equals y, or to the last nan",
)
MAX_POOL_GATHER = operator(
    "max_pool_gather",
    PoolAttrs,
    ("h", "x", "y"),
    infer=_infer_gather,
    gradient=_gather_gradient,
    precision=FOLLOW,
    work=_work,
    batched=batched_within(),
    example=Example(_EXAMPLE, (IMAGE, IMAGE, HALF_IMAGE)),
    doc="h at the first position of each window where x equals y, or at the last nan",
)
AVERAGE_POOL = operator(
    "average_pool",
    PoolAttrs,
    ("x",),
    infer=_infer_average,
    gradient=_average_gradient,
    precision=FOLLOW,
    work=_work,
    batched=batched_within(),
    example=Example(_EXAMPLE, (IMAGE,)),
    doc="y = mean over each window of x",
)
AVERAGE_POOL_GRADIENT = operator(
    "average_pool_gradient",
    AveragePoolGradientAttrs,
    ("g",),
    infer=_infer_average_gradient,
    gradient=_average_gradient_gradient,
    precision=FOLLOW,
    work=_average_work,
    batched=batched_within(),
    example=Example(AveragePoolGradientAttrs(_EXAMPLE, (8, 8)), (HALF_IMAGE,)),
    doc="g / count goes to every position of its window",
)


def max_pool(x: T, kernel: tuple[int, ...], window: Window) -> T:
    """Largest element of each window."""
    return apply(MAX_POOL, PoolAttrs(kernel, window), x)


def average_pool(x: T, kernel: tuple[int, ...], window: Window, *, count_border: bool = False) -> T:
    """Mean of each window."""
    return apply(AVERAGE_POOL, PoolAttrs(kernel, window, count_border), x)


def global_max_pool(x: T) -> T:
    """Largest element over all spatial axes, which stay with size 1."""
    return reduce_max(x, _spatial_axes("global_max_pool", x), keepdims=True)


def global_average_pool(x: T) -> T:
    """Mean over all spatial axes, which stay with size 1."""
    return reduce_mean(x, _spatial_axes("global_average_pool", x), keepdims=True)


def adaptive_max_pool(x: T, sizes: tuple[int, ...]) -> T:
    """Largest element of each of `sizes` windows that together cover the spatial axes."""
    kernel = _even_windows("adaptive_max_pool", x, sizes)
    if kernel:
        return max_pool(x, kernel, window_of(kernel, stride=kernel, rank=len(kernel)))
    return _pool_axes(x, sizes, lambda part, axis: reduce_max(part, axis, keepdims=True))


def adaptive_average_pool(x: T, sizes: tuple[int, ...]) -> T:
    """Mean of each of `sizes` windows that together cover the spatial axes."""
    kernel = _even_windows("adaptive_average_pool", x, sizes)
    if kernel:
        return average_pool(x, kernel, window_of(kernel, stride=kernel, rank=len(kernel)))
    return _pool_axes(x, sizes, lambda part, axis: reduce_mean(part, axis, keepdims=True))


def _spatial_axes(subject: str, x: Operand) -> tuple[int, ...]:
    check_layout(subject, x.spec)
    if x.spec.rank < 3:
        raise ShapeError(subject, got=str(x.spec), need="[batch, spatial…, channels]")
    return tuple(range(1, x.spec.rank - 1))


def _even_windows(subject: str, x: Operand, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The kernel, where the sizes divide x's; nothing where windows differ."""
    spatial = tuple(x.shape[axis] for axis in _spatial_axes(subject, x))
    if len(sizes) != len(spatial) or any(not 1 <= count <= size for count, size in zip(sizes, spatial)):
        got = f"sizes {list(sizes)} of {x.spec}"
        raise ShapeError(subject, got=got, need=f"{len(spatial)} sizes ≥ 1, none larger than x's")
    if any(size % count for count, size in zip(sizes, spatial, strict=True)):
        return ()
    return tuple(size // count for count, size in zip(sizes, spatial, strict=True))


def _pool_axes(x: T, sizes: tuple[int, ...], pool: Callable[[T, int], T]) -> T:
    """One axis after another: mean and maximum of a box are those of its rows."""
    for axis, count in enumerate(sizes, start=1):
        size = x.shape[axis]
        ends = [(index * size // count, -(-(index + 1) * size // count)) for index in range(count)]
        x = concatenate([pool(slice_axis(x, axis, start, stop), axis) for start, stop in ends], axis)
    return x
