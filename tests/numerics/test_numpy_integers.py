"""Integers of NumPy's stand for Python's wherever a size, an axis or a count is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc
from nnc.core.values.spec import spec
from nnc.errors import AttributeValueError
from nnc.symbolic import SymbolicGraph

X = nnc.array(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
SQUARE = nnc.array(np.eye(3, dtype=np.float32) * 2)
ROWS: dict[str, Callable[[Any], Any]] = {
    "tile": lambda k: X.tile(k(2)),
    "repeat": lambda k: nnc.repeat(X, k(2), k(1)),
    "split": lambda k: nnc.split(X, k(2), axis=k(2))[1],
    "flip": lambda k: nnc.flip(X, k(1)),
    "tensordot": lambda k: nnc.tensordot(X, X, k(3)),
    "zeros": lambda k: nnc.zeros(k(3)),
    "resize": lambda k: nnc.resize(X, k(3)),
    "histogram": lambda k: nnc.histogram(X, k(3))[0],
    "fftshift": lambda k: nnc.fft.fftshift(X, k(1)),
    "gradient": lambda k: nnc.gradient(X, axis=k(1)),
    "norm": lambda k: nnc.linalg.norm(SQUARE, axis=k(1)),
    "permutation": lambda k: nnc.random.permutation(k(5)).sum(),
    "split of a tensor": lambda k: X.split(k(2), dim=k(2))[0],
    "apply_over_axes": lambda k: nnc.apply_over_axes(nnc.sum, X, k(1)),
    "insert": lambda k: nnc.insert(X, k(1), 9.0, axis=k(1)),
    "delete": lambda k: nnc.delete(X, k(1), axis=k(1)),
    "take": lambda k: nnc.take(X, k(1), axis=k(1)),
    "vmap": lambda k: nnc.vmap(lambda a: a * 2, in_axes=k(1))(SQUARE),
    "grad": lambda k: nnc.grad(lambda a, b: (a * b).sum(), argnums=k(1))(SQUARE, X[0, :, :3]),
    "jacfwd": lambda k: nnc.jacfwd(lambda a, b: a * b, argnums=k(1))(SQUARE, SQUARE),
    "key": lambda k: nnc.random.key(k(3)),
}


@pytest.mark.parametrize("name", ROWS)
def test_integers_of_numpy_are_integers(name: str) -> None:
    np.testing.assert_array_equal(ROWS[name](np.int64).numpy(), ROWS[name](int).numpy())


def test_rows_of_an_array_are_no_axes_however_many_they_are() -> None:
    rows: Any = SymbolicGraph().input(spec((2**40, 2)))
    for refused in (lambda: nnc.sum(nnc.ones(3), rows), lambda: nnc.linalg.norm(0.5, "nuc", rows)):
        with pytest.raises(AttributeValueError, match="axes: got more than 1024"):
            refused()
