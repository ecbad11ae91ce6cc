"""The smallest forms of graphs that campaigns found to be at fault."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fuzz.graphs.campaign import case_of_seed
from tests.fuzz.graphs.checks import short_search
from tests.symbolic.evaluation import values_of
from tests.symbolic.interpreter import interpret

from nnc import ops
from nnc.concrete import CountBelow
from nnc.core.values.command import Command
from nnc.core.values.dtype import F32, F64, I64
from nnc.core.values.spec import TensorSpec, spec
from nnc.errors import MemoryLimitError, VerificationError
from nnc.ops.elementwise.pointwise import AFFINE, AffineAttrs
from nnc.ops.movement.fill import FILL, FillAttrs, fill_like
from nnc.symbolic import Symbol, SymbolicGraph, backward, case_of, compile, faults, while_loop
from nnc.symbolic.compiler.check.lent_memory import check_plan
from nnc.symbolic.compiler.place.slots import use_outer_memory
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.text import dump, parse

pytestmark = pytest.mark.usefixtures("debug")


@pytest.fixture
def debug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnc.core.settings.SETTINGS.debug", True)


def test_two_new_symbols_on_one_line_of_text() -> None:
    graph = SymbolicGraph()
    ops.sort(graph.input(spec((4,))))
    assert dump(parse(dump(graph))) == dump(graph)


def test_the_writer_of_a_part_is_not_the_writer_of_the_whole() -> None:
    graph = SymbolicGraph()
    x, whole = graph.input(spec((4, 1))), graph.input(spec((8, 1)), "whole")
    graph.apply(Command(AFFINE, AffineAttrs(0.5, 0.25)), [x], [whole[4:]])
    y = ops.affine(whole, 0.5)
    (report,) = simplify(graph, [y], [Pass.ALGEBRA])
    assert report.fired == {}
    assert faults(graph) == ()


def test_a_known_branch_of_several_results_leaves_no_edges_behind() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((2, 3)))
    (zero,) = graph.apply(Command(FILL, FillAttrs(0.0, TensorSpec((), I64))), ())

    def branch(x: Symbol) -> tuple[Symbol, Symbol]:
        return ops.tanh(x), ops.sin(x)

    one, other = case_of(graph, zero, [branch, branch], [x])
    y = ops.exp(other)
    simplify(graph, [one, y], [Pass.BRANCHES])
    assert faults(graph) == ()


def test_a_gradient_of_a_result_computed_in_front_of_the_test() -> None:
    """Its seed is a part of another tensor; the body that it enters takes whole ones."""
    graph = SymbolicGraph()
    x = graph.input(spec((), "f64"))
    with while_loop(graph, CountBelow(2)) as outer:
        a = outer.carry(x)
        with while_loop(outer.body, CountBelow(1)) as inner:
            b = inner.carry(a)
            inner.next(b, b * 2.0)
        doubled = inner.result(b)
        outer.next(a, doubled)
    y = ops.reduce_sum(ops.square(ops.reshape(outer.result(doubled), (1,))))
    (slope,) = backward(graph, [y], [x])
    assert faults(graph) == ()
    assert [float(value) for value in values_of(graph, [y, slope], {x: 0.5})] == [16.0, 64.0]


def test_a_memory_limit_for_a_graph_without_commands() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((4,)))
    assert compile(graph, [x], memory_limit=64, backend="reference").memory().arena <= 64


def test_a_loop_within_a_small_value_that_lies_in_a_large_room_which_a_branch_has_moved() -> None:
    graph = SymbolicGraph()
    x, y = graph.input(spec((32,))), graph.input(spec((32,)))
    with while_loop(graph, CountBelow(3)) as outer:
        a, b = outer.carry(x), outer.carry(y)
        choice = ops.cast(ops.less(ops.reduce_sum(a), ops.scalar_like(ops.reduce_sum(a), 0.0)), I64)
        first, second = case_of(outer.body, choice, [lambda *both: both, lambda *both: both[::-1]], [a, b])
        with while_loop(outer.body, CountBelow(2)) as inner:
            small = inner.carry(ops.reduce_sum(first))
            wide = ops.cast(small, F64)
            inner.next(small, ops.cast(wide * wide * 0.001 + wide, F32))
        outer.next(a, ops.sin(first) + inner.result(small))
        outer.next(b, ops.cos(second))
    case = {x: np.linspace(-1, 1, 32, dtype=np.float32), y: np.linspace(0, 2, 32, dtype=np.float32)}
    wanted = [outer.result(a), outer.result(b)]
    got = compile(graph, wanted, backend="reference")(case, *wanted)
    for one, want in zip(got, interpret(graph, wanted, case), strict=True):
        np.testing.assert_array_equal(one, want)


def test_the_smallest_limit_named_is_met() -> None:
    """The memory of a loop's results is that of its state: the plan is below the peak that is foretold."""
    built = case_of_seed(223).fresh()
    with short_search():
        with pytest.raises(MemoryLimitError) as info:
            compile(built.graph, built.wanted, backend="reference", memory_limit=0)
        met = compile(built.graph, built.wanted, backend="reference", memory_limit=info.value.smallest)
    assert met.memory().arena == info.value.smallest


@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize("results", [1, 2])
def test_what_a_loop_of_one_branch_hands_back_is_no_result_in_memory_that_ends(turns: int, results: int) -> None:
    """Initial values and results of a loop became one block across what a branch was lent, which ended behind it."""
    graph = SymbolicGraph()
    x, choice = graph.input(spec((2, 3))), graph.input(spec((), I64))

    def swapped(x: Symbol) -> tuple[Symbol, ...]:
        with while_loop(x.graph, CountBelow(turns)) as loop:
            a, b = loop.carry(x), loop.carry(fill_like(x, 0.0))
            loop.next(a, b)
            loop.next(b, a)
        return (ops.add(loop.result(a), loop.result(b)), loop.result(b))[:results]

    made = case_of(graph, choice, [lambda x: (fill_like(x, 0.0),) * results, swapped], [x])
    values = {x: np.arange(1, 7, dtype=np.float32).reshape(2, 3), choice: np.array(1)}
    for got, want in zip(compile(graph, made, backend="reference")(values, *made), interpret(graph, made, values)):
        np.testing.assert_array_equal(got, want)


def test_the_verifier_sees_a_loop_that_ends_in_what_its_branch_was_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan above as it was made before: refused without a look at values."""

    def careless(*arguments: object) -> object:
        return use_outer_memory(*arguments[:5], lambda old, new: True, *arguments[6:])  # type: ignore[arg-type]

    monkeypatch.setattr("nnc.symbolic.compiler.place.pipeline.use_outer_memory", careless)
    built = case_of_seed(9_001_665).fresh()
    with short_search(), pytest.raises(VerificationError, match="one block, and the graph around has them in two"):
        check_plan(compile(built.graph, built.wanted, backend="reference").planned)
