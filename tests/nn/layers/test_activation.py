"""Activations: a function of nnc.ops is a layer by its row alone."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from nnc import nn, ops
from nnc.nn.layers.activation import Activation
from nnc.ops.operand import T

ROWS = (
    nn.ReLU, nn.Sigmoid, nn.Tanh, nn.GELU, nn.GELUTanh, nn.SELU, nn.SiLU, nn.Softplus, nn.Mish, nn.Hardswish,
    nn.Hardsigmoid, nn.LogSigmoid, nn.Softsign,
)  # fmt: skip
X = np.linspace(-3, 3, 8, dtype=np.float32).reshape(2, 4)


class Squared(Activation, of=ops.square):
    """y = x²."""


def halved(x: T) -> T:
    return ops.affine(x, 0.5)


class Halved(Activation, of=halved):
    """y = x / 2, by a function of Python."""


def test_every_activation_without_options_is_a_row() -> None:
    assert set(ROWS) == {kind for kind in Activation.__subclasses__() if kind.__module__.startswith("nnc.")}


@pytest.mark.parametrize("kind", [*ROWS, Squared, Halved])
def test_rows_are_values(kind: type[Activation]) -> None:
    layer = kind()
    assert layer == kind()
    assert hash(layer) == hash(kind())
    assert layer != (nn.Tanh() if kind is nn.ReLU else nn.ReLU())
    assert repr(layer) == f"{kind.__name__}()"
    assert pickle.loads(pickle.dumps(layer)) == copy.copy(layer) == copy.deepcopy(layer) == layer
    with pytest.raises(FrozenInstanceError):
        layer.slope = 1.0  # type: ignore[attr-defined]


def test_an_activation_of_ones_own_is_a_row_too() -> None:
    model = nn.Model(nn.Sequential(Squared(), Halved()), (4,), seed=0)
    np.testing.assert_allclose(model.predict(X), X * X / 2, rtol=1e-6)


def test_errors_inside_name_the_layer_and_the_line_that_made_it() -> None:
    layer = nn.Softmax()
    assert layer._origin.startswith("test_activation.py:")
