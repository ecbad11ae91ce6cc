"""Functions of each element: the standard's, taking lists and numbers too, and what the four projects have besides.

Integers and truth values are f32 where the result is continuous, and meet as `nnc.dynamic.arrays.promotion` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from nnc import ops
from nnc.array_api import elementwise as standard
from nnc.array_api.data_types import finfo
from nnc.core.values.dtype import BOOL, F64
from nnc.dynamic.arrays.promotion import continuous
from nnc.dynamic.variable import Variable
from nnc.numerics.conversion import AnyArray, Array, as_array, pair
from nnc.numerics.examples import example_of

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
    "arctan2", "arctanh", "around", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "cbrt", "ceil",
    "clamp", "clip", "conj", "conjugate", "copysign", "cos", "cosh", "deg2rad", "degrees", "div", "divide",
    "divmod", "eq", "equal", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "fabs", "fix", "float_power", "floor",
    "floor_divide", "fmax", "fmin", "fmod", "ge", "gelu", "greater", "greater_equal", "gt", "heaviside", "hypot",
    "imag", "invert", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "ldexp", "le", "left_shift",
    "lerp", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logit", "lt", "maximum", "minimum", "mod", "mul", "multiply",
    "nan_to_num", "ne", "neg", "negative", "nextafter", "not_equal", "positive", "pow", "power", "rad2deg",
    "radians", "real", "reciprocal", "relu", "remainder", "right_shift", "rint", "round", "rsqrt", "sigmoid",
    "sign", "signbit", "sin", "sinc", "sinh", "softplus", "sqrt", "square", "stop_gradient", "sub", "subtract",
    "tan", "tanh", "true_divide", "trunc", "xlogy",
]  # fmt: skip

Unary = Callable[[AnyArray], Array]
Binary = Callable[[AnyArray, AnyArray], Array]
# `Any`: rules are functions of operands of one class, which is that of their argument.
Rule = Callable[..., Any]


def _named(call: Any, name: str, doc: str | None) -> None:  # noqa: ANN401  # a function, whose names are set
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{doc or ''}{example_of(name)}"


def _unary(rule: Rule, name: str = "", doc: str = "") -> Unary:
    def call(x: AnyArray, /) -> Array:
        result: Array = rule(as_array(x))
        return result

    _named(call, name or rule.__name__, doc or rule.__doc__)
    return call


def _continuous(rule: Rule, name: str = "", doc: str = "") -> Unary:
    """Of integers and truth values as f32."""

    def call(x: AnyArray, /) -> Array:
        result: Array = rule(continuous(as_array(x)))
        return result

    _named(call, name or rule.__name__, doc or rule.__doc__)
    return call


def _binary(rule: Rule, name: str = "", doc: str = "") -> Binary:
    def call(x1: AnyArray, x2: AnyArray, /) -> Array:
        result: Array = rule(*pair(x1, x2))
        return result

    _named(call, name or rule.__name__, doc or rule.__doc__)
    return call


def _continuous_pair(rule: Rule, name: str = "", doc: str = "") -> Binary:
    def call(x1: AnyArray, x2: AnyArray, /) -> Array:
        result: Array = rule(*map(continuous, pair(x1, x2)))
        return result

    _named(call, name or rule.__name__, doc or rule.__doc__)
    return call


def _truth(rule: Rule) -> Binary:
    """Of anything: what is not 0 holds."""

    def call(x1: AnyArray, x2: AnyArray, /) -> Array:
        result: Array = rule(*(ops.cast(value, BOOL) for value in pair(x1, x2)))
        return result

    _named(call, rule.__name__, rule.__doc__)
    return call


def _ordered(rule: Rule, of_truth: Rule) -> Rule:
    """Of truth values False is the smaller."""

    def call(a: Array, b: Array) -> Array:
        result: Array = (of_truth if a.dtype is BOOL else rule)(a, b)
        return result

    return call


def _one_of(rule: Rule) -> Rule:
    """Where one is nan the other."""

    def call(a: Array, b: Array) -> Array:
        first, second = (standard.isnan(value) for value in (a, b))
        result: Array = ops.where(first, b, ops.where(second, a, rule(a, b)))
        return result

    return call


# ---- the standard's, by what they take

acos, acosh, asin, asinh = (
    _continuous(value) for value in (standard.acos, standard.acosh, standard.asin, standard.asinh)
)
atan, atanh, cos, cosh = (_continuous(value) for value in (standard.atan, standard.atanh, standard.cos, standard.cosh))
exp, expm1, log, log10 = (_continuous(value) for value in (standard.exp, standard.expm1, standard.log, standard.log10))
log1p, log2, sin, sinh = (_continuous(value) for value in (standard.log1p, standard.log2, standard.sin, standard.sinh))
sqrt, tan, tanh = (_continuous(value) for value in (standard.sqrt, standard.tan, standard.tanh))
reciprocal = _continuous(standard.reciprocal)
abs, bitwise_invert, ceil, conj = map(_unary, (standard.abs, standard.bitwise_invert, standard.ceil, standard.conj))
floor, isfinite, isinf, isnan = map(_unary, (standard.floor, standard.isfinite, standard.isinf, standard.isnan))
negative, positive, real, sign = map(_unary, (standard.negative, standard.positive, standard.real, standard.sign))
signbit, square, trunc = map(_unary, (standard.signbit, standard.square, standard.trunc))
add, subtract, multiply, pow = map(_binary, (standard.add, standard.subtract, standard.multiply, standard.pow))
bitwise_and, bitwise_or, bitwise_xor = map(_binary, (standard.bitwise_and, standard.bitwise_or, standard.bitwise_xor))
bitwise_left_shift, bitwise_right_shift = map(_binary, (standard.bitwise_left_shift, standard.bitwise_right_shift))
not_equal, less, less_equal = map(_binary, (standard.not_equal, standard.less, standard.less_equal))
greater, greater_equal = map(_binary, (standard.greater, standard.greater_equal))
floor_divide, remainder = map(_binary, (standard.floor_divide, standard.remainder))
divide, atan2, hypot = map(_continuous_pair, (standard.divide, standard.atan2, standard.hypot))
logaddexp, copysign, nextafter = map(_continuous_pair, (standard.logaddexp, standard.copysign, standard.nextafter))
logical_and, logical_or, logical_xor = map(_truth, (standard.logical_and, standard.logical_or, standard.logical_xor))
logical_not = _unary(lambda x: ops.logical_not(ops.cast(x, BOOL)), "logical_not", "not x: whether x is 0")
maximum = _binary(_ordered(standard.maximum, ops.logical_or), "maximum", standard.maximum.__doc__ or "")
minimum = _binary(_ordered(standard.minimum, ops.logical_and), "minimum", standard.minimum.__doc__ or "")


def equal(x1: AnyArray, x2: AnyArray, /) -> Array:
    """x1 == x2 of each element; as a truth value, in `if` and `assert`, whether shapes and all elements are equal.

    >>> nnc.equal([1, 2], 1)
    Variable(bool[2], constant)
    [ True False]
    >>> "same" if nnc.equal([1, 2], [1, 2]) else "others"
    'same'
    """
    a, b = pair(x1, x2)
    result: Array = standard.equal(a, b)
    if isinstance(result, Variable):
        result.is_true_where_all_are(a.shape == b.shape)
    return result


def imag(x: AnyArray, /) -> Array:
    """The imaginary part; zeros of real numbers.

    >>> nnc.imag([1.0 + 2.0j])
    Variable(f32[1], constant)
    [2.]
    """
    array = as_array(x)
    return ops.imaginary(array) if array.dtype.kind == "complex" else ops.fill_like(array, 0)


def round(x: AnyArray, decimals: int = 0) -> Array:
    """The nearest number of so many decimals, halves to even.

    >>> nnc.round([0.5, 1.5, 2.345], 2)
    Variable(f32[3], constant)
    [0.5  1.5  2.34]
    """
    array = as_array(x)
    return standard.round(array) if array.dtype.kind == "complex" and not decimals else array.round(decimals)


# ---- what the projects have besides

LN2 = math.log(2.0)
DEGREE = math.pi / 180.0


def _cube_root(x: Array) -> Array:
    """The real root; through logarithms, with one step of Newton's for the last bits. Its slope at 0 is infinite."""
    size = ops.abs(x)
    safe = ops.where(size == 0, ops.fill_like(size, 1), size)
    root = ops.exp(ops.log(safe) * (1.0 / 3.0))
    polished = root - (root - safe / (root * root)) * (1.0 / 3.0)
    return ops.where(size == 0, x, ops.copysign(polished, x))


def _sinc(x: Array) -> Array:
    angle = x * math.pi
    at_zero = ops.equal(angle, ops.scalar_like(angle, 0.0))
    safe = ops.where(at_zero, ops.fill_like(angle, 1.0), angle)
    # Its second derivative at 0 is -π² / 3, which the series keeps.
    return ops.where(at_zero, 1.0 - angle * angle * (1.0 / 6.0), ops.sin(safe) / safe)


def _heaviside(x: Array, at_zero: Array) -> Array:
    side = ops.cast(ops.greater(x, ops.scalar_like(x, 0.0)), x.dtype)
    chosen = ops.where(ops.equal(x, ops.scalar_like(x, 0.0)), at_zero, side)
    return ops.where(standard.isnan(x), x, chosen)


def _fmod(a: Array, b: Array) -> Array:
    """With the sign of a."""
    rest: Array = standard.remainder(standard.abs(a), standard.abs(b))
    below = ops.less(a, ops.scalar_like(a, 0))
    return ops.where(below, -rest, rest)


def _angle(x: Array) -> Array:
    if x.dtype.kind == "complex":
        return ops.atan2(ops.imaginary(x), ops.real(x))
    below = ops.less(x, ops.scalar_like(x, 0.0))
    return ops.where(standard.isnan(x), x, ops.where(below, ops.fill_like(x, math.pi), ops.fill_like(x, 0.0)))


def _x_log_y(a: Array, b: Array) -> Array:
    none = ops.equal(a, ops.scalar_like(a, 0.0))
    return a * ops.log(ops.where(none, ops.scalar_like(b, 1.0), b))


# Of w = -ln(1 - y²), from the highest power down: below 5 in w - 2.5, from 5 on in √w - 3 (Giles 2010).
_NEAR = (
    2.81022636e-8, 3.43273939e-7, -3.5233877e-6, -4.39150654e-6, 2.1858087e-4, -1.25372503e-3, -4.17768164e-3,
    0.246640727, 1.50140941,
)  # fmt: skip
_FAR = (
    -2.00214257e-4, 1.00950558e-4, 1.34934322e-3, -3.67342844e-3, 5.73950773e-3, -7.6224613e-3, 9.43887047e-3,
    1.00167406, 2.83297682,
)  # fmt: skip


def _polynomial(x: Array, factors: Sequence[float]) -> Array:
    """Σ factors[-1 - k] · x^k"""
    total = ops.fill_like(x, factors[0])
    for factor in factors[1:]:
        total = total * x + factor
    return total


def _inverse_error_function(y: Array) -> Array:
    """x with erf(x) = y: Giles' polynomials, within 3e-7 of x; in f64 two of Newton's steps follow."""
    size = ops.abs(y)
    rest = ops.scalar_like(y, 1.0) - size
    w = -(ops.log(rest) + ops.log1p(size))
    edge = ops.scalar_like(w, 5.0)
    low = _polynomial(w - 2.5, _NEAR)
    high = _polynomial(ops.sqrt(ops.maximum(w, edge)) - 3.0, _FAR)
    x = ops.where(ops.less(w, edge), low, high) * size
    if y.dtype is F64:
        for _ in range(2):
            # Near 1 by what is missing there, which is exact.
            ahead = ops.where(ops.less(size, ops.scalar_like(y, 0.5)), ops.erf(x) - size, rest - ops.erfc(x))
            x = x - ahead * ops.exp(ops.square(x)) * (math.sqrt(math.pi) / 2)
    x = ops.where(ops.equal(rest, ops.scalar_like(y, 0.0)), ops.fill_like(x, math.inf), x)
    return ops.where(ops.less(y, ops.scalar_like(y, 0.0)), -x, x)


def _infinite(sign: float) -> Rule:
    def call(x: Array) -> Array:
        whole: Array = ops.equal(x, ops.scalar_like(x, sign * math.inf)) if x.dtype.is_float else standard.isinf(x)
        return whole

    return call


exp2 = _continuous(lambda x: ops.exp(x * LN2), "exp2", "2^x")
cbrt = _continuous(_cube_root, "cbrt", "∛x")
rsqrt = _continuous(ops.rsqrt)
deg2rad = _continuous(lambda x: x * DEGREE, "deg2rad", "x · π / 180")
rad2deg = _continuous(lambda x: x * (1.0 / DEGREE), "rad2deg", "x · 180 / π")
sinc = _continuous(_sinc, "sinc", "sin(π x) / (π x), and 1 at 0")
erf, erfc = _continuous(ops.erf), _continuous(ops.erfc)
erfinv = _continuous(_inverse_error_function, "erfinv", "y with erf(y) = x; ±∞ at ±1, nan beyond")
sigmoid, relu, gelu, softplus = (_continuous(value) for value in (ops.sigmoid, ops.relu, ops.gelu, ops.softplus))
logit = _continuous(lambda x: ops.log(x) - ops.log1p(-x), "logit", "ln(x / (1 - x))")
stop_gradient = _unary(ops.stop_gradient)
angle = _continuous(_angle, "angle", "the angle of a complex number; 0 or π of real ones")
isposinf = _unary(_infinite(1.0), "isposinf", "x is ∞")
isneginf = _unary(_infinite(-1.0), "isneginf", "x is -∞")
isreal = _unary(lambda x: ops.equal(imag(x), ops.scalar_like(imag(x), 0)), "isreal", "the imaginary part of x is 0")
heaviside = _continuous_pair(_heaviside, "heaviside", "0 below 0, 1 above, and x2 where x1 is 0")
fmod = _binary(_fmod, "fmod", "x1 - x2 · trunc(x1 / x2): the rest with the sign of x1")
fmax = _binary(_one_of(standard.maximum), "fmax", "the larger of x1, x2; of a nan and a number the number")
fmin = _binary(_one_of(standard.minimum), "fmin", "the smaller of x1, x2; of a nan and a number the number")
float_power = _continuous_pair(ops.power, "float_power", "x1^x2, in floats")
logaddexp2 = _continuous_pair(
    lambda a, b: ops.logaddexp(a * LN2, b * LN2) * (1.0 / LN2), "logaddexp2", "log₂(2^x1 + 2^x2)"
)
ldexp = _continuous_pair(lambda a, b: a * ops.exp(b * LN2), "ldexp", "x1 · 2^x2")
xlogy = _continuous_pair(_x_log_y, "xlogy", "x1 · ln x2, and 0 where x1 is 0")


def divmod(x1: AnyArray, x2: AnyArray, /) -> tuple[Array, Array]:
    """⌊x1 / x2⌋ and the rest.

    >>> [part.item() for part in nnc.divmod(7, 3)]
    [2, 1]
    """
    return floor_divide(x1, x2), remainder(x1, x2)


def div(x1: AnyArray, x2: AnyArray, *, rounding_mode: str | None = None) -> Array:
    """x1 / x2; with `rounding_mode` "floor" x1 // x2, with "trunc" cut off at the point.

    >>> nnc.div([7.0, -7.0], 2.0, rounding_mode="trunc").tolist()
    [3.0, -3.0]
    """
    a, b = pair(x1, x2)
    return a.div(b, rounding_mode=rounding_mode)


def clip(x: AnyArray, min: AnyArray | None = None, max: AnyArray | None = None) -> Array:
    """min(max(x, min), max), broadcast; None is no bound.

    >>> nnc.clip([-1.0, 0.5, 3.0], 0, 1)
    Variable(f32[3], constant)
    [0.  0.5 1. ]
    """
    result = as_array(x)
    if min is not None:
        result = maximum(result, min)
    return result.twin() if max is None and result is x else result if max is None else minimum(result, max)


def nan_to_num(x: AnyArray, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Array:
    """nan as `nan`, and infinities as these numbers: the largest and smallest of the element type where None.

    >>> nnc.nan_to_num([nnc.nan, 1.0])
    Variable(f32[2], constant)
    [0. 1.]
    """
    array = as_array(x)
    if not array.dtype.is_float:
        return array.twin()
    limit = finfo(array).max
    high, low = (limit if posinf is None else posinf), (-limit if neginf is None else neginf)
    result = ops.where(standard.isnan(array), ops.scalar_like(array, nan), array)
    result = ops.where(isposinf(array), ops.scalar_like(array, high), result)
    return ops.where(isneginf(array), ops.scalar_like(array, low), result)


def lerp(start: AnyArray, end: AnyArray, weight: AnyArray) -> Array:
    """start + weight · (end - start)

    >>> nnc.lerp([0.0], [10.0], 0.25)
    Variable(f32[1], constant)
    [2.5]
    """
    return add(start, multiply(weight, subtract(end, start)))


# ---- other spellings

absolute = fabs = abs
neg = negative
arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh = acos, acosh, asin, asinh, atan, atan2, atanh
bitwise_not = invert = bitwise_invert
left_shift, right_shift = bitwise_left_shift, bitwise_right_shift
conjugate = conj
degrees, radians = rad2deg, deg2rad
mod, power, true_divide = remainder, pow, divide
mul, sub, clamp = multiply, subtract, clip
eq, ne, lt, le, gt, ge = equal, not_equal, less, less_equal, greater, greater_equal
rint, around, fix = round, round, trunc
