"""Algebra: rows that replace an exec by a cheaper one with the same value."""

from __future__ import annotations

from nnc.core.command import Command
from nnc.ops.broadcast import REDUCE_SUM, reshape
from nnc.ops.copy import COPY
from nnc.ops.fill import FILL, FillAttrs
from nnc.ops.movement import TRANSPOSE, transpose
from nnc.ops.pointwise import ADD, AFFINE, CAST, DIVIDE, MULTIPLY, SUBTRACT, affine, square
from nnc.symbolic.rewrite import Match, Replacement, Rule


def _affine_of_affine(match: Match) -> Replacement | None:
    """a · (c · x + d) + b = (a · c) · x + (a · d + b), in one exec."""
    inner = match.producer(0, AFFINE)
    if inner is None or inner.inputs[0] is None:
        return None
    outer, attrs = match.command.attrs, inner.command.attrs
    x = match.graph.symbol(inner.inputs[0])
    return (affine(x, outer.scale * attrs.scale, outer.scale * attrs.shift + outer.shift),)


def _identity_affine(match: Match) -> Replacement | None:
    """1 · x + 0 = x."""
    attrs = match.command.attrs
    return (match.input(0),) if (attrs.scale, attrs.shift) == (1.0, 0.0) else None


def _affine_of_fill(match: Match) -> Replacement | None:
    """scale · value + shift is a constant."""
    inner = match.producer(0, FILL)
    if inner is None:
        return None
    attrs, fill = match.command.attrs, inner.command.attrs
    return match.graph.apply(Command(FILL, FillAttrs(attrs.scale * fill.value + attrs.shift, fill.spec)), ())


def _transpose_of_transpose(match: Match) -> Replacement | None:
    """Two permutations are one, or none."""
    inner = match.producer(0, TRANSPOSE)
    if inner is None or inner.inputs[0] is None:
        return None
    first, second = inner.command.attrs.permutation, match.command.attrs.permutation
    return (transpose(match.graph.symbol(inner.inputs[0]), tuple(first[axis] for axis in second)),)


def _sum_over_ones(match: Match) -> Replacement | None:
    """A sum over axes of size 1 moves nothing."""
    x = match.input(0)
    if any(x.shape[axis] != 1 for axis in match.command.attrs.axes) or match.graph.root(x.key) != x.key:
        return None
    shape = match.graph.tensors[match.record.outputs[0]].spec.shape
    return (reshape(x, shape),)


def _same_cast(match: Match) -> Replacement | None:
    """A cast to the type that is there."""
    x = match.input(0)
    return (x,) if x.spec.dtype is match.command.attrs.dtype else None


def _copy(match: Match) -> Replacement | None:
    """A copy is its source, as long as nobody needs it in memory of its own."""
    return (match.input(0),)


def _squared(match: Match) -> Replacement | None:
    """x · x = x²."""
    a, b = match.record.inputs
    return (square(match.input(0)),) if a == b else None


def _constant(match: Match, position: int) -> float | None:
    """The value of an input that a fill writes, when the other operand alone decides the result's shape."""
    fill = match.producer(position, FILL)
    result = match.graph.tensors[match.record.outputs[0]].spec
    return fill.command.attrs.value if fill is not None and match.input(1 - position).shape == result.shape else None


def _with_constant(match: Match) -> Replacement | None:
    """x ∘ constant is an affine of x."""
    op, right, left = match.command.op, _constant(match, 1), _constant(match, 0)
    x = match.input(0)
    if right is not None and (op is not DIVIDE or right != 0.0):
        rows = {ADD: (1.0, right), SUBTRACT: (1.0, -right), MULTIPLY: (right, 0.0)}
        scale, shift = (1.0 / right, 0.0) if op is DIVIDE else rows[op]
        return (affine(x, scale, shift),)
    if left is not None and op is not DIVIDE:
        rows = {ADD: (1.0, left), SUBTRACT: (-1.0, left), MULTIPLY: (left, 0.0)}
        return (affine(match.input(1), *rows[op]),)
    return None


ALGEBRA: tuple[Rule, ...] = (
    Rule("identity affine", AFFINE, _identity_affine),
    Rule("affine of affine", AFFINE, _affine_of_affine),
    Rule("affine of fill", AFFINE, _affine_of_fill),
    Rule("transpose of transpose", TRANSPOSE, _transpose_of_transpose),
    Rule("sum over ones", REDUCE_SUM, _sum_over_ones),
    Rule("same cast", CAST, _same_cast),
    Rule("square", MULTIPLY, _squared),
    Rule("add constant", ADD, _with_constant),
    Rule("subtract constant", SUBTRACT, _with_constant),
    Rule("multiply constant", MULTIPLY, _with_constant),
    Rule("divide by constant", DIVIDE, _with_constant),
)

TRANSFERS: tuple[Rule, ...] = (Rule("copy", COPY, _copy),)
