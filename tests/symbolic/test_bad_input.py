"""What a user can get wrong in a symbolic graph: a typed error that names the line, and a graph that is still valid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.command import Command
from nnc.core.values.dtype import F32, I32
from nnc.core.values.spec import spec
from nnc.errors import NotDifferentiableError, ShapeError, SymbolError, UsageError
from nnc.ops.movement.copy import contiguous
from nnc.ops.optimizer.optimizer import SGD, SGDAttrs
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Symbol, SymbolicGraph, backward, case_of, faults, minimize, scope, while_loop

COPIED = Command(contiguous, NoAttrs())


def write_twice(graph: SymbolicGraph, x: Symbol) -> None:
    y = graph.input(x.spec)
    graph.apply(COPIED, [x], [y])
    graph.apply(COPIED, [x], [y])  # write_twice


def write_what_an_operator_made(graph: SymbolicGraph, x: Symbol) -> None:
    y = ops.exp(x)
    graph.apply(COPIED, [x], [y])  # write_what_an_operator_made


def write_overlapping_parts(graph: SymbolicGraph, x: Symbol) -> None:
    whole = graph.input(spec((6,)))
    graph.apply(COPIED, [x], [whole[0:4]])
    graph.apply(COPIED, [x], [whole[2:6]])  # write_overlapping_parts


def write_one_place_twice(graph: SymbolicGraph, x: Symbol) -> None:
    whole = graph.input(spec((3,)))
    place = graph.alias(whole.key, spec((2, 2)), 0, (1, 1))
    graph.apply(COPIED, [ops.reshape(x, (2, 2))], [place])  # write_one_place_twice


def write_what_was_read(graph: SymbolicGraph, x: Symbol) -> None:
    ops.exp(x)
    graph.apply(COPIED, [graph.input(x.spec)], [x])  # write_what_was_read


def carry_over_another_shape(graph: SymbolicGraph, x: Symbol) -> None:
    with while_loop(graph, CountBelow(3)) as loop:
        y = loop.carry(x)
        loop.next(y, y[0:2])  # carry_over_another_shape


def carry_over_another_type(graph: SymbolicGraph, x: Symbol) -> None:
    with while_loop(graph, CountBelow(3)) as loop:
        y = loop.carry(x)
        loop.next(y, ops.cast(y, I32))  # carry_over_another_type


def read_another_graph(graph: SymbolicGraph, x: Symbol) -> None:
    x + SymbolicGraph().input(x.spec)  # read_another_graph


def give_back_another_graph(graph: SymbolicGraph, x: Symbol) -> None:
    other = SymbolicGraph().input(x.spec)
    case_of(graph, graph.input(spec((), I32)), [lambda x: other], [x])  # give_back_another_graph


def branch_without_an_output(graph: SymbolicGraph, x: Symbol) -> None:
    choice = graph.input(spec((), I32))
    case_of(graph, choice, [lambda x: (x, x), ops.exp], [x])  # branch_without_an_output


def branch_of_another_shape(graph: SymbolicGraph, x: Symbol) -> None:
    choice = graph.input(spec((), I32))
    case_of(graph, choice, [ops.exp, ops.reduce_sum], [x])  # branch_of_another_shape


def gradient_by_integers(graph: SymbolicGraph, x: Symbol) -> None:
    labels = graph.input(spec((4,), I32))
    backward(graph, [ops.cast(labels, F32) * x], [labels])  # gradient_by_integers


def gradient_of_integers(graph: SymbolicGraph, x: Symbol) -> None:
    backward(graph, [ops.argmax(x, 0)], [x])  # gradient_of_integers


def shape_before_its_time(graph: SymbolicGraph, x: Symbol) -> None:
    ops.reduce_sum(graph.input(), 0)  # shape_before_its_time


def minimize_by_integers(graph: SymbolicGraph, x: Symbol) -> None:
    steps = graph.input(spec((4,), I32))
    loss = ops.reduce_sum(ops.cast(steps, F32))
    minimize(graph, Command(SGD, SGDAttrs()), [loss], [steps])  # minimize_by_integers


def scope_without_a_name(graph: SymbolicGraph, x: Symbol) -> None:
    scope("")  # scope_without_a_name


ROWS: tuple[tuple[Callable[[SymbolicGraph, Symbol], None], type[UsageError], str], ...] = (
    (write_twice, SymbolError, "already written; need each place of a tensor written once"),
    (write_what_an_operator_made, SymbolError, "already written"),
    (write_overlapping_parts, SymbolError, "already written"),
    (write_one_place_twice, SymbolError, "names a place twice"),
    (write_what_was_read, SymbolError, "already read"),
    (carry_over_another_shape, ShapeError, r"f32\[2\] carried over into f32\[4\]"),
    (carry_over_another_type, ShapeError, r"i32\[4\] carried over into f32\[4\]"),
    (read_another_graph, SymbolError, "of another graph"),
    (give_back_another_graph, SymbolError, "of another graph"),
    (branch_without_an_output, ShapeError, "case_?.*of"),
    (branch_of_another_shape, ShapeError, "case_?.*of"),
    (gradient_by_integers, NotDifferentiableError, "need a floating-point tensor"),
    (gradient_of_integers, NotDifferentiableError, "need a floating-point tensor"),
    (shape_before_its_time, ShapeError, "a symbol without a spec"),
    (minimize_by_integers, NotDifferentiableError, "need a floating-point tensor"),
    (scope_without_a_name, UsageError, "an empty name"),
)


@pytest.mark.parametrize(("mistake", "error", "message"), ROWS, ids=[row[0].__name__ for row in ROWS])
def test_a_mistake_is_named_with_its_line(
    mistake: Callable[[SymbolicGraph, Symbol], None], error: type[UsageError], message: str
) -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4,)), "x")
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {mistake.__name__}")]
    with pytest.raises(error, match=message) as caught:
        mistake(graph, x)
    assert caught.value.origin == f"{Path(__file__).name}:{number}"
    assert faults(graph) == ()
