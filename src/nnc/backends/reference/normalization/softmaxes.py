"""Softmax over the last axis, its logarithm, and the cross entropy of class labels."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, widen, write
from nnc.ops.normalization import softmaxes as ops
from nnc.ops.rules import NoAttrs


def normalized(x: Array) -> tuple[Array, Array]:
    """Softmax and its logarithm; the maximum is taken off first, so that no power of e overflows."""
    shifted = x - np.max(x, axis=-1, keepdims=True)
    powers = np.exp(shifted)
    total = np.sum(powers, axis=-1, keepdims=True)
    return powers / total, shifted - np.log(total)


def one_hot(labels: Array, classes: int) -> Array:
    """[c == label[…]]; all False for a label outside the classes."""
    return np.equal(labels[..., None], np.arange(classes))


def softmax(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…, c] = e^(x[…, c] - m) / sum_d e^(x[…, d] - m)."""
    write(outputs[0], normalized(widen(inputs[0]))[0])


def log_softmax(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…, c] = x[…, c] - m - ln sum_d e^(x[…, d] - m)."""
    write(outputs[0], normalized(widen(inputs[0]))[1])


def softmax_cross_entropy(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """loss[n] = -log_softmax(x)[n, label[n]], nan for a label outside the classes; probability = softmax(x)."""
    x, labels = widen(inputs[0]), widen(inputs[1])
    probability, logarithm = normalized(x)
    valid = (labels >= 0) & (labels < x.shape[-1])
    chosen = np.take_along_axis(logarithm, np.where(valid, labels, 0)[..., None].astype(np.int64), -1)[..., 0]
    write(outputs[0], np.where(valid, -chosen, np.nan))
    write(outputs[1], probability)


def softmax_cross_entropy_gradient(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[n, c] = g[n] · (p[n, c] - [c == label[n]])."""
    g, p, labels = (widen(array) for array in inputs)
    write(outputs[0], g[..., None] * (p - one_hot(labels, p.shape[-1])))


def label_difference(attrs: NoAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[n] = sum_c h[n, c] · (p[n, c] - [c == label[n]])."""
    h, p, labels = (widen(array) for array in inputs)
    write(outputs[0], np.sum(h * (p - one_hot(labels, p.shape[-1])), axis=-1))


ROWS: Rows = {
    ops.softmax: softmax,
    ops.log_softmax: log_softmax,
    ops.SOFTMAX_CROSS_ENTROPY: softmax_cross_entropy,
    ops.SOFTMAX_CROSS_ENTROPY_GRADIENT: softmax_cross_entropy_gradient,
    ops.LABEL_DIFFERENCE: label_difference,
}
