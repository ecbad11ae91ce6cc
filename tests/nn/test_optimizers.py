"""Every optimizer trains a model, keeps the state it says, and refuses options without sense."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnc.errors import AttributeValueError
from nnc.nn import (
    Adagrad,
    Adam,
    AdamW,
    Dense,
    Lamb,
    Lion,
    Model,
    Optimizer,
    RMSProp,
    Sequential,
    StochasticGradientDescent,
    Tanh,
)

OPTIMIZERS: tuple[tuple[Optimizer, tuple[str, ...]], ...] = (
    (StochasticGradientDescent(0.1), ("momentum",)),
    (StochasticGradientDescent(0.1, nesterov=True, decay=1e-4), ("momentum",)),
    (Adam(0.02), ("moment", "variance")),
    (Adam(0.02, amsgrad=True), ("moment", "variance", "top")),
    (AdamW(0.02), ("moment", "variance")),
    (AdamW(0.02, amsgrad=True), ("moment", "variance", "top")),
    (Lamb(0.02), ("moment", "variance")),
    (RMSProp(0.01, momentum=0.5), ("moment", "variance")),
    (Adagrad(0.1), ("variance",)),
    (Lion(0.01), ("moment",)),
)


@pytest.mark.parametrize(("optimizer", "states"), OPTIMIZERS, ids=[repr(row[0]) for row in OPTIMIZERS])
def test_a_model_learns(optimizer: Optimizer, states: tuple[str, ...]) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((32, 4)).astype(np.float32)
    labels = (x[:, 0] > x[:, 1]).astype(np.int32)
    model = Model(Sequential(Dense(8), Tanh(), Dense(2)), (4,), optimizer=optimizer)
    assert optimizer.state_names() == states
    assert set(model.states) == {f"{path}.{state}" for path in model.parameters for state in states}
    first, _ = model.train_on_batch(x, labels)
    for _ in range(40):
        last, _ = model.train_on_batch(x, labels)
    assert last < 0.6 * first


BAD: tuple[Callable[[], Optimizer], ...] = (
    lambda: StochasticGradientDescent(momentum=1.0),
    lambda: Adam(beta1=1.0),
    lambda: Adam(epsilon=0.0),
    lambda: AdamW(beta2=-0.1),
    lambda: AdamW(decay=-1.0),
    lambda: Lamb(beta1=1.5),
    lambda: RMSProp(alpha=1.0),
    lambda: RMSProp(epsilon=float("nan")),
    lambda: Adagrad(epsilon=0.0),
    lambda: Lion(decay=-0.1),
)


@pytest.mark.parametrize("make", BAD)
def test_refusals(make: Callable[[], Optimizer]) -> None:
    with pytest.raises(AttributeValueError, match="need"):
        make()
