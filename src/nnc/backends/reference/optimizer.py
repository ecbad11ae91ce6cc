"""Optimizers: the next parameter and state from a gradient, all written at the end, so that any may be in place."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, widen, write
from nnc.ops.optimizer import AdamAttrs, SgdAttrs


def scalar(array: Array | None) -> float:
    """The one element, as a Python number."""
    return float(widen(array).item())


def sgd(attrs: SgdAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """m' = momentum · m + (1 - dampening) · (g + decay · w); w' = w - rate · m'; Nesterov's form looks ahead."""
    g, w, m = (widen(array) for array in inputs[:3])
    rate = scalar(inputs[3])
    slope = g + attrs.decay * w
    if attrs.nesterov:
        moment = attrs.momentum * m + slope
        move = slope + attrs.momentum * moment
    else:
        moment = attrs.momentum * m + (1 - attrs.dampening) * slope
        move = moment
    write(outputs[0], w - rate * move)
    write(outputs[1], moment)


def adam(attrs: AdamAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """m' = β₁ m + (1 - β₁) g; v' = β₂ v + (1 - β₂) g²; w' = w - rate · m̂ / (√v̂ + ε), decay coupled or not."""
    g, w, m, v = (widen(array) for array in inputs[:4])
    rate, step = scalar(inputs[4]), scalar(inputs[5])
    slope = g if attrs.decoupled else g + attrs.decay * w
    moment = attrs.beta1 * m + (1 - attrs.beta1) * slope
    variance = attrs.beta2 * v + (1 - attrs.beta2) * np.square(slope)
    mean = moment / (1 - attrs.beta1**step)
    deviation = np.sqrt(variance / (1 - attrs.beta2**step))
    shrunk = w - rate * attrs.decay * w if attrs.decoupled else w
    write(outputs[0], shrunk - rate * mean / (deviation + attrs.epsilon))
    write(outputs[1], moment)
    write(outputs[2], variance)
