"""Every optimizer trains a model, keeps the state it says, and refuses options without sense."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnc.errors import AttributeValueError
from nnc.nn import (
    SGD,
    Adagrad,
    Adam,
    AdamW,
    Dense,
    Lamb,
    Lion,
    Model,
    Optimizer,
    PerParameter,
    RMSProp,
    Sequential,
    Tanh,
)
from nnc.nn.schedules import Constant

OPTIMIZERS: tuple[tuple[Optimizer, tuple[str, ...]], ...] = (
    (SGD(0.1), ("momentum",)),
    (SGD(0.1, momentum=0.0, decay=1e-4), ()),
    (SGD(0.1, nesterov=True, decay=1e-4), ("momentum",)),
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
    lambda: SGD(momentum=1.0),
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


def halves() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((32, 4)).astype(np.float32)
    return x, (x[:, 0] > x[:, 1]).astype(np.int32)


def test_parameters_have_optimizers_of_their_own() -> None:
    """Biases decay not, the first layer is frozen, and the second layer's weight has a rate of its own."""
    x, labels = halves()
    plain, slow = AdamW(0.01, decay=0.5), SGD(Constant(1e-3), momentum=0.5)
    optimizer = PerParameter(plain, (("0.*", None), ("*.bias", AdamW(0.01, decay=0.0)), ("2.weight", slow)))
    model = Model(Sequential(Dense(8), Tanh(), Dense(2), Dense(2)), (4,), optimizer=optimizer)
    assert optimizer.state_names() == ("moment", "variance")
    assert {name.rpartition(".")[0] for name in model.states} == {"2.weight", "2.bias", "3.weight", "3.bias"}
    assert [name for name in model.states if name.startswith("2.weight")] == ["2.weight.momentum"]
    assert optimizer.scalars(3) == {"rate": 0.01, "step": 3.0, "rate.*.bias": 0.01, "rate.2.weight": 1e-3}
    before = model.state_dict()
    first, _ = model.train_on_batch(x, labels)
    moved = model.state_dict()["2.weight"] - before["2.weight"]
    np.testing.assert_allclose(moved, -1e-3 * model.states["2.weight.momentum"].numpy(), atol=1e-7)
    for _ in range(40):
        last, _ = model.train_on_batch(x, labels)
    assert last < first
    after = model.state_dict()
    assert [path for path in before if np.array_equal(before[path], after[path])] == ["0.weight", "0.bias"]


def test_an_update_follows_no_longer_gradient_than_allowed() -> None:
    x, labels = halves()
    optimizer = SGD(1.0, momentum=0.0)
    steps = []
    for limit in (None, 0.01):
        model = Model(Sequential(Dense(8), Tanh(), Dense(2)), (4,), optimizer=optimizer, clip_norm=limit)
        before = model.state_dict()
        model.train_on_batch(x, labels)
        after = model.state_dict()
        steps.append(np.concatenate([(after[path] - before[path]).ravel() for path in before]))
    free, clipped = steps
    assert np.linalg.norm(free) > 0.1
    np.testing.assert_allclose(clipped, free * 0.01 / np.linalg.norm(free), rtol=1e-3, atol=1e-6)
