"""JAX's `jax.lax`: `from nnc import lax`, or `jax.lax` where `import nnc as jax`.

    carry, ys = lax.scan(step, init, xs)        x = lax.fori_loop(0, 10, body, x)        y = lax.cond(x > 0, f, g, x)

The loops and branches are those of `nnc.scan`, `nnc.while_loop` and `nnc.cond`, with JAX's arguments; functions of
arrays are `nnc`'s, under JAX's names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from nnc.arguments import checked, shown
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.dynamic.transforms import control_flow
from nnc.dynamic.transforms.control_flow import cond as cond
from nnc.dynamic.tree import Tree, flatten, map_leaves
from nnc.errors import ArgumentError, ShapeError
from nnc.numerics import abs as abs
from nnc.numerics import acos as acos
from nnc.numerics import acosh as acosh
from nnc.numerics import add as add
from nnc.numerics import argmax as argmax
from nnc.numerics import argmin as argmin
from nnc.numerics import asarray, clip, concatenate, flip, where
from nnc.numerics import asin as asin
from nnc.numerics import asinh as asinh
from nnc.numerics import atan as atan
from nnc.numerics import atan2 as atan2
from nnc.numerics import atanh as atanh
from nnc.numerics import bitwise_and as bitwise_and
from nnc.numerics import bitwise_not as bitwise_not
from nnc.numerics import bitwise_or as bitwise_or
from nnc.numerics import bitwise_xor as bitwise_xor
from nnc.numerics import broadcast_to as broadcast_to
from nnc.numerics import cbrt as cbrt
from nnc.numerics import ceil as ceil
from nnc.numerics import cos as cos
from nnc.numerics import cosh as cosh
from nnc.numerics import cummax as cummax
from nnc.numerics import cummin as cummin
from nnc.numerics import cumprod as cumprod
from nnc.numerics import cumsum as cumsum
from nnc.numerics import digamma as digamma
from nnc.numerics import div as div
from nnc.numerics import dot as dot
from nnc.numerics import equal as eq
from nnc.numerics import erf as erf
from nnc.numerics import erfc as erfc
from nnc.numerics import erfinv as erf_inv
from nnc.numerics import exp as exp
from nnc.numerics import expand_dims as expand_dims
from nnc.numerics import expm1 as expm1
from nnc.numerics import floor as floor
from nnc.numerics import fmod as rem
from nnc.numerics import full as full
from nnc.numerics import full_like as full_like
from nnc.numerics import greater as gt
from nnc.numerics import greater_equal as ge
from nnc.numerics import isfinite as is_finite
from nnc.numerics import less as lt
from nnc.numerics import less_equal as le
from nnc.numerics import lgamma as lgamma
from nnc.numerics import log as log
from nnc.numerics import log1p as log1p
from nnc.numerics import maximum as max
from nnc.numerics import minimum as min
from nnc.numerics import multiply as mul
from nnc.numerics import negative as neg
from nnc.numerics import not_equal as ne
from nnc.numerics import power as pow
from nnc.numerics import reciprocal as reciprocal
from nnc.numerics import reshape as reshape
from nnc.numerics import round as round
from nnc.numerics import rsqrt as rsqrt
from nnc.numerics import sigmoid as logistic
from nnc.numerics import sign as sign
from nnc.numerics import sin as sin
from nnc.numerics import sinh as sinh
from nnc.numerics import sort as sort
from nnc.numerics import sqrt as sqrt
from nnc.numerics import square as square
from nnc.numerics import squeeze as squeeze
from nnc.numerics import stop_gradient as stop_gradient
from nnc.numerics import subtract as sub
from nnc.numerics import take as take
from nnc.numerics import tan as tan
from nnc.numerics import tanh as tanh
from nnc.numerics import topk as top_k
from nnc.numerics import transpose as transpose
from nnc.numerics.jax_names.general_convolutions import *
from nnc.numerics.jax_names.general_products import *
from nnc.numerics.jax_names.slices import *
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.names import MODULE

__all__ = [
    "ConvDimensionNumbers", "abs", "acos", "acosh", "add", "argmax", "argmin", "asin", "asinh", "associative_scan",
    "atan", "atan2", "atanh", "batch_matmul", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor",
    "broadcast_in_dim", "broadcast_to", "cbrt", "ceil", "clamp", "concatenate", "cond", "conv",
    "conv_dimension_numbers", "conv_general_dilated", "conv_transpose", "conv_with_general_padding",
    "convert_element_type", "cos", "cosh", "cummax", "cummin", "cumprod", "cumsum", "digamma", "div", "dot",
    "dot_general", "dynamic_index_in_dim", "dynamic_slice", "dynamic_update_slice", "eq", "erf", "erf_inv", "erfc",
    "exp", "expand_dims", "expm1", "floor", "fori_loop", "full", "full_like", "ge", "gt", "iota", "is_finite", "le",
    "lgamma", "log", "log1p", "logistic", "lt", "map", "max", "min", "mul", "ne", "neg", "pad", "pow", "reciprocal",
    "reduce_window", "rem", "reshape", "rev", "round", "rsqrt", "scan", "select", "sign", "sin", "sinh", "slice",
    "slice_in_dim", "sort", "sqrt", "square", "squeeze", "stop_gradient", "sub", "switch", "take", "tan", "tanh",
    "top_k", "transpose", "while_loop",
]  # fmt: skip

Function: TypeAlias = Callable[..., Any]
Index: TypeAlias = Any


@checked
def scan(
    f: Function,
    init: Tree,
    xs: Tree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Tree, Tree]:
    """(carry, y) = f(carry, x) for each row x of the arrays xs, the last one first if `reverse`: the last carry, all y.

    Without xs, f(carry, None) `length` times. `unroll` changes nothing.

    >>> total, sums = nnc.lax.scan(lambda a, x: (a + x, a + x), 0.0, nnc.arange(4.0))
    >>> sums.tolist()
    [0.0, 1.0, 3.0, 6.0]
    """
    leaves, _ = flatten(xs)
    if all(leaf is None for leaf in leaves):
        if length is None:
            raise ArgumentError("scan", got="neither xs nor length", need="one of them", fix="length=10")
        rows: Tree = _numbers("scan", 0, length)
        step: Function = lambda carry, row: f(carry, None)  # noqa: E731  # the same function without rows
    else:
        rows, step = map_leaves(asarray, xs), f
    rows = map_leaves(lambda row: flip(row, 0), rows) if reverse else rows
    silent: list[bool] = []

    def stepped(carry: Tree, row: Tree) -> tuple[Tree, Tree]:
        made = step(carry, row)
        if not isinstance(made, tuple | list) or len(made) != 2:
            raise ArgumentError("scan", got=f"{shown(made)} from f", need="the next carry and a row of results")
        following, given = made
        silent.append(given is None)
        return following, asarray(0) if given is None else given

    carry, ys = control_flow.scan(stepped, map_leaves(_lifted, init), rows)
    if silent and silent[0]:
        return carry, None
    return carry, map_leaves(lambda y: flip(y, 0), ys) if reverse else ys


@checked
def while_loop(cond_fun: Function, body_fun: Function, init_val: Tree) -> Tree:
    """What body_fun makes of the value as long as cond_fun of it holds.

    >>> nnc.lax.while_loop(lambda x: x < 10, lambda x: x * 2, 1).item()
    16
    """

    def body(value: Tree) -> Tree:
        return (body_fun(value),)

    return control_flow.while_loop(cond_fun, body, map_leaves(_lifted, init_val))


@checked
def fori_loop(lower: int | ArrayOperand, upper: int | ArrayOperand, body_fun: Function, init_val: Tree) -> Tree:
    """value = body_fun(i, value) for i from lower to upper - 1; with bounds that are numbers gradients go back through.

    >>> nnc.lax.fori_loop(0, 5, lambda i, total: total + i, 0).item()
    10
    """
    if isinstance(lower, int) and isinstance(upper, int):
        if upper <= lower:
            return init_val
        return scan(lambda value, i: (body_fun(i, value), None), init_val, _numbers("fori_loop", lower, upper))[0]
    start = (asarray(lower), init_val)
    return while_loop(lambda state: state[0] < upper, lambda state: (state[0] + 1, body_fun(*state)), start)[1]


@checked
def switch(index: Index, branches: Sequence[Function], *operands: Tree) -> Tree:
    """branches[index](*operands), the first or the last of them where the index lies outside.

    >>> nnc.lax.switch(1, [nnc.exp, lambda x: x * 10], 3.0).item()
    30.0
    """
    if not branches:
        raise ArgumentError("switch", got="no branches", need="one or more")
    given = map_leaves(_lifted, operands)
    if isinstance(index, int):
        return branches[int(np.clip(index, 0, len(branches) - 1))](*given)
    chosen: Function = branches[-1]
    for place in reversed(range(len(branches) - 1)):
        chosen = partial(_either, as_operand(index) <= place, branches[place], chosen)
    return chosen(*given)


def _either(condition: ArrayOperand, then: Function, otherwise: Function, *operands: Tree) -> Tree:
    return cond(condition, then, otherwise, *operands)


@checked
def select(pred: Index, on_true: Index, on_false: Index) -> ArrayOperand:
    """on_true where pred holds, else on_false"""
    return where(pred, on_true, on_false)


@checked
def map(f: Function, xs: Tree) -> Tree:
    """f of each row, one after the other: all results.

    >>> nnc.lax.map(lambda x: x * x, nnc.arange(3)).tolist()
    [0, 1, 4]
    """
    return scan(lambda carry, x: (carry, f(x)), 0, xs)[1]


@checked
def clamp(min: Index, x: Index, max: Index) -> ArrayOperand:
    """x within min..max: bounds stand around it"""
    return clip(x, min, max)


@checked
def iota(dtype: Any, size: int) -> ArrayOperand:  # noqa: ANN401  # an element type in any spelling
    """0, 1, 2, … size - 1"""
    return _numbers("iota", 0, size).astype(dtype)


def _numbers(subject: str, start: int, stop: int) -> ArrayOperand:
    """start … stop - 1"""
    try:
        return asarray(np.arange(start, stop))
    except (ValueError, OverflowError, MemoryError):
        raise ArgumentError(subject, got=f"numbers {start} to {stop - 1}", need="as many as memory holds") from None


@checked
def dynamic_slice(operand: Index, start_indices: Sequence[Index], slice_sizes: Sequence[int]) -> ArrayOperand:
    """A block of these sizes from a place, which is moved inside where it would go over the end.

    >>> nnc.lax.dynamic_slice(nnc.arange(10), (3,), (4,)).tolist()
    [3, 4, 5, 6]
    """
    x = as_operand(operand)
    for axis, places in enumerate(_block("dynamic_slice", x, start_indices, slice_sizes)):
        x = take(x, places, axis=axis)
    return x


def _block(subject: str, x: ArrayOperand, starts: Sequence[Index], sizes: Sequence[int]) -> list[ArrayOperand]:
    """The places of a block on each axis, moved inside; ShapeError for one that the array has no room for."""
    if not len(starts) == len(sizes) == x.ndim:
        got = f"{len(starts)} places and {len(sizes)} sizes of {x.spec}"
        raise ShapeError(subject, got=got, need="one for each axis")
    if not all(0 <= size <= whole for size, whole in zip(sizes, x.shape, strict=True)):
        raise ShapeError(subject, got=f"a block {tuple(sizes)} of {x.spec}", need="sizes up to those of the array")
    begins = [asarray(start) for start in starts]
    if any(begin.ndim for begin in begins):
        got = f"places {', '.join(str(begin.spec) for begin in begins)}"
        raise ShapeError(subject, got=got, need="an integer for each axis")
    rows = zip(begins, sizes, x.shape, strict=True)
    return [clip(begin, 0, whole - size) + asarray(np.arange(size)) for begin, size, whole in rows]


@checked
def dynamic_index_in_dim(operand: Index, index: Index, axis: int = 0, keepdims: bool = True) -> ArrayOperand:
    """What stands at one place of an axis."""
    x = as_operand(operand)
    if not -x.ndim <= axis < x.ndim:
        raise ShapeError("dynamic_index_in_dim", got=f"axis={axis} of {x.spec}", need=f"an axis of {x.ndim}")
    part = take(x, clip(asarray(index), 0, x.shape[axis] - 1).reshape(1), axis=axis)
    return part if keepdims else squeeze(part, axis)


@checked
def dynamic_update_slice(operand: Index, update: Index, start_indices: Sequence[Index]) -> ArrayOperand:
    """The operand with a block of other elements at a place, which is moved inside where it would go over the end.

    >>> nnc.lax.dynamic_update_slice(nnc.zeros(5), nnc.ones(2), (1,)).tolist()
    [0.0, 1.0, 1.0, 0.0, 0.0]
    """
    x, block = as_operand(operand), as_operand(update)
    places: list[Any] = []
    for axis, rows in enumerate(_block("dynamic_update_slice", x, start_indices, block.shape)):
        places.append(rows.reshape(*(-1 if other == axis else 1 for other in range(x.ndim))))
    return x.at[tuple(places)].set(block.astype(x.dtype))


def _lifted(value: Any) -> Any:  # noqa: ANN401  # a leaf
    """Numbers as arrays, so that they may be carried."""
    if value is None or isinstance(value, str):
        raise ArgumentError("lax", got=shown(value), need="arrays and numbers to carry")
    return asarray(value)


if not TYPE_CHECKING:
    # A type checker goes by what there is.
    def __getattr__(name: str) -> NoReturn:
        raise unknown_name("module 'nnc.lax'", name, MODULE, lambda: globals(), "lax.")
