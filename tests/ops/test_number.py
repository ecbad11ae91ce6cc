"""Numbers beside tensors are what NumPy and torch make of them: exact, divided, infinite, with the signs of zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import ops
from nnc.backends.llvm.run.engine import engine
from nnc.core.values.tensor import Tensor
from nnc.dynamic import DynamicGraph, Variable
from nnc.errors import AttributeValueError
from nnc.symbolic import Symbol, SymbolicGraph, compile
from nnc.symbolic.passes import simplify

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"

# `Any`: elements of any type, and functions of symbols as well as of variables.
Array = Any
Function = Callable[[Any], Any]
FLOATS = ("f64", "f32", "f16", "bf16")
# Functions that are odd, or the identity, near 0: the sign of a zero is that of the argument.
KEEPING = (
    ops.sin, ops.expm1, ops.log1p, ops.tanh, ops.erf, ops.relu, ops.sqrt, ops.floor, ops.ceil, ops.round, ops.gelu,
    ops.gelu_tanh, ops.swish, ops.leaky_relu,
)  # fmt: skip


@pytest.fixture(params=("reference", "llvm"))
def graph(request: pytest.FixtureRequest) -> DynamicGraph:
    return DynamicGraph(request.param)


def both(function: Function, tensor: Tensor, backend: str) -> tuple[Array, Array]:
    """function(tensor) at once, and of a compiled graph behind the default passes."""
    at_once = function(DynamicGraph(backend).constant(tensor)).numpy()
    symbolic = SymbolicGraph()
    x = symbolic.input(tensor.spec, "x")
    y: Symbol = function(x)
    simplify(symbolic, [y])
    (compiled,) = compile(symbolic, [y], given={x: tensor}, backend=backend)({}, y)
    return at_once, compiled


def signs(array: Array) -> list[bool]:
    """Sign bits, of bf16 too."""
    return np.signbit(np.asarray(array).astype(np.float64)).tolist()


@pytest.mark.parametrize("divisor", [49.0, 3.0, 0.1, 1e-30, 2.0, -0.25])
def test_a_number_divides_and_is_divided(graph: DynamicGraph, divisor: float) -> None:
    x = np.arange(1.0, 200.0, dtype=np.float32)
    tensor, c = Tensor.from_numpy(x), np.float32(divisor)
    for got in (
        *both(lambda v: v / divisor, tensor, graph.backend),
        *both(lambda v: v / ops.fill_like(v, divisor), tensor, graph.backend),
    ):
        np.testing.assert_array_equal(got, x / c)
    for got in both(lambda v: divisor / v, tensor, graph.backend):
        np.testing.assert_array_equal(got, c / x)


def test_a_quotient_of_equals_is_one(graph: DynamicGraph) -> None:
    for function, value in (
        (lambda v: ops.floor(v / 49.0), 49.0),
        (lambda v: 1e-310 / v, 1e-310),
        (lambda v: v / 1e-310, 1e-310),
    ):
        for got in both(function, Tensor.from_numpy(np.full(3, value)), graph.backend):
            assert got.tolist() == [1.0, 1.0, 1.0]


def test_integers_beside_i64_are_exact(graph: DynamicGraph) -> None:
    big = 2**53
    x = Tensor.from_numpy(np.array([0, 1, big, big + 1, -(2**62)], np.int64))
    rows: tuple[tuple[Function, Callable[[int], int]], ...] = (
        (lambda v: v + (big + 1), lambda i: i + big + 1),
        (lambda v: (big + 1) - v, lambda i: big + 1 - i),
        (lambda v: v * 3 + (big + 1) - 5, lambda i: (i * 3 + big - 4 + 2**63) % 2**64 - 2**63),
        (lambda v: v + ops.fill_like(v, big + 1), lambda i: i + big + 1),
        (lambda v: v < big + 1, lambda i: i < big + 1),
        (lambda v: v >= big + 1, lambda i: i >= big + 1),
    )
    for function, exact in rows:
        for got in both(function, x, graph.backend):
            assert got.tolist() == [exact(int(value)) for value in x.numpy()]


def test_a_fraction_beside_integers_makes_floats_or_is_refused(graph: DynamicGraph) -> None:
    x = graph.constant(np.arange(3))
    assert (x + 0.5).tolist() == [0.5, 1.5, 2.5]
    with pytest.raises(AttributeValueError, match=r"need integral scale and shift .* Fix: cast\(\) x to a float type"):
        ops.affine(x, 1.0, 0.5)
    with pytest.raises(AttributeValueError, match="a value that i64 cannot hold"):
        ops.less(x, ops.scalar_like(x, 2**63))


def test_integers_of_all_widths_take_numbers_natively() -> None:
    for name in ("i64", "i32", "i16", "i8", "u8"):
        x = DynamicGraph("llvm").constant(np.arange(5), name)
        np.testing.assert_array_equal((x * 3 + 7 - 2).numpy(), np.arange(5) * 3 + 5)
        assert (-x).numpy().tolist() == np.negative(x.numpy()).tolist()


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_numbers_beyond_a_type_are_infinite(graph: DynamicGraph, dtype: str) -> None:
    x = Tensor.from_numpy(np.array([2.0, -1.0]), dtype)
    for got in both(lambda v: v * 1e39, x, graph.backend):
        assert got.astype(float).tolist() == [np.inf, -np.inf]
    for got in both(lambda v: v + 10**400, x, graph.backend):
        assert got.astype(float).tolist() == [np.inf, np.inf]
    for got in both(lambda v: ops.clamp(v, -1e39, 1e39), x, graph.backend):
        assert got.astype(float).tolist() == [2.0, -1.0]
    for got in both(lambda v: ops.clamp(v, -(10**400), 10**400), x, graph.backend):
        assert got.astype(float).tolist() == [2.0, -1.0]
    for got in both(lambda v: ops.fill_like(v, -1e39), x, graph.backend):
        assert got.astype(float).tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_have_the_signs_of_torch(graph: DynamicGraph, dtype: str) -> None:
    zeros = Tensor.from_numpy(np.resize([0.0, -0.0], 18), dtype)
    same = signs(zeros.numpy())
    opposite = [not sign for sign in same]
    rows: tuple[tuple[Function, list[bool]], ...] = (
        *((function, same) for function in KEEPING),
        (lambda v: v * 3.0, same),
        (lambda v: v - 0.0, same),
        (lambda v: v / 3.0, same),
        (lambda v: -v, opposite),
        (lambda v: v * -2.0, opposite),
        (lambda v: -(v * 2.0), opposite),
        (lambda v: v + 0.0, [False] * 18),
        (lambda v: 0.0 - v, [False] * 18),
        (lambda v: -((v + 1.0) - 1.0), [True] * 18),
    )
    for function, want in rows:
        for got in both(function, zeros, graph.backend):
            assert signs(got) == want


def test_numbers_that_change_share_their_kernels() -> None:
    x = DynamicGraph("llvm").variable(np.ones(100, np.float32))

    def step(rate: float) -> Variable:
        return ops.clamp(x * rate + rate, -rate, rate) / (rate + 3.3) - rate

    first = step(0.5)
    # Every kernel that is loaded is first asked of the disk.
    cache = engine().jit.cache
    before = cache.hits + cache.misses
    for place in range(300):
        y = step(place * 0.37)
    assert cache.hits + cache.misses == before
    assert np.isfinite(first.numpy()).all()
    rate = np.float32(299 * 0.37)
    np.testing.assert_allclose(y.numpy(), rate / (rate + np.float32(3.3)) - rate, rtol=1e-5)


def test_expm1_is_within_two_units_of_the_last_place() -> None:
    x = np.concatenate([np.linspace(-20, 20, 20001), np.geomspace(1e-38, 80, 5001), -np.geomspace(1e-38, 80, 5001)])
    for dtype in (np.float32, np.float64):
        given = x.astype(dtype)
        exact = np.expm1(given.astype(np.longdouble))
        got = ops.expm1(DynamicGraph("llvm").constant(given)).numpy()
        units = np.abs(got - exact) / np.spacing(np.abs(exact.astype(dtype)))
        assert float(units.max()) <= 2.0
