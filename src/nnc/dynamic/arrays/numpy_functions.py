"""NumPy's functions of variables and traced values: recorded as `nnc.ops` are, or an error, never a silent array.

Rows name what is known. What only looks at values (`np.allclose`, `np.shape`) gets them as arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nnc.dynamic.arrays.lifting import LiftingOperand
from nnc.errors import UsageError
from nnc.ops.composed.compose import einsum
from nnc.ops.elementwise.complex_numbers import conjugate, imaginary
from nnc.ops.elementwise.elementary import (
    acos,
    acosh,
    asin,
    asinh,
    atan2,
    atanh,
    copysign,
    cosh,
    hypot,
    log2,
    log10,
    logaddexp,
    nextafter,
    sinh,
    tan,
    trunc,
)
from nnc.ops.elementwise.pointwise import (
    abs,
    atan,
    ceil,
    clamp,
    cos,
    exp,
    expm1,
    floor,
    is_nan,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    real,
    reciprocal,
    round,
    sign,
    sin,
    sqrt,
    square,
    tanh,
    where,
)
from nnc.ops.indexing.order import cumsum
from nnc.ops.movement.broadcast import broadcast_to, reduce_sum, reshape
from nnc.ops.movement.movement import concatenate, transpose
from nnc.ops.operand import Operand
from nnc.ops.products.fourier import fft, ifft, irfft, rfft
from nnc.ops.reduction.derived import is_inf
from nnc.ops.reduction.reduction import argmax, argmin, reduce_max, reduce_mean, reduce_min

Function = Callable[..., Any]

# One operand each.
UNARY: Mapping[np.ufunc, Function] = {
    np.negative: operator.neg,
    np.positive: operator.pos,
    np.absolute: abs,
    np.sign: sign,
    np.square: square,
    np.sqrt: sqrt,
    np.reciprocal: reciprocal,
    np.exp: exp,
    np.expm1: expm1,
    np.log: log,
    np.log1p: log1p,
    np.sin: sin,
    np.cos: cos,
    np.tan: tan,
    np.tanh: tanh,
    np.sinh: sinh,
    np.cosh: cosh,
    np.arcsin: asin,
    np.arccos: acos,
    np.arctan: atan,
    np.arcsinh: asinh,
    np.arccosh: acosh,
    np.arctanh: atanh,
    np.log2: log2,
    np.log10: log10,
    np.trunc: trunc,
    np.conjugate: conjugate,
    np.floor: floor,
    np.ceil: ceil,
    np.rint: round,
    np.isnan: is_nan,
    np.isinf: is_inf,
    np.logical_not: logical_not,
    np.invert: operator.invert,
}

# Python's operators take numbers, arrays and operands on either side.
OPERATORS: Mapping[np.ufunc, Function] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.power: operator.pow,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.left_shift: operator.lshift,
    np.right_shift: operator.rshift,
    np.matmul: operator.matmul,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_,
    np.bitwise_xor: operator.xor,
}

# Operands of one kind, lifted first.
LIFTED: Mapping[np.ufunc, Function] = {
    np.maximum: maximum,
    np.minimum: minimum,
    np.arctan2: atan2,
    np.hypot: hypot,
    np.logaddexp: logaddexp,
    np.copysign: copysign,
    np.nextafter: nextafter,
    np.logical_and: logical_and,
    np.logical_or: logical_or,
    np.logical_xor: logical_xor,
}


def call_ufunc(
    home: LiftingOperand, ufunc: np.ufunc, method: str, inputs: Sequence[object], options: Mapping[str, object]
) -> object:
    """The ufunc of inputs of which at least one is an operand; UsageError for those without a row, and for options."""
    if method != "__call__" or options:
        named = ", ".join(f"{name}=" for name in options) or f".{method}"
        raise _unknown(f"np.{ufunc.__name__}", f"{named} of a variable", "the plain function")
    if ufunc in UNARY:
        return UNARY[ufunc](*inputs)
    operands = [_operand(home, operand, lift=ufunc in LIFTED) for operand in inputs]
    rule = OPERATORS.get(ufunc) or LIFTED.get(ufunc)
    if rule is None:
        raise _unknown(f"np.{ufunc.__name__}", "a variable", "an operator of nnc.ops")
    return rule(*operands)


def _operand(home: LiftingOperand, value: Any, *, lift: bool) -> object:  # noqa: ANN401  # whatever stands there
    """Arrays as operands, so that NumPy is not asked again; numbers as Python's, or as operands where those must be."""
    if isinstance(value, Operand):
        return value
    if isinstance(value, np.ndarray) or np.ndim(value):
        return home.lift(np.asarray(value))
    number = value.item() if isinstance(value, np.generic) else value
    return home.lift(np.asarray(number, home.spec.dtype.numpy)) if lift else number


def _unknown(subject: str, got: str, need: str) -> UsageError:
    fix = "nnc.ops has the operators; .numpy() gives the values where no gradient is wanted"
    return UsageError(subject, got=got, need=need, fix=fix)


def _sum(x: LiftingOperand, axis: Any = None, keepdims: bool = False) -> object:  # noqa: ANN401  # NumPy's arguments
    return reduce_sum(x, axis, keepdims=keepdims)


def _mean(x: LiftingOperand, axis: Any = None, keepdims: bool = False) -> object:  # noqa: ANN401  # NumPy's arguments
    return reduce_mean(x, axis, keepdims=keepdims)


def _max(x: LiftingOperand, axis: Any = None, keepdims: bool = False) -> object:  # noqa: ANN401  # NumPy's arguments
    return reduce_max(x, axis, keepdims=keepdims)


def _min(x: LiftingOperand, axis: Any = None, keepdims: bool = False) -> object:  # noqa: ANN401  # NumPy's arguments
    return reduce_min(x, axis, keepdims=keepdims)


def _lifted(operands: Iterable[object]) -> list[Any]:
    """All as operands, numbers and arrays of the element type of the first operand's world."""
    given = list(operands)
    home = next(operand for operand in given if isinstance(operand, Operand))
    return [_operand(home, operand, lift=True) for operand in given]  # type: ignore[arg-type]  # it was called as an array


def _concatenate(operands: Sequence[object], axis: int = 0) -> object:
    return concatenate(_lifted(operands), axis)


def _stack(operands: Sequence[object], axis: int = 0) -> object:
    lifted = _lifted(operands)
    place = axis + lifted[0].spec.rank + 1 if axis < 0 else axis
    return concatenate([entry.add_axis(place) for entry in lifted], place)


def _where(condition: object, a: object, b: object) -> object:
    values = _lifted((a, b)) if any(isinstance(entry, Operand) for entry in (a, b)) else _lifted((condition, a, b))[1:]
    return where(values[0].lift(condition), *values)


def _clip(x: LiftingOperand, low: float | None = None, high: float | None = None) -> object:
    return clamp(x, low, high)


def _cumsum(x: LiftingOperand, axis: int = -1) -> object:
    return cumsum(x, axis)


def _round(x: Any, decimals: int = 0) -> object:  # noqa: ANN401  # an operand
    return x.round(decimals)


def _einsum(equation: str, *operands: object) -> object:
    return einsum(equation, *_lifted(operands))


FUNCTIONS: Mapping[Function, Function] = {
    np.sum: _sum,
    np.mean: _mean,
    np.max: _max,
    np.min: _min,
    np.argmax: argmax,
    np.argmin: argmin,
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.where: _where,
    np.clip: _clip,
    np.round: _round,
    np.around: _round,
    np.reshape: reshape,
    np.broadcast_to: broadcast_to,
    np.transpose: transpose,
    np.cumsum: _cumsum,
    np.einsum: _einsum,
    np.real: real,
    np.imag: imaginary,
    np.fft.fft: fft,
    np.fft.ifft: ifft,
    np.fft.rfft: rfft,
    np.fft.irfft: irfft,
}

# What looks at values and gives no array that a gradient would have to go through.
LOOKING: tuple[Function, ...] = (
    np.allclose,
    np.array_equal,
    np.array_repr,
    np.array_str,
    np.array2string,
    np.shape,
    np.ndim,
    np.size,
    np.save,
    np.savetxt,
    np.may_share_memory,
    np.shares_memory,
)


def call_function(function: Function, args: Sequence[Any], options: Mapping[str, Any]) -> object:
    """The function of arguments among which is an operand; UsageError for those without a row."""
    if function in LOOKING:
        return function(*map(_plain, args), **{name: _plain(value) for name, value in options.items()})
    rule = FUNCTIONS.get(function)
    if rule is None:
        raise _unknown(f"np.{function.__name__}", "a variable", "a function that nnc records")
    try:
        return rule(*args, **options)
    except TypeError as error:
        raise _unknown(f"np.{function.__name__}", str(error), "the arguments that nnc.ops take") from None


def _plain(value: object) -> object:
    """Arrays in the place of operands."""
    return value.numpy() if isinstance(value, Operand) and hasattr(value, "numpy") else value
