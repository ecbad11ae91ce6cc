from __future__ import annotations

import numpy as np
import pytest
from tests.backends.llvm.harness import check, random, run, scalar_of

from nnc.codegen.kernels.optimizer.optimizer import AdamRule, OptimizerUpdate, SGDRule


@pytest.mark.parametrize(
    "rule", [SGDRule(0.0, 0.0, 0.0, False), SGDRule(0.9, 0.1, 0.01, False), SGDRule(0.9, 0.0, 0.01, True)], ids=str
)
def test_sgd(rule: SGDRule) -> None:
    g, w, m = (random((5003,), seed=seed) for seed in range(3))
    rate = np.array(0.1, np.float32)
    slope = g + rule.decay * w
    moment = rule.momentum * m + (slope if rule.nesterov else (1 - rule.dampening) * slope)
    move = slope + rule.momentum * moment if rule.nesterov else moment
    update = OptimizerUpdate(rule, scalar_of(w), w.size, (scalar_of(rate),))
    check(update, [g, w, m, rate], [w - rate * move, moment])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("step", [1, 1000])
def test_adam(step: int, decoupled: bool, dtype: type[np.generic]) -> None:
    rule = AdamRule(0.9, 0.999, 1e-8, 0.01, decoupled)
    g, w, m, v = (random((301,), dtype, seed).astype(np.float64) for seed in range(4))
    v = v * v
    slope = g if decoupled else g + rule.decay * w
    mean, square = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope * slope
    move = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    kept = w - 0.1 * 0.01 * w if decoupled else w
    inputs = [array.astype(dtype) for array in (g, w, m, v)]
    scalars = [np.array(0.1), np.array(step)]
    update = OptimizerUpdate(rule, scalar_of(inputs[0]), 301, tuple(scalar_of(scalar) for scalar in scalars))
    check(update, [*inputs, *scalars], [array.astype(dtype) for array in (kept - 0.1 * move, mean, square)], spread=4)


def test_everything_may_be_updated_in_place() -> None:
    g, w, m = (random((100,), seed=seed) for seed in range(3))
    want = [w - np.float32(0.5) * (m * np.float32(0.9) + g), m * np.float32(0.9) + g]
    rate = np.array(0.5, np.float32)
    run(OptimizerUpdate(SGDRule(0.9, 0.0, 0.0, False), scalar_of(w), 100, (scalar_of(rate),)), [g, w, m, rate], [w, m])
    np.testing.assert_allclose(w, want[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(m, want[1], rtol=1e-6)
