"""Other shapes and orders, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.numerics.agreement import Call, agree, agree_compiled, slopes_agree

import nnc
from nnc.errors import AttributeValueError, DTypeError, ShapeError

X = np.random.default_rng(4).standard_normal((2, 3, 4))
CALLS: list[Call] = [
    lambda xp, x: xp.reshape(x, (4, -1)),
    lambda xp, x: xp.ravel(x),
    lambda xp, x: xp.transpose(x),
    lambda xp, x: xp.transpose(x, (2, 0, 1)),
    lambda xp, x: xp.permute_dims(x, (1, 0, 2)),
    lambda xp, x: xp.matrix_transpose(x),
    lambda xp, x: xp.swapaxes(x, 0, -1),
    lambda xp, x: xp.moveaxis(x, 0, -1),
    lambda xp, x: xp.moveaxis(x, [0, 1], [-1, 0]),
    lambda xp, x: xp.squeeze(x[:, :1]),
    lambda xp, x: xp.squeeze(x[:, :1], axis=1),
    lambda xp, x: xp.expand_dims(x, 1),
    lambda xp, x: xp.expand_dims(x, (0, -1)),
    lambda xp, x: xp.atleast_1d(x),
    lambda xp, x: xp.atleast_2d(x[0, 0]),
    lambda xp, x: xp.atleast_3d(x[0]),
    lambda xp, x: xp.broadcast_to(x[0], (5, 3, 4)),
    lambda xp, x: xp.broadcast_arrays(x, x[0]),
    lambda xp, x: xp.concatenate([x, x[:1]]),
    lambda xp, x: xp.concatenate((x, x), axis=-1),
    lambda xp, x: xp.concat([x, x[0]], axis=None),
    lambda xp, x: xp.stack([x, x], axis=1),
    lambda xp, x: xp.stack(list(x), -1),
    lambda xp, x: xp.vstack([x[0, 0], x[1, 1]]),
    lambda xp, x: xp.hstack([x[0, 0], x[1, 1]]),
    lambda xp, x: xp.hstack([x, x[:, :1]]),
    lambda xp, x: xp.dstack([x[0], x[1]]),
    lambda xp, x: xp.column_stack([x[0, 0], x[1, 1]]),
    lambda xp, x: xp.append(x, x[:1], axis=0),
    lambda xp, x: xp.append(x, 1.0),
    lambda xp, x: xp.unstack(x, axis=1),
    lambda xp, x: xp.split(x, 2, axis=2),
    lambda xp, x: xp.split(x, [1, 3], axis=-1),
    lambda xp, x: xp.array_split(x, 3, axis=2),
    lambda xp, x: xp.array_split(x, [2, 1, -1], axis=2),
    lambda xp, x: xp.hsplit(x, 3),
    lambda xp, x: xp.vsplit(x, 2),
    lambda xp, x: xp.dsplit(x, [1]),
    lambda xp, x: xp.flip(x),
    lambda xp, x: xp.flip(x, (0, 2)),
    lambda xp, x: xp.fliplr(x),
    lambda xp, x: xp.flipud(x),
    lambda xp, x: xp.rot90(x),
    lambda xp, x: xp.rot90(x, -1, (1, 2)),
    lambda xp, x: xp.rot90(x, 2),
    lambda xp, x: xp.rot90(x, 4),
    lambda xp, x: xp.roll(x, 5),
    lambda xp, x: xp.roll(x, (1, -1), (0, 2)),
    lambda xp, x: xp.tile(x, 2),
    lambda xp, x: xp.tile(x, (2, 1, 1, 2)),
    lambda xp, x: xp.repeat(x, 2),
    lambda xp, x: xp.repeat(x, 3, axis=1),
    lambda xp, x: xp.repeat(x, [1, 0, 2], axis=1),
    lambda xp, x: xp.pad(x, 1),
    lambda xp, x: xp.pad(x, ((0, 1), (2, 0), (1, 1)), constant_values=2.0),
    lambda xp, x: xp.pad(x, (1, 2), mode="edge"),
    lambda xp, x: xp.pad(x, ((0, 0), (1, 2), (3, 3)), "reflect"),
    lambda xp, x: xp.pad(x, ((1, 1), (1, 2), (3, 3)), "symmetric"),
    lambda xp, x: xp.pad(x, ((1, 1), (1, 2), (3, 3)), "wrap"),
]


def test_values_and_gradients() -> None:
    agree(CALLS, X)
    slopes_agree(CALLS[::2], X)


def test_compiled() -> None:
    agree_compiled(CALLS, X)


def test_integers_truth_values_and_nothing() -> None:
    agree(CALLS, (X * 3).astype(np.int64))
    without_numbers = [call for place, call in enumerate(CALLS) if place not in (29, 54)]
    agree(without_numbers, X > 0)
    agree([call for place, call in enumerate(CALLS) if place not in (12, 55, 56, 57, 58, 59)][:10], np.zeros((0, 3, 4)))


def test_scalars() -> None:
    calls: list[Call] = [
        lambda xp, x: xp.ravel(x),
        lambda xp, x: xp.atleast_1d(x),
        lambda xp, x: xp.atleast_2d(x),
        lambda xp, x: xp.atleast_3d(x),
        lambda xp, x: xp.hstack([x, x]),
        lambda xp, x: xp.stack([x, x]),
        lambda xp, x: xp.tile(x, (2, 2)),
        lambda xp, x: xp.repeat(x, 3),
        lambda xp, x: xp.broadcast_to(x, (2, 3)),
        lambda xp, x: xp.pad(x, 1),
        lambda xp, x: xp.roll(x, 1),
        lambda xp, x: xp.flip(x),
    ]
    agree(calls, np.float64(3.0) + np.zeros(()))


def test_what_torch_adds() -> None:
    assert [part.shape for part in nnc.chunk(X, 3, dim=2)] == [(2, 3, 2), (2, 3, 2)]
    assert nnc.flatten(X, 1).shape == nnc.flatten(X, 1, 2).shape == (2, 12)
    assert nnc.unflatten(X, 2, (2, 2)).shape == (2, 3, 2, 2)
    assert nnc.cat([X, X], dim=1).shape == nnc.cat((X, X), 1).shape == (2, 6, 4)
    assert nnc.transpose(X, 1, 2).shape == (2, 4, 3)
    assert nnc.broadcast_shapes((2, 1), 3) == (2, 3)
    assert nnc.concatenate([np.int64([1]), np.float32([0.5])]).tolist() == [1.0, 0.5]


def test_refusals() -> None:
    for refused, error, text in (
        (lambda: nnc.split(X, 5), ShapeError, "array_split"),
        (lambda: nnc.array_split(X, 0), AttributeValueError, "at least one"),
        (lambda: nnc.chunk(X, 0), AttributeValueError, "at least one"),
        (lambda: nnc.rot90(X, 1, (1, 1)), AttributeValueError, "two axes"),
        (lambda: nnc.pad(X, -1), AttributeValueError, "0 or more"),
        (lambda: nnc.concatenate([]), AttributeValueError, "at least one"),
        (lambda: nnc.concatenate([np.uint64([1]), np.int8([1])]), DTypeError, "one holds the other"),
        (lambda: nnc.repeat(X, -1), ShapeError, "-"),
    ):
        with pytest.raises(error, match=text):
            refused()
