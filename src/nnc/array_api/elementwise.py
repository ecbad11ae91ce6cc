"""Functions of each element: a row names one, the kinds of element types that it takes, and what computes it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnc import ops
from nnc.array_api.data_types import Number, lifted, meet
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.errors import DTypeError
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.rules import ARITHMETIC, CONTINUOUS, FLOATS, NUMBERS

Array = ArrayOperand
Unary = Callable[[Array], Array]
Binary = Callable[[Array | Number, Array | Number], Array]
# `Any`: rules are functions of operands of one class, which is that of their argument.
Rule = Callable[..., Any]

TRUTH = ("bool",)
INTEGERS = ("int", "uint")
ANYTHING = (*TRUTH, *ARITHMETIC)


def checked_array(name: str, x: object, kinds: Sequence[str] = ANYTHING) -> Array:
    """The argument, if it is an array of one of these kinds."""
    if not isinstance(x, ArrayOperand) or x.dtype.kind not in kinds:
        got = str(x.spec) if isinstance(x, ArrayOperand) else f"a {type(x).__name__}"
        raise DTypeError(name, got=got, need="an array of " + " or ".join(kinds), fix="asarray() or astype() it")
    return x


def _unary(name: str, kinds: Sequence[str], rule: Rule, doc: str) -> Unary:
    def call(x: Array, /) -> Array:
        result: Array = rule(checked_array(name, x, kinds))
        return result

    _describe(call, name, doc)
    return call


def _binary(name: str, kinds: Sequence[str], rule: Rule, doc: str) -> Binary:
    def call(x1: Array | Number, x2: Array | Number, /) -> Array:
        a, b = meet(name, x1, x2)
        result: Array = rule(checked_array(name, a, kinds), b)
        return result

    _describe(call, name, doc)
    return call


def _describe(call: Callable[..., Array], name: str, doc: str) -> None:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc


# ---- rules that are not the operators themselves


def _is_complex(x: Array) -> bool:
    return x.dtype.kind == "complex"


def _absolute(x: Array) -> Array:
    if _is_complex(x):
        return ops.magnitude(x)
    return x.twin() if x.dtype.kind == "uint" else ops.abs(x)


def _whole(rule: Unary) -> Unary:
    """Integers are whole already; of complex numbers each part is rounded."""

    def call(x: Array) -> Array:
        if _is_complex(x):
            return ops.complex_of(rule(ops.real(x)), rule(ops.imaginary(x)))
        return rule(x) if x.dtype.is_float else x.twin()

    return call


def _truth(rule: Unary, join: Rule, other: bool) -> Unary:
    """A question to floats; to both parts of complex numbers; with one answer for all other types."""

    def call(x: Array) -> Array:
        if _is_complex(x):
            result: Array = join(rule(ops.real(x)), rule(ops.imaginary(x)))
            return result
        return rule(x) if x.dtype.is_float else lifted(x, np.full(x.shape, other))

    return call


def _is_finite(x: Array) -> Array:
    return ops.less(ops.abs(x), scalar_like(x, math.inf))


def _sign(x: Array) -> Array:
    if _is_complex(x):
        size = ops.magnitude(x)
        nothing = ops.equal(size, scalar_like(size, 0.0))
        return ops.divide(x, ops.cast(ops.where(nothing, scalar_like(size, 1.0), size), x.dtype))
    return ops.where(ops.is_nan(x), x, ops.sign(x)) if x.dtype.is_float else ops.sign(x)


def _signbit(x: Array) -> Array:
    ones = ops.copysign(fill_like(x, 1.0), x)
    return ops.less(ones, scalar_like(ones, 0.0))


def _truth_or_bits(logical: Rule, bits: Rule) -> Rule:
    def call(*operands: Array) -> Array:
        result: Array = (logical if operands[0].dtype.kind == "bool" else bits)(*operands)
        return result

    return call


abs = _unary("abs", ARITHMETIC, _absolute, "|x|")
acos = _unary("acos", CONTINUOUS, ops.acos, "arccos x")
acosh = _unary("acosh", CONTINUOUS, ops.acosh, "arcosh x")
add = _binary("add", ARITHMETIC, ops.add, "x1 + x2")
asin = _unary("asin", CONTINUOUS, ops.asin, "arcsin x")
asinh = _unary("asinh", CONTINUOUS, ops.asinh, "arsinh x")
atan = _unary("atan", CONTINUOUS, ops.atan, "arctan x")
atan2 = _binary("atan2", FLOATS, ops.atan2, "the angle of the point (x2, x1)")
atanh = _unary("atanh", CONTINUOUS, ops.atanh, "artanh x")
bitwise_and = _binary(
    "bitwise_and", (*TRUTH, *INTEGERS), _truth_or_bits(ops.logical_and, ops.bitwise_and), "x1 and x2, bit by bit"
)
bitwise_invert = _unary(
    "bitwise_invert", (*TRUTH, *INTEGERS), _truth_or_bits(ops.logical_not, ops.bitwise_not), "not x"
)
bitwise_left_shift = _binary("bitwise_left_shift", INTEGERS, ops.shift_left, "x1 · 2^x2")
bitwise_or = _binary(
    "bitwise_or", (*TRUTH, *INTEGERS), _truth_or_bits(ops.logical_or, ops.bitwise_or), "x1 or x2, bit by bit"
)
bitwise_right_shift = _binary("bitwise_right_shift", INTEGERS, ops.shift_right, "⌊x1 / 2^x2⌋")
bitwise_xor = _binary(
    "bitwise_xor",
    (*TRUTH, *INTEGERS),
    _truth_or_bits(ops.logical_xor, ops.bitwise_xor),
    "exactly one of x1, x2, bit by bit",
)
ceil = _unary("ceil", NUMBERS, _whole(ops.ceil), "the smallest integer ≥ x")
conj = _unary("conj", ARITHMETIC, lambda x: ops.conjugate(x) if _is_complex(x) else x.twin(), "the conjugate of x")
copysign = _binary("copysign", FLOATS, ops.copysign, "|x1| with the sign of x2")
cos = _unary("cos", CONTINUOUS, ops.cos, "cos x")
cosh = _unary("cosh", CONTINUOUS, ops.cosh, "cosh x")
divide = _binary("divide", CONTINUOUS, ops.divide, "x1 / x2")
equal = _binary("equal", ANYTHING, ops.equal, "x1 == x2")
exp = _unary("exp", CONTINUOUS, ops.exp, "e^x")
expm1 = _unary("expm1", CONTINUOUS, ops.expm1, "e^x - 1")
floor = _unary("floor", NUMBERS, _whole(ops.floor), "the largest integer ≤ x")
floor_divide = _binary("floor_divide", NUMBERS, ops.floor_divide, "⌊x1 / x2⌋")
greater = _binary("greater", NUMBERS, ops.greater, "x1 > x2")
greater_equal = _binary("greater_equal", NUMBERS, ops.greater_equal, "x1 >= x2")
hypot = _binary("hypot", FLOATS, ops.hypot, "√(x1² + x2²)")
imag = _unary("imag", ("complex",), ops.imaginary, "the imaginary part of x")
isfinite = _unary("isfinite", ARITHMETIC, _truth(_is_finite, ops.logical_and, True), "x is neither infinite nor nan")
isinf = _unary("isinf", ARITHMETIC, _truth(ops.is_inf, ops.logical_or, False), "x is infinite")
isnan = _unary("isnan", ARITHMETIC, _truth(ops.is_nan, ops.logical_or, False), "x is not a number")
less = _binary("less", NUMBERS, ops.less, "x1 < x2")
less_equal = _binary("less_equal", NUMBERS, ops.less_equal, "x1 <= x2")
log = _unary("log", CONTINUOUS, ops.log, "ln x")
log10 = _unary("log10", CONTINUOUS, ops.log10, "log₁₀ x")
log1p = _unary("log1p", CONTINUOUS, ops.log1p, "ln(1 + x)")
log2 = _unary("log2", CONTINUOUS, ops.log2, "log₂ x")
logaddexp = _binary("logaddexp", FLOATS, ops.logaddexp, "ln(e^x1 + e^x2)")
logical_and = _binary("logical_and", TRUTH, ops.logical_and, "x1 and x2")
logical_not = _unary("logical_not", TRUTH, ops.logical_not, "not x")
logical_or = _binary("logical_or", TRUTH, ops.logical_or, "x1 or x2")
logical_xor = _binary("logical_xor", TRUTH, ops.logical_xor, "exactly one of x1, x2")
maximum = _binary("maximum", NUMBERS, ops.maximum, "the larger of x1, x2; nan wins")
minimum = _binary("minimum", NUMBERS, ops.minimum, "the smaller of x1, x2; nan wins")
multiply = _binary("multiply", ARITHMETIC, ops.multiply, "x1 · x2")
negative = _unary("negative", ARITHMETIC, operator.neg, "-x")
nextafter = _binary("nextafter", FLOATS, ops.nextafter, "the next float from x1 towards x2")
not_equal = _binary("not_equal", ANYTHING, ops.not_equal, "x1 != x2")
positive = _unary("positive", ARITHMETIC, operator.pos, "x")
pow = _binary("pow", ARITHMETIC, ops.power, "x1^x2")
real = _unary("real", ARITHMETIC, lambda x: ops.real(x) if _is_complex(x) else x.twin(), "the real part of x")
reciprocal = _unary("reciprocal", CONTINUOUS, ops.reciprocal, "1 / x")
remainder = _binary("remainder", NUMBERS, ops.remainder, "x1 - x2 · ⌊x1 / x2⌋")
round = _unary("round", ARITHMETIC, _whole(ops.round), "the nearest integer, halves to even")
sign = _unary("sign", ARITHMETIC, _sign, "x / |x|, and 0 of 0")
signbit = _unary("signbit", FLOATS, _signbit, "the sign of x is negative, that of -0 too")
sin = _unary("sin", CONTINUOUS, ops.sin, "sin x")
sinh = _unary("sinh", CONTINUOUS, ops.sinh, "sinh x")
sqrt = _unary("sqrt", CONTINUOUS, ops.sqrt, "√x")
square = _unary("square", ARITHMETIC, ops.square, "x²")
subtract = _binary("subtract", ARITHMETIC, ops.subtract, "x1 - x2")
tan = _unary("tan", CONTINUOUS, ops.tan, "tan x")
tanh = _unary("tanh", CONTINUOUS, ops.tanh, "tanh x")
trunc = _unary("trunc", NUMBERS, _whole(ops.trunc), "the next integer towards 0")


def clip(x: Array, /, min: Array | Number | None = None, max: Array | Number | None = None) -> Array:
    """min(max(x, min), max), broadcast, of the element type of x; None is no bound."""
    clipped = checked_array("clip", x, NUMBERS)
    for bound, rule in ((min, ops.maximum), (max, ops.minimum)):
        if bound is not None:
            a, b = meet("clip", clipped, bound)
            clipped = rule(a, b)
    return clipped.twin() if clipped is x else clipped.astype(x.dtype)
