"""Models compiled and fitted as Keras' users write it."""

from __future__ import annotations

import numpy as np
import pytest

from nnc import nn
from nnc.errors import ArgumentError, ArityError
from nnc.nn.model.by_name import LOSSES, OPTIMIZERS, loss_of, optimizer_of

X = np.random.default_rng(0).standard_normal((64, 4)).astype(np.float32)
LABELS = (X[:, 0] > 0).astype(np.int32)


def test_compile_and_fit_by_position() -> None:
    model = nn.Model(nn.Sequential(nn.Dense(8), nn.ReLU(), nn.Dense(2)), (4,))
    before = model.state_dict()
    model.compile(optimizer="sgd", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    for path, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[path])
    history = model.fit(X, LABELS, 16, 3)
    assert (len(history), model.updates, model.optimizer) == (3, 12, nn.SGD(momentum=0.0))
    assert history["accuracy"][-1] > history["accuracy"][0] - 0.2
    assert history["loss"][-1] < history["loss"][0]


def test_a_loss_set_anew_is_that_of_the_next_update() -> None:
    model = nn.Model(nn.Dense(1), (4,), loss=nn.MeanSquaredError(), backend="reference")
    twin = nn.Model(nn.Dense(1), (4,), loss=nn.MeanAbsoluteError(), backend="reference")
    targets = X[:, :1] * 2.0
    model.evaluate(X, targets)
    model.compile(loss="mae")
    assert model.evaluate(X, targets) == twin.evaluate(X, targets)
    assert model.train_on_batch(X, targets) == twin.train_on_batch(X, targets)


def test_each_name_makes_a_value() -> None:
    assert all(isinstance(optimizer_of(name), nn.Optimizer) for name in OPTIMIZERS)
    assert all(isinstance(loss_of("Model", name), nn.Loss) for name in LOSSES)


def test_other_names_and_numbers_are_told() -> None:
    model = nn.Model(nn.Dense(1), (4,), loss=nn.MeanSquaredError())
    with pytest.raises(ArgumentError, match="did you mean 'adam'"):
        model.compile("adamm")
    with pytest.raises(ArgumentError, match="loss='rmse'; need one of mse"):
        model.compile(loss="rmse")
    with pytest.raises(ArityError, match="2 losses; need 1"):
        model.compile(loss=["mse", "mae"])
    assert (model.optimizer, model.loss) == (nn.Adam(), nn.MeanSquaredError())
