"""Loops in symbolic graphs, compared exactly with the same operators applied in a Python loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.symbolic.evaluation import Array, inputs_of, random_arrays, values_of

from nnc.concrete import CountBelow
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import AttributeValueError, IndexRangeError, ShapeError, SymbolError
from nnc.ops import reduce_sum
from nnc.ops.elementwise.pointwise import less, maximum, tanh
from nnc.symbolic import Loop, Symbol, SymbolicGraph, compile, faults, verify, while_loop
from nnc.symbolic.control import CaseAttrs, WhileAttrs
from nnc.symbolic.ir import Body
from nnc.symbolic.passes import Pass, simplify
from nnc.symbolic.text import parse

pytestmark = pytest.mark.usefixtures("debug")


def eager(function: Callable[..., tuple[Symbol, ...]], *arrays: Array) -> list[Array]:
    """One application of `function` on the reference backend."""
    graph = SymbolicGraph()
    symbols = inputs_of(graph, [array.shape for array in arrays])
    return values_of(graph, list(function(*symbols)), dict(zip(symbols, arrays, strict=True)))


def iterate(loop: Loop, function: Callable[[Symbol], Symbol], x0: Symbol, at_end: bool = False) -> Symbol:
    """x ← function(x), with the test at the start or at the end."""
    with loop:
        x = loop.carry(x0)
        new = function(x)
        loop.next(x, new)
    return loop.result(new if at_end else x)


@pytest.mark.parametrize(("at_end", "limit", "trips"), [(False, 5, 5), (True, 4, 5), (False, 0, 0), (True, 0, 1)])
def test_a_counted_loop_is_a_python_loop(at_end: bool, limit: int, trips: int) -> None:
    graph = SymbolicGraph()
    x0, w = inputs_of(graph, [(4,), (4,)])
    y = iterate(while_loop(graph, CountBelow(limit)), lambda x: tanh(w * x) + w, x0, at_end)
    verify(graph)
    start, weight = random_arrays([(4,), (4,)])
    expected = start
    for _ in range(trips):
        (expected,) = eager(lambda a, b: (tanh(b * a) + b,), expected, weight)
    after, before = values_of(graph, [y, y + x0], {x0: start, w: weight})
    assert after.tolist() == expected.tolist()
    assert before.tolist() == (expected + start).tolist()


def test_values_that_swap_and_follow_each_other() -> None:
    """(a, b, c) ← (b, a + c, b): every read sees the iteration before."""
    graph = SymbolicGraph()
    starts = inputs_of(graph, [(2,)] * 3)
    with while_loop(graph, CountBelow(6)) as loop:
        a, b, c = map(loop.carry, starts)
        loop.next(a, b)
        loop.next(b, a + c)
        loop.next(c, b)
    arrays = random_arrays([(2,)] * 3)
    x, y, z = arrays
    for _ in range(6):
        x, y, z = y, x + z, y
    found = values_of(graph, [loop.result(symbol) for symbol in (a, b, c)], dict(zip(starts, arrays, strict=True)))
    assert [value.tolist() for value in found] == [x.tolist(), y.tolist(), z.tolist()]


def test_a_value_that_never_changes_and_one_that_is_part_of_another() -> None:
    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(2, 3)])
    with while_loop(graph, CountBelow(3)) as loop:
        row, fixed = loop.carry(x0[0]), loop.carry(x0[1])
        loop.next(row, row * x0[1] + fixed)
        loop.next(fixed, fixed)
    (start,) = random_arrays([(2, 3)])
    expected = start[0]
    for _ in range(3):
        expected = expected * start[1] + start[1]
    found = values_of(graph, [loop.result(row), loop.result(fixed)], {x0: start})
    assert [value.tolist() for value in found] == [expected.tolist(), start[1].tolist()]


def test_a_result_written_in_parts_and_parts_of_what_is_carried() -> None:
    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(2, 3)])
    with while_loop(graph, CountBelow(4)) as loop:
        x = loop.carry(x0)
        loop.next(x, (x[::-1] + x)[:, ::-1])
    (start,) = random_arrays([(2, 3)])
    expected = start
    for _ in range(4):
        expected = (expected[::-1] + expected)[:, ::-1]
    assert values_of(graph, [loop.result(x)], {x0: start})[0].tolist() == expected.tolist()


@pytest.mark.parametrize("at_most", [None, 9])
@pytest.mark.parametrize("native", [True, False])
def test_a_tensor_or_a_function_decides(native: bool, at_most: int | None) -> None:
    """Doubling until the sum is no longer below ten."""
    graph = SymbolicGraph()
    x0, bound = inputs_of(graph, [(2,), ()])
    with while_loop(graph, at_most=at_most) as loop:
        x = loop.carry(x0)
        total = reduce_sum(x)
        if native:
            loop.go_on_while(less(total, bound))
        else:
            loop.go_on_while(lambda tensor: bool(tensor.numpy().item() < 10.0), total)
        loop.next(x, x + x)
    found, count = values_of(
        graph, [loop.result(x), loop.exit_count], {x0: np.array([0.5, 0.25]), bound: np.array(10.0)}
    )
    assert found.tolist() == [8.0, 4.0]
    assert count.item() == 4


def test_a_loop_beyond_its_bound_ends_with_an_error() -> None:
    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(1,)])
    with while_loop(graph, at_most=3) as loop:
        x = loop.carry(x0)
        loop.go_on_while(lambda: True)
        loop.next(x, x + 1.0)
    with pytest.raises(IndexRangeError, match="at_most"):
        values_of(graph, [loop.result(x)], {x0: np.zeros(1)})


def test_loops_within_loops_see_both_graphs_around() -> None:
    graph = SymbolicGraph()
    x0, w = inputs_of(graph, [(3,), (3,)])
    with while_loop(graph, CountBelow(3)) as outer:
        x = outer.carry(x0)
        with while_loop(outer.body, CountBelow(2)) as inner:
            y = inner.carry(x)
            inner.next(y, maximum(y * w, x[:1] + y))
        outer.next(x, inner.result(y) - w)
    verify(graph)
    start, weight = random_arrays([(3,), (3,)])
    expected = start
    for _ in range(3):
        value = expected
        for _ in range(2):
            value = np.maximum(value * weight, expected[:1] + value)
        expected = value - weight
    assert values_of(graph, [outer.result(x)], {x0: start, w: weight})[0].tolist() == expected.tolist()


def test_a_compiled_loop_runs_again_with_other_values() -> None:
    graph = SymbolicGraph()
    x0 = graph.input(spec((2,), "f32"), "x0")
    y = iterate(while_loop(graph, CountBelow(3)), lambda x: x * 2.0, x0)
    compiled = compile(graph, [y], backend="reference")
    for value in (1.0, 3.0):
        assert compiled({x0: np.full(2, value)}, y)[0].tolist() == [8.0 * value] * 2


def test_memory_is_that_of_the_body() -> None:
    """Bytes do not depend on the number of iterations: the slots of a body; the loop count is not asked for."""
    arenas = []
    for limit in (2, 200):
        graph = SymbolicGraph()
        x0 = graph.input(spec((64,), "f32"), "x0")
        y = iterate(while_loop(graph, CountBelow(limit)), lambda x: tanh(tanh(tanh(x)) + 1.0), x0)
        statement = compile(graph, [y], given={x0: Tensor.zeros(x0.spec)}, backend="reference").memory()
        arenas.append(statement.arena)
        assert statement.workspace == 0
        assert statement.arena == 256
    assert arenas[0] == arenas[1]


def test_the_text_shows_the_body() -> None:
    graph = SymbolicGraph()
    x0 = graph.input(spec((2,), "f32"), "x0")
    iterate(while_loop(graph, CountBelow(5)), tanh, x0)
    text = str(graph)
    assert '"limit":5' in text.replace(" ", "")
    assert "    body (%1) -> (%2)\n" in text
    assert "      %2: f32[2] = tanh <- %1" in text
    assert str(parse(text)) == text


Step = Callable[[Loop, Symbol], None]


def carry_of_another_shape(loop: Loop, x0: Symbol) -> None:
    x = loop.carry(x0)
    loop.next(x, reduce_sum(x))


def carry_without_next(loop: Loop, x0: Symbol) -> None:
    loop.carry(x0)


def next_of_an_invariant(loop: Loop, x0: Symbol) -> None:
    loop.next(loop.capture(x0), x0)


def next_twice(loop: Loop, x0: Symbol) -> None:
    x = loop.carry(x0)
    loop.next(x, x)
    loop.next(x, x)


def symbol_of_another_graph(loop: Loop, x0: Symbol) -> None:
    loop.carry(x0) + SymbolicGraph().input(x0.spec)


def decision_of_several_elements(loop: Loop, x0: Symbol) -> None:
    loop.go_on_while(loop.carry(x0))


def nothing_carried(loop: Loop, x0: Symbol) -> None:
    loop.capture(x0)


def build(graph: SymbolicGraph, step: Step, x0: Symbol) -> Loop:
    with while_loop(graph, CountBelow(2)) as loop:
        step(loop, x0)
    return loop


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        (carry_of_another_shape, ShapeError, "carried over into"),
        (carry_without_next, SymbolError, "no next value"),
        (next_of_an_invariant, SymbolError, "one for each symbol of carry"),
        (next_twice, SymbolError, "one for each symbol of carry"),
        (symbol_of_another_graph, SymbolError, "another graph"),
        (decision_of_several_elements, ShapeError, "one element"),
        (nothing_carried, SymbolError, "no carried value"),
    ],
)
def test_misuse_names_the_line_and_leaves_the_graph_as_it_was(step: Step, error: type[Exception], message: str) -> None:
    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(2,)])
    with pytest.raises(error, match=rf"{message}.*test_while\.py"):
        build(graph, step, x0)
    assert not len(graph.execs)
    assert not faults(graph)


def test_results_are_asked_for_symbols_of_the_body_as_it_was_written() -> None:
    graph = SymbolicGraph()
    x0 = graph.input(spec((2,)), "x0")
    loop = while_loop(graph, CountBelow(3))
    end = iterate(loop, lambda x: tanh(x) * 1.0 + tanh(x), x0)
    with pytest.raises(SymbolError, match="need a symbol of the body"):
        loop.result(x0)
    simplify(graph, [end])
    with pytest.raises(SymbolError, match="of a body that a pass has changed"):
        loop.rows(loop.count)


@pytest.mark.parametrize("carried", [0, 2])
def test_a_loop_carries_as_many_values_as_its_body_results(carried: int) -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((2,)), "x")
    body = Body(graph, (x.key,), (tanh(x).key,))
    with pytest.raises(AttributeValueError, match=f"got {carried} carried values, a body with 1 results"):
        WhileAttrs(body, carried, x.key, CountBelow(1))


@pytest.mark.parametrize(("branches", "chosen"), [(0, 1), (1, 0)])
def test_a_branch_is_chosen_among_some_by_some_input(branches: int, chosen: int) -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((2,)), "x")
    with pytest.raises(AttributeValueError, match="no branch, or no input to choose by"):
        CaseAttrs((Body(graph, (x.key,), (x.key,)),) * branches, chosen=chosen)


def test_a_loop_needs_a_test_and_has_results_only_after_it() -> None:
    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(2,)])
    loop = while_loop(graph)
    x = loop.carry(x0)
    loop.next(x, x)
    with pytest.raises(SymbolError, match="after the loop"):
        loop.result(x)
    with pytest.raises(SymbolError, match="no test"):
        loop.__exit__(None, None, None)


def test_a_symbol_of_a_closed_body_stays_inside() -> None:
    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(2,)])
    with while_loop(graph, CountBelow(2)) as loop:
        x = loop.carry(x0)
        loop.next(x, x + x0)
    with pytest.raises(SymbolError, match="another graph"):
        x0 + x


def test_passes_leave_loops_as_they_are_and_llvm_runs_them() -> None:
    """The same loop twice is two loops; what nobody needs goes."""
    graph = SymbolicGraph()
    x0, w = inputs_of(graph, [(5,), (5,)])
    first, second, unread = (iterate(while_loop(graph, CountBelow(4)), lambda x: tanh(w * x), x0) for _ in range(3))
    y = first + second * 1.0
    arrays = dict(zip((x0, w), random_arrays([(5,), (5,)]), strict=True))
    (expected,) = values_of(graph, [y], arrays)
    simplify(graph, [y], tuple(Pass))
    verify(graph)
    assert unread.key not in graph.tensors
    assert values_of(graph, [y], arrays)[0].tolist() == expected.tolist()
    given = {symbol: Tensor.from_numpy(array) for symbol, array in arrays.items()}
    (compiled,) = compile(graph, [y], given=given, backend="llvm")({}, y)
    np.testing.assert_allclose(compiled, expected, rtol=1e-12)


def test_a_chain_of_carried_values_moves_pointers_only() -> None:
    """x0 ← x1 ← x2 ← x3 = x0 + 1.2 tanh(x1), beside a value that is an invariant from the second iteration on."""
    graph = SymbolicGraph()
    *starts, w = inputs_of(graph, [(64,)] * 5)
    with while_loop(graph, CountBelow(5)) as loop:
        x0, x1, x2, other = map(loop.carry, starts)
        loop.next(x0, x1)
        loop.next(x1, x2)
        loop.next(x2, x0 + tanh(x1) * 1.2 * other)
        loop.next(other, loop.capture(w))
    results = [loop.result(symbol) for symbol in (x0, x1, x2, other)]
    assert [str(record.command.op.name) for _, record in loop.body.execs.items()].count("copy") == 0
    *arrays, weight = random_arrays([(64,)] * 5)
    a, b, c, d = arrays
    for _ in range(5):
        (new,) = eager(lambda a, b, d: (a + tanh(b) * 1.2 * d,), a, b, d)
        a, b, c, d = b, c, new, weight
    given = dict(zip((*starts, w), (*arrays, weight), strict=True))
    found = values_of(graph, results, given)
    assert [value.tolist() for value in found] == [value.tolist() for value in (a, b, c, d)]
    bound = {symbol: Tensor.from_numpy(array) for symbol, array in given.items()}
    # Four slots (the chain and tanh), and the result that is copied from outside behind the loop.
    assert compile(graph, results, given=bound, backend="reference").memory().arena == (3 + 1 + 1) * 64 * 8
