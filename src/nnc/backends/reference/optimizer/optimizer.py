"""Optimizers: the next parameter and state from a gradient, all written at the end, so that any may be in place."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, widen, write
from nnc.ops.elementwise.forward import sign
from nnc.ops.optimizer import optimizer as ops
from nnc.ops.optimizer.adafactor import ADAFACTOR, AdafactorAttrs
from nnc.ops.optimizer.optimizer import (
    AdadeltaAttrs,
    AdagradAttrs,
    AdamAttrs,
    AdamaxAttrs,
    GradientDescentAttrs,
    LambAttrs,
    LionAttrs,
    MomentsAttrs,
    MuonAttrs,
    NadamAttrs,
    RMSPropAttrs,
    SGDAttrs,
)


def scalar(array: Array | None) -> float:
    """The one element, as a Python number."""
    return float(widen(array).item())


def gradient_descent(attrs: GradientDescentAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """w' = w - rate · (g + decay · w)."""
    g, w = (widen(array) for array in inputs[:2])
    write(outputs[0], w - scalar(inputs[2]) * (g + attrs.decay * w))


def sgd(attrs: SGDAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """m' = momentum · m + (1 - dampening) · (g + decay · w); w' = w - rate · m'; Nesterov's form looks ahead."""
    g, w, m = (widen(array) for array in inputs[:3])
    rate = scalar(inputs[3])
    slope = g + attrs.decay * w
    if attrs.rate_inside:
        slope, rate = rate * slope, 1.0
    if attrs.nesterov:
        moment = attrs.momentum * m + slope
        move = slope + attrs.momentum * moment
    else:
        moment = attrs.momentum * m + (1 - attrs.dampening) * slope
        move = moment
    write(outputs[0], w - rate * move)
    write(outputs[1], moment)


def moments(attrs: MomentsAttrs, slope: Array, m: Array, v: Array, step: float) -> tuple[Array, Array, Array, Array]:
    """m' = β₁ m + (1 - β₁) s; v' = β₂ v + (1 - β₂) s²; and both without their bias to the zeros they started from."""
    moment = attrs.beta1 * m + (1 - attrs.beta1) * slope
    variance = attrs.beta2 * v + (1 - attrs.beta2) * np.square(slope)
    return moment, variance, moment / (1 - attrs.beta1**step), variance / (1 - attrs.beta2**step)


def adam_slope(attrs: AdamAttrs, g: Array, w: Array, rate: float) -> tuple[Array, Array]:
    """The slope, and the parameter after its own decay: the decay is in the one or in the other."""
    if attrs.decoupled:
        return g, w - rate * attrs.decay * w
    return g + attrs.decay * w, w


def adam(attrs: AdamAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """w' = w - rate · m̂ / (√v̂ + ε), decay coupled or not."""
    g, w, m, v = (widen(array) for array in inputs[:4])
    rate, step = scalar(inputs[4]), scalar(inputs[5])
    slope, shrunk = adam_slope(attrs, g, w, rate)
    moment, variance, mean, square = moments(attrs, slope, m, v, step)
    write(outputs[0], shrunk - rate * mean / (np.sqrt(square) + adam_epsilon(attrs, step)))
    write(outputs[1], moment)
    write(outputs[2], variance)


def adam_epsilon(attrs: AdamAttrs, step: float) -> float:
    """ε beside √v̂."""
    return float(attrs.epsilon / np.sqrt(1 - attrs.beta2**step)) if attrs.epsilon_hat else attrs.epsilon


def amsgrad(attrs: AdamAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """w' = w - rate · m̂ / (√(top' / (1 - β₂ᵗ)) + ε), top' = max(top, v')."""
    g, w, m, v, top = (widen(array) for array in inputs[:5])
    rate, step = scalar(inputs[5]), scalar(inputs[6])
    slope, shrunk = adam_slope(attrs, g, w, rate)
    moment, variance, mean, _ = moments(attrs, slope, m, v, step)
    highest = np.maximum(top, variance)
    deviation = np.sqrt(highest / (1 - attrs.beta2**step)) + adam_epsilon(attrs, step)
    write(outputs[0], shrunk - rate * mean / deviation)
    for output, value in zip(outputs[1:], (moment, variance, highest), strict=True):
        write(output, value)


def nadam(attrs: NadamAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """w' = w - rate · (μ(t+1) m' / (1 - M μ(t+1)) + (1 - μ(t)) s / (1 - M)) / (√v̂ + ε)."""
    g, w, m, v = (widen(array) for array in inputs[:4])
    rate, step = scalar(inputs[4]), scalar(inputs[5])
    slope = g + attrs.decay * w
    moment, variance, _, square = moments(attrs, slope, m, v, step)
    weights = attrs.beta1 * (1 - 0.5 * 0.96 ** (attrs.momentum_decay * np.arange(1, max(int(step), 1) + 2)))
    now, later, product = weights[-2], weights[-1], weights[:-1].prod()
    ahead = later / (1 - product * later) * moment + (1 - now) / (1 - product) * slope
    write(outputs[0], w - rate * ahead / (np.sqrt(square) + attrs.epsilon))
    write(outputs[1], moment)
    write(outputs[2], variance)


def norm(x: Array) -> float:
    """The 2-norm of all elements, summed in f64."""
    return float(np.sqrt(np.sum(np.square(x, dtype=np.float64))))


def lamb(attrs: LambAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """w' = w - rate · |w| / |d| · d, d = m̂ / (√v̂ + ε) + decay · w; without the ratio when either norm is 0."""
    g, w, m, v = (widen(array) for array in inputs[:4])
    rate, step = scalar(inputs[4]), scalar(inputs[5])
    moment, variance, mean, square = moments(attrs, g, m, v, step)
    move = mean / (np.sqrt(square) + attrs.epsilon) + attrs.decay * w
    length, reach = norm(w), norm(move)
    trust = length / reach if length and reach else 1.0
    write(outputs[0], w - rate * trust * move)
    write(outputs[1], moment)
    write(outputs[2], variance)


def root_with_epsilon(square: Array, epsilon: float, inside: bool) -> Array:
    """√x + ε, or √(x + ε)."""
    root: Array = np.sqrt(square + epsilon) if inside else np.sqrt(square) + epsilon
    return root


def rmsprop(attrs: RMSPropAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """v' = α v + (1 - α) s²; m' = momentum · m + s / (√v' + ε); w' = w - rate · m'; a fourth state is the mean."""
    g, w, m, v, *mean = (widen(array) for array in inputs[: len(outputs) + 1])
    rate = scalar(inputs[len(outputs) + 1])
    slope = g + attrs.decay * w
    variance = attrs.alpha * v + (1 - attrs.alpha) * np.square(slope)
    means = [attrs.alpha * earlier + (1 - attrs.alpha) * slope for earlier in mean]
    spread = variance - np.square(means[0]) if means else variance
    move = slope / root_with_epsilon(spread, attrs.epsilon, attrs.epsilon_inside)
    moment = attrs.momentum * m + (rate * move if attrs.rate_inside else move)
    write(outputs[0], w - (moment if attrs.rate_inside else rate * moment))
    for output, value in zip(outputs[1:], (moment, variance, *means), strict=True):
        write(output, value)


def rmsprop_plain(attrs: RMSPropAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """v' = α v + (1 - α) s²; w' = w - rate · s / (√v' + ε)."""
    g, w, v = (widen(array) for array in inputs[:3])
    slope = g + attrs.decay * w
    variance = attrs.alpha * v + (1 - attrs.alpha) * np.square(slope)
    write(outputs[0], w - scalar(inputs[3]) * slope / root_with_epsilon(variance, attrs.epsilon, attrs.epsilon_inside))
    write(outputs[1], variance)


def adagrad(attrs: AdagradAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """v' = v + s²; w' = w - rate · s / (√v' + ε)."""
    g, w, v = (widen(array) for array in inputs[:3])
    slope = g + attrs.decay * w
    variance = v + np.square(slope)
    root = root_with_epsilon(variance + attrs.initial, attrs.epsilon, attrs.epsilon_inside)
    write(outputs[0], w - scalar(inputs[3]) * slope / root)
    write(outputs[1], variance)


def lion(attrs: LionAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """w' = w - rate · (sign(β₁ m + (1 - β₁) g) + decay · w); m' = β₂ m + (1 - β₂) g."""
    g, w, m = (widen(array) for array in inputs[:3])
    direction = sign(attrs.beta1 * m + (1 - attrs.beta1) * g)
    moment = attrs.beta2 * m + (1 - attrs.beta2) * g
    write(outputs[0], w - scalar(inputs[3]) * (direction + attrs.decay * w))
    write(outputs[1], moment)


def adadelta(attrs: AdadeltaAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """v' = ρ v + (1 - ρ) s²; d = √(u + ε) / √(v' + ε) · s; u' = ρ u + (1 - ρ) d²; w' = w - rate · d."""
    g, w, v, u = (widen(array) for array in inputs[:4])
    slope = g + attrs.decay * w
    variance = attrs.rho * v + (1 - attrs.rho) * np.square(slope)
    move = np.sqrt(u + attrs.epsilon) / np.sqrt(variance + attrs.epsilon) * slope
    write(outputs[0], w - scalar(inputs[4]) * move)
    write(outputs[1], variance)
    write(outputs[2], attrs.rho * u + (1 - attrs.rho) * np.square(move))


def adamax(attrs: AdamaxAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """m' = β₁ m + (1 - β₁) s; u' = max(β₂ u, |s| + ε); w' = w - rate / (1 - β₁ᵗ) · m' / u'."""
    g, w, m, u = (widen(array) for array in inputs[:4])
    slope = g + attrs.decay * w
    moment = attrs.beta1 * m + (1 - attrs.beta1) * slope
    inside, outside = (0.0, attrs.epsilon) if attrs.epsilon_outside else (attrs.epsilon, 0.0)
    largest = np.maximum(attrs.beta2 * u, np.abs(slope) + inside)
    factor = scalar(inputs[4]) / (1 - attrs.beta1 ** scalar(inputs[5]))
    write(outputs[0], w - factor * moment / (largest + outside))
    write(outputs[1], moment)
    write(outputs[2], largest)


# Of the polynomial that brings singular values near 1 (Jordan et al. 2024).
QUINTIC = (3.4445, -4.7750, 2.0315)


def orthogonal(x: Array, iterations: int, epsilon: float) -> Array:
    """About u · vᵀ of x = u · s · vᵀ: x = a x + (b + c x xᵀ) (x xᵀ) x, again and again from |x| = 1."""
    a, b, c = QUINTIC
    wide = x.T if x.shape[0] > x.shape[1] else x
    wide = wide / max(norm(wide), epsilon)
    for _ in range(iterations):
        square = wide @ wide.T
        wide = a * wide + (b * square + c * square @ square) @ wide
    return wide.T if x.shape[0] > x.shape[1] else wide


def muon(attrs: MuonAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """w' = w - rate · (√max(1, columns / rows) · orthogonal(momentum) + decay · w)."""
    g, w, m = (widen(array) for array in inputs[:3])
    moment = attrs.momentum * m + (1 - attrs.momentum) * g
    ahead = attrs.momentum * moment + (1 - attrs.momentum) * g if attrs.nesterov else moment
    factor = max(1.0, w.shape[1] / max(w.shape[0], 1)) ** 0.5
    move = factor * orthogonal(ahead, attrs.iterations, attrs.epsilon)
    write(outputs[0], w - scalar(inputs[3]) * (move + attrs.decay * w))
    write(outputs[1], moment)


def rms(x: Array) -> float:
    """√(mean of x²), in f64."""
    return float(np.sqrt(np.mean(np.square(x, dtype=np.float64))))


def second_moments(attrs: AdafactorAttrs, g: Array, row: Array, column: Array, kept: float) -> tuple[Array, ...]:
    """v, and what is kept of it: its rows and columns, or all of it where there are no two axes."""
    if g.ndim < 2:
        whole = kept * row + (1 - kept) * np.square(g)
        return whole, whole, column
    rows = kept * row + (1 - kept) * np.mean(np.square(g), -1)
    columns = kept * column + (1 - kept) * np.mean(np.square(g), -2)
    share = rows / np.maximum(np.mean(rows, -1, keepdims=True), attrs.epsilon1)
    return share[..., :, None] * columns[..., None, :], rows, columns


def adafactor(attrs: AdafactorAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """w' = w · (1 - rate · decay) - α · u / max(1, rms(u) / clip), u = g / √v."""
    g, w, row, column = (widen(array) for array in inputs[:4])
    rate, step = scalar(inputs[4]), scalar(inputs[5])
    if not w.size:
        for output, same in zip(outputs, (w, row, column), strict=True):
            write(output, same)
        return
    variance, rows, columns = second_moments(attrs, g, row, column, 1 - step**-attrs.decline)
    move = g / np.sqrt(np.maximum(variance, attrs.epsilon1**2))
    length = min(rate, step**-0.5) if attrs.relative else rate
    length *= max(attrs.epsilon2, rms(w)) if attrs.scaled else 1.0
    write(outputs[0], w * (1 - rate * attrs.decay) - length / max(1.0, rms(move) / attrs.clip) * move)
    write(outputs[1], rows)
    write(outputs[2], columns)


ROWS: Rows = {
    ADAFACTOR: adafactor,
    ops.GRADIENT_DESCENT: gradient_descent,
    ops.SGD: sgd,
    ops.ADAM: adam,
    ops.AMSGRAD: amsgrad,
    ops.NADAM: nadam,
    ops.LAMB: lamb,
    ops.RMSPROP: rmsprop,
    ops.RMSPROP_PLAIN: rmsprop_plain,
    ops.RMSPROP_CENTERED: rmsprop,
    ops.ADAGRAD: adagrad,
    ops.LION: lion,
    ops.ADADELTA: adadelta,
    ops.ADAMAX: adamax,
    ops.MUON: muon,
}
