"""Functions of each element, against NumPy's."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from tests.numerics.agreement import Call, agree, agree_compiled, slopes_agree

import nnc
from nnc.core.values.dtype import BOOL, F32, F64, I64
from nnc.errors import ArgumentError, DTypeError, UsageError

RANDOM = np.random.default_rng(1)
X, Y = RANDOM.uniform(0.1, 0.9, (2, 3, 4))
N, M = RANDOM.integers(1, 9, (2, 3, 4))
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5])


def named(name: str) -> Call:
    return lambda xp, *arrays: getattr(xp, name)(*arrays)


SMOOTH = (
    "abs", "acos", "arccos", "asin", "arcsin", "acosh", "asinh", "arcsinh", "atan", "arctan", "atanh", "arctanh",
    "cos", "cosh", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "negative", "positive", "reciprocal",
    "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh", "cbrt", "deg2rad", "rad2deg", "degrees", "radians",
    "fabs",
)  # fmt: skip
SMOOTH_PAIRS = (
    "add", "subtract", "multiply", "divide", "true_divide", "pow", "power", "float_power", "arctan2", "atan2",
    "hypot", "logaddexp", "logaddexp2", "maximum", "minimum", "fmax", "fmin",
)  # fmt: skip
LOOKS = (
    "floor", "ceil", "trunc", "rint", "round", "around", "fix", "sign", "signbit", "isnan", "isinf", "isfinite",
    "isposinf", "isneginf", "isreal", "logical_not", "angle",
)  # fmt: skip
LOOK_PAIRS = (
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_xor", "copysign", "heaviside", "fmod", "mod", "remainder", "floor_divide", "divmod",
)  # fmt: skip
WHOLE_PAIRS = (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "mod", "fmod", "power", "maximum",
    "minimum", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "equal", "less",
    "logical_and", "divmod",
)  # fmt: skip
BESIDE_ONE = {"acosh", "arccosh"}


def above_one(name: str) -> np.ndarray:
    return X + 1.0 if name in BESIDE_ONE else X


def test_continuous_functions_of_floats_and_of_integers() -> None:
    agree([named(name) for name in SMOOTH if name not in BESIDE_ONE], X)
    agree([named("acosh"), named("arccosh")], X + 1)
    whole = [name for name in SMOOTH if name not in ("abs", "negative", "positive", "square", "fabs", "reciprocal")]
    agree([named(name) for name in whole if "atanh" not in name and "arctanh" not in name], np.int64([[0, 1]]))
    agree([named(name) for name in ("abs", "negative", "positive", "square")], N)


def test_gradients_of_continuous_functions() -> None:
    slopes_agree([named(name) for name in SMOOTH if name not in BESIDE_ONE], X)
    slopes_agree([named(name) for name in SMOOTH_PAIRS], X, Y)
    slopes_agree([lambda xp, x: xp.clip(x, 0.3, 0.7), lambda xp, x: xp.nan_to_num(x), lambda xp, x: xp.sinc(x - x)], X)


def test_pairs() -> None:
    agree([named(name) for name in (*SMOOTH_PAIRS, *LOOK_PAIRS)], X, Y)
    agree([named(name) for name in LOOK_PAIRS], X - 0.5, Y[0] - 0.5)
    agree([named(name) for name in WHOLE_PAIRS], N, M)
    agree([named(name) for name in ("fmod", "remainder", "floor_divide")], N - 5, M)
    agree([named(name) for name in ("logical_and", "logical_or", "logical_xor", "maximum", "minimum")], N > 4, M > 4)


def test_what_looks_at_elements() -> None:
    agree([named(name) for name in LOOKS], X * 5 - 2)
    agree([named(name) for name in LOOKS if name not in ("sign", "angle")], SPECIAL)
    agree([named("fmax"), named("fmin"), named("maximum"), named("minimum")], SPECIAL, SPECIAL[::-1].copy())
    agree([lambda xp, x: xp.nan_to_num(x), lambda xp, x: xp.nan_to_num(x, nan=1.0, posinf=2.0, neginf=3.0)], SPECIAL)
    agree(
        [lambda xp, x: xp.round(x, 2), lambda xp, x: xp.clip(x, 0.2, None), lambda xp, x: xp.clip(x, None, x.T[0, 0])],
        X,
    )


def test_compiled() -> None:
    agree_compiled([named(name) for name in (*SMOOTH_PAIRS, *LOOK_PAIRS)], X, Y)
    agree_compiled([named(name) for name in (*SMOOTH, *LOOKS) if name not in BESIDE_ONE], X)


def test_complex_numbers() -> None:
    z = X + 1j * Y
    agree([named(name) for name in ("abs", "conj", "conjugate", "real", "imag", "angle", "exp", "sqrt", "isreal")], z)
    agree([lambda xp, x: xp.imag(x), lambda xp, x: xp.real(x), lambda xp, x: xp.multiply(x, 2j)], X)


def test_values_of_every_kind_are_taken() -> None:
    assert nnc.exp(0).item() == nnc.exp([0.0]).item() == nnc.exp(np.zeros(())).item() == 1.0
    assert (nnc.exp(1).dtype, nnc.exp(True).dtype, nnc.exp(np.float64(1)).dtype) == (F32, F32, F64)
    assert (nnc.add(1, 2).item(), nnc.add(1, 2).dtype, nnc.add([1], 2.5).dtype) == (3, I64, F32)
    assert nnc.add(nnc.array([1, 2]), np.array([0.5, 1.5])).tolist() == [1.5, 3.5]
    assert nnc.maximum([True, False], [False, False]).dtype is BOOL
    assert nnc.sin(np.zeros((0, 3))).shape == (0, 3)


def test_other_spellings_are_the_same_function() -> None:
    for names in (
        "arccos acos", "mod remainder", "power pow", "mul multiply", "sub subtract", "divide true_divide",
        "clamp clip", "neg negative", "bitwise_not bitwise_invert invert", "absolute abs", "eq equal",
    ):  # fmt: skip
        first, *others = (getattr(nnc, name) for name in names.split())
        assert all(other.__wrapped__.__wrapped__ is first.__wrapped__.__wrapped__ for other in others)
    with pytest.raises(DTypeError, match="bitwise_and"):
        nnc.bitwise_and([1.0], [2.0])
    with pytest.raises(ArgumentError, match="subok="):
        nnc.round([1.5], subok=True)


def test_what_torch_and_mlx_add() -> None:
    np.testing.assert_allclose(nnc.rsqrt(X), X**-0.5)
    np.testing.assert_allclose(nnc.sigmoid(X), 1 / (1 + np.exp(-X)))
    np.testing.assert_allclose(nnc.logit(X), np.log(X / (1 - X)))
    np.testing.assert_allclose(nnc.softplus(X), np.log1p(np.exp(X)))
    np.testing.assert_allclose(nnc.lerp(X, Y, 0.25), X + 0.25 * (Y - X))
    np.testing.assert_allclose(nnc.xlogy([0.0, 2.0], [0.0, 3.0]), [0.0, 2 * np.log(3)], rtol=1e-6)
    np.testing.assert_allclose(nnc.ldexp(X, N), np.ldexp(X, N), rtol=1e-6)
    assert nnc.relu([-1.0, 2.0]).tolist() == [0.0, 2.0]
    np.testing.assert_allclose(nnc.erf(X) + nnc.erfc(X), 1.0)
    assert nnc.grad(lambda x: nnc.stop_gradient(x) * x)(3.0).item() == 3.0


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-6), (np.float64, 1e-12)])
def test_the_inverse_error_function(dtype: type, tolerance: float) -> None:
    y = np.array([0.0, 1e-8, 0.1, -0.3, 0.5, 0.9, -0.99, 0.9999, 0.999999], dtype)
    expected = [NormalDist().inv_cdf((float(each) + 1) / 2) / math.sqrt(2) for each in y]
    expected[1] = 1e-8 * math.sqrt(math.pi) / 2
    result = nnc.erfinv(y)
    assert result.dtype == nnc.as_tensor(y).dtype
    np.testing.assert_allclose(result.numpy(), expected, rtol=max(tolerance, 1e-9 if dtype is np.float64 else 0))
    assert nnc.erfinv([1.0, -1.0]).tolist() == [math.inf, -math.inf]
    assert nnc.isnan(nnc.erfinv(1.5)).item()


def test_equal_is_one_truth_value_where_one_is_asked_for() -> None:
    x = nnc.ones((2, 3))
    assert nnc.equal(x, nnc.ones((2, 3)))
    assert not nnc.equal(x, nnc.zeros((2, 3)))
    assert not nnc.equal(x, nnc.ones(3))
    assert nnc.equal(x, 1.0).shape == (2, 3)
    assert x.equal(nnc.ones((2, 3))) is True
    assert x.equal([[1.0]]) is False
    with pytest.raises(UsageError, match="one element"):
        bool(x == x)
    with pytest.raises(UsageError, match="need an array"):
        x.equal(nnc)
