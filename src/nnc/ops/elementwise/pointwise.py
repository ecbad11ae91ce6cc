"""Pointwise operators: y[i…] = f(a[i…], b[i…], …), with NumPy broadcasting.

One row per operator: key, formula, derivative. A derivative is written in operators of this file, so it can
be differentiated again, to any order. It names what it reads: `y` where the output suffices, so that the
input may be freed or overwritten.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.dtype import BOOL, C64, C128, F32, F64, I32, U64, DType
from nnc.core.values.spec import TensorSpec, broadcast_shapes
from nnc.errors import AttributeValueError, DTypeError
from nnc.graph import Op, Registry, default_registry
from nnc.ops.examples import MATRIX, TRUTH, Example
from nnc.ops.movement.broadcast import sum_to
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.number import Number, as_float, exact, is_whole
from nnc.ops.operand import Operand, T, apply, apply_command
from nnc.ops.precision import FOLLOW, FULL, Precision
from nnc.ops.rules import (
    ARITHMETIC,
    CONTINUOUS,
    FLOATS,
    NUMBERS,
    Applied,
    Gradients,
    Inplace,
    NoAttrs,
    NotDifferentiable,
    Pattern,
    Specs,
    check_kinds,
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

Unary = Callable[[Operand, Operand, Operand], Operand]
Binary = Callable[[Operand, Operand, Operand, Operand], Operand | None]


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


def _infer_same(attrs: object, specs: Specs) -> Specs:
    """One spec for all operands after broadcasting."""
    first = specs[0]
    for other in specs[1:]:
        if other.dtype is not first.dtype:
            got = ", ".join(map(str, specs))
            raise DTypeError("pointwise", got=got, need="one element type", fix="cast() one of them")
    shape = broadcast_shapes("pointwise", *[spec.shape for spec in specs])
    return (first if shape == first.shape else replace(first, shape=shape),)


def same(kinds: tuple[str, ...]) -> Callable[[NoAttrs, Specs], Specs]:
    """The rule of one spec for all operands, of these kinds."""

    def infer(attrs: NoAttrs, specs: Specs) -> Specs:
        check_kinds(kinds, *specs)
        return _infer_same(attrs, specs)

    return infer


def _infer_affine(attrs: AffineAttrs, specs: Specs) -> Specs:
    (x,) = specs
    check_kinds(ARITHMETIC, x)
    whole = all(is_whole(one) or (x.dtype is U64 and -(1 << 64) < one < 1 << 64) for one in (attrs.scale, attrs.shift))
    if not (x.dtype.is_continuous or whole):
        need = "integral scale and shift of 64 bits"
        raise AttributeValueError("affine", got=f"{x}", need=need, fix="cast() x to a float type")
    return specs


def _infer_predicate(attrs: NoAttrs, specs: Specs) -> Specs:
    return (replace(_infer_same(attrs, specs)[0], dtype=BOOL),)


def _infer_logical(attrs: NoAttrs, specs: Specs) -> Specs:
    for spec in specs:
        if spec.dtype is not BOOL:
            raise DTypeError("logical", got=", ".join(map(str, specs)), need="bool operands", fix="compare first")
    return _infer_same(attrs, specs)


def _infer_where(attrs: NoAttrs, specs: Specs) -> Specs:
    condition, a, b = specs
    if condition.dtype is not BOOL:
        raise DTypeError(
            "where", got=f"condition {condition}", need="bool", fix="compare first, for example greater(x, y)"
        )
    (both,) = _infer_same(attrs, (a, b))
    return (replace(both, shape=broadcast_shapes("where", condition.shape, both.shape)),)


def _infer_cast(attrs: CastAttrs, specs: Specs) -> Specs:
    if specs[0].dtype.kind == "complex" and attrs.dtype.kind not in ("complex", "bool"):
        need, fix = "a complex type, or bool", "take real() first"
        raise DTypeError("cast", got=f"{specs[0]} to {attrs.dtype}", need=need, fix=fix)
    return (replace(specs[0], dtype=attrs.dtype),)


def _infer_part(attrs: NoAttrs, specs: Specs) -> Specs:
    check_kinds(("complex",), *specs)
    return (replace(specs[0], dtype=real_dtype(specs[0].dtype)),)


def real_dtype(dtype: DType) -> DType:
    """The element type of real and imaginary parts.

    >>> real_dtype(C128), real_dtype(C64)
    (f64, f32)
    """
    return F64 if dtype is C128 else F32


def part(name: str, doc: str, derivative: Unary) -> Op[NoAttrs]:
    """A row `y = f(z)` of real numbers y for complex z; `derivative(g, z, y)` gives the gradient of z."""

    def gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
        return (derivative(single(gradients), call.inputs[0], call.outputs[0]),)

    example = Example(NoAttrs(), (TensorSpec((4, 4), C64),))
    return operator(
        name,
        NoAttrs,
        ("z",),
        infer=_infer_part,
        gradient=gradient,
        pattern=Pattern.ELEMENTWISE,
        example=example,
        doc=doc,
    )


def unary(
    name: str,
    doc: str,
    derivative: Unary,
    kinds: tuple[str, ...] = FLOATS,
    precision: Precision = FULL,
    registry: Registry = default_registry,
) -> Op[NoAttrs]:
    """A row `y = f(x)` on these kinds; `derivative(g, x, y)` gives the gradient of x."""

    def gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
        g = single(gradients)
        return (derivative(g, call.inputs[0], call.outputs[0]),)

    return operator(
        name,
        NoAttrs,
        ("x",),
        infer=same(kinds),
        precision=precision,
        gradient=gradient,
        inplace=Inplace(allowed=((0, 0),)),
        pattern=Pattern.ELEMENTWISE,
        registry=registry,
        doc=doc,
    )


def binary(
    name: str, doc: str, left: Binary, right: Binary, kinds: tuple[str, ...] = FLOATS, precision: Precision = FULL
) -> Op[NoAttrs]:
    """A row `y = f(a, b)`; `left(g, a, b, y)`, `right(g, a, b, y)` give the gradients before broadcasting is undone."""

    def gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
        g = single(gradients)
        a, b = call.inputs
        sides = [
            rule(g, a, b, call.outputs[0]) if wanted else None
            for rule, wanted in zip((left, right), call.needed, strict=True)
        ]
        return tuple(
            None if side is None else sum_to(side, operand.shape) for side, operand in zip(sides, (a, b), strict=True)
        )

    inplace = Inplace(allowed=((0, 0), (1, 0)))
    return operator(
        name,
        NoAttrs,
        ("a", "b"),
        infer=same(kinds),
        precision=precision,
        gradient=gradient,
        inplace=inplace,
        pattern=Pattern.BROADCAST,
        doc=doc,
    )


def _predicate(name: str, doc: str) -> Op[NoAttrs]:
    reason = NotDifferentiable("a truth value does not change smoothly")
    return operator(
        name, NoAttrs, ("a", "b"), infer=_infer_predicate, gradient=reason, pattern=Pattern.BROADCAST, doc=doc
    )


def _logical(name: str, doc: str) -> Op[NoAttrs]:
    reason = NotDifferentiable("a truth value does not change smoothly")
    inplace = Inplace(allowed=((0, 0), (1, 0)))
    return operator(
        name,
        NoAttrs,
        ("a", "b"),
        infer=_infer_logical,
        gradient=reason,
        example=Example(NoAttrs(), (TRUTH, TRUTH)),
        inplace=inplace,
        pattern=Pattern.BROADCAST,
        doc=doc,
    )


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


# gelu_tanh(x) = x · sigmoid(GATE · x · (1 + BEND · x²)), because 1 + tanh u = 2 · sigmoid(2u).
GATE, BEND = 2.0 * math.sqrt(2.0 / math.pi), 0.044715


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
REAL = part("real", "y = real part of z", lambda g, z, y: cast(g, z.spec.dtype))
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

EXP = unary("exp", "y = e^x", lambda g, x, y: multiply(g, y), CONTINUOUS)
LOG = unary("log", "y = ln x", lambda g, x, y: divide(g, x), CONTINUOUS)
SQRT = unary("sqrt", "y = √x", lambda g, x, y: divide(affine(g, 0.5), y), CONTINUOUS)
RECIPROCAL = unary("reciprocal", "y = 1 / x", lambda g, x, y: affine(multiply(g, square(y)), -1.0), CONTINUOUS)
SQUARE = unary("square", "y = x²", lambda g, x, y: multiply(g, affine(x, 2.0)), ARITHMETIC)
TANH = unary("tanh", "y = tanh x", lambda g, x, y: multiply(g, affine(square(y), -1.0, 1.0)), CONTINUOUS, FOLLOW)
SIGMOID = unary(
    "sigmoid", "y = 1 / (1 + e^-x)", lambda g, x, y: multiply(g, multiply(y, affine(y, -1.0, 1.0))), precision=FOLLOW
)
RELU = unary(
    "relu",
    "y = x where x ≥ 0, else 0; -0 stays -0, nan stays nan",
    lambda g, x, y: multiply(g, step(y)),
    NUMBERS,
    precision=FOLLOW,
)
SIN = unary("sin", "y = sin x", lambda g, x, y: multiply(g, cos(x)), CONTINUOUS)
COS = unary("cos", "y = cos x", lambda g, x, y: affine(multiply(g, sin(x)), -1.0), CONTINUOUS)
ERF = unary("erf", "y = erf x", lambda g, x, y: multiply(g, _error_slope(x)))
ERFC = unary("erfc", "y = 1 - erf x", lambda g, x, y: affine(multiply(g, _error_slope(x)), -1.0))
ATAN = unary("atan", "y = arctan x", lambda g, x, y: divide(g, affine(square(x), 1.0, 1.0)), CONTINUOUS)
ABSOLUTE = unary("absolute", "y = |x|", lambda g, x, y: multiply(g, sign(x)), NUMBERS, precision=FOLLOW)
SIGN = unary(
    "sign", "y = -1, 0 or 1 by the sign of x; 0 for nan", lambda g, x, y: fill_like(x, 0.0), NUMBERS, precision=FOLLOW
)
STEP = unary("step", "y = 1 where x > 0, else 0", lambda g, x, y: fill_like(x, 0.0), NUMBERS, precision=FOLLOW)

FLOOR = unary("floor", "y = largest integer ≤ x", lambda g, x, y: fill_like(x, 0.0))
CEIL = unary("ceil", "y = smallest integer ≥ x", lambda g, x, y: fill_like(x, 0.0))
ROUND = unary("round", "y = nearest integer, halves to even", lambda g, x, y: fill_like(x, 0.0))
EXPM1 = unary("expm1", "y = e^x - 1", lambda g, x, y: multiply(g, affine(y, 1.0, 1.0)), CONTINUOUS)
LOG1P = unary("log1p", "y = ln(1 + x)", lambda g, x, y: divide(g, affine(x, 1.0, 1.0)), CONTINUOUS)
SWISH = unary("swish", "y = x / (1 + e^-x)", lambda g, x, y: multiply(g, _gated_slope(x, sigmoid(x))), precision=FOLLOW)
GELU = unary(
    "gelu",
    "y = x · Φ(x), Φ the normal distribution function",
    lambda g, x, y: multiply(g, _gelu_slope(x)),
    precision=FOLLOW,
)
GELU_TANH = unary(
    "gelu_tanh",
    "y = ½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))",
    lambda g, x, y: multiply(g, _gated_slope(x, sigmoid(_gelu_gate(x)), _gelu_gate_slope(x))),
    precision=FOLLOW,
)
SOFTPLUS = unary("softplus", "y = ln(1 + e^x)", lambda g, x, y: affine(multiply(g, expm1(affine(y, -1.0))), -1.0))

ADD = binary("add", "y = a + b", lambda g, a, b, y: g, lambda g, a, b, y: g, ARITHMETIC, precision=FOLLOW)
SUBTRACT = binary(
    "subtract", "y = a - b", lambda g, a, b, y: g, lambda g, a, b, y: affine(g, -1.0), ARITHMETIC, precision=FOLLOW
)
MULTIPLY = binary(
    "multiply",
    "y = a · b",
    lambda g, a, b, y: multiply(g, b),
    lambda g, a, b, y: multiply(g, a),
    ARITHMETIC,
    precision=FOLLOW,
)
DIVIDE = binary(
    "divide",
    "y = a / b",
    lambda g, a, b, y: divide(g, b),
    lambda g, a, b, y: affine(divide(multiply(g, y), b), -1.0),
    CONTINUOUS,
)
MAXIMUM = binary(
    "maximum",
    "y = the larger of a, b; equal operands share the gradient; nan wins",
    lambda g, a, b, y: multiply(g, preference(a, b)),
    lambda g, a, b, y: multiply(g, preference(b, a)),
    NUMBERS,
    precision=FOLLOW,
)
MINIMUM = binary(
    "minimum",
    "y = the smaller of a, b; equal operands share the gradient; nan wins",
    lambda g, a, b, y: multiply(g, preference(b, a)),
    lambda g, a, b, y: multiply(g, preference(a, b)),
    NUMBERS,
    precision=FOLLOW,
)
POWER = binary(
    "power",
    "y = a^b; of integers modulo 2^bits, and 0 where 1 / a is no integer",
    lambda g, a, b, y: multiply(g, _power_slope(a, b)),
    lambda g, a, b, y: multiply(g, _power_growth(a, b, y)),
    ARITHMETIC,
)
PREFERENCE = binary(
    "preference",
    "y = 1 where a > b, ½ where a = b, else 0",
    lambda g, a, b, y: None,
    lambda g, a, b, y: None,
    precision=FOLLOW,
)

LOGICAL_AND = _logical("logical_and", "y = a and b")
LOGICAL_OR = _logical("logical_or", "y = a or b")
LOGICAL_XOR = _logical("logical_xor", "y = exactly one of a, b")
LOGICAL_NOT = operator(
    "logical_not",
    NoAttrs,
    ("x",),
    infer=_infer_logical,
    gradient=NotDifferentiable("a truth value does not change smoothly"),
    inplace=Inplace(allowed=((0, 0),)),
    pattern=Pattern.ELEMENTWISE,
    example=Example(NoAttrs(), (TRUTH,)),
    doc="y = not x",
)
IS_NAN = operator(
    "is_nan",
    NoAttrs,
    ("x",),
    infer=_infer_predicate,
    gradient=NotDifferentiable("a truth value does not change smoothly"),
    pattern=Pattern.ELEMENTWISE,
    doc="y = x is not a number",
)

EQUAL = _predicate("equal", "y = a == b")
NOT_EQUAL = _predicate("not_equal", "y = a != b")
LESS = _predicate("less", "y = a < b")
LESS_EQUAL = _predicate("less_equal", "y = a <= b")
GREATER = _predicate("greater", "y = a > b")
GREATER_EQUAL = _predicate("greater_equal", "y = a >= b")

OPERATORS = (
    AFFINE, CAST, REAL, WHERE, EXP, LOG, SQRT, RECIPROCAL, SQUARE, TANH, SIGMOID, RELU, SIN, COS, ATAN, ERF, ERFC,
    ABSOLUTE, SIGN, STEP, FLOOR, CEIL, ROUND, EXPM1, LOG1P, SOFTPLUS, SWISH, GELU, GELU_TANH, IS_NAN, LOGICAL_NOT, ADD,
    SUBTRACT, MULTIPLY, DIVIDE, MAXIMUM, MINIMUM, POWER, PREFERENCE, EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER,
    GREATER_EQUAL, LOGICAL_AND, LOGICAL_OR, LOGICAL_XOR,
)  # fmt: skip

_NONE = NoAttrs()


def affine(x: T, scale: Number = 1.0, shift: Number = -0.0) -> T:
    """y = scale · x + shift. Integers are kept exactly; a number that x's type cannot hold is infinite there."""
    if type(scale) is float and type(shift) is float:
        return apply_command(_affine_command(scale, shift, math.copysign(1.0, scale), math.copysign(1.0, shift)), x)
    return apply(AFFINE, AffineAttrs(scale, shift), x)


@lru_cache(maxsize=256)
def _affine_command(scale: float, shift: float, *signs: float) -> AnyCommand:
    """Made once each, for eager code; signs tell 0.0 from -0.0."""
    return Command(AFFINE, AffineAttrs(scale, shift))


def cast(x: T, dtype: DType) -> T:
    """y = x as `dtype`; the same operand when it already is."""
    return x if x.spec.dtype is dtype else apply(CAST, CastAttrs(dtype), x)


def real(z: T) -> T:
    """y = the real part of z; the same operand when it is real."""
    return apply(REAL, _NONE, z) if z.spec.dtype.kind == "complex" else z


def where(condition: T, a: T | float, b: T | float) -> T:
    """y = a where `condition` else b; one of a and b may be a number."""
    return apply(WHERE, _NONE, condition, _beside(a, b), _beside(b, a))


def _beside(value: T | float, other: T | float) -> T:
    """The operand; a number as a scalar of the other's element type."""
    if isinstance(value, int | float) and isinstance(other, Operand):
        return scalar_like(other, value)
    return value  # type: ignore[return-value]  # `apply` says what is wrong with anything else


def exp(x: T) -> T:
    """y = e^x."""
    return apply(EXP, _NONE, x)


def log(x: T) -> T:
    """y = ln x."""
    return apply(LOG, _NONE, x)


def sqrt(x: T) -> T:
    """y = √x."""
    return apply(SQRT, _NONE, x)


def reciprocal(x: T) -> T:
    """y = 1 / x."""
    return apply(RECIPROCAL, _NONE, x)


def square(x: T) -> T:
    """y = x²."""
    return apply(SQUARE, _NONE, x)


def tanh(x: T) -> T:
    """y = tanh x."""
    return apply(TANH, _NONE, x)


def sigmoid(x: T) -> T:
    """y = 1 / (1 + e^-x)."""
    return apply(SIGMOID, _NONE, x)


def relu(x: T) -> T:
    """y = max(x, 0); the derivative at 0 is 0."""
    return apply(RELU, _NONE, x)


def sin(x: T) -> T:
    """y = sin x."""
    return apply(SIN, _NONE, x)


def cos(x: T) -> T:
    """y = cos x."""
    return apply(COS, _NONE, x)


def erf(x: T) -> T:
    """y = 2/√π · ∫₀ˣ e^(-t²) dt."""
    return apply(ERF, _NONE, x)


def atan(x: T) -> T:
    """y = arctan x, between -π/2 and π/2."""
    return apply(ATAN, _NONE, x)


def erfc(x: T) -> T:
    """y = 1 - erf x, accurate where it is near 0 too."""
    return apply(ERFC, _NONE, x)


def abs(x: T) -> T:
    """y = |x|; the derivative at 0 is 0."""
    return apply(ABSOLUTE, _NONE, x)


def sign(x: T) -> T:
    """y = -1, 0 or 1 by the sign of x."""
    return apply(SIGN, _NONE, x)


def step(x: T) -> T:
    """y = 1 where x > 0, else 0."""
    return apply(STEP, _NONE, x)


def gelu(x: T) -> T:
    """y = x · Φ(x), Φ the normal distribution function (Hendrycks & Gimpel 2016)."""
    return apply(GELU, _NONE, x)


def add(a: T, b: T) -> T:
    """y = a + b."""
    return apply(ADD, _NONE, a, b)


def subtract(a: T, b: T) -> T:
    """y = a - b."""
    return apply(SUBTRACT, _NONE, a, b)


def multiply(a: T, b: T) -> T:
    """y = a · b, element by element."""
    return apply(MULTIPLY, _NONE, a, b)


def divide(a: T, b: T) -> T:
    """y = a / b."""
    return apply(DIVIDE, _NONE, a, b)


def maximum(a: T | float, b: T | float) -> T:
    """y = the larger of a and b, one of which may be a number."""
    return apply(MAXIMUM, _NONE, _beside(a, b), _beside(b, a))


def minimum(a: T | float, b: T | float) -> T:
    """y = the smaller of a and b, one of which may be a number."""
    return apply(MINIMUM, _NONE, _beside(a, b), _beside(b, a))


def power(a: T, b: T) -> T:
    """y = a^b."""
    return apply(POWER, _NONE, a, b)


def preference(a: T, b: T) -> T:
    """y = 1 where a > b, ½ where a = b, else 0."""
    return apply(PREFERENCE, _NONE, a, b)


def equal(a: T, b: T) -> T:
    """y = a == b, as bool."""
    return apply(EQUAL, _NONE, a, b)


def not_equal(a: T, b: T) -> T:
    """y = a != b, as bool."""
    return apply(NOT_EQUAL, _NONE, a, b)


def less(a: T, b: T) -> T:
    """y = a < b, as bool."""
    return apply(LESS, _NONE, a, b)


def less_equal(a: T, b: T) -> T:
    """y = a <= b, as bool."""
    return apply(LESS_EQUAL, _NONE, a, b)


def greater(a: T, b: T) -> T:
    """y = a > b, as bool."""
    return apply(GREATER, _NONE, a, b)


def greater_equal(a: T, b: T) -> T:
    """y = a >= b, as bool."""
    return apply(GREATER_EQUAL, _NONE, a, b)


def floor(x: T) -> T:
    """y = largest integer ≤ x."""
    return apply(FLOOR, _NONE, x)


def ceil(x: T) -> T:
    """y = smallest integer ≥ x."""
    return apply(CEIL, _NONE, x)


def round(x: T) -> T:
    """y = nearest integer, halves to even."""
    return apply(ROUND, _NONE, x)


def expm1(x: T) -> T:
    """y = e^x - 1, accurate near 0."""
    return apply(EXPM1, _NONE, x)


def log1p(x: T) -> T:
    """y = ln(1 + x), accurate near 0."""
    return apply(LOG1P, _NONE, x)


def logical_and(a: T, b: T) -> T:
    """y = a and b."""
    return apply(LOGICAL_AND, _NONE, a, b)


def logical_or(a: T, b: T) -> T:
    """y = a or b."""
    return apply(LOGICAL_OR, _NONE, a, b)


def logical_xor(a: T, b: T) -> T:
    """y = exactly one of a and b."""
    return apply(LOGICAL_XOR, _NONE, a, b)


def logical_not(x: T) -> T:
    """y = not x."""
    return apply(LOGICAL_NOT, _NONE, x)


def is_nan(x: T) -> T:
    """y = x is not a number, as bool."""
    return apply(IS_NAN, _NONE, x)


def softplus(x: T) -> T:
    """y = ln(1 + e^x), without overflow; its derivative sigmoid(x) = 1 - e^-y."""
    return apply(SOFTPLUS, _NONE, x)


def clamp(x: T, low: float | None = None, high: float | None = None) -> T:
    """y = min(max(x, low), high); a bound of None is no bound. Where x equals a bound half the gradient passes."""
    if any(bound is not None and math.isnan(as_float(bound)) for bound in (low, high)):
        raise AttributeValueError("clamp", got="a bound that is not a number", need="numbers", fix="None is no bound")
    raised = x if low is None else maximum(x, scalar_like(x, low))
    return raised if high is None else minimum(raised, scalar_like(x, high))


def leaky_relu(x: T, slope: float = 0.01) -> T:
    """y = x where x > 0, else slope · x; the derivative at 0 is the slope. Its gradient keeps one bool per element."""
    return where(greater(x, scalar_like(x, 0.0)), x, affine(x, slope)) if slope else relu(x)


def swish(x: T) -> T:
    """y = x · sigmoid(x), also called SiLU (Ramachandran et al. 2017)."""
    return apply(SWISH, _NONE, x)


def gelu_tanh(x: T) -> T:
    """y = ½ x (1 + tanh(√(2/π) (x + 0.044715 x³))), the usual approximation of gelu."""
    return apply(GELU_TANH, _NONE, x)
