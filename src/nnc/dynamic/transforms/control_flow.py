"""Control flow by values: plain Python on eager values, loops and branches of the program on traced ones.

    cond(x.sum() > 0, ops.exp, ops.log, x)                  what the branch taken gives
    while_loop(lambda n, x: x.sum() < 9, step, n, x)        n and x when the test fails first
    scan(step, carry, xs)                                   carry, y = step(carry, x) by rows; the last carry, all y

Carried values are nested in tuples, lists and dictionaries, and keep their shapes and element types. Branches and
bodies may use values from around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from nnc.arguments import checked
from nnc.concrete import CountBelow
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import I64
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.graph import default_graph
from nnc.dynamic.traced import FunctionTrace, TracedValue, active_trace
from nnc.dynamic.transforms.batched import BatchedValue, VmapLevel, active_levels, operand_of
from nnc.dynamic.tree import Structure, Tree, flatten, map_leaves
from nnc.errors import ArityError, ShapeError
from nnc.ops.elementwise.pointwise import cast, where
from nnc.ops.indexing.indexing import index_select
from nnc.ops.movement.movement import concatenate, transpose
from nnc.ops.reduction.reduction import reduce_any
from nnc.symbolic import control
from nnc.symbolic.ir import Symbol

# Turns over rows without elements, which are as many as anybody says and take no memory.
MOST_EMPTY = 1 << 16

Function = Callable[..., Any]


@checked
def cond(condition: Tree, then: Function, otherwise: Function, *operands: Tree) -> Tree:
    """then(*operands) where the condition, a single truth value, holds, else otherwise(*operands).

    >>> nnc.cond(nnc.tensor(True), lambda x: x + 1, lambda x: x - 1, nnc.tensor(1.0))
    Variable(f32[], constant)
    2.0
    """
    trace = active_trace()
    if isinstance(condition, BatchedValue) or (active_levels() and isinstance(condition, TracedValue)):
        return _chosen(condition, then(*operands), otherwise(*operands))
    if isinstance(condition, np.ndarray) and condition.size != 1:
        raise ShapeError("cond", got=f"a condition of {condition.size} values", need="a single one", fix="use where()")
    if trace is None or not isinstance(condition, ArrayOperand):
        return then(*operands) if condition else otherwise(*operands)
    leaves, structure = flatten(operands)
    choice = cast(condition.reshape(()), I64)
    symbols = [trace.symbol(entry) for entry in (choice, *leaves)]
    shapes: list[Structure] = []

    def branch(function: Function, *given: Symbol) -> tuple[Symbol, ...]:
        with trace.inside(given[0].graph):
            leaves, shape = flatten(function(*structure.unflatten([trace.value(operand) for operand in given[1:]])))
            shapes.append(shape)
            return tuple(trace.symbol(_lifted(trace, entry)) for entry in leaves)

    results = control.case_of(trace.current, symbols[0], [partial(branch, otherwise), partial(branch, then)], symbols)
    if shapes[0] != shapes[1]:
        raise ArityError("cond", got="branches of two structures", need="one structure", origin=caller_origin())
    return shapes[0].unflatten([trace.value(entry) for entry in results])


@checked
def while_loop(test: Function, body: Function, *initial: Tree, at_most: int | None = None) -> Tree:
    """What body makes of the carried values as long as the test of them holds: a tuple, or the value if it is one.

    A gradient of a compiled loop needs `at_most`, a bound on its iterations: memory is planned before the run.

    >>> nnc.while_loop(lambda n: n < 5, lambda n: n + 2, nnc.tensor(0))
    Variable(i64[], constant)
    6
    """
    if not initial:
        raise ArityError("while_loop", got="no values", need="at least one to carry", origin=caller_origin())
    trace = active_trace()
    if trace is None:
        return _repeat(test, body, initial)
    if levels := active_levels():
        return _repeat_all(levels[-1], test, body, initial, at_most)
    leaves, structure = flatten(initial)
    with control.while_loop(trace.current, at_most=at_most) as loop:
        carried = [loop.carry(trace.symbol(_lifted(trace, leaf))) for leaf in leaves]
        with trace.inside(loop.body, loop.count):
            values = structure.unflatten([trace.value(entry) for entry in carried])
            loop.go_on_while(trace.symbol(_lifted(trace, test(*values))))
            _carry_on(trace, loop, carried, _as_tuple(body(*values)), structure)
    result = structure.unflatten([trace.value(loop.result(entry)) for entry in carried])
    return result if len(initial) > 1 else result[0]


@checked
def scan(function: Function, initial: Tree, rows: Tree) -> tuple[Tree, Tree]:
    """(carry, y) = function(carry, row) for each row of the arrays `rows`, in order: the last carry, and all y.

    >>> total, sums = nnc.scan(lambda a, row: (a + row, a + row), nnc.tensor(0.0), nnc.tensor([1.0, 2.0]))
    >>> sums
    Variable(f32[2], constant)
    [1. 3.]
    """
    arrays, shape = flatten(rows)
    counts = {len(array) if getattr(array, "ndim", 0) else 0 for array in arrays}
    if len(counts) != 1:
        raise ShapeError("scan", got=f"{sorted(counts)} rows", need="arrays of equally many", origin=caller_origin())
    (count,) = counts
    if count > MOST_EMPTY and all(0 in array.shape for array in arrays):
        got, need = f"{count} rows of nothing", f"at most {MOST_EMPTY}"
        raise ShapeError("scan", got=got, need=need, fix="loop without them", origin=caller_origin())
    trace = active_trace()
    if trace is None:
        return _step_through(
            function, initial, [shape.unflatten([array[row] for array in arrays]) for row in range(count)]
        )
    if levels := active_levels():
        return _scan_all(levels[-1], function, initial, rows)
    leaves, structure = flatten((initial,))
    with control.while_loop(trace.current, CountBelow(count)) as loop:
        carried = [loop.carry(trace.symbol(_lifted(trace, leaf))) for leaf in leaves]
        with trace.inside(loop.body, loop.count):
            turn = trace.value(loop.count)
            row = shape.unflatten([index_select(_lifted(trace, array), turn) for array in arrays])
            (value,) = structure.unflatten([trace.value(entry) for entry in carried])
            following, given = _pair(function(value, row))
            _carry_on(trace, loop, carried, (following,), structure)
            outputs, form = flatten(given)
            made = [trace.symbol(_lifted(trace, output)) for output in outputs]
    (last,) = structure.unflatten([trace.value(loop.result(entry)) for entry in carried])
    return last, form.unflatten([trace.value(loop.rows(entry)) for entry in made])


def _pair(value: Tree) -> tuple[Tree, Tree]:
    """What the function of a scan gave."""
    if not isinstance(value, tuple) or len(value) != 2:
        got = f"a {type(value).__name__} from the function"
        raise ArityError("scan", got=got, need="(carry, y)", origin=caller_origin())
    return value


def _carry_on(
    trace: FunctionTrace, loop: control.Loop, carried: Sequence[Symbol], values: Tree, structure: Structure
) -> None:
    leaves, shape = flatten(values)
    if shape != structure:
        raise ArityError("loop", got="other containers than before", need="those of the start", origin=caller_origin())
    for symbol, value in zip(carried, leaves, strict=True):
        loop.next(symbol, trace.symbol(_lifted(trace, value, trace.value(symbol))))


def _lifted(trace: FunctionTrace, value: Tree, like: ArrayOperand | None = None) -> Tree:
    """A traced value; a number takes the element type of `like`, or NumPy's for it, f32 for floats."""
    if type(value) in (bool, int, float):
        kind = like.dtype.numpy if like is not None else np.float32 if isinstance(value, float) else None
        return trace.lift(np.asarray(value, kind))
    return trace.lift(value) if trace.lift(value) is not None else value


def _as_tuple(value: Tree) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _repeat(test: Function, body: Function, initial: tuple[Any, ...]) -> Tree:
    """Under vmap as long as the test of any example holds; the others keep what they have."""
    values = initial
    while _holds(going := test(*values)):
        following = _as_tuple(body(*values))
        values = _chosen(going, following, values) if isinstance(going, BatchedValue) else following
    return values if len(initial) > 1 else values[0]


def _holds(value: Tree) -> bool:
    while isinstance(value, BatchedValue):
        value = reduce_any(value.value)
    return bool(value)


def _chosen(condition: ArrayOperand, then: Tree, otherwise: Tree) -> Tree:
    """Each example's own branch, of both; numbers take the element type of the other branch."""
    (first, shape), (second, other) = flatten(then), flatten(otherwise)
    if shape != other:
        raise ArityError("cond", got="branches of two structures", need="one structure", origin=caller_origin())
    pairs = zip(first, second, strict=True)
    return shape.unflatten([where(condition, *(_beside(entry, pair) for entry in pair)) for pair in pairs])


def _beside(value: Tree, pair: tuple[Tree, Tree]) -> ArrayOperand:
    like = next((entry.dtype.numpy for entry in pair if isinstance(entry, ArrayOperand)), None)
    return operand_of(np.asarray(value, like) if isinstance(value, int | float) and like is not None else value)


def _for_all(level: VmapLevel, function: Function) -> Function:
    """The function of one example as one of the whole batch, for the world around the level."""

    def run(*wholes: Tree) -> Tree:
        with level.entered():
            return map_leaves(level.whole, function(*map_leaves(level.example, wholes)))

    return run


def _repeat_all(level: VmapLevel, test: Function, body: Function, initial: Tree, at_most: int | None) -> Tree:
    """The loop of the whole batch goes on as long as the test of any example holds."""

    def one_step(*values: Tree) -> Tree:
        return _chosen(test(*values), _as_tuple(body(*values)), values)

    wholes = map_leaves(level.whole, initial)
    with level.left():
        result = while_loop(
            lambda *values: reduce_any(_for_all(level, test)(*values)),
            _for_all(level, one_step),
            *wholes,
            at_most=at_most,
        )
    return map_leaves(level.example, result)


def _scan_all(level: VmapLevel, function: Function, initial: Tree, rows: Tree) -> tuple[Tree, Tree]:
    wholes = map_leaves(level.whole, (initial, rows))
    with level.left():
        last, given = scan(_for_all(level, function), wholes[0], map_leaves(_swapped, wholes[1]))
        result: tuple[Tree, Tree] = (last, map_leaves(_swapped, given))
    return map_leaves(level.example, result)  # type: ignore[no-any-return]  # the same containers


def _swapped(x: ArrayOperand) -> ArrayOperand:
    """x with its first two axes in the other order."""
    return transpose(x, (1, 0, *range(2, x.ndim)))


def _step_through(function: Function, carry: Tree, rows: Sequence[Any]) -> tuple[Tree, Tree]:
    given = []
    for row in rows:
        carry, y = _pair(function(carry, row))
        given.append(y)
    if not given:
        raise ShapeError("scan", got="no rows", need="at least one", origin=caller_origin())
    leaves = [flatten(operand)[0] for operand in given]
    stacked = [concatenate([_eager(entry).add_axis(0) for entry in column]) for column in zip(*leaves, strict=True)]
    return carry, flatten(given[0])[1].unflatten(stacked)


def _eager(value: Tree) -> Tree:
    return value if isinstance(value, ArrayOperand) else default_graph().constant(value)
