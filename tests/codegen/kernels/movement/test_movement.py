from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.backends.llvm.harness import access, check, random, run, scalar_of, steps

from nnc.codegen.frame.access import StridedAccess
from nnc.codegen.kernels.movement.interleaving import Interleaving
from nnc.codegen.kernels.movement.movement import concatenate, embed, fill, move
from nnc.codegen.kernels.movement.transposition import ORDERS, Order, Transposition


def test_a_transpose_is_a_move_between_strides() -> None:
    x = random((5, 7, 18))
    want = np.ascontiguousarray(x.transpose(2, 0, 1))
    order = tuple(steps(x)[axis] for axis in (2, 0, 1))
    check(move(want.shape, StridedAccess(scalar_of(x), order), access(want)), [x], [want])


def test_truth_values_and_bytes_move() -> None:
    x = random((33, 5)) > 0
    check(move(x.T.shape, access(x.T), access(np.ascontiguousarray(x.T))), [x], [np.ascontiguousarray(x.T)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("shape", [(2, 33, 21), (1, 16, 64), (3, 8, 100)], ids=str)
def test_transpositions_of_all_sizes(shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    x = (random(shape) * 50).astype(np.int8).astype(dtype)
    for order in ((0, 2, 1), (2, 0, 1)):
        want = np.ascontiguousarray(x.transpose(order))
        made = move(want.shape, StridedAccess(scalar_of(x), tuple(steps(x)[axis] for axis in order)), access(want))
        assert isinstance(made, Transposition)
        check(made, [x], [want])


def test_a_transposition_into_a_region() -> None:
    x, whole = random((20, 30)), np.zeros((60, 25), np.float32)
    place = whole[::2, 3:23]
    made = move(place.shape, StridedAccess(scalar_of(x), (1, 30)), StridedAccess(scalar_of(x), steps(place)))
    assert isinstance(made, Transposition)
    run(made, [x], [place])
    np.testing.assert_array_equal(place, x.T)
    assert np.count_nonzero(whole) == np.count_nonzero(x)


@pytest.mark.parametrize("shape", [(83, 75), (96, 80), (2, 65, 48), (33, 260)], ids=str)
@pytest.mark.parametrize("order", [*ORDERS, Order(0, 4, 2, 32)], ids=str)
def test_every_order_of_blocks(order: Order, shape: tuple[int, ...]) -> None:
    x = random(shape)
    want = np.ascontiguousarray(x.swapaxes(-1, -2))
    made = move(want.shape, access(x.swapaxes(-1, -2)), access(want))
    assert isinstance(made, Transposition)
    check(replace(made, order=order), [x], [want])


@pytest.mark.parametrize("dtype", [np.float32, np.bool_])
@pytest.mark.parametrize("rows", [2, 3, 4, 6])
@pytest.mark.parametrize("length", [8, 555])
def test_a_few_rows_are_woven_and_parted_again(length: int, rows: int, dtype: type[np.generic]) -> None:
    x = (random((3, rows, length)) * 50).astype(np.int8).astype(dtype)
    want = np.ascontiguousarray(x.swapaxes(1, 2))
    for before, after in ((x, want), (want, x)):
        made = move(after.shape, access(before.swapaxes(1, 2)), access(after))
        assert isinstance(made, Interleaving)
        check(made, [before], [after])


def test_a_shuffle_of_pixels_weaves_between_other_axes() -> None:
    x = random((2, 3, 3, 5, 40))
    want = np.ascontiguousarray(x.transpose(0, 3, 1, 4, 2))
    made = move(want.shape, access(x.transpose(0, 3, 1, 4, 2)), access(want))
    assert isinstance(made, Interleaving)
    check(made, [x], [want])


def test_rows_between_others_are_gathered() -> None:
    x, whole = random((40, 3)), np.zeros((40, 5), np.float32)
    made = move((3, 40), access(x.T), access(whole[:, :3].T))
    assert not isinstance(made, Transposition | Interleaving)


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
