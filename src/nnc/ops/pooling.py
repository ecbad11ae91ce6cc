"""Maximum and average over sliding windows, with their gradients.

    max_pool:                y[n, o…, c] = max_k x[n, o·stride + k·dilation - before…, c]
    max_pool_gradient:       each g[n, o…, c] goes to the first position of its window where x equals y
    max_pool_gather:         y'[n, o…, c] = h at that same position (the gradient of the gradient)
    average_pool:            y[n, o…, c] = sum_k x[…] / count, count = window positions inside the border
    average_pool_gradient:   each g / count goes to every position of its window

With `count_border` the border counts as zeros; without, only real positions count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnc.core.spec import TensorSpec
from nnc.errors import ShapeError
from nnc.ops.operand import T, apply
from nnc.ops.rules import FLOATS, NUMBERS, Applied, Gradients, Specs, check_kinds, operator
from nnc.ops.window import Window, check_layout, output_sizes


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
    if any(max(edges) >= extent for edges, extent in zip(attrs.window.padding, attrs.kernel, strict=True)):
        raise ShapeError(
            "pool", got=f"padding {attrs.window.padding}", need=f"less than the kernel {list(attrs.kernel)}"
        )
    # A dilated window over data smaller than the dilation could step over all of it.
    if any(
        max(edges) > 0 and size < dilation
        for size, edges, dilation in zip(x.shape[1:-1], attrs.window.padding, attrs.window.dilations, strict=True)
    ):
        need = f"sizes ≥ the dilations {list(attrs.window.dilations)} where there is a border"
        raise ShapeError("pool", got=str(x), need=need)
    spatial = output_sizes("pool", x.shape[1:-1], attrs.kernel, attrs.window)
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
    (g,) = gradients
    assert g is not None
    return (apply(MAX_POOL_GRADIENT, call.attrs, g, call.inputs[0], call.outputs[0]),)


def _max_gradient_gradient(call: Applied[PoolAttrs], gradients: Gradients) -> Gradients:
    (h,) = gradients
    assert h is not None
    return (apply(MAX_POOL_GATHER, call.attrs, h, call.inputs[1], call.inputs[2]), None, None)


def _gather_gradient(call: Applied[PoolAttrs], gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    return (apply(MAX_POOL_GRADIENT, call.attrs, g, call.inputs[1], call.inputs[2]), None, None)


def _average_gradient(call: Applied[PoolAttrs], gradients: Gradients) -> Gradients:
    (g,) = gradients
    assert g is not None
    return (apply(AVERAGE_POOL_GRADIENT, AveragePoolGradientAttrs(call.attrs, call.inputs[0].shape[1:-1]), g),)


def _average_gradient_gradient(call: Applied[AveragePoolGradientAttrs], gradients: Gradients) -> Gradients:
    (h,) = gradients
    assert h is not None
    return (apply(AVERAGE_POOL, call.attrs.pool, h),)


MAX_POOL = operator(
    "max_pool", PoolAttrs, ("x",), infer=_infer, gradient=_max_gradient, doc="y = max over each window of x"
)
MAX_POOL_GRADIENT = operator(
    "max_pool_gradient",
    PoolAttrs,
    ("g", "x", "y"),
    infer=_infer_max_gradient,
    gradient=_max_gradient_gradient,
    doc="g goes to the first position of each window where x equals y",
)
MAX_POOL_GATHER = operator(
    "max_pool_gather",
    PoolAttrs,
    ("h", "x", "y"),
    infer=_infer_gather,
    gradient=_gather_gradient,
    doc="h at the first position of each window where x equals y",
)
AVERAGE_POOL = operator(
    "average_pool",
    PoolAttrs,
    ("x",),
    infer=_infer_average,
    gradient=_average_gradient,
    doc="y = mean over each window of x",
)
AVERAGE_POOL_GRADIENT = operator(
    "average_pool_gradient",
    AveragePoolGradientAttrs,
    ("g",),
    infer=_infer_average_gradient,
    gradient=_average_gradient_gradient,
    doc="g / count goes to every position of its window",
)


def max_pool(x: T, kernel: tuple[int, ...], window: Window) -> T:
    """Largest element of each window."""
    return apply(MAX_POOL, PoolAttrs(kernel, window), x)


def average_pool(x: T, kernel: tuple[int, ...], window: Window, *, count_border: bool = False) -> T:
    """Mean of each window."""
    return apply(AVERAGE_POOL, PoolAttrs(kernel, window, count_border), x)
