"""Random programs of operators, written once and run on any operands: symbols, or eager variables.

A step is a tuple of numbers; whatever they are, it means something, so that every list of steps is a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hypothesis import strategies as st

from nnc import ops
from nnc.core.command import Command
from nnc.core.spec import Shape
from nnc.errors import ShapeError
from nnc.ops.arithmetic import ArithmeticOperand
from nnc.ops.copy import COPY
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Symbol

T = TypeVar("T", bound=ArithmeticOperand)
# `Any`: an operand in is an operand of the same kind out, which no type of a table can say.
Operator = Callable[[Any, Any, int], Any]

LARGEST = 128
SHAPES: tuple[Shape, ...] = ((), (3,), (4,), (2, 3), (4, 1), (4, 4), (2, 1, 4))


@dataclass(frozen=True)
class Step:
    """Apply operator number `operator` to the operands `first` and `second`, each counted modulo what there is."""

    operator: int
    first: int
    second: int
    option: int


@dataclass(frozen=True)
class Program:
    """Inputs of `shapes`, steps, and which of all operands are wanted."""

    shapes: tuple[Shape, ...]
    steps: tuple[Step, ...]
    wanted: tuple[int, ...]


def _fitting(function: Callable[[Any, Any], Any]) -> Operator:
    """A binary operator; where the shapes do not broadcast, the first operand with itself."""

    def run(a: Any, b: Any, option: int) -> Any:
        try:
            return function(a, b)
        except ShapeError:
            return function(a, a)

    return run


def _product(a: Any, b: Any, option: int) -> Any:
    if len(a.shape) < 2:
        return a * b if a.shape == b.shape else a * a
    if len(b.shape) == 2 and b.shape[0] == a.shape[-1]:
        return ops.gemm(a, b)
    return ops.gemm(a, a, transpose_b=True)


def _slice(a: Any, b: Any, option: int) -> Any:
    if not a.shape:
        return a
    axis = option % len(a.shape)
    start = (option // 4) % a.shape[axis]
    return ops.slice_axis(a, axis, start, start + 1 + (option // 16) % (a.shape[axis] - start))


def _index(a: Any, b: Any, option: int) -> Any:
    return a[option % a.shape[0]] if a.shape else a


def _flat(a: Any, b: Any, option: int) -> Any:
    return ops.reshape(a, (-1,) if option % 2 else (*a.shape, 1))


def _halves(a: Any, b: Any, option: int) -> Any:
    rows = a.shape[0] if a.shape else 1
    return ops.reshape(a, (2, -1)) if rows % 2 == 0 else a


def _reduce(function: Callable[..., Any]) -> Operator:
    def run(a: Any, b: Any, option: int) -> Any:
        axes = None if option % 3 == 0 or not a.shape else option % len(a.shape)
        return function(a, axes, keepdims=bool(option % 2))

    return run


def _concatenated(a: Any, b: Any, option: int) -> Any:
    if not a.shape:
        return a
    return ops.concatenate([a, b if a.shape == b.shape else a], option % len(a.shape))


def _assembled(a: Any, b: Any, option: int) -> Any:
    """As concatenated; of symbols, each part is written into its place of one tensor."""
    if not isinstance(a, Symbol) or not a.shape:
        return _concatenated(a, b, option)
    axis, start = option % len(a.shape), 0
    parts = (a, b if a.shape == b.shape else a)
    shape = (*a.shape[:axis], 2 * a.shape[axis], *a.shape[axis + 1 :])
    whole = a.graph.input(replace(a.spec, shape=shape))
    for part in parts:
        place = ops.slice_axis(whole, axis, start, start + part.shape[axis])
        a.graph.apply(Command(COPY, NoAttrs()), [part], [place])
        start += part.shape[axis]
    return whole


OPERATORS: tuple[Operator, ...] = (
    lambda a, b, option: ops.tanh(a),
    lambda a, b, option: ops.relu(a),
    lambda a, b, option: ops.sin(a),
    lambda a, b, option: ops.affine(a, 0.5 + option % 3, -0.25),
    lambda a, b, option: ops.contiguous(a),
    lambda a, b, option: ops.softmax(a) if a.shape else ops.sigmoid(a),
    _fitting(ops.add),
    _fitting(ops.add),
    _fitting(ops.multiply),
    _fitting(ops.subtract),
    _fitting(ops.maximum),
    _product,
    _slice,
    _slice,
    _index,
    _flat,
    _halves,
    lambda a, b, option: ops.transpose(a),
    _reduce(ops.reduce_sum),
    _reduce(ops.reduce_mean),
    _concatenated,
    _assembled,
)


def programs(least: int = 3, most: int = 16) -> st.SearchStrategy[Program]:
    """Programs of `least` to `most` steps."""
    number = st.integers(0, 1 << 10)
    steps = st.lists(st.builds(Step, number, number, number, number), min_size=least, max_size=most).map(tuple)
    shapes = st.lists(st.sampled_from(SHAPES), min_size=2, max_size=4).map(tuple)
    return st.builds(Program, shapes, steps, st.lists(number, min_size=1, max_size=3).map(tuple))


def run(program: Program, inputs: Sequence[T]) -> tuple[list[T], list[T]]:
    """All operands in order, and the wanted ones; results that grow beyond `LARGEST` elements are left out."""
    operands = list(inputs)
    for step in program.steps:
        a, b = operands[-1 - step.first % len(operands)], operands[-1 - step.second % len(operands)]
        result = OPERATORS[step.operator % len(OPERATORS)](a, b, step.option)
        if result.spec.elements <= LARGEST and len(result.shape) <= 4:
            operands.append(result)
    return operands, [operands[-1 - number % len(operands)] for number in program.wanted]
