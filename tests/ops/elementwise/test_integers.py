"""Operators of integers against Python's, at every edge, on both backends and for all widths."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import ops
from nnc.dynamic import DynamicGraph
from nnc.errors import DTypeError

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"

WIDTHS = ("i64", "i32", "i16", "i8", "u8")


def exact(function: Callable[[int, int], int], a: int, b: int, bits: int) -> int:
    """Python's result; by 0 it is 0, and a shift that is no number of bits leaves the sign alone."""
    if function in (operator.lshift, operator.rshift) and not 0 <= b < bits:
        return -1 if function is operator.rshift and a < 0 else 0
    return 0 if function in (operator.floordiv, operator.mod) and b == 0 else function(a, b)


@pytest.mark.parametrize("backend", ["reference", "llvm"])
@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize(
    "function",
    [operator.floordiv, operator.mod, operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor],
)
def test_results_are_those_of_python(backend: str, name: str, function: Callable[[Any, Any], Any]) -> None:
    graph = DynamicGraph(backend)
    limits = np.iinfo(graph.constant([0], name).numpy().dtype)
    ends = (int(limits.min), int(limits.max))
    values = sorted({*ends, 0, 1, 2, 3, 7, limits.bits - 1, limits.bits, *((-1, -2, -7) if ends[0] else ())})
    pairs = [(a, b) for a in values for b in values]
    a, b = (graph.constant(np.array(column), name) for column in zip(*pairs, strict=True))
    want = np.array([exact(function, *pair, limits.bits) for pair in pairs], object) % (1 << limits.bits)
    got = np.array(function(a, b).numpy().tolist(), object) % (1 << limits.bits)
    np.testing.assert_array_equal(got, want)
    assert function(a, 3).numpy().tolist() == function(a, graph.constant(np.full(len(pairs), 3), name)).numpy().tolist()


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_truth_values_and_complements(backend: str) -> None:
    graph = DynamicGraph(backend)
    a, b = graph.constant([True, True, False, False]), graph.constant([True, False, True, False])
    assert (a & b).numpy().tolist() == [True, False, False, False]
    assert (a | b).numpy().tolist() == [True, True, True, False]
    assert (a ^ b).numpy().tolist() == [False, True, True, False]
    assert (~a).numpy().tolist() == [False, False, True, True]
    assert (~graph.constant(np.array([0, 5, -1]))).numpy().tolist() == [-1, -6, 0]
    assert (7 // graph.constant(np.array([2, 0, -2]))).numpy().tolist() == [3, 0, -4]


def test_floats_have_quotients_and_remainders_but_no_bits() -> None:
    graph = DynamicGraph()
    a, b = np.array([7.5, -7.5, 0.0, np.inf]), np.array([2.0, 2.0, -3.0, 2.0])
    x, y = graph.variable(a), graph.variable(b)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal((x // y).numpy(), a // b)
        np.testing.assert_array_equal((x % y).numpy(), a % b)
    slopes = graph.backward([(x % y)[:3]], [x, y])
    assert [slope.tolist()[:3] for slope in slopes] == [[1, 1, 1], [-3, 4, 0]]
    with pytest.raises(DTypeError):
        ops.shift_left(x, y)
