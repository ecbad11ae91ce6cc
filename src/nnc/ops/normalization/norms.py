"""Norms as functions: over axes (layer, RMS), over groups of channels, over examples (instance, batch)."""

from __future__ import annotations

from collections.abc import Iterable

from nnc.core.values.command import Command
from nnc.errors import ShapeError
from nnc.ops.convolutions.window import check_layout
from nnc.ops.elementwise.pointwise import add, affine, cast, multiply, reciprocal, sqrt, subtract
from nnc.ops.movement.broadcast import normalize_axes, reshape
from nnc.ops.normalization.normalization import (
    BATCH_NORM,
    LAYER_NORM,
    RMS_NORM,
    BatchNormAttrs,
    NormalizationAttrs,
    _infer_batch,
)
from nnc.ops.operand import T

__all__ = ["batch_norm", "batch_norm_inference", "group_norm", "instance_norm", "layer_norm", "rms_norm"]


def layer_norm(
    x: T, scale: T | None = None, bias: T | None = None, *, axes: int | Iterable[int] = -1, epsilon: float = 1e-5
) -> T:
    """x normalized over `axes`; scale and bias have the sizes of these axes."""
    chosen = normalize_axes("layer_norm", axes, x.spec.rank)
    attrs = NormalizationAttrs(chosen, chosen, epsilon)
    return x.apply(Command(LAYER_NORM, attrs), (x, scale, bias))[0]


def rms_norm(x: T, scale: T | None = None, *, axes: int | Iterable[int] = -1, epsilon: float = 1e-5) -> T:
    """x divided by its root mean square over `axes` (Zhang & Sennrich 2019)."""
    chosen = normalize_axes("rms_norm", axes, x.spec.rank)
    attrs = NormalizationAttrs(chosen, chosen, epsilon)
    return x.apply(Command(RMS_NORM, attrs), (x, scale))[0]


def group_norm(x: T, groups: int, scale: T | None = None, bias: T | None = None, *, epsilon: float = 1e-5) -> T:
    """x[batch, …, channels] normalized per example over all but the batch, in groups of channels (Wu & He 2018)."""
    check_layout("group_norm", x.spec)
    if x.spec.rank < 2 or groups < 1 or x.shape[-1] % groups:
        got = f"{x.spec} in {groups} groups"
        raise ShapeError("group_norm", got=got, need="[batch, …, channels], channels divisible by groups ≥ 1")
    split = (groups, x.shape[-1] // groups)
    inner = tuple(range(1, x.spec.rank - 1))
    attrs = NormalizationAttrs((*inner, x.spec.rank), (x.spec.rank - 1, x.spec.rank), epsilon)
    parameters = (None if parameter is None else reshape(parameter, split) for parameter in (scale, bias))
    parts = reshape(x, (*x.shape[:-1], *split))
    return reshape(parts.apply(Command(LAYER_NORM, attrs), (parts, *parameters))[0], x.shape)


def instance_norm(x: T, scale: T | None = None, bias: T | None = None, *, epsilon: float = 1e-5) -> T:
    """x[batch, spatial…, channels] normalized per example and channel over the spatial axes (Ulyanov et al. 2016)."""
    check_layout("instance_norm", x.spec)
    if x.spec.rank < 3:
        raise ShapeError("instance_norm", got=str(x.spec), need="at least three dimensions [batch, spatial…, channels]")
    attrs = NormalizationAttrs(tuple(range(1, x.spec.rank - 1)), (x.spec.rank - 1,), epsilon)
    return x.apply(Command(LAYER_NORM, attrs), (x, scale, bias))[0]


def batch_norm(
    x: T, scale: T, bias: T, mean: T, variance: T, *, epsilon: float = 1e-5, momentum: float = 0.9
) -> tuple[T, T, T]:
    """(y, mean', variance') of a training step: x normalized per channel, and the next running statistics."""
    attrs = BatchNormAttrs(epsilon, momentum)
    y, next_mean, next_variance, *_ = x.apply(Command(BATCH_NORM, attrs), (x, scale, bias, mean, variance))
    return y, next_mean, next_variance


def batch_norm_inference(x: T, scale: T, bias: T, mean: T, variance: T, *, epsilon: float = 1e-5) -> T:
    """y = (x - mean) · scale / √(variance + ε) + bias, with fixed statistics: one factor and one shift per channel."""
    _infer_batch(BatchNormAttrs(epsilon), tuple(operand.spec for operand in (x, scale, bias, mean, variance)))
    inverse = cast(reciprocal(sqrt(affine(variance, 1.0, epsilon))), x.spec.dtype)
    factor = multiply(scale, inverse)
    shift = subtract(bias, multiply(cast(mean, x.spec.dtype), factor))
    return add(multiply(x, factor), shift)
