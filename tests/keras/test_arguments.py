"""Arguments of constructors: a wrong one is told of by the name of the class, whichever base asks for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnc import keras
from nnc.errors import ArgumentError

WRONG = np.ones(2)


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        (keras.layers.Add, {"name": WRONG}, "Add: got name="),
        (keras.layers.Dense, {"units": 2, "name": WRONG}, "Dense: got name="),
        (keras.layers.Dense, {"units": 2.5}, "Dense: got units="),
        (keras.losses.MeanSquaredError, {"name": WRONG}, "MeanSquaredError: got name="),
        (keras.optimizers.Adam, {"lr": 0.1}, "Fix: learning_rate="),
        (keras.metrics.Mean, {"nam": "x"}, "Mean: got nam="),
        (keras.regularizers.L2, {"l2": WRONG}, "L2: got l2="),
    ],
)
def test_wrong_arguments_are_told_of(kind: Callable[..., Any], options: dict[str, Any], told: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        kind(**options)
    assert told in str(caught.value)
    assert "test_arguments.py" in str(caught.value)


def test_signatures_are_those_of_constructors() -> None:
    assert list(inspect.signature(keras.layers.Add).parameters)[:2] == ["name", "trainable"]
    assert "units" in inspect.signature(keras.layers.Dense).parameters
    assert "values" in inspect.signature(keras.layers.Dense(2)).parameters


def test_constructors_of_users_take_what_they_say() -> None:
    class Own(keras.layers.Layer):
        def __init__(self, units: int = 2, **options: Any) -> None:
            super().__init__(**options)
            self.units = units

    assert Own(units=2.5).units == 2.5  # type: ignore[arg-type]  # what the hint says is the user's business
    with pytest.raises(ArgumentError, match=r"unknown="):
        Own(unknown=1)
