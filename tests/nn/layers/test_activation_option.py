"""Activations as an option: the layer behind, without a layer; texts are as before where there is none."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from nnc import nn
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.files.checkpoint import text_of
from nnc.nn.layers.activation import FUNCTIONS, ActivationName

X = np.random.default_rng(8).standard_normal((3, 4)).astype(np.float32)


def test_every_name_has_its_function() -> None:
    assert set(get_args(ActivationName)) == FUNCTIONS.keys() | {"linear"}


@pytest.mark.parametrize("name", ["relu", "tanh", "softmax"])
def test_an_option_is_the_layer_behind(name: str) -> None:
    plain = nn.Dense(5)
    plain(X)
    dense = nn.Dense(5, activation=name)
    dense.load_state_dict(plain.state_dict())
    np.testing.assert_array_equal(dense(X).numpy(), FUNCTIONS[name](plain(X)).numpy())
    images = np.ones((1, 4, 4, 2), np.float32)
    assert nn.Convolution(3, activation=name)(images).shape == (1, 4, 4, 3)


def test_texts_of_layers_without_one_are_as_before() -> None:
    assert repr(nn.Dense(3)) == text_of(nn.Dense(3)) == "Dense(units=3, bias=True)"
    assert repr(nn.Dense(3, activation="relu")) == "Dense(units=3, bias=True, activation='relu')"
    assert "activation='relu'" in text_of(nn.Dense(3, activation="relu"))
    assert repr(nn.Softmax()) == "Softmax()"
    with pytest.raises(ArgumentError, match="relu"):
        nn.Dense(3, activation="rleu")


def test_softmax_goes_along_any_axis() -> None:
    np.testing.assert_allclose(nn.Softmax(dim=0)(X).numpy().sum(0), 1, rtol=1e-6)
    np.testing.assert_allclose(np.exp(nn.LogSoftmax(dim=1)(X).numpy()).sum(1), 1, rtol=1e-6)
    with pytest.raises(ShapeError, match="an axis from -2 to 1"):
        nn.Softmax(dim=2)(X)
