from __future__ import annotations

import numpy as np
from tests.backends.llvm.harness import access, check, random, scalar_of, steps

from nnc.backends.llvm.access import Access
from nnc.backends.llvm.movement import concatenate, embed, fill, move


def test_a_transpose_is_a_move_between_strides() -> None:
    x = random((5, 7, 18))
    want = np.ascontiguousarray(x.transpose(2, 0, 1))
    order = tuple(steps(x)[axis] for axis in (2, 0, 1))
    check(move(want.shape, Access(scalar_of(x), order), access(want)), [x], [want])


def test_truth_values_and_bytes_move() -> None:
    x = random((33, 5)) > 0
    check(move(x.T.shape, access(x.T), access(np.ascontiguousarray(x.T))), [x], [np.ascontiguousarray(x.T)])


def test_concatenation_along_each_axis() -> None:
    for axis in (0, 1):
        parts = [random((2, 19) if axis == 0 else (19, size), seed=size) for size in (2, 3)]
        want = np.concatenate(parts, axis)
        shapes, strides = [part.shape for part in parts], [steps(part) for part in parts]
        check(concatenate(scalar_of(want), shapes, strides, axis, steps(want)), parts, [want])


def test_a_region_in_zeros() -> None:
    x = random((3, 4))
    want = np.zeros((9, 10), np.float32)
    want[2:8:2, 1:5] = x
    check(embed(scalar_of(x), x.shape, steps(x), want.shape, 21, (20, 1)), [x], [want])


def test_fill() -> None:
    want = np.full((4, 100), 7, np.int64)
    check(fill(want.shape, 7.0, access(want)), [], [want])
