"""The first index of the largest or smallest element, along rows and columns, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, access, check, random

from nnc.codegen.kernels.reduction.argmax import Argmax

SHAPES = [(40, 10), (1,), (10,), (16,), (70,), (1000,), (7, 129), (129, 7), (3, 40, 5), (2, 3, 64, 33)]


def positions(x: Array) -> None:
    for axis in range(x.ndim):
        for smallest, want in ((False, np.argmax(x, axis)), (True, np.argmin(x, axis))):
            check(Argmax(x.shape, access(x), axis, smallest), [x], [np.asarray(want, np.int64)])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape: tuple[int, ...]) -> None:
    positions(random(shape))


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, np.uint8])
def test_element_types(dtype: type[np.generic]) -> None:
    positions(np.abs(10 * random((7, 129))).astype(dtype))


def test_the_first_of_equals() -> None:
    positions(np.random.default_rng(0).integers(0, 3, (9, 200)).astype(np.float32))
    positions(np.full((3, 90), -np.inf, np.float32))
    positions(np.full((90, 3), np.inf, np.float32))


@pytest.mark.parametrize("places", [(0,), (69,), (130,), (3, 130), (68, 3, 17)])
def test_the_first_nan_wins(places: tuple[int, ...]) -> None:
    x = random((4, 131))
    x[1, 50] = np.inf
    x[1:3, list(places)] = np.nan
    positions(x)
    positions(np.ascontiguousarray(x.T))


def test_strided_operands() -> None:
    positions(random((90, 40)).T)
    positions(random((90, 120))[::2, ::3])
