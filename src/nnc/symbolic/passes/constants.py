"""Constant folding: an exec whose inputs hold one value everywhere, and so does its result, is a fill.

    f(fill(a), fill(b), …) = fill(f(a, b, …))          for pointwise f
    sum(fill(a)) = fill(a · n),  mean, max, min(fill(a)) = fill(a);  moved elements of fill(a) are fill(a)

The value is computed by the oracle's kernels on one element, in the element types of the exec.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nnc.core.values.command import Command
from nnc.graph import Op
from nnc.ops.composed.fused import MOVES, is_fusable
from nnc.ops.elementwise.complex_numbers import complex_of, conjugate, imaginary, magnitude
from nnc.ops.elementwise.pointwise import real
from nnc.ops.movement.broadcast import BROADCAST_TO, REDUCE_SUM
from nnc.ops.movement.copy import contiguous
from nnc.ops.movement.fill import FILL, FillAttrs, integer_range
from nnc.ops.movement.layout import CONVERT_LAYOUT
from nnc.ops.movement.movement import CONCATENATE, TRANSPOSE
from nnc.ops.number import EXACT, Number, is_whole
from nnc.ops.operators import OPERATORS
from nnc.ops.reduction.reduction import REDUCE_MAX, REDUCE_MEAN, REDUCE_MIN
from nnc.symbolic.elements import evaluate
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import TensorKey
from nnc.symbolic.rewrite import Match, Replacement, Rule

# Each element of the result is an element of an input, or a mean or an end of some.
KEEPING: tuple[Op[Any], ...] = (
    BROADCAST_TO,
    contiguous,
    CONVERT_LAYOUT,
    TRANSPOSE,
    CONCATENATE,
    REDUCE_MEAN,
    REDUCE_MAX,
    REDUCE_MIN,
)


def uniform(graph: SymbolicGraph, key: TensorKey | None) -> Number | None:
    """The value that every element of `key` has, when one fill writes the whole of its root."""
    writers = () if key is None else graph.writers(key)
    if key is None or len(writers) != 1:
        return None
    record = graph.execs[writers[0]]
    whole = record.outputs == (graph.root(key),)
    value: Number | None = record.command.attrs.value if record.command.op is FILL and whole else None
    return value


def _filled(match: Match, value: Number) -> Replacement | None:
    """A fill of the exec's result, when that type holds the value."""
    spec = match.result
    low, high = integer_range(spec.dtype)
    if not (spec.dtype.is_float or (is_whole(value) and low <= value <= high)):
        return None
    return match.graph.apply(Command(FILL, FillAttrs(value, spec)), ())


def _values(match: Match) -> list[Number] | None:
    """The values of all inputs, when all are uniform and the result has elements; those of fills are real."""
    if "complex" in {spec.dtype.kind for spec in (match.result, *(x.spec for x in match.inputs if x is not None))}:
        return None
    uniforms = [uniform(match.graph, key) for key in match.record.inputs]
    known = [value for value in uniforms if value is not None]
    return known if known and len(known) == len(uniforms) else None


def _pointwise(match: Match) -> Replacement | None:
    """f of constants, computed once."""
    values = _values(match)
    if values is None:
        return None
    specs = [replace(symbol.spec, shape=()) for symbol in match.inputs if symbol is not None]
    return _filled(match, evaluate(match.command, specs, values))


def _kept(match: Match) -> Replacement | None:
    """Elements of one value in other places, or many of them as one."""
    values = _values(match)
    empty = any(symbol is not None and symbol.spec.elements == 0 for symbol in match.inputs)
    if values is None or empty or (len(values) > 1 and len(set(map(repr, values))) > 1):
        return None
    return _filled(match, values[0])


def _summed(match: Match) -> Replacement | None:
    """n times the same integer, which is exact in any order of summation."""
    values = _values(match)
    x, result = match.input(0).spec, match.result
    if values is None or not result.elements:
        return None
    total = values[0] * (x.elements // result.elements)
    exact = abs(total) <= EXACT or not x.dtype.is_float
    return _filled(match, total) if is_whole(values[0]) and exact else None


OF_COMPLEX_NUMBERS = (complex_of, conjugate, imaginary, magnitude, real)


def _folded() -> tuple[Op[Any], ...]:
    return tuple(op for op in OPERATORS if is_fusable(op) and op not in (*MOVES, *OF_COMPLEX_NUMBERS))


CONSTANTS: tuple[Rule, ...] = (
    *(Rule(f"{op.name} of constants", op, _pointwise) for op in _folded()),
    *(Rule(f"{op.name} of a constant", op, _kept) for op in KEEPING),
    Rule("sum of a constant", REDUCE_SUM, _summed),
)
