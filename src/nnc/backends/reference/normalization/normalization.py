"""Normalization by statistics over some axes, computed in f64."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, widen, write
from nnc.ops.normalization import normalization as ops
from nnc.ops.normalization.normalization import BatchNormAttrs, NormalizationAttrs, over_channels, spread_shape


def mean_of(x: Array, attrs: NormalizationAttrs) -> Array:
    """The mean over the axes, which stay with size 1."""
    return np.asarray(np.mean(x, axis=attrs.axes, keepdims=True, dtype=np.float64))


def scaled(x: Array, scale: Array | None, attrs: NormalizationAttrs) -> Array:
    """x · scale."""
    return x if scale is None else x * widen(scale).reshape(spread_shape(x.shape, attrs.parameter_axes))


def shifted(x: Array, bias: Array | None, attrs: NormalizationAttrs) -> Array:
    """x + bias."""
    return x if bias is None else x + widen(bias).reshape(spread_shape(x.shape, attrs.parameter_axes))


def deviations(x: Array, attrs: NormalizationAttrs) -> tuple[Array, Array, Array]:
    """The mean, the deviations from it, and their mean square."""
    mean = mean_of(x, attrs)
    centered = x - mean
    return mean, centered, mean_of(np.square(centered), attrs)


def layer_norm(attrs: NormalizationAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = (x - m) · r · scale + bias, m = mean x, r = 1 / √(mean (x - m)² + ε)."""
    mean, centered, variance = deviations(widen(inputs[0]), attrs)
    inverse = 1 / np.sqrt(variance + attrs.epsilon)
    write(outputs[0], shifted(scaled(centered * inverse, inputs[1], attrs), inputs[2], attrs))
    write(outputs[1], mean)
    write(outputs[2], inverse)


def rms_norm(attrs: NormalizationAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = x · r · scale, r = 1 / √(mean x² + ε)."""
    x = widen(inputs[0]).astype(np.float64)
    inverse = 1 / np.sqrt(mean_of(np.square(x), attrs) + attrs.epsilon)
    write(outputs[0], scaled(x * inverse, inputs[1], attrs))
    write(outputs[1], inverse)


def layer_norm_gradient(attrs: NormalizationAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = r · (u - mean u - x̂ · mean (u · x̂)), u = g · scale, x̂ = (x - m) · r."""
    g, x, mean, inverse = (widen(array).astype(np.float64) for array in inputs[:4])
    u, unit = scaled(g, inputs[4], attrs), (x - mean) * inverse
    write(outputs[0], inverse * (u - mean_of(u, attrs) - unit * mean_of(u * unit, attrs)))


def rms_norm_gradient(attrs: NormalizationAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = r · (u - x̂ · mean (u · x̂)), u = g · scale, x̂ = x · r."""
    g, x, inverse = (widen(array).astype(np.float64) for array in inputs[:3])
    u, unit = scaled(g, inputs[3], attrs), x * inverse
    write(outputs[0], inverse * (u - unit * mean_of(u * unit, attrs)))


def batch_norm(attrs: BatchNormAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = (x - m) · r · scale + bias per channel; mean' = momentum · mean + (1 - momentum) · m, variance' likewise."""
    x, old_mean, old_variance = widen(inputs[0]), widen(inputs[3]), widen(inputs[4])
    rule = over_channels(attrs.epsilon, x.ndim)
    mean, centered, variance = deviations(x, rule)
    inverse = 1 / np.sqrt(variance + attrs.epsilon)
    y = shifted(scaled(centered * inverse, inputs[1], rule), inputs[2], rule)
    kept, fresh = attrs.momentum, 1 - attrs.momentum
    results = (y, kept * old_mean + fresh * mean, kept * old_variance + fresh * variance, mean, inverse)
    for output, value in zip(outputs, results, strict=True):
        write(output, value.reshape(output.shape))


def batch_norm_gradient(attrs: BatchNormAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """scale' = sum g · x̂, bias' = sum g, y = r · scale · (g - mean g - x̂ · mean (g · x̂)) per channel."""
    g, x, mean, inverse, scale = (widen(array).astype(np.float64) for array in inputs)
    rule, unit = over_channels(attrs.epsilon, x.ndim), (x - mean) * inverse
    write(outputs[0], inverse * scale * (g - mean_of(g, rule) - unit * mean_of(g * unit, rule)))
    write(outputs[1], np.sum(g * unit, axis=rule.axes))
    write(outputs[2], np.sum(g, axis=rule.axes))


ROWS: Rows = {
    ops.LAYER_NORM: layer_norm,
    ops.LAYER_NORM_GRADIENT: layer_norm_gradient,
    ops.RMS_NORM: rms_norm,
    ops.RMS_NORM_GRADIENT: rms_norm_gradient,
    ops.BATCH_NORM: batch_norm,
    ops.BATCH_NORM_GRADIENT: batch_norm_gradient,
}
