"""NumPy's own functions are what NumPy gives, and say so where elements or gradients would be lost."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import nnc
from nnc.errors import ArgumentError, ShapeError, SymbolError, UsageError

X = np.array([3.0, 1.0, 2.0], np.float32)
# Each is evaluated with nnc and with NumPy in the place of `n`.
LINES = """
n.insert(X, 1, 9.0)
n.insert(n.ones((2, 3)), 1, [5.0, 6.0, 7.0], axis=0)
n.insert(n.ones((2, 3)), 1, 5.0, axis=-1)
n.insert([1, 2, 3, 4], [1, 3], [7, 8])
n.insert([1, 2, 3, 4], slice(0, 2), [7, 8])
n.delete(X, [0, 2])
n.delete([[1, 2], [3, 4]], 0, axis=1)
n.delete([1, 2, 3], [True, False, True])
n.block([[n.eye(2), n.zeros((2, 1))], [n.ones((1, 3))]])
n.block([[1.0, 2.0]])
n.apply_along_axis(lambda row: row * 2.0, 0, n.ones((2, 3)))
n.apply_along_axis(lambda row: row.sum(), 1, n.ones((2, 3)))
n.apply_along_axis(n.diag, -1, [[1.0, 2.0], [3.0, 4.0]])
n.apply_over_axes(n.sum, n.ones((2, 3, 4)), [0, 2])
n.unwrap([0.0, 3.0, 6.5, 12.0, -3.2])
n.unwrap([[0.0, 3.0], [350.0, 4.0]], axis=0, period=360.0)
n.piecewise(X, [X < 2, X >= 3], [-1.0, lambda x: x * x, 7.0])
n.choose([2, 0], [[1, 2], [3, 4], [5, 6]])
n.resize([1, 2, 3], (2, 4))
n.rollaxis(n.ones((2, 3, 4)), 2, 1)
n.polyfit([0.0, 1.0, 2.0, 4.0], [1.0, 3.0, 7.0, 2.0], 2)
n.polyfit([0.0, 1.0, 2.0], [[1.0, 2.0], [3.0, 1.0], [7.0, 0.0]], 1, w=[1.0, 2.0, 1.0])
n.polyder([1.0, 2.0, 3.0], 2)
n.polyint([6.0, 2.0], 2)
n.poly([1.0, 2.0, 3.0])
n.polysub([1.0, 2.0], [1.0, 2.0, 3.0])
n.nanargmin([n.nan, 3.0, 2.0])
n.gcd(12, [8, 6])
n.mgrid[0:2, 0:3]
n.r_[1:4, 0, 4]
n.c_[X, X]
n.lexsort(([1, 2, 0], [0, 0, 1]))
n.unpackbits(n.packbits([1, 0, 1]))
n.roots([1.0, -3.0, 2.0])
n.setxor1d([1, 2], [2, 3])
n.eye(3)[n.ix_([0, 2], [2, 1])]
n.vectorize(lambda a, b: a if a > b else b)([1, 5], 3)
n.fromfunction(lambda i, j: i * 2 + j, (2, 3))
"""


@pytest.mark.parametrize("line", LINES.strip().splitlines())
def test_they_give_what_numpy_gives(line: str) -> None:
    ours, theirs = (np.asarray(eval(line, {"n": module, "X": X})) for module in (nnc, np))
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_floats_are_those_of_the_operands() -> None:
    assert nnc.roots([1.0, -3.0, 2.0]).dtype is nnc.f32
    assert nnc.roots(np.array([1.0, -3.0, 2.0])).dtype is nnc.f64
    assert nnc.polyfit(np.arange(3.0), np.arange(3.0), 1).dtype is nnc.f64
    assert nnc.gcd(4, 6).dtype is nnc.i64


def test_what_is_written_on_operators_has_gradients_and_compiles() -> None:
    def total(y: Any) -> Any:
        line = nnc.polyfit(nnc.array([0.0, 1.0, 2.0]), y, 1)
        return line[0] + nnc.insert(y, 1, 9.0)[2] * 3.0 + nnc.unwrap(y)[0] + nnc.delete(y, 0)[1]

    slope = nnc.grad(total)(nnc.variable(X))
    np.testing.assert_allclose(slope.numpy(), [0.5, 3.0, 1.5], atol=1e-6)
    np.testing.assert_allclose(nnc.compile(total)(nnc.tensor(X)).numpy(), total(nnc.tensor(X)).numpy(), rtol=1e-6)


def test_what_looks_at_elements_says_so() -> None:
    with pytest.raises(UsageError, match="roots: got a value that gradients are asked for.*Fix: x.detach"):
        nnc.roots(nnc.variable(X))
    with pytest.raises(SymbolError, match="gcd: got a TracedValue.*call it outside of what is compiled"):
        nnc.compile(lambda a: nnc.gcd(a, 2))(nnc.array([1]))
    with pytest.raises(ArgumentError, match="gcd: got .*need what NumPy"):
        nnc.gcd(1.5, 2)
    assert list(inspect.signature(nnc.savetxt).parameters)[:3] == ["fname", "X", "fmt"]
    assert nnc.lexsort(nnc.array([[1, 0], [2, 2]])).tolist() == [1, 0]


def test_changes_in_place() -> None:
    x = nnc.zeros((2, 2))
    nnc.fill_diagonal(x, 3.0)
    nnc.put(x, [1], 5.0)
    nnc.putmask(x, x == 0.0, 7.0)
    assert x.tolist() == [[3.0, 5.0], [7.0, 3.0]]
    nnc.place(x, x > 4.0, [1.0, 2.0])
    assert x.tolist() == [[3.0, 1.0], [2.0, 3.0]]
    nnc.copyto(x, 1.0, where=x > 2.0)
    assert x.tolist() == [[1.0, 1.0], [2.0, 1.0]]


def test_assertions() -> None:
    nnc.testing.assert_allclose(nnc.variable(X), X)
    nnc.testing.assert_close(nnc.tensor(X), nnc.tensor(X))
    with pytest.raises(AssertionError, match="element types f32 and i64"):
        nnc.testing.assert_close(nnc.ones(1), nnc.array([1]))
    with pytest.raises(AssertionError):
        nnc.testing.assert_allclose(nnc.ones(2), 1.1)


def test_options_of_printing_that_numpy_looks_at_later_are_refused_at_once() -> None:
    before = np.get_printoptions()
    for wrong in ({"precision": -5}, {"threshold": "all"}, {"floatmode": "some"}):
        with pytest.raises(ArgumentError, match="set_printoptions"):
            nnc.set_printoptions(**wrong)
        assert np.get_printoptions() == before
    with np.printoptions():
        nnc.set_printoptions(precision=2)
        assert str(np.float32([1 / 3])) == "[0.33]"


@pytest.mark.parametrize("empty", [[], [[]], [[1.0], []]], ids=str)
def test_a_list_without_blocks_is_refused(empty: Any) -> None:
    with pytest.raises(ShapeError, match="block: got a list of no blocks"):
        nnc.block(empty)


def test_errors_of_what_is_indexed_say_its_name() -> None:
    with pytest.raises(ArgumentError, match="mgrid: got AttributeError"):
        nnc.mgrid["a"]
