"""Optimizers of ONNX's training set (in preview): rate, count of steps, then all x, all gradients, all states."""

from __future__ import annotations

from collections.abc import Callable

from nnc import ops
from nnc.onnx.node import NodeCall, OnnxRow, Operand, Results

Update = Callable[[NodeCall, Operand, Operand, tuple[Operand, ...]], tuple[Operand, ...]]


def _updates(states: int, update: Update) -> OnnxRow:
    """(new x for all, then each new state for all)"""

    def build(call: NodeCall) -> Results:
        count = (len(call) - 2) // (2 + states)
        groups = [[call[2 + part * count + place] for part in range(2 + states)] for place in range(count)]
        changed = [update(call, x, g, tuple(rest)) for x, g, *rest in groups]
        return tuple(operand[part] for part in range(1 + states) for operand in changed)

    return OnnxRow(build)


def _decayed(call: NodeCall, x: Operand, g: Operand) -> Operand:
    return g + x * call.real("norm_coefficient", 0.0)


def _adagrad(call: NodeCall, x: Operand, g: Operand, states: tuple[Operand, ...]) -> tuple[Operand, ...]:
    (total,) = states
    rate = call[0] / (ops.cast(call[1], call[0].spec.dtype) * call.real("decay_factor", 0.0) + 1.0)
    g = _decayed(call, x, g)
    total = total + ops.square(g)
    return x - rate * g / (ops.sqrt(total) + call.real("epsilon", 0.0)), total


def _adam(call: NodeCall, x: Operand, g: Operand, states: tuple[Operand, ...]) -> tuple[Operand, ...]:
    first, second = states
    alpha, beta = call.real("alpha", 0.9), call.real("beta", 0.999)
    g = _decayed(call, x, g)
    first, second = first * alpha + g * (1.0 - alpha), second * beta + ops.square(g) * (1.0 - beta)
    steps = ops.cast(call[1], call[0].spec.dtype)
    unit = ops.fill_like(steps, 1.0)
    powers = [ops.power(unit * base, steps) for base in (alpha, beta)]
    corrected = call[0] * ops.sqrt(unit - powers[1]) / (unit - powers[0])
    rate = ops.where(steps > 0.0, corrected, call[0])
    x = x - rate * first / (ops.sqrt(second) + call.real("epsilon", 0.0))
    return x * (1.0 - call.real("norm_coefficient_post", 0.0)), first, second


def _momentum(call: NodeCall, x: Operand, g: Operand, states: tuple[Operand, ...]) -> tuple[Operand, ...]:
    (velocity,) = states
    alpha = call.real("alpha")
    steps = ops.cast(call[1], call[0].spec.dtype)
    beta = ops.where(steps > 0.0, ops.fill_like(steps, call.real("beta")), ops.fill_like(steps, 1.0))
    g = _decayed(call, x, g)
    velocity = velocity * alpha + g * beta
    step = g + velocity * alpha if call.text("mode") == "nesterov" else velocity
    return x - call[0] * step, velocity


DOMAIN = "ai.onnx.preview.training"
ROWS = {
    f"{DOMAIN}.Adagrad": _updates(1, _adagrad),
    f"{DOMAIN}.Adam": _updates(2, _adam),
    f"{DOMAIN}.Momentum": _updates(1, _momentum),
}
