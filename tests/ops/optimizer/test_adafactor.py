"""Adafactor, against numbers of torch.optim.Adafactor (2.13.0) in f64: lr=0.3, d=1.5, weight_decay=0.01."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.eager import Eager

from nnc.core.values.command import Command
from nnc.core.values.dtype import F64
from nnc.core.values.spec import spec
from nnc.errors import ShapeError
from nnc.ops.optimizer.adafactor import ADAFACTOR, AdafactorAttrs

TORCH = AdafactorAttrs(epsilon1=2.0**-52, clip=1.5, decay=0.01)
W = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]]
GRADIENTS = ([[1, -2, 0.5], [0.25, 0, 4]], [[-10, 2, 0.5], [0.25, 30, 4]])
W_AFTER = [
    [0.9118633336196608, -0.36577208579768933, 1.7976491945521378],
    [1.3844281481000804, -0.12550947566841686, -1.4256809144576228],
]
ROWS_AFTER = [20.70352285745108, 177.65891991622192]
COLUMNS_AFTER = [28.961534286176608, 260.45712987433285, 8.124999999999998]


def followed(attrs: AdafactorAttrs, w: object, gradients: object) -> list[np.ndarray]:
    """w, row and column after an update by each gradient."""
    held = [Eager(np.array(w, np.float64))]
    held += [Eager(np.zeros(one.shape)) for one in ADAFACTOR.state_specs(spec(held[0].array.shape, F64))]
    for step, gradient in enumerate(np.array(gradients, np.float64), start=1):
        steering = [Eager(np.array(0.3)), Eager(np.array(float(step)))]
        held = list(held[0].apply(Command(ADAFACTOR, attrs), [Eager(gradient), *held, *steering]))
    return [one.array for one in held]


def test_matrices_keep_rows_and_columns() -> None:
    for found, wanted in zip(followed(TORCH, W, GRADIENTS), (W_AFTER, ROWS_AFTER, COLUMNS_AFTER), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
    stacked = followed(TORCH, [W, W], [[one, one] for one in GRADIENTS])
    np.testing.assert_allclose(stacked[0], [W_AFTER, W_AFTER], rtol=1e-14)
    np.testing.assert_allclose(stacked[1], [ROWS_AFTER, ROWS_AFTER], rtol=1e-14)


def test_vectors_keep_all_of_their_squares() -> None:
    w, row, column = followed(TORCH, [0.5, -2.0], [[1, -3], [20, 1]])
    np.testing.assert_allclose(w, [-0.37466764935717917, -1.709463845353907], rtol=1e-14)
    np.testing.assert_allclose(row, [230.16532182190846, 4.4052065800118605], rtol=1e-14)
    assert column == 0.0


def test_steps_are_the_rate_alone_where_they_are_neither_relative_nor_scaled() -> None:
    plain = AdafactorAttrs(relative=False, scaled=False, decline=1.0)
    w, row, _ = followed(plain, [1.0, -1.0], [[2.0, 2.0], [2.0, -2.0]])
    np.testing.assert_allclose(w, [0.4, -1.0], rtol=1e-14)
    np.testing.assert_allclose(row, [4.0, 4.0])


def test_nothing_is_left_as_it_is() -> None:
    assert [one.shape for one in followed(TORCH, np.zeros((0, 3)), np.zeros((1, 0, 3)))] == [(0, 3), (0,), (3,)]


def test_states_are_rows_and_columns() -> None:
    whole, one = Eager(np.zeros((3, 4))), Eager(np.array(1.0))
    with pytest.raises(ShapeError, match=r"states f64\[3\] and f64\[4\]"):
        whole.apply(Command(ADAFACTOR, AdafactorAttrs()), [whole] * 4 + [one] * 2)
