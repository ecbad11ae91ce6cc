"""Expressions: value = operation(values), on vectors; the table of operations and their costs.

A 16-bit float is computed in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from nnc.classes import dataclass
from nnc.codegen.ir import activation, circular, elementary, integers, mathematics
from nnc.codegen.ir.builder import F32, I32, SCALARS, Builder, Number, Scalar, Type, Value
from nnc.codegen.ir.rounding import round_half_even

Numbers = tuple[Number, ...]
Emit = Callable[[Builder, Sequence[Value], Numbers], Value]


@dataclass(frozen=True, slots=True)
class Instruction:
    """value = operation(values[operands], numbers).

    `result` names the element type of casts, constants and parameters. The number of a parameter is its place among
    those of the kernel that are known when it runs.
    """

    operation: str
    operands: tuple[int, ...] = ()
    numbers: Numbers = ()
    result: str = ""


class Takes(Enum):
    """Kinds of element types."""

    ANYTHING = "anything"
    NUMBERS = "numbers"
    INTEGERS = "integers"
    FLOATS = "floats"


ANYTHING, FLOATS, INTEGERS = Takes.ANYTHING, Takes.FLOATS, Takes.INTEGERS


@dataclass(frozen=True, slots=True)
class Operation:
    """How an operation is written, its cost in vector instructions, and the operands that it takes."""

    emit: Emit
    cost: float = 1.0
    takes: Takes = Takes.NUMBERS


def _one(b: Builder, x: Value) -> Value:
    return b.constant(1, x.type)


def sign(b: Builder, x: Value) -> Value:
    """1, 0 or -1"""
    below = b.choose(b.compare("<", x, 0), b.constant(-1, x.type), 0)
    return b.choose(b.compare(">", x, 0), _one(b, x), below)


def _preference(b: Builder, left: Value, right: Value) -> Value:
    tie = b.choose(b.compare("==", left, right), b.constant(0.5, left.type), 0)
    return b.choose(b.compare(">", left, right), _one(b, left), tie)


def _row(function: Callable[..., Value], cost: float = 1.0, takes: Takes = Takes.NUMBERS) -> Operation:
    return Operation(lambda b, values, numbers: function(b, *values), cost, takes)


def _comparison(relation: str, takes: Takes = Takes.NUMBERS) -> Operation:
    return _row(lambda b, left, right: b.compare(relation, left, right), takes=takes)


def _library(name: str) -> Operation:
    return Operation(lambda b, values, numbers: mathematics.library(b, name, *values), 300.0, FLOATS)


def quantize(b: Builder, x: Value, scale: Value, zero: Value) -> Value:
    """saturate(round(x / scale) + zero) in the type of zero"""
    rounded = round_half_even(b, x / b.cast(scale, x.type.scalar))
    return b.cast(rounded + b.cast(zero, x.type.scalar), zero.type.scalar)


def dequantize(b: Builder, x: Value, scale: Value, zero: Value) -> Value:
    """(x - zero) * scale in the type of scale"""
    return b.cast(b.cast(x, I32) - b.cast(zero, I32), scale.type.scalar) * scale


OPERATIONS: dict[str, Operation] = {
    "quantize": _row(quantize, 14.0),
    "dequantize": _row(dequantize, 4.0),
    "identity": Operation(lambda b, values, numbers: values[0], 0.0),
    "add": _row(Builder.add),
    "subtract": _row(Builder.subtract),
    "multiply": _row(Builder.multiply),
    "divide": _row(Builder.divide, 8.0, FLOATS),
    "maximum": _row(Builder.maximum, 3.0),
    "minimum": _row(Builder.minimum, 3.0),
    "power": _library("pow"),
    "affine": Operation(lambda b, values, numbers: values[0] * numbers[0] + numbers[1], 2.0),
    "square": _row(lambda b, x: x * x),
    "sqrt": _row(mathematics.square_root, 10.0, FLOATS),
    "rsqrt": _row(mathematics.reciprocal_square_root, 18.0, FLOATS),
    "reciprocal": _row(lambda b, x: _one(b, x) / x, 8.0, FLOATS),
    "exp": _row(mathematics.exponential, 22.0, FLOATS),
    "log": _row(mathematics.logarithm, 30.0, FLOATS),
    "tanh": _row(mathematics.tanh, 45.0, FLOATS),
    "sigmoid": _row(mathematics.sigmoid, 35.0, FLOATS),
    "erf": _row(mathematics.erf, 45.0, FLOATS),
    "erfc": _row(activation.erfc, 80.0, FLOATS),
    "sin": _row(circular.sine, 30.0, FLOATS),
    "cos": _row(circular.cosine, 30.0, FLOATS),
    "tan": _row(circular.tangent, 40.0, FLOATS),
    "atan": _row(elementary.atan, 30.0, FLOATS),
    "atan2": _row(elementary.atan2, 45.0, FLOATS),
    "asin": _row(elementary.asin, 30.0, FLOATS),
    "acos": _row(elementary.acos, 30.0, FLOATS),
    "sinh": _row(elementary.sinh, 35.0, FLOATS),
    "cosh": _row(elementary.cosh, 35.0, FLOATS),
    "asinh": _row(elementary.asinh, 100.0, FLOATS),
    "acosh": _row(elementary.acosh, 75.0, FLOATS),
    "atanh": _row(elementary.atanh, 60.0, FLOATS),
    "log2": _row(elementary.log2, 30.0, FLOATS),
    "log10": _row(elementary.log10, 30.0, FLOATS),
    "hypot": _row(elementary.hypot, 45.0, FLOATS),
    "logaddexp": _row(elementary.logaddexp, 80.0, FLOATS),
    "copysign": _row(mathematics.copy_sign, takes=FLOATS),
    "trunc": _row(elementary.trunc, takes=FLOATS),
    "floor": _row(lambda b, x: b.intrinsic("llvm.floor", x), takes=FLOATS),
    "ceil": _row(lambda b, x: b.intrinsic("llvm.ceil", x), takes=FLOATS),
    "round": _row(round_half_even, takes=FLOATS),
    "expm1": _row(mathematics.exponential_minus_one, 30.0, FLOATS),
    "log1p": _row(mathematics.logarithm_plus_one, 45.0, FLOATS),
    "softplus": _row(mathematics.softplus, 75.0, FLOATS),
    "swish": _row(activation.swish, 36.0, FLOATS),
    "gelu": _row(activation.gelu, 80.0, FLOATS),
    "gelu_tanh": _row(activation.gelu_tanh, 39.0, FLOATS),
    "is_nan": _row(Builder.unordered, takes=FLOATS),
    "logical_and": _row(Builder.both, takes=ANYTHING),
    "logical_or": _row(Builder.either, takes=ANYTHING),
    "logical_xor": _row(Builder.exclusive, takes=ANYTHING),
    "logical_not": _row(Builder.opposite, takes=ANYTHING),
    "relu": _row(lambda b, x: b.choose(b.compare("<", x, 0), b.zero(x.type), x), 3.0),
    "absolute": _row(mathematics.absolute),
    "sign": _row(sign, 4.0),
    "step": _row(lambda b, x: b.choose(b.compare(">", x, 0), _one(b, x), 0), 2.0),
    "preference": _row(_preference, 4.0, FLOATS),
    "equal": _comparison("==", ANYTHING),
    "not_equal": _comparison("!=", ANYTHING),
    "less": _comparison("<", ANYTHING),
    "less_equal": _comparison("<=", ANYTHING),
    "greater": _comparison(">", ANYTHING),
    "greater_equal": _comparison(">=", ANYTHING),
    "floor_divide": _row(elementary.floor_divide, 60.0),
    "remainder": _row(elementary.remainder, 60.0),
    "shift_left": _row(integers.shift_left, 5.0, INTEGERS),
    "shift_right": _row(integers.shift_right, 6.0, INTEGERS),
    "bitwise_and": _row(Builder.both, takes=INTEGERS),
    "bitwise_or": _row(Builder.either, takes=INTEGERS),
    "bitwise_xor": _row(Builder.exclusive, takes=INTEGERS),
    "bitwise_not": _row(integers.bitwise_not, takes=INTEGERS),
    "where": _row(Builder.choose, takes=ANYTHING),
}
CONVERT, CONSTANT, PARAMETER = "cast", "constant", "parameter"


def computed(scalar: Scalar) -> Scalar:
    """The type in which elements of `scalar` are computed."""
    return F32 if scalar.floating and scalar.size == 2 else scalar


def evaluate(b: Builder, instruction: Instruction, values: Sequence[Value], lanes: int) -> Value:
    """The next value of a chain, a vector."""
    if instruction.operation == CONVERT:
        return b.cast(values[instruction.operands[0]], computed(SCALARS[instruction.result]))
    if instruction.operation == CONSTANT:
        return b.constant(instruction.numbers[0], Type(computed(SCALARS[instruction.result]), lanes))
    operands = [values[index] for index in instruction.operands]
    return OPERATIONS[instruction.operation].emit(b, operands, instruction.numbers)


def work(instructions: Sequence[Instruction]) -> float:
    """About how many vector instructions a chain takes per vector."""
    computing = [i for i in instructions if i.operation != PARAMETER]
    return sum(OPERATIONS[i.operation].cost if i.operation in OPERATIONS else 1.0 for i in computing)
