"""Copies of fitted models: by copy.deepcopy, by pickle, and by clone_model."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnc import keras

X = np.random.default_rng(0).standard_normal((32, 4)).astype(np.float32)
Y = X.sum(1, keepdims=True)


def sequential() -> Any:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])


def functional() -> Any:
    start = keras.Input((4,))
    branches = [keras.layers.Dense(8)(start), keras.layers.Dense(8, activation="tanh")(start)]
    return keras.Model(start, keras.layers.Dense(1)(keras.layers.Add()(branches)))


def same(left: Any, right: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.fixture(params=[sequential, functional])
def fitted(request: pytest.FixtureRequest) -> Any:
    model = request.param()
    model.compile(optimizer="adam", loss="mse")
    model.fit(X, Y, epochs=2, verbose=0)
    return model


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_goes_on_by_itself_with_the_optimizer_as_it_was(fitted: Any, copied: Callable[[Any], Any]) -> None:
    before, twin = fitted.get_weights(), copied(fitted)
    assert same(twin.get_weights(), before)
    twin.fit(X, Y, epochs=1, verbose=0, shuffle=False)
    assert same(fitted.get_weights(), before)
    assert not same(twin.get_weights(), before)
    fitted.fit(X, Y, epochs=1, verbose=0, shuffle=False)
    assert same(fitted.get_weights(), twin.get_weights())


def test_a_clone_begins_anew(fitted: Any) -> None:
    before, clone = fitted.get_weights(), keras.models.clone_model(fitted)
    assert [weight.shape for weight in clone.get_weights()] == [weight.shape for weight in before]
    assert not same(clone.get_weights(), before)
    clone.set_weights(before)
    np.testing.assert_array_equal(clone.predict(X, verbose=0), fitted.predict(X, verbose=0))


def test_attention_has_its_weights_in_keras_order() -> None:
    layer = keras.layers.MultiHeadAttention(2, 3, value_dim=5)
    query = np.zeros((1, 4, 8), np.float32)
    layer(query, query)
    shapes = [(8, 2, 3), (2, 3), (8, 2, 3), (2, 3), (8, 2, 5), (2, 5), (2, 5, 8), (8,)]
    assert [weight.shape for weight in layer.get_weights()] == shapes
