"""Layers whose parameters start by rules of their paths."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from nnc import nn
from nnc.errors import ShapeError, UsageError
from nnc.nn.layers import initializers

NET = nn.Sequential(nn.Dense(64), nn.BatchNorm(), head=nn.Dense(64))


def test_the_first_rule_that_fits_says_how_a_parameter_starts() -> None:
    rules = (("head.weight", initializers.identity), ("*.bias", initializers.constant(0.5)))
    state = nn.Model(nn.Initialized(NET, rules), (8,)).state_dict()
    plain = nn.Model(NET, (8,)).state_dict()
    np.testing.assert_array_equal(state["head.weight"], np.eye(64))
    assert all((state[path] == 0.5).all() for path in ("0.bias", "1.bias", "head.bias"))
    np.testing.assert_array_equal(state["0.weight"], plain["0.weight"])
    assert (state["1.running_variance"] == 1.0).all()


@pytest.mark.parametrize(
    ("initializer", "deviation", "most"),
    [
        (initializers.normal(0.3, 0.0), 0.3, np.inf),
        (initializers.uniform(-0.6, 0.6), 0.6 / 3**0.5, 0.6),
        (initializers.truncated_normal(0.3), 0.3 * 0.8796, 0.6),
        (initializers.lecun_uniform, 1 / 20, 3**0.5 / 20),
    ],
)
def test_numbers_have_their_deviation_and_bounds(
    initializer: initializers.Initializer, deviation: float, most: float
) -> None:
    values = np.empty((400, 100), np.float32)
    initializer(initializers.generator_for(0, "w"), values)
    assert values.std() == pytest.approx(deviation, rel=0.02)
    assert np.abs(values).max() <= most
    assert abs(values.mean()) < deviation / 50


def test_models_of_wrapped_layers_are_copied_and_pickled() -> None:
    started = nn.Initialized(
        nn.Sequential(nn.GRU(4, layers=2, bidirectional=True), nn.PReLU()), (("1.*", initializers.constant(0.5)),)
    )
    layer = nn.Sequential(nn.Recomputed(started), head=nn.LoRA(nn.Dense(2), ("*",)))
    model = nn.Model(layer, (5, 3), loss_scale=nn.LossScale(), optimizer=nn.Adamax(), backend="reference")
    x, labels = np.ones((4, 5, 3), np.float32), np.zeros((4, 5), np.int32)
    model.train_on_batch(x, labels)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(twin.predict(x), model.predict(x))
        assert twin.scaling == model.scaling
        expected = copy.deepcopy(model)
        assert twin.train_on_batch(x, labels) == expected.train_on_batch(x, labels)


def test_rules_that_fit_nothing_are_told() -> None:
    with pytest.raises(UsageError, match=r"pattern 'haed.\*'"):
        nn.Model(nn.Initialized(NET, (("haed.*", initializers.zeros),)), (8,))
    with pytest.raises(ShapeError, match="identity: got .*need a matrix"):
        _ = nn.Model(nn.Initialized(NET, (("*.bias", initializers.identity),)), (8,)).parameters
