"""Accuracy in ulp against extended precision or the C library, and the values at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, run, scalar_of

from nnc.codegen.frame.access import StridedAccess
from nnc.codegen.ir.expression import Instruction
from nnc.codegen.kernels.elementwise.pointwise import Pointwise
from nnc.ops.elementwise.pointwise import BEND, GATE

EDGES = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1e-40,
    -1e-40,
    88.8,
    -87.5,
    -103.9,
    -104.5,
    1.0,
    1e-45,
    3.4e38,
    -709.0,
]
ERF = np.vectorize(math.erf, otypes=[np.float64])
ERFC = np.vectorize(math.erfc, otypes=[np.float64])
WANTED = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": lambda x: sigmoid(x),
    "erf": lambda x: ERF(x.astype(np.float64)).astype(np.longdouble),
    "erfc": lambda x: ERFC(x.astype(np.float64)).astype(np.longdouble),
    "expm1": np.expm1,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "atan": np.arctan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "log2": np.log2,
    "log10": np.log10,
    "trunc": np.trunc,
}
PAIRS = {"atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign}
# In f64 these are differences of rounded values, so a little more than the others.
WIDE_ROUNDINGS = dict.fromkeys(("expm1", "log1p"), 4.0)
# Where a formula changes, results are 0 or almost, or numbers end: `benchmarks/accuracy.py` looks at more of them.
HARD = {
    "tan": (math.pi / 4, math.pi / 2, math.pi, 1.5 * math.pi, 3072 * math.pi / 2, 8192.0),
    "asin": (0.5, 0.84, 1.0),
    "sinh": (2.0**-12, 0.3466, 0.3484, 8.07, 32.57, 88.7, 89.4),
    "cosh": (0.3466, 5.249, 8.07, 88.7, 89.4),
    "acosh": (1.0, 1.007, 1.5077, 2.0, 2.0**20),
    "atanh": (0.0039, 0.5, 0.63, 1.0),
    "sigmoid": (3e-5, 0.0015, 1.9527, 16.67, 60.0, 88.0, 103.9, 109.8),
    "swish": (3e-5, 0.0015, 1.278, 16.7, 60.0, 88.0, 103.97, 109.8),
    "gelu_tanh": (6e-5, 3.0, 4.73, 6.0, 8.6, 10.04, 10.9),
}


def apply(operation: str, *operands: Array) -> Array:
    y, count = np.empty_like(operands[0]), len(operands)
    access = StridedAccess(scalar_of(y), (1,))
    instruction = Instruction(operation, tuple(range(count)))
    run(Pointwise((y.size,), (access,) * count, (access,), (instruction,), (count,)), operands, [y])
    return y


def arguments(dtype: type[np.generic]) -> Array:
    generator = np.random.default_rng(0)
    parts = [
        generator.standard_normal(4000),
        generator.uniform(-100, 100, 4000),
        np.exp(generator.uniform(-80, 80, 4003)),
    ]
    with np.errstate(over="ignore", under="ignore"):
        return np.concatenate([*parts, np.array(EDGES)]).astype(dtype)


def largest_error(got: Array, exact: Array) -> float:
    """In ulps, of finite values; the others are equal."""
    want = exact.astype(got.dtype)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    error = np.abs(got[finite].astype(np.longdouble) - exact[finite]) / np.spacing(np.abs(want[finite]))
    return float(error.max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("operation", WANTED)
def test_results_are_within_their_ulps(operation: str, dtype: type[np.generic]) -> None:
    x = arguments(dtype)
    with np.errstate(all="ignore"):
        error = largest_error(apply(operation, x), WANTED[operation](x.astype(np.longdouble)))
    assert error <= (2.0 if dtype is np.float32 else WIDE_ROUNDINGS.get(operation, 3.0))


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x)"""
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("operation", HARD)
def test_results_of_f32_are_within_two_ulps_around_hard_points(operation: str) -> None:
    bits = np.array(HARD[operation], np.float32).view(np.uint32)[:, None] + np.arange(-4096, 4096)
    x = bits.astype(np.uint32).view(np.float32).ravel()
    x, wide = np.concatenate([x, -x]), np.concatenate([x, -x]).astype(np.longdouble)
    gates = {"swish": lambda x: x * sigmoid(x), "gelu_tanh": lambda x: x * sigmoid(x * (GATE + GATE * BEND * x * x))}
    with np.errstate(all="ignore"):
        assert largest_error(apply(operation, x), {**WANTED, **gates}[operation](wide)) <= 2.0


def test_gates_let_large_numbers_through_and_shut_with_zeros_and_nan() -> None:
    x = np.array([1e38, math.inf, -0.0, -110.0, -1e30, -math.inf, math.nan, 1e-45], np.float32)
    zeros = np.array([1e38, math.inf, -0.0, -0.0, -0.0, math.nan, math.nan, 0.0], np.float32)
    for operation in ("swish", "gelu_tanh"):
        got = apply(operation, x)
        np.testing.assert_array_equal(got, zeros)
        np.testing.assert_array_equal(np.signbit(got[:5]), np.signbit(zeros[:5]))
    for dtype in (np.float32, np.float64):
        far = np.array([1e4, math.inf, -1e4, -math.inf, math.nan], dtype)
        np.testing.assert_array_equal(apply("sigmoid", far), np.array([1.0, 1.0, 0.0, 0.0, math.nan], dtype))
        np.testing.assert_array_equal(apply("swish", far[:3]), np.array([1e4, math.inf, 0.0], dtype))


@pytest.mark.parametrize("operation", ["tanh", "erf"])
def test_results_keep_their_digits_and_signs_where_differences_from_one_are_small(operation: str) -> None:
    near = np.linspace(-0.6, 0.6, 100_001, dtype=np.float32)
    assert largest_error(apply(operation, near), WANTED[operation](near.astype(np.longdouble))) <= 2.0
    np.testing.assert_array_equal(np.signbit(apply(operation, np.array([-0.0, 0.0, -1e-45], np.float32))), [1, 0, 1])


def test_gelu_is_within_one_ulp_in_its_left_tail_too() -> None:
    x = np.concatenate([arguments(np.float32), np.linspace(-15, 6, 20_000, dtype=np.float32)])
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        assert largest_error(apply("gelu", x), wide * 0.5 * ERFC(wide * -math.sqrt(0.5))) <= 1.0
    np.testing.assert_array_equal(
        np.signbit(apply("gelu", np.array([-0.0, 0.0, -20.0, -1e-45], np.float32))), [1, 0, 1, 1]
    )


def pairs(dtype: type[np.generic]) -> tuple[Array, Array]:
    """Numbers of all sizes, and all pairs of values at the edges."""
    x, edges = arguments(dtype), np.array([*EDGES, -1.0, 0.5]).astype(dtype)
    left, right = np.repeat(edges, len(edges)), np.tile(edges, len(edges))
    return np.concatenate([x, left]), np.concatenate([np.roll(x, 4321), right])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("operation", PAIRS)
def test_results_of_pairs_are_within_two_ulps_and_have_their_signs(operation: str, dtype: type[np.generic]) -> None:
    left, right = pairs(dtype)
    with np.errstate(all="ignore"):
        exact = PAIRS[operation](left.astype(np.longdouble), right.astype(np.longdouble))
        got = apply(operation, left, right)
        assert largest_error(got, exact) <= 2.0
        numbers = ~np.isnan(got)
        np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(exact.astype(dtype)[numbers]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotients_rounded_down_and_remainders_are_those_of_numpy(dtype: type[np.generic]) -> None:
    left, right = pairs(dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(apply("floor_divide", left, right), np.floor_divide(left, right))
        np.testing.assert_array_equal(apply("remainder", left, right), np.remainder(left, right))
        sums = np.logaddexp(left, right)
    np.testing.assert_allclose(apply("logaddexp", left, right), sums, rtol=1e-6, atol=1e-6)


def test_powers_of_two_have_whole_logarithms() -> None:
    exponents = np.arange(-140, 128).astype(np.float32)
    np.testing.assert_array_equal(apply("log2", np.exp2(exponents)), exponents)


def test_denormal_results_are_kept() -> None:
    x = np.array([-88.0, -100.0, -103.0], np.float32)
    got = apply("exp", x)
    assert (got > 0).all()
    np.testing.assert_allclose(got, np.exp(x.astype(np.float64)), rtol=0, atol=1.5e-45)
