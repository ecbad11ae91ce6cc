"""Algebra: rows that replace an exec by a cheaper one with the same value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nnc.core.values.command import Command
from nnc.core.values.dtype import BF16, F16, F32, F64
from nnc.graph import Op
from nnc.ops.elementwise.pointwise import (
    AFFINE,
    CAST,
    abs,
    add,
    affine,
    cast,
    ceil,
    divide,
    floor,
    maximum,
    minimum,
    multiply,
    relu,
    round,
    sign,
    square,
    subtract,
)
from nnc.ops.movement.broadcast import BROADCAST_TO, REDUCE_SUM, ReduceAttrs, reshape
from nnc.ops.movement.fill import FILL
from nnc.ops.movement.movement import TRANSPOSE, transpose
from nnc.ops.number import Number, exact_reciprocal, holds, wrapped
from nnc.ops.permutation import compose, identity, is_free
from nnc.ops.products.products import GEMM
from nnc.symbolic.rewrite import Match, Replacement, Rule

# f(f(x)) = f(x), and f(x, x) = x.
IDEMPOTENT: tuple[Op[Any], ...] = (relu, abs, sign, floor, ceil, round)
EITHER: tuple[Op[Any], ...] = (maximum, minimum)
# A cast from the first type to the second loses nothing.
WIDENING = {(F16, F32), (F16, F64), (BF16, F32), (BF16, F64), (F32, F64)}


def _affine_of_affine(match: Match) -> Replacement | None:
    """a · (c · x + d) + b = (a · c) · x + (a · d + b), in one exec, where a zero keeps its sign."""
    inner = match.producer(0, AFFINE)
    if inner is None or inner.inputs[0] is None:
        return None
    outer, attrs = match.command.attrs, inner.command.attrs
    x = match.graph.symbol(inner.inputs[0])
    if not x.spec.dtype.is_continuous:
        scale, shift = _whole(outer.scale) * _whole(attrs.scale), _whole(outer.scale) * _whole(attrs.shift)
        return (affine(x, wrapped(scale), wrapped(shift + _whole(outer.shift))),)
    scale = outer.scale * attrs.scale
    if _is_nothing(attrs.shift):
        return (affine(x, scale, outer.shift),) if holds(x.spec.dtype, scale) else None
    # c · x + d is +0 where it cancels, and a · (+0) + b is -0 where a < 0 and b adds nothing.
    if attrs.shift == 0 or (outer.scale <= 0 and _is_nothing(outer.shift)):
        return None
    shift = outer.scale * attrs.shift + outer.shift
    return (affine(x, scale, shift),) if holds(x.spec.dtype, scale) and holds(x.spec.dtype, shift) else None


def _is_nothing(shift: Number) -> bool:
    """True for -0.0, which adds nothing to a float, not even to a zero."""
    return shift == 0 and math.copysign(1.0, shift) < 0


def _whole(value: Number) -> int:
    """A number beside integers."""
    return int(value)


def _identity_affine(match: Match) -> Replacement | None:
    """1 · x - 0 = x; 1 · x + 0 is +0 where x is -0."""
    attrs = match.command.attrs
    nothing = attrs.shift == 0 and (_is_nothing(attrs.shift) or not match.result.dtype.is_continuous)
    return (match.input(0),) if attrs.scale == 1 and nothing else None


def _again(match: Match) -> Replacement | None:
    """f(f(x)) = f(x)."""
    return None if match.producer(0, match.command.op) is None else (match.input(0),)


def _either(match: Match) -> Replacement | None:
    """f(x, x) = x."""
    a, b = match.record.inputs
    return (match.input(0),) if a == b else None


def _transpose_of_transpose(match: Match) -> Replacement | None:
    """Two permutations are one, or none."""
    inner = match.producer(0, TRANSPOSE)
    if inner is None or inner.inputs[0] is None:
        return None
    whole = compose(inner.command.attrs.permutation, match.command.attrs.permutation)
    return (transpose(match.graph.symbol(inner.inputs[0]), whole),)


def _transpose_of_ones(match: Match) -> Replacement | None:
    """Moving axes of size 1 moves nothing."""
    x = match.input(0)
    if not is_free(x.spec, match.command.attrs.permutation) or match.graph.root(x.key) != x.key:
        return None
    return (reshape(x, match.result.shape),)


def _transposed_factor(match: Match) -> Replacement | None:
    """A product reads its factor transposed instead."""
    attrs, operands = match.command.attrs, list(match.inputs)
    for position, name in enumerate(("transpose_a", "transpose_b")):
        inner = match.producer(position, TRANSPOSE)
        if inner is None or inner.inputs[0] is None:
            continue
        *others, row, column = identity(match.input(position).spec.rank)
        if inner.command.attrs.permutation == (*others, column, row):
            operands[position] = match.graph.symbol(inner.inputs[0])
            attrs = replace(attrs, **{name: not getattr(attrs, name)})
    return None if attrs == match.command.attrs else match.graph.apply(Command(GEMM, attrs), operands)


def _sum_over_ones(match: Match) -> Replacement | None:
    """A sum over axes of size 1 moves nothing."""
    x = match.input(0)
    if any(x.shape[axis] != 1 for axis in match.command.attrs.axes) or match.graph.root(x.key) != x.key:
        return None
    return (reshape(x, match.result.shape),)


def _sum_of_sum(match: Match) -> Replacement | None:
    """Two sums are one, over the axes of both."""
    inner = match.producer(0, REDUCE_SUM)
    if inner is None or inner.inputs[0] is None:
        return None
    x, first, second = match.graph.symbol(inner.inputs[0]), inner.command.attrs, match.command.attrs
    left = [axis for axis in range(x.spec.rank) if first.keepdims or axis not in first.axes]
    axes = {*first.axes, *(left[axis] for axis in second.axes)}
    if first.keepdims is not second.keepdims:
        return None
    return match.graph.apply(Command(REDUCE_SUM, ReduceAttrs(tuple(sorted(axes)), second.keepdims)), (x,))


def _same_shape(match: Match) -> Replacement | None:
    """A broadcast to the shape that is there."""
    x = match.input(0)
    return (x,) if x.shape == match.command.attrs.shape else None


def _same_cast(match: Match) -> Replacement | None:
    """A cast to the type that is there."""
    x = match.input(0)
    return (x,) if x.spec.dtype is match.command.attrs.dtype else None


def _cast_of_wider(match: Match) -> Replacement | None:
    """A cast of a cast that loses nothing is one cast, or none."""
    inner = match.producer(0, CAST)
    if inner is None or inner.inputs[0] is None:
        return None
    x, target = match.graph.symbol(inner.inputs[0]), match.command.attrs.dtype
    if (x.spec.dtype, inner.command.attrs.dtype) not in WIDENING:
        return None
    return (x if x.spec.dtype is target else cast(x, target),)


def _squared(match: Match) -> Replacement | None:
    """x · x = x²."""
    a, b = match.record.inputs
    return (square(match.input(0)),) if a == b else None


def _constant(match: Match, position: int) -> Number | None:
    """The value of an input that a fill writes, when the other operand alone decides the result's shape."""
    fill = match.producer(position, FILL)
    whole = match.input(1 - position).shape == match.result.shape
    return fill.command.attrs.value if fill is not None and whole else None


def _with_constant(match: Match) -> Replacement | None:
    """x ∘ constant is an affine of x."""
    op, right, left = match.command.op, _constant(match, 1), _constant(match, 0)
    if right is not None:
        rows: Mapping[Op[Any], tuple[Number, Number]] = {
            add: (1.0, right), subtract: (1.0, -right), multiply: (right, -0.0)
        }  # fmt: skip
        return (affine(match.input(0), *rows[op]),)
    if left is not None:
        rows = {add: (1.0, left), subtract: (-1.0, left), multiply: (left, -0.0)}
        return (affine(match.input(1), *rows[op]),)
    return None


def _by_constant(match: Match) -> Replacement | None:
    """x / 2^n = 2^-n · x; by other numbers the product would round twice."""
    right = _constant(match, 1)
    inverse = None if right is None else exact_reciprocal(match.result.dtype, right)
    return None if inverse is None else (affine(match.input(0), inverse),)


ALGEBRA: tuple[Rule, ...] = (
    Rule("identity affine", AFFINE, _identity_affine),
    Rule("affine of affine", AFFINE, _affine_of_affine),
    *(Rule(f"{op.name} of {op.name}", op, _again) for op in IDEMPOTENT),
    *(Rule(f"{op.name} of equals", op, _either) for op in EITHER),
    Rule("transpose of transpose", TRANSPOSE, _transpose_of_transpose),
    Rule("transpose of ones", TRANSPOSE, _transpose_of_ones),
    Rule("transposed factor", GEMM, _transposed_factor),
    Rule("sum over ones", REDUCE_SUM, _sum_over_ones),
    Rule("sum of sum", REDUCE_SUM, _sum_of_sum),
    Rule("broadcast to the same shape", BROADCAST_TO, _same_shape),
    Rule("same cast", CAST, _same_cast),
    Rule("cast of a wider cast", CAST, _cast_of_wider),
    Rule("square", multiply, _squared),
    Rule("add constant", add, _with_constant),
    Rule("subtract constant", subtract, _with_constant),
    Rule("multiply constant", multiply, _with_constant),
    Rule("divide by a power of two", divide, _by_constant),
)
