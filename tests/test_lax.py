"""JAX's loops and branches, eagerly, in compiled functions and with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc
from nnc import lax
from nnc.errors import ArgumentError, ShapeError, UnknownNameError


def newton(x: Any) -> Any:
    return lax.fori_loop(0, 10, lambda i, y: 0.5 * (y + x / y), x)


def test_loops_count_and_gradients_go_back_through_them() -> None:
    for function in (newton, nnc.jit(newton)):
        assert function(2.0).item() == pytest.approx(2**0.5)
        assert nnc.grad(function)(2.0).item() == pytest.approx(0.5 / 2**0.5)
    steps, last = lax.while_loop(lambda s: (s[0] < 20) & (s[1] < 100.0), lambda s: (s[0] + 1, s[1] * 2), (0, 1.0))
    assert (steps.item(), last.item()) == (7, 128.0)
    assert nnc.jit(lambda n: lax.fori_loop(0, n, lambda i, t: t + i, 0))(nnc.tensor(5)).item() == 10
    assert lax.fori_loop(3, 3, lambda i, t: t + i, 7) == 7


def test_scans_carry_and_collect() -> None:
    rows = nnc.arange(4.0)
    carry, ys = lax.scan(lambda c, x: (c + x, {"sum": c}), 0.0, rows)
    assert (carry.item(), ys["sum"].tolist()) == (6.0, [0.0, 0.0, 1.0, 3.0])
    _, back = lax.scan(lambda c, x: (c + x, c), 0.0, rows, reverse=True)
    assert back.tolist() == [6.0, 5.0, 3.0, 0.0]
    doubled, nothing = nnc.jit(lambda x: lax.scan(lambda c, _: (c * 2, None), x, length=3)[0])(1.0), None
    assert doubled.item() == 8.0
    assert nothing is None
    assert lax.scan(lambda c, x: (c, None), 0.0, rows)[1] is None
    with pytest.raises(ArgumentError, match="neither xs nor length"):
        lax.scan(lambda c, x: (c, x), 0.0)


def test_branches_are_chosen() -> None:
    branches = [lambda x: x, lambda x: x * 10, lambda x: -x]
    compiled = nnc.jit(lambda i: lax.switch(i, branches, 3.0))
    for index, wanted in ((-5, 3.0), (0, 3.0), (1, 30.0), (2, -3.0), (9, -3.0)):
        assert lax.switch(index, branches, 3.0).item() == compiled(nnc.tensor(index)).item() == wanted
    assert lax.cond(nnc.tensor(1.0) > 0, nnc.exp, nnc.log, nnc.tensor(0.0)).item() == 1.0


def test_blocks_move_inside() -> None:
    x = nnc.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(lax.dynamic_slice(x, (2, 1), (2, 2)).numpy(), [[5, 6], [9, 10]])
    put = nnc.jit(lambda i: lax.dynamic_update_slice(x, nnc.zeros((2, 2)), (i, 3)))(nnc.tensor(0))
    np.testing.assert_array_equal(put.numpy(), [[0, 1, 0, 0], [4, 5, 0, 0], [8, 9, 10, 11]])
    assert lax.dynamic_index_in_dim(x, 2, axis=1, keepdims=False).tolist() == [2, 6, 10]
    assert lax.clamp(0.0, nnc.tensor([-1.0, 2.0]), 1.0).tolist() == [0.0, 1.0]
    assert lax.iota("int32", 3).dtype is nnc.i32
    with pytest.raises(ShapeError, match="one for each axis"):
        lax.dynamic_slice(x, (0,), (1,))
    for sizes in ((2, 5), (2**40, 1), (-1, 1)):
        with pytest.raises(ShapeError, match="sizes up to those of the array"):
            lax.dynamic_slice(x, (0, 0), sizes)
    with pytest.raises(ShapeError, match="sizes up to those of the array"):
        lax.dynamic_update_slice(x, nnc.zeros((4, 1)), (0, 0))
    with pytest.raises(ShapeError, match="an integer for each axis"):
        lax.dynamic_slice(x, ([0, 1], 0), (1, 1))
    with pytest.raises(UnknownNameError, match="lax"):
        lax.all_gather  # type: ignore[attr-defined]
