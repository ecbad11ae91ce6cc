"""Normalization by statistics over some axes: batch, layer, group, instance and root-mean-square norm.

    layer_norm:   y = (x - m) · r · scale + bias,   m = mean x,  r = 1 / √(mean (x - m)² + ε)   (means over `axes`)
    rms_norm:     y = x · r · scale,                r = 1 / √(mean x² + ε)
    batch_norm:   as layer_norm with one m and r per channel (mean over all other axes), and the running statistics
                  mean' = momentum · mean + (1 - momentum) · m,  variance' likewise of mean (x - m)²

Gradients, with u = g · scale and x̂ = (x - m) · r:

    x' = r · (u - mean u - x̂ · mean (u · x̂));   scale' = sum g · x̂;   bias' = sum g

They read x, scale and the saved m and r; rms_norm has neither m nor `mean u`. Those of batch_norm are one operator: its
means are bias' and scale' over the count of a channel. Statistics of f16 and bf16 are f32.
Group and instance norm are layer norms of a view: axes may be any, and scale and bias lie along `parameter_axes`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import F32, DType
from nnc.core.values.spec import OptionalSpecs, Shape, TensorSpec
from nnc.errors import ArityError, AttributeValueError, DTypeError, ShapeError
from nnc.ops.batching import BatchedCall, batched_within
from nnc.ops.convolutions.window import check_layout
from nnc.ops.decomposition import by_decomposition
from nnc.ops.elementwise.pointwise import add, affine, cast, multiply, square, subtract
from nnc.ops.examples import COLUMN, MATRIX, ROW, Example
from nnc.ops.movement.broadcast import broadcast_to, normalize_axes, reduce_sum, reshape
from nnc.ops.operand import Operand, T, apply
from nnc.ops.precision import FOLLOW, Precision, Runs
from nnc.ops.reduction.reduction import reduce_mean
from nnc.ops.rules import FLOATS, Applied, Gradients, Inplace, Specs, check_kinds, operator
from nnc.ops.work import per_element

__all__ = []


@dataclass(frozen=True, slots=True)
class NormalizationAttrs:
    """Axes of the statistics, axes that scale and bias lie along (both ascending), and ε."""

    axes: tuple[int, ...]
    parameter_axes: tuple[int, ...]
    epsilon: float = 1e-5


@dataclass(frozen=True, slots=True)
class BatchNormAttrs:
    """ε, and how much of the running statistics stays at each step."""

    epsilon: float = 1e-5
    momentum: float = 0.9


def statistics_dtype(x: TensorSpec) -> DType:
    """The element type of saved statistics: f32 for narrower floats."""
    return F32 if x.dtype.itemsize < F32.itemsize else x.dtype


def statistics_shape(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """Sizes of 1 along the axes of the statistics."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))


def parameter_shape(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """The sizes along the axes of the parameters."""
    return tuple(shape[axis] for axis in axes)


def spread_shape(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """Sizes of 1 but along the axes of the parameters: what broadcasts over x."""
    return tuple(size if axis in axes else 1 for axis, size in enumerate(shape))


# ---- inference


def _check(subject: str, attrs: NormalizationAttrs, x: TensorSpec, scale: TensorSpec | None) -> None:
    check_kinds(FLOATS, x)
    for axes in (attrs.axes, attrs.parameter_axes):
        if normalize_axes(subject, axes, x.rank) != axes:
            raise AttributeValueError(subject, got=f"axes {list(axes)}", need="ascending axes ≥ 0")
    if math.prod(x.shape[axis] for axis in attrs.axes) == 0:
        raise ShapeError(subject, got=f"{x} over axes {list(attrs.axes)}", need="at least one element to average")
    _check_epsilon(subject, attrs.epsilon)
    if scale is not None:
        _check_parameter(subject, "scale", scale, replace(x, shape=parameter_shape(x.shape, attrs.parameter_axes)))


def _check_epsilon(subject: str, epsilon: float) -> None:
    if not 0.0 <= epsilon < math.inf:
        raise AttributeValueError(subject, got=f"epsilon={epsilon}", need="a finite number ≥ 0")


def _check_parameter(subject: str, name: str, got: TensorSpec, need: TensorSpec) -> None:
    if got.dtype is not need.dtype:
        raise DTypeError(subject, got=f"{name}={got}", need=str(need), fix="cast() it")
    if got.shape != need.shape:
        raise ShapeError(subject, got=f"{name}={got}", need=str(need))


def _statistics(x: TensorSpec, axes: tuple[int, ...]) -> TensorSpec:
    return replace(x, shape=statistics_shape(x.shape, axes), dtype=statistics_dtype(x))


def _infer_layer(attrs: NormalizationAttrs, specs: OptionalSpecs) -> Specs:
    x, scale, bias = specs
    assert x is not None
    _check("layer_norm", attrs, x, scale)
    if bias is not None:
        if scale is None:
            raise ArityError("layer_norm", got="bias without scale", need="both or scale alone")
        _check_parameter("layer_norm", "bias", bias, scale)
    statistics = _statistics(x, attrs.axes)
    return (x, statistics, statistics)


def _infer_rms(attrs: NormalizationAttrs, specs: OptionalSpecs) -> Specs:
    x, scale = specs
    assert x is not None
    _check("rms_norm", attrs, x, scale)
    return (x, _statistics(x, attrs.axes))


def _infer_gradient(attrs: NormalizationAttrs, specs: OptionalSpecs) -> Specs:
    """Inputs g, x, one or two statistics, scale."""
    g, x, *statistics, scale = specs
    assert g is not None
    assert x is not None
    _check("norm_gradient", attrs, x, scale)
    _check_parameter("norm_gradient", "g", g, x)
    for statistic in statistics:
        assert statistic is not None
        _check_parameter("norm_gradient", "statistic", statistic, _statistics(x, attrs.axes))
    return (x,)


def _infer_batch(attrs: BatchNormAttrs, specs: Specs) -> Specs:
    x, scale, bias, mean, variance = specs
    check_layout("batch_norm", x)
    if x.rank < 2:
        raise ShapeError("batch_norm", got=str(x), need="at least two dimensions [batch, …, channels]")
    if not 0.0 <= attrs.momentum <= 1.0:
        raise AttributeValueError("batch_norm", got=f"momentum={attrs.momentum}", need="0 ≤ momentum ≤ 1")
    _check("batch_norm", over_channels(attrs.epsilon, x.rank), x, scale)
    _check_parameter("batch_norm", "bias", bias, scale)
    statistics = replace(scale, dtype=statistics_dtype(x))
    _check_parameter("batch_norm", "mean", mean, statistics)
    _check_parameter("batch_norm", "variance", variance, statistics)
    return (x, statistics, statistics, statistics, statistics)


def _infer_batch_gradient(attrs: BatchNormAttrs, specs: Specs) -> Specs:
    g, x, mean, inverse, scale = specs
    statistics = replace(scale, dtype=statistics_dtype(x))
    for name, got, need in (("g", g, x), ("mean", mean, statistics), ("inverse", inverse, statistics)):
        _check_parameter("batch_norm_gradient", name, got, need)
    _infer_batch(attrs, (x, scale, scale, statistics, statistics))
    return (x, scale, scale)


def over_channels(epsilon: float, rank: int) -> NormalizationAttrs:
    """Batch norm as a layer norm: statistics over all axes but the last."""
    return NormalizationAttrs(tuple(range(rank - 1)), (rank - 1,), epsilon)


# ---- gradients


def _along(parameter: T, like: Operand, attrs: NormalizationAttrs) -> T:
    """A parameter as a view that broadcasts over `like`."""
    return reshape(parameter, spread_shape(like.shape, attrs.parameter_axes))


def _centered(x: T, mean: T | None) -> T:
    return x if mean is None else subtract(x, cast(mean, x.spec.dtype))


def _unit(x: T, mean: T | None, inverse: T) -> T:
    """x̂ = (x - m) · r."""
    return multiply(_centered(x, mean), cast(inverse, x.spec.dtype))


def _data_gradient(attrs: NormalizationAttrs, g: T, x: T, mean: T | None, inverse: T, scale: T | None) -> T:
    """x' = r · (u - mean u - x̂ · mean (u · x̂)) in operators."""
    u = g if scale is None else multiply(g, _along(scale, x, attrs))
    unit = _unit(x, mean, inverse)
    rest = subtract(u, multiply(unit, reduce_mean(multiply(u, unit), attrs.axes, keepdims=True)))
    if mean is not None:
        rest = subtract(rest, reduce_mean(u, attrs.axes, keepdims=True))
    return multiply(rest, cast(inverse, x.spec.dtype))


def _composed_layer_gradient(attrs: NormalizationAttrs, inputs: Sequence[T]) -> tuple[T, ...]:
    g, x, mean, inverse, *scale = inputs
    return (_data_gradient(attrs, g, x, mean, inverse, scale[0] if scale else None),)


def _composed_rms_gradient(attrs: NormalizationAttrs, inputs: Sequence[T]) -> tuple[T, ...]:
    g, x, inverse, *scale = inputs
    return (_data_gradient(attrs, g, x, None, inverse, scale[0] if scale else None),)


def _composed_batch_gradient(rule: BatchNormAttrs, inputs: Sequence[T]) -> tuple[T, ...]:
    g, x, *saved, scale = inputs
    attrs = over_channels(rule.epsilon, x.spec.rank)
    mean, inverse = (reshape(statistic, statistics_shape(x.shape, attrs.axes)) for statistic in saved)
    by_scale = reduce_sum(multiply(g, _unit(x, mean, inverse)), attrs.axes)
    return _data_gradient(attrs, g, x, mean, inverse, scale), by_scale, reduce_sum(g, attrs.axes)


def _fused_gradient(
    attrs: NormalizationAttrs, g: Operand, x: Operand, mean: Operand | None, inverse: Operand, scale: Operand | None
) -> Operand:
    if mean is None:
        return apply(RMS_NORM_GRADIENT, attrs, g, x, inverse, scale)
    return apply(LAYER_NORM_GRADIENT, attrs, g, x, mean, inverse, scale)


def _scale_gradient(
    attrs: NormalizationAttrs, g: Operand, x: Operand, mean: Operand | None, inverse: Operand
) -> Operand:
    """scale' = sum g · x̂."""
    return _sum_to_parameter(attrs, multiply(g, _unit(x, mean, inverse)))


def _sum_to_parameter(attrs: NormalizationAttrs, g: Operand) -> Operand:
    return reduce_sum(g, [axis for axis in range(g.spec.rank) if axis not in attrs.parameter_axes])


def _by_mean(g: Operand, x: Operand, count: int) -> Operand:
    """What x gets of the gradient of its mean: g / count everywhere."""
    return broadcast_to(cast(affine(g, 1.0 / count), x.spec.dtype), x.shape)


def _by_variance(g: Operand, x: Operand, mean: Operand | None, count: int) -> Operand:
    """What x gets of the gradient of its variance (of its mean square without `mean`): 2 (x - m) · g / count."""
    return multiply(_centered(x, mean), cast(affine(g, 2.0 / count), x.spec.dtype))


def _variance_gradient(g: Operand, inverse: Operand) -> Operand:
    """Of r = v^(-1/2): v' = -g · r³ / 2."""
    return affine(multiply(g, multiply(inverse, square(inverse))), -0.5)


def _total(parts: Sequence[Operand | None]) -> Operand | None:
    present = [part for part in parts if part is not None]
    total = present[0] if present else None
    for part in present[1:]:
        assert total is not None
        total = add(total, part)
    return total


def _count(x: Operand, axes: tuple[int, ...]) -> int:
    return math.prod(x.shape[axis] for axis in axes)


def _layer_gradient(call: Applied[NormalizationAttrs], gradients: Gradients) -> Gradients:
    g, g_mean, g_inverse = gradients
    attrs, x, scale = call.attrs, call.inputs[0], call.optional(1)
    _, mean, inverse = call.outputs
    count = _count(x, attrs.axes)
    parts = (
        None if g is None else _fused_gradient(attrs, g, x, mean, inverse, scale),
        None if g_mean is None else _by_mean(g_mean, x, count),
        None if g_inverse is None else _by_variance(_variance_gradient(g_inverse, inverse), x, mean, count),
    )
    by_scale = None if g is None or not call.wants(1) else _scale_gradient(attrs, g, x, mean, inverse)
    by_bias = None if g is None or not call.wants(2) else _sum_to_parameter(attrs, g)
    return (_total(parts), by_scale, by_bias)


def _rms_gradient(call: Applied[NormalizationAttrs], gradients: Gradients) -> Gradients:
    g, g_inverse = gradients
    attrs, x, scale = call.attrs, call.inputs[0], call.optional(1)
    inverse = call.outputs[1]
    parts = (
        None if g is None else _fused_gradient(attrs, g, x, None, inverse, scale),
        None
        if g_inverse is None
        else _by_variance(_variance_gradient(g_inverse, inverse), x, None, _count(x, attrs.axes)),
    )
    by_scale = None if g is None or not call.wants(1) else _scale_gradient(attrs, g, x, None, inverse)
    return (_total(parts), by_scale)


def _batch_gradient(call: Applied[BatchNormAttrs], gradients: Gradients) -> Gradients:
    """As layer norm's; the running statistics are averages of their old values and the batch's."""
    g, g_mean, g_variance, g_saved, g_inverse = gradients
    x, scale = call.inputs[:2]
    attrs, momentum = over_channels(call.attrs.epsilon, x.spec.rank), call.attrs.momentum
    mean = reshape(call.outputs[3], spread_shape(x.shape, attrs.parameter_axes))
    count = _count(x, attrs.axes)
    command = Command(BATCH_NORM_GRADIENT, call.attrs)
    by_output = (None, None, None) if g is None else g.apply(command, (g, x, *call.outputs[3:], scale))
    by_mean = _total([None if g_mean is None else affine(g_mean, 1.0 - momentum), g_saved])
    by_variance = _total(
        [
            None if g_variance is None else affine(g_variance, 1.0 - momentum),
            None if g_inverse is None else _variance_gradient(g_inverse, call.outputs[4]),
        ]
    )
    parts = (
        by_output[0],
        None if by_mean is None else _by_mean(by_mean, x, count),
        None if by_variance is None else _by_variance(by_variance, x, mean, count),
    )
    return (
        _total(parts),
        *by_output[1:],
        None if g_mean is None else affine(g_mean, momentum),
        None if g_variance is None else affine(g_variance, momentum),
    )


# ---- operators

_EXAMPLE = NormalizationAttrs((1,), (1,))


def _batched_norm(call: BatchedCall[NormalizationAttrs]) -> tuple[Operand, ...]:
    """Statistics of each example; parameters lie along the batch too where each example has its own."""
    parameters = [index for index in call.present if call.names[index] in ("scale", "bias")]
    own = any(call.batched[index] for index in parameters)
    inputs = [
        call.plain(index) if index not in call.present or (index in parameters and not own) else call.spread(index)
        for index in range(len(call.specs))
    ]
    axes = tuple(axis + 1 for axis in call.attrs.axes)
    along = tuple(axis + 1 for axis in call.attrs.parameter_axes)
    return call.apply(inputs, replace(call.attrs, axes=axes, parameter_axes=(0, *along) if own else along))


LAYER_NORM = operator(
    "layer_norm",
    NormalizationAttrs,
    ("x", "scale", "bias"),
    ("y", "mean", "inverse"),
    infer=_infer_layer,
    gradient=_layer_gradient,
    inplace=Inplace(allowed=((0, 0),)),
    optional=(1, 2),
    precision=FOLLOW,
    work=per_element(7),
    batched=_batched_norm,
    example=Example(_EXAMPLE, (MATRIX, ROW, ROW)),
    doc="y = (x - m) · r · scale + bias, m = mean x, r = 1 / √(mean (x - m)² + ε), means over the axes",
)
LAYER_NORM_GRADIENT = operator(
    "layer_norm_gradient",
    NormalizationAttrs,
    ("g", "x", "mean", "inverse", "scale"),
    infer=_infer_gradient,
    gradient=by_decomposition(_composed_layer_gradient),
    inplace=Inplace(allowed=((0, 0), (1, 0))),
    optional=(4,),
    precision=Precision(Runs.FOLLOW, (2, 3)),
    work=per_element(10),
    batched=_batched_norm,
    example=Example(_EXAMPLE, (MATRIX, MATRIX, COLUMN, COLUMN, ROW), wide=(2, 3)),
    doc="y = r · (u - mean u - x̂ · mean (u · x̂)), u = g · scale, x̂ = (x - m) · r",
)
RMS_NORM = operator(
    "rms_norm",
    NormalizationAttrs,
    ("x", "scale"),
    ("y", "inverse"),
    infer=_infer_rms,
    gradient=_rms_gradient,
    inplace=Inplace(allowed=((0, 0),)),
    optional=(1,),
    precision=FOLLOW,
    work=per_element(5),
    batched=_batched_norm,
    example=Example(_EXAMPLE, (MATRIX, ROW)),
    doc="y = x · r · scale, r = 1 / √(mean x² + ε), mean over the axes",
)
RMS_NORM_GRADIENT = operator(
    "rms_norm_gradient",
    NormalizationAttrs,
    ("g", "x", "inverse", "scale"),
    infer=_infer_gradient,
    gradient=by_decomposition(_composed_rms_gradient),
    inplace=Inplace(allowed=((0, 0), (1, 0))),
    optional=(3,),
    precision=Precision(Runs.FOLLOW, (2,)),
    work=per_element(8),
    batched=_batched_norm,
    example=Example(_EXAMPLE, (MATRIX, MATRIX, COLUMN, ROW), wide=(2,)),
    doc="y = r · (u - x̂ · mean (u · x̂)), u = g · scale, x̂ = x · r",
)
BATCH_NORM = operator(
    "batch_norm",
    BatchNormAttrs,
    ("x", "scale", "bias", "mean", "variance"),
    ("y", "mean", "variance", "saved_mean", "saved_inverse"),
    infer=_infer_batch,
    gradient=_batch_gradient,
    # A model's running statistics have one place each: who plans memory must write the new over the old.
    inplace=Inplace(allowed=((0, 0), (3, 1), (4, 2)), enforced=((3, 1), (4, 2))),
    precision=Precision(Runs.FOLLOW, (3, 4)),
    work=per_element(7),
    stand_ins={3: 1, 4: 2},
    batched=batched_within(axis=-1),
    example=Example(BatchNormAttrs(), (MATRIX, *(ROW,) * 4), wide=(3, 4)),
    doc="y = (x - m) · r · scale + bias, m and r per channel; mean' = momentum · mean + (1 - momentum) · m",
)
BATCH_NORM_GRADIENT = operator(
    "batch_norm_gradient",
    BatchNormAttrs,
    ("g", "x", "mean", "inverse", "scale"),
    ("y", "scale_gradient", "bias_gradient"),
    infer=_infer_batch_gradient,
    gradient=by_decomposition(_composed_batch_gradient),
    inplace=Inplace(allowed=((0, 0), (1, 0))),
    precision=Precision(Runs.FOLLOW, (2, 3)),
    work=per_element(14),
    batched=batched_within(axis=-1),
    example=Example(BatchNormAttrs(), (MATRIX, MATRIX, *(ROW,) * 3), wide=(2, 3)),
    doc="scale' = sum g · x̂, bias' = sum g, y = r · scale · (g - mean g - x̂ · mean (g · x̂)), per channel",
)


# ---- functions
