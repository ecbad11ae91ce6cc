"""Connectionist temporal classification, in f64, all examples at once."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, write
from nnc.classes import dataclass
from nnc.errors import IndexRangeError
from nnc.ops.loss import ctc as ops
from nnc.ops.loss.ctc import LEAST, NOTHING, CtcAttrs


@dataclass(frozen=True, slots=True)
class _Steps:
    """Costs [n, t, i] of the extended labels [n, i], and 0 or NOTHING where an alignment may skip a blank."""

    costs: Array
    extended: Array
    skip: Array
    lengths: Array
    label_lengths: Array

    def forward(self) -> Array:
        """alpha[t, n, i]; behind the end of an example it stays."""
        alpha = np.full((self.costs.shape[1], *self.extended.shape), NOTHING)
        alpha[0, :, :2] = self.costs[:, 0, :2]
        for step in range(1, len(alpha)):
            past = np.pad(alpha[step - 1], ((0, 0), (2, 0)), constant_values=NOTHING)
            ways = np.logaddexp(np.logaddexp(past[:, 2:], past[:, 1:-1]), past[:, :-2] + self.skip)
            alpha[step] = np.where(step < self.lengths[:, None], ways + self.costs[:, step], alpha[step - 1])
        return alpha

    def backward(self) -> Array:
        """beta[t, n, i] of what follows from step t on, its own cost included."""
        beta = np.full((self.costs.shape[1], *self.extended.shape), NOTHING)
        place = np.arange(self.extended.shape[1])
        last = 2 * self.label_lengths[:, None]
        ends = (place == last) | (place == last - 1)
        skip = np.pad(self.skip, ((0, 0), (0, 2)), constant_values=NOTHING)[:, 2:]
        for step in reversed(range(len(beta))):
            cost = self.costs[:, step]
            if step + 1 < len(beta):
                next_ = np.pad(beta[step + 1], ((0, 0), (0, 2)), constant_values=NOTHING)
                ways = np.logaddexp(np.logaddexp(next_[:, :-2], next_[:, 1:-1]), next_[:, 2:] + skip)
                beta[step] = np.where(step + 1 < self.lengths[:, None], ways + cost, NOTHING)
            ending = ends & (step + 1 == self.lengths[:, None])
            beta[step] = np.where(ending, cost, beta[step])
        return beta

    def total(self, alpha: Array) -> Array:
        """ln of the sum over alignments."""
        rows, last = np.arange(len(self.lengths)), 2 * self.label_lengths
        before = np.where(last > 0, alpha[-1][rows, np.maximum(last - 1, 0)], NOTHING)
        logarithms = np.logaddexp(alpha[-1][rows, last], before)
        return np.where(self.lengths == 0, np.where(last == 0, 0.0, NOTHING), logarithms)


def _steps(attrs: CtcAttrs, inputs: Inputs) -> _Steps:
    x, labels, lengths, label_lengths = inputs
    assert x is not None
    assert labels is not None
    assert lengths is not None
    assert label_lengths is not None
    count, classes = labels.shape[1], x.shape[2]
    _within("lengths", lengths, x.shape[1])
    _within("label_lengths", label_lengths, count)
    extended = np.full((len(x), 2 * count + 1), attrs.blank, np.int64)
    extended[:, 1::2] = np.where(np.arange(count) < label_lengths[:, None], labels, attrs.blank)
    _within("a label", extended, classes - 1)
    costs = np.take_along_axis(x.astype(np.float64), extended[:, None, :], 2)
    back = np.pad(extended, ((0, 0), (2, 0)), constant_values=attrs.blank)[:, :-2]
    skip = np.where((extended == attrs.blank) | (extended == back), NOTHING, 0.0)
    numbers = lengths.astype(np.int64), label_lengths.astype(np.int64)
    return _Steps(np.maximum(costs, NOTHING), extended, skip, *numbers)


def _within(what: str, values: Array, last: int) -> None:
    if values.size and not (values.min() >= 0 and values.max() <= last):
        raise IndexRangeError("ctc_loss", got=f"{what} outside its range", need=f"0 … {last}")


def ctc_loss(attrs: CtcAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """loss[n] = -ln sum over alignments a of e^(sum_t x[n, t, a[t]])."""
    steps = _steps(attrs, inputs)
    total = steps.total(steps.forward())
    write(outputs[0], np.where(total < LEAST, 0.0 if attrs.zero_infinity else np.inf, -total))


def ctc_gradient(attrs: CtcAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """slope[n, t, c] = -sum over places i of class c of what part of the alignments is there at step t."""
    steps = _steps(attrs, inputs)
    alpha = steps.forward()
    total = steps.total(alpha)
    taken = np.exp(np.minimum((alpha + steps.backward()).swapaxes(0, 1) - steps.costs - total[:, None, None], 0.0))
    inside = np.arange(taken.shape[1]) < steps.lengths[:, None]
    taken = np.where((inside & (total >= LEAST)[:, None])[:, :, None], taken, 0.0)
    slope = np.zeros((*taken.shape[:2], outputs[0].shape[2]))
    rows, moments = np.arange(len(slope))[:, None, None], np.arange(slope.shape[1])[None, :, None]
    np.subtract.at(slope, (rows, moments, steps.extended[:, None, :]), taken)
    write(outputs[0], slope)


ROWS: Rows = {ops.CTC_LOSS: ctc_loss, ops.CTC_GRADIENT: ctc_gradient}
