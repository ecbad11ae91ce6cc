"""Losses: one number per example, summed in f64."""

from __future__ import annotations

import math

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, widen, write
from nnc.backends.reference.normalization.softmaxes import one_hot
from nnc.core.values.dtype import dtype_of
from nnc.ops.elementwise.forward import sigmoid
from nnc.ops.loss import loss as ops
from nnc.ops.loss.loss import (
    BinaryCrossEntropyAttrs,
    CategoricalCrossEntropyAttrs,
    LabelDistributionAttrs,
    LossAttrs,
    LossReduction,
    SmoothL1Attrs,
)


def reduced(elements: Array, reduction: LossReduction) -> Array:
    """Mean or sum over all axes but the first."""
    total = np.sum(elements, axis=tuple(range(1, elements.ndim)), dtype=np.float64)
    count = max(math.prod(elements.shape[1:]), 1) if reduction is LossReduction.MEAN else 1
    return np.asarray(total / count)


def logarithm(x: Array, least: float) -> Array:
    """ln max(x, least); nan stays nan."""
    return np.asarray(np.log(np.maximum(x, least)))


def distribution(labels: Array, classes: int, smoothing: float) -> Array:
    """(1 - s) · [c == label[…]] + s / classes; nan for a label outside the classes."""
    valid = (labels >= 0) & (labels < classes)
    spread = (1 - smoothing) * one_hot(labels, classes) + smoothing / classes
    return np.where(valid[..., None], spread, np.nan)


def mean_squared_error(attrs: LossAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """loss[n] = ⊕ (x - t)²."""
    x, target = (widen(array) for array in inputs)
    write(outputs[0], reduced(np.square(x - target), attrs.reduction))


def smooth_l1(attrs: SmoothL1Attrs, inputs: Inputs, outputs: Outputs) -> None:
    """loss[n] = ⊕ d² / 2β where |d| < β, else |d| - β / 2; d = x - t."""
    x, target = (widen(array) for array in inputs)
    size = np.abs(x - target)
    elements = np.where(size < attrs.beta, np.square(size) / (2 * attrs.beta), size - attrs.beta / 2)
    write(outputs[0], reduced(elements, attrs.reduction))


def binary_cross_entropy(attrs: BinaryCrossEntropyAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """loss[n] = ⊕ -(w · t · ln x + (1 - t) · ln (1 - x))."""
    x, target = (widen(array) for array in inputs)
    least = ops.LEAST[dtype_of(outputs[0].dtype)]
    positive = attrs.positive_weight * target * logarithm(x, least.probability)
    negative = (1 - target) * logarithm(1 - x, least.complement)
    write(outputs[0], reduced(-positive - negative, attrs.reduction))


def sigmoid_binary_cross_entropy(attrs: BinaryCrossEntropyAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """loss[n] = ⊕ (1 - t) · x + (1 + (w - 1) · t) · ln (1 + e^-x); probability = sigmoid(x)."""
    x, target = (widen(array) for array in inputs)
    softplus = np.maximum(-x, 0) + np.log1p(np.exp(-np.abs(x)))
    elements = (1 - target) * x + (1 + (attrs.positive_weight - 1) * target) * softplus
    probability = sigmoid(x)
    write(outputs[0], reduced(elements, attrs.reduction))
    write(outputs[1], probability)


def categorical_cross_entropy(attrs: CategoricalCrossEntropyAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """loss[n…] = -sum_c t'[n…, c] · ln x[n…, c]."""
    x, target = (widen(array) for array in inputs)
    classes, least = x.shape[-1], ops.LEAST[dtype_of(outputs[0].dtype)].probability
    if target.dtype.kind == "f":
        wanted = (1 - attrs.smoothing) * target + attrs.smoothing / classes
    else:
        wanted = distribution(target, classes, attrs.smoothing)
    write(outputs[0], np.asarray(-np.sum(wanted * logarithm(x, least), axis=-1, dtype=np.float64)))


def label_distribution(attrs: LabelDistributionAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[n…, c] = (1 - s) · [c == label[n…]] + s / classes."""
    write(outputs[0], distribution(widen(inputs[0]), attrs.classes, attrs.smoothing))


ROWS: Rows = {
    ops.MEAN_SQUARED_ERROR: mean_squared_error,
    ops.SMOOTH_L1: smooth_l1,
    ops.BINARY_CROSS_ENTROPY: binary_cross_entropy,
    ops.SIGMOID_BINARY_CROSS_ENTROPY: sigmoid_binary_cross_entropy,
    ops.CATEGORICAL_CROSS_ENTROPY: categorical_cross_entropy,
    ops.LABEL_DISTRIBUTION: label_distribution,
}
