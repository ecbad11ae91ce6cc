"""Pointwise operators: y[i…] = f(a[i…], b[i…], …), with NumPy broadcasting.

One row per operator: key, formula, derivative. A derivative is written in operators of this file, so it can
be differentiated again, to any order. It names what it reads: `y` where the output suffices, so that the
input may be freed or overwritten.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import BOOL, I32, U64, DType
from nnc.core.values.spec import broadcast_shapes
from nnc.errors import AttributeValueError, DTypeError
from nnc.ops.elementwise import forward
from nnc.ops.elementwise.forward import BEND, GATE
from nnc.ops.elementwise.mixed import operand_like
from nnc.ops.elementwise.rows import (
    FORWARD,
    TRUTH_VALUE,
    binary,
    infer_logical,
    infer_predicate,
    infer_same,
    logical,
    mixed,
    part,
    predicate,
    unary,
)
from nnc.ops.examples import MATRIX, TRUTH, Example
from nnc.ops.function import BinaryOperator, UnaryOperator
from nnc.ops.movement.broadcast import sum_to
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.number import Number, as_float, exact, is_whole
from nnc.ops.operand import Operand, T, apply, apply_command
from nnc.ops.precision import FOLLOW
from nnc.ops.rules import (
    ARITHMETIC,
    CONTINUOUS,
    NUMBERS,
    Applied,
    Gradients,
    Inplace,
    NoAttrs,
    Pattern,
    Specs,
    check_kinds,
    describe,
    operator,
    single,
)

__all__ = [
    "abs", "add", "affine", "atan", "cast", "ceil", "clamp", "cos", "divide", "equal", "erf", "erfc", "exp", "expm1",
    "floor", "gelu", "gelu_tanh", "greater", "greater_equal", "is_nan", "leaky_relu", "less", "less_equal", "log",
    "log1p", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "not_equal",
    "power", "real", "reciprocal", "relu", "round", "sigmoid", "sign", "sin", "softplus", "sqrt", "square", "step",
    "subtract", "swish", "tanh", "where",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class AffineAttrs:
    """y = scale · x + shift. The default shift -0.0 changes nothing, where +0.0 makes +0.0 of -0.0.

    Beside integers both are integers, kept exactly and used modulo 2^bits.
    """

    scale: Number = 1.0
    shift: Number = -0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", exact(self.scale))
        object.__setattr__(self, "shift", exact(self.shift))


@dataclass(frozen=True, slots=True)
class CastAttrs:
    """The element type of the result."""

    dtype: DType


def _infer_affine(attrs: AffineAttrs, specs: Specs) -> Specs:
    (x,) = specs
    check_kinds(ARITHMETIC, x)
    whole = all(
        is_whole(number) or (x.dtype is U64 and -(1 << 64) < number < 1 << 64) for number in (attrs.scale, attrs.shift)
    )
    if not (x.dtype.is_continuous or whole):
        need = "integral scale and shift of 64 bits"
        raise AttributeValueError("affine", got=f"{x}", need=need, fix="cast() x to a float type")
    return specs


def _infer_where(attrs: NoAttrs, specs: Specs) -> Specs:
    condition, a, b = specs
    if condition.dtype is not BOOL:
        raise DTypeError(
            "where", got=f"condition {condition}", need="bool", fix="compare first, for example greater(x, y)"
        )
    (both,) = infer_same(attrs, (a, b))
    return (replace(both, shape=broadcast_shapes("where", condition.shape, both.shape)),)


def _infer_cast(attrs: CastAttrs, specs: Specs) -> Specs:
    if specs[0].dtype.kind == "complex" and attrs.dtype.kind not in ("complex", "bool"):
        need, fix = "a complex type, or bool", "take real() first"
        raise DTypeError("cast", got=f"{specs[0]} to {attrs.dtype}", need=need, fix=fix)
    return (replace(specs[0], dtype=attrs.dtype),)


def _affine_gradient(call: Applied[AffineAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    return (affine(g, call.attrs.scale),)


def _cast_gradient(call: Applied[CastAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    source = call.inputs[0].spec.dtype
    if not (source.is_continuous and call.attrs.dtype.is_continuous):
        return (None,)
    return (cast(real(g) if source.is_float and g.spec.dtype.kind == "complex" else g, source),)


def _where_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    g = single(gradients)
    condition, a, b = call.inputs
    zero = fill_like(g, 0.0)
    left = sum_to(where(condition, g, zero), a.shape) if call.needed[1] else None
    right = sum_to(where(condition, zero, g), b.shape) if call.needed[2] else None
    return (None, left, right)


def _gated_slope(x: Operand, gate: Operand, inner: Operand | None = None) -> Operand:
    """d/dx x · sigmoid(u(x)) = s · (1 + x · (1 - s) · u'(x)) with the gate s = sigmoid(u(x)); u' = 1 by default."""
    open_part = multiply(x, affine(gate, -1.0, 1.0))
    return multiply(gate, affine(open_part if inner is None else multiply(open_part, inner), 1.0, 1.0))


def _gelu_gate(x: Operand) -> Operand:
    """u(x) = GATE · x · (1 + BEND · x²)"""
    return multiply(x, affine(square(x), GATE * BEND, GATE))


def _gelu_gate_slope(x: Operand) -> Operand:
    """u'(x) = GATE · (1 + 3 · BEND · x²)"""
    return affine(square(x), 3.0 * GATE * BEND, GATE)


def _error_slope(x: Operand) -> Operand:
    """d/dx erf x = 2/√π · e^(-x²)"""
    return affine(exp(affine(square(x), -1.0)), 2.0 / math.sqrt(math.pi))


def _gelu_slope(x: Operand) -> Operand:
    """d/dx x · Φ(x) = Φ(x) + x · φ(x), φ(x) = e^(-x²/2) / √(2π)"""
    distribution = affine(erf(affine(x, math.sqrt(0.5))), 0.5, 0.5)
    density = affine(exp(affine(square(x), -0.5)), 1.0 / math.sqrt(2.0 * math.pi))
    return add(distribution, multiply(x, density))


def _power_slope(a: Operand, b: Operand) -> Operand:
    """d/da a^b = b · a^(b - 1); 0 for b = 0, also where a^-1 is infinite."""
    kept = where(equal(b, scalar_like(b, 0.0)), scalar_like(b, 1.0), b)
    return multiply(b, power(a, affine(kept, 1.0, -1.0)))


def _power_growth(a: Operand, b: Operand, y: Operand) -> Operand:
    """d/db a^b = a^b · ln a; 0 for a = 0 and b ≥ 0, where a^b does not move although ln a is infinite."""
    nothing = scalar_like(a, 0.0)
    still = logical_and(equal(a, nothing), greater_equal(b, scalar_like(b, 0.0)))
    return multiply(y, log(where(still, scalar_like(a, 1.0), a)))


AFFINE = operator(
    "affine",
    AffineAttrs,
    ("x",),
    infer=_infer_affine,
    gradient=_affine_gradient,
    inplace=Inplace(allowed=((0, 0),)),
    pattern=Pattern.ELEMENTWISE,
    precision=FOLLOW,
    doc="y = scale · x + shift",
)
CAST = operator(
    "cast",
    CastAttrs,
    ("x",),
    infer=_infer_cast,
    gradient=_cast_gradient,
    pattern=Pattern.ELEMENTWISE,
    example=Example(CastAttrs(I32), (MATRIX,)),
    doc="y = x as dtype; floats become integers toward zero, saturating, nan as 0",
)
real = part("real", "y = real part of z", np.real, lambda g, z, y: cast(g, z.spec.dtype), keeps_reals=True)
WHERE = operator(
    "where",
    NoAttrs,
    ("condition", "a", "b"),
    infer=_infer_where,
    gradient=_where_gradient,
    inplace=Inplace(allowed=((1, 0), (2, 0))),
    pattern=Pattern.BROADCAST,
    precision=FOLLOW,
    example=Example(NoAttrs(), (TRUTH, MATRIX, MATRIX)),
    doc="y = a where condition else b",
)

exp = unary("exp", "y = e^x", np.exp, lambda g, x, y: multiply(g, y), CONTINUOUS)
log = unary("log", "y = ln x", np.log, lambda g, x, y: divide(g, x), CONTINUOUS)
sqrt = unary("sqrt", "y = √x", np.sqrt, lambda g, x, y: divide(affine(g, 0.5), y), CONTINUOUS)
reciprocal = unary(
    "reciprocal", "y = 1 / x", np.reciprocal, lambda g, x, y: affine(multiply(g, square(y)), -1.0), CONTINUOUS
)
square: UnaryOperator = unary("square", "y = x²", np.square, lambda g, x, y: multiply(g, affine(x, 2.0)), ARITHMETIC)
tanh = unary(
    "tanh", "y = tanh x", np.tanh, lambda g, x, y: multiply(g, affine(square(y), -1.0, 1.0)), CONTINUOUS, FOLLOW
)
sigmoid = unary(
    "sigmoid",
    "y = 1 / (1 + e^-x)",
    forward.sigmoid,
    lambda g, x, y: multiply(g, multiply(y, affine(y, -1.0, 1.0))),
    precision=FOLLOW,
)
relu = unary(
    "relu",
    "y = x where x ≥ 0, else 0; -0 stays -0, nan stays nan; the derivative at 0 is 0",
    forward.relu,
    lambda g, x, y: multiply(g, step(y)),
    NUMBERS,
    precision=FOLLOW,
)
sin = unary("sin", "y = sin x", np.sin, lambda g, x, y: multiply(g, cos(x)), CONTINUOUS)
cos: UnaryOperator = unary("cos", "y = cos x", np.cos, lambda g, x, y: affine(multiply(g, sin(x)), -1.0), CONTINUOUS)
erf = unary(
    "erf",
    "y = erf x = 2/√π · ∫₀ˣ e^(-t²) dt",
    forward.by_library(math.erf),
    lambda g, x, y: multiply(g, _error_slope(x)),
)
erfc = unary(
    "erfc",
    "y = 1 - erf x, accurate where it is near 0 too",
    forward.by_library(math.erfc),
    lambda g, x, y: affine(multiply(g, _error_slope(x)), -1.0),
)
atan = unary(
    "atan",
    "y = arctan x, between -π/2 and π/2",
    np.arctan,
    lambda g, x, y: divide(g, affine(square(x), 1.0, 1.0)),
    CONTINUOUS,
)
abs = unary(
    "absolute",
    "y = |x|; the derivative at 0 is 0",
    np.abs,
    lambda g, x, y: multiply(g, sign(x)),
    NUMBERS,
    precision=FOLLOW,
)
sign: UnaryOperator = unary(
    "sign",
    "y = -1, 0 or 1 by the sign of x; 0 for nan",
    forward.sign,
    lambda g, x, y: fill_like(x, 0.0),
    NUMBERS,
    precision=FOLLOW,
)
step: UnaryOperator = unary(
    "step", "y = 1 where x > 0, else 0", forward.step, lambda g, x, y: fill_like(x, 0.0), NUMBERS, precision=FOLLOW
)

floor = unary("floor", "y = largest integer ≤ x", np.floor, lambda g, x, y: fill_like(x, 0.0))
ceil = unary("ceil", "y = smallest integer ≥ x", np.ceil, lambda g, x, y: fill_like(x, 0.0))
round = unary("round", "y = nearest integer, halves to even", np.rint, lambda g, x, y: fill_like(x, 0.0))
expm1 = unary(
    "expm1", "y = e^x - 1, accurate near 0", np.expm1, lambda g, x, y: multiply(g, affine(y, 1.0, 1.0)), CONTINUOUS
)
log1p = unary(
    "log1p", "y = ln(1 + x), accurate near 0", np.log1p, lambda g, x, y: divide(g, affine(x, 1.0, 1.0)), CONTINUOUS
)
swish = unary(
    "swish",
    "y = x / (1 + e^-x), also called SiLU (Ramachandran et al. 2017)",
    forward.swish,
    lambda g, x, y: multiply(g, _gated_slope(x, sigmoid(x))),
    precision=FOLLOW,
)
gelu = unary(
    "gelu",
    "y = x · Φ(x), Φ the normal distribution function (Hendrycks & Gimpel 2016)",
    forward.gelu,
    lambda g, x, y: multiply(g, _gelu_slope(x)),
    precision=FOLLOW,
)
gelu_tanh = unary(
    "gelu_tanh",
    "y = ½ x (1 + tanh(√(2/π) (x + 0.044715 x³))), the usual approximation of gelu",
    forward.gelu_tanh,
    lambda g, x, y: multiply(g, _gated_slope(x, sigmoid(_gelu_gate(x)), _gelu_gate_slope(x))),
    precision=FOLLOW,
)
softplus = unary(
    "softplus",
    "y = ln(1 + e^x), without overflow",
    forward.softplus,
    lambda g, x, y: affine(multiply(g, expm1(affine(y, -1.0))), -1.0),
)

add = binary("add", "y = a + b", np.add, lambda g, a, b, y: g, lambda g, a, b, y: g, ARITHMETIC, precision=FOLLOW)
subtract = binary(
    "subtract",
    "y = a - b",
    np.subtract,
    lambda g, a, b, y: g,
    lambda g, a, b, y: affine(g, -1.0),
    ARITHMETIC,
    precision=FOLLOW,
)
multiply: BinaryOperator = binary(
    "multiply",
    "y = a · b",
    np.multiply,
    lambda g, a, b, y: multiply(g, b),
    lambda g, a, b, y: multiply(g, a),
    ARITHMETIC,
    precision=FOLLOW,
)
divide: BinaryOperator = binary(
    "divide",
    "y = a / b",
    np.divide,
    lambda g, a, b, y: divide(g, b),
    lambda g, a, b, y: affine(divide(multiply(g, y), b), -1.0),
    CONTINUOUS,
)
maximum = mixed(
    "maximum",
    "y = the larger of a, b; equal operands share the gradient; nan wins",
    np.maximum,
    lambda g, a, b, y: multiply(g, preference(a, b)),
    lambda g, a, b, y: multiply(g, preference(b, a)),
    NUMBERS,
    precision=FOLLOW,
)
minimum = mixed(
    "minimum",
    "y = the smaller of a, b; equal operands share the gradient; nan wins",
    np.minimum,
    lambda g, a, b, y: multiply(g, preference(b, a)),
    lambda g, a, b, y: multiply(g, preference(a, b)),
    NUMBERS,
    precision=FOLLOW,
)
power = binary(
    "power",
    "y = a^b; of integers modulo 2^bits, and 0 where 1 / a is no integer",
    forward.power,
    lambda g, a, b, y: multiply(g, _power_slope(a, b)),
    lambda g, a, b, y: multiply(g, _power_growth(a, b, y)),
    ARITHMETIC,
)
preference: BinaryOperator = binary(
    "preference",
    "y = 1 where a > b, ½ where a = b, else 0",
    forward.preference,
    lambda g, a, b, y: None,
    lambda g, a, b, y: None,
    precision=FOLLOW,
)

logical_and = logical("logical_and", "y = a and b", np.logical_and)
logical_or = logical("logical_or", "y = a or b", np.logical_or)
logical_xor = logical("logical_xor", "y = exactly one of a, b", np.logical_xor)
logical_not = UnaryOperator("logical_not", ("x",), "y = not x")
describe(
    logical_not,
    infer=infer_logical,
    gradient=TRUTH_VALUE,
    inplace=Inplace(allowed=((0, 0),)),
    pattern=Pattern.ELEMENTWISE,
    example=Example(NoAttrs(), (TRUTH,)),
)
FORWARD.set(logical_not, np.logical_not)
is_nan = UnaryOperator("is_nan", ("x",), "y = x is not a number, as bool")
describe(is_nan, infer=infer_predicate, gradient=TRUTH_VALUE, pattern=Pattern.ELEMENTWISE)
FORWARD.set(is_nan, forward.is_nan)

equal = predicate("equal", "y = a == b, as bool", np.equal)
not_equal = predicate("not_equal", "y = a != b, as bool", np.not_equal)
less = predicate("less", "y = a < b, as bool", np.less)
less_equal = predicate("less_equal", "y = a <= b, as bool", np.less_equal)
greater = predicate("greater", "y = a > b, as bool", np.greater)
greater_equal = predicate("greater_equal", "y = a >= b, as bool", np.greater_equal)


_NONE = NoAttrs()


def affine(x: T, scale: Number = 1.0, shift: Number = -0.0) -> T:
    """y = scale · x + shift. Integers are kept exactly; a number that x's type cannot hold is infinite there."""
    scale = exact(scale) if type(scale) is int else scale
    shift = exact(shift) if type(shift) is int else shift
    if type(scale) is float and type(shift) is float:
        return apply_command(_affine_command(scale, shift, math.copysign(1.0, scale), math.copysign(1.0, shift)), x)
    return apply(AFFINE, AffineAttrs(scale, shift), x)


@lru_cache(maxsize=256)  # for eager code; signs tell 0.0 from -0.0
def _affine_command(scale: float, shift: float, *signs: float) -> AnyCommand:
    return Command(AFFINE, AffineAttrs(scale, shift))


def cast(x: T, dtype: DType) -> T:
    """y = x as `dtype`; the same operand when it already is."""
    return x if x.spec.dtype is dtype else apply_command(_cast_command(dtype), x)


@lru_cache(maxsize=64)
def _cast_command(dtype: DType) -> AnyCommand:
    return Command(CAST, CastAttrs(dtype))


def where(condition: T, a: T | float, b: T | float) -> T:
    """y = a where `condition` else b; one of a and b may be a number."""
    return apply(WHERE, _NONE, condition, operand_like(a, b), operand_like(b, a))


def clamp(x: T, low: float | None = None, high: float | None = None) -> T:
    """y = min(max(x, low), high); a bound of None is no bound. Where x equals a bound half the gradient passes."""
    if any(bound is not None and math.isnan(as_float(bound)) for bound in (low, high)):
        raise AttributeValueError("clamp", got="a bound that is not a number", need="numbers", fix="None is no bound")
    raised = x if low is None else maximum(x, scalar_like(x, low))
    return raised if high is None else minimum(raised, scalar_like(x, high))


def leaky_relu(x: T, slope: float = 0.01) -> T:
    """y = x where x > 0, else slope · x; the derivative at 0 is the slope. Its gradient keeps one bool per element."""
    return where(greater(x, scalar_like(x, 0.0)), x, affine(x, slope)) if slope else relu(x)
