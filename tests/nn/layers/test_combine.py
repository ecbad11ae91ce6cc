from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import AttributeValueError, UsageError
from nnc.nn import Concatenate, Dense, Identity, Model, Parallel, ReLU, Residual, Sequential


def test_parts_are_named_by_position_or_keyword() -> None:
    layer = Sequential(Dense(8), ReLU(), head=Sequential(Dense(2)))
    assert [name for name, _ in layer.parts] == ["0", "1", "head"]
    assert list(Model(layer, (3,)).parameters) == ["0.weight", "0.bias", "head.0.weight", "head.0.bias"]
    assert repr(layer) == (
        "Sequential(0=Dense(units=8, bias=True), 1=ReLU(), head=Sequential(0=Dense(units=2, bias=True)))"
    )


def test_parts_are_taken_by_position_name_and_slice() -> None:
    layer = Sequential(Dense(8), ReLU(), head=Dense(2))
    assert layer[-1] is layer[2] is layer["head"] is layer.parts[2][1]
    assert [name for name, _ in layer[1:].parts] == ["1", "head"]
    assert layer[5:].parts == Sequential()[:1].parts == ()
    weights = Model(layer, (3,)).state_dict()
    Model(layer[:2], (3,)).load_state_dict({path: weights[path] for path in ("0.weight", "0.bias")})
    for position in (3, -4, "body", None, 1.5, (0, 1)):
        with pytest.raises(IndexError, match="Sequential: got .*; need a position below 3, or one of 0, 1, head"):
            layer[position]  # type: ignore[call-overload]  # what is tried
    with pytest.raises(IndexError, match="got 0; need a layer in it"):
        Sequential()[0]
    assert [type(part) for part in layer] == [Dense, ReLU, Dense]


def test_only_layers_are_parts() -> None:
    with pytest.raises(AttributeValueError, match="1=a function; need layers"):
        Sequential(Dense(8), lambda x: x)  # type: ignore[arg-type]  # no layer, on purpose


def test_branches_are_added_joined_or_added_to_the_input() -> None:
    x = np.array([[1.0, -2.0]], np.float32)
    double = Sequential(Identity(), Residual(Identity()))
    for layer, want in (
        (Parallel(Identity(), double, ReLU()), [[4.0, -6.0]]),
        (Concatenate(same=Identity(), positive=ReLU()), [[1.0, -2.0, 1.0, 0.0]]),
        (Residual(ReLU()), [[2.0, -2.0]]),
        (Residual(ReLU(), double), [[3.0, -4.0]]),
    ):
        np.testing.assert_array_equal(Model(layer, (2,), backend="reference").predict(x), want)


def test_branches_have_names() -> None:
    layer = Residual(Dense(3), shortcut=Concatenate(Dense(1), Dense(2)))
    paths = list(Model(layer, (3,)).parameters)
    assert paths[:4] == ["body.weight", "body.bias", "shortcut.0.weight", "shortcut.0.bias"]
    assert repr(layer).startswith("Residual(body=Dense(units=3, bias=True), shortcut=Concatenate(0=Dense(")


def test_no_branches_make_nothing() -> None:
    with pytest.raises(AttributeValueError, match="Concatenate: got no layers"):
        Model(Concatenate(), (3,))


def test_parts_are_replaced_and_added() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5))
    x = nnc.ones((2, 3))
    for _ in range(3):
        net(x)
    net[-1] = nn.Linear(4, 2)
    net[1] = nn.Tanh()
    assert net(x).shape == (2, 2)
    assert net.append(nn.Linear(2, 1))(x).shape == (2, 1)
    assert [path for path, _ in net.named_parameters()][-1] == "3.bias"
    with pytest.raises(UsageError, match="need a position below 4"):
        net[4] = nn.ReLU()
    with pytest.raises(UsageError):
        net[0] = 3  # type: ignore[call-overload]  # what is tested
