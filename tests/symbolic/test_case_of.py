"""Branches in symbolic graphs: which one runs, what passes, loops around them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.symbolic.evaluation import inputs_of, random_arrays, values_of

from nnc.concrete import CountBelow
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import ArityError, IndexRangeError, ShapeError
from nnc.ops import reduce_sum
from nnc.ops.elementwise.pointwise import tanh
from nnc.symbolic import Symbol, SymbolicGraph, backward, case_of, compile, verify, while_loop

pytestmark = pytest.mark.usefixtures("debug")


def piece(tensor: Tensor) -> int:
    """0 below 0, nothing below 1, 1 below 2, 2 above."""
    value = float(tensor.numpy().item())
    return 0 if value < 0 else -1 if value < 1 else 1 if value < 2 else 2


def piecewise(graph: SymbolicGraph, x: Symbol) -> Symbol:
    """A piecewise linear function with a part where x passes."""
    branches = [lambda x: x * 0.0, lambda x: x * 0.5 + 0.5, lambda x: x * 0.0 + 1.5]
    return case_of(graph, (piece, [x]), branches, [x], bypass=[x])[0]


def expected_piece(value: float) -> float:
    return 0.0 if value < 0 else value if value < 1 else 0.5 * value + 0.5 if value < 2 else 1.5


@pytest.mark.parametrize("value", [-1.0, 0.25, 1.5, 2.5])
def test_a_function_chooses_and_what_has_no_branch_passes(value: float) -> None:
    graph = SymbolicGraph()
    (x,) = inputs_of(graph, [(1,)])
    y = piecewise(graph, x)
    verify(graph)
    assert values_of(graph, [y], {x: np.array([value])})[0].item() == expected_piece(value)


@pytest.mark.parametrize("index", [0, 1])
def test_a_symbol_chooses_branches_of_several_results_and_of_symbols_around(index: int) -> None:
    graph = SymbolicGraph()
    x, w = inputs_of(graph, [(2, 2), (2,)])
    choice = graph.input(spec((), "i32"), "choice")
    y, z = case_of(graph, choice, [lambda a: (a[0] * w, w), lambda a: (w, tanh(a)[1])], [x])
    verify(graph)
    array, weight = random_arrays([(2, 2), (2,)])
    found = values_of(graph, [y, z], {x: array, w: weight, choice: np.array(index)})
    expected = [(array[0] * weight, weight), (weight, np.tanh(array)[1])][index]
    assert [value.tolist() for value in found] == [value.tolist() for value in expected]


def test_a_choice_without_a_branch_and_without_a_bypass() -> None:
    graph = SymbolicGraph()
    (x,) = inputs_of(graph, [(1,)])
    choice = graph.input(spec((), "i32"), "choice")
    (y,) = case_of(graph, choice, [tanh], [x])
    with pytest.raises(IndexRangeError, match="without a branch"):
        values_of(graph, [y], {x: np.zeros(1), choice: np.array(3)})


def test_branches_in_a_loop_and_a_loop_in_a_branch() -> None:
    graph = SymbolicGraph()
    (x0,) = inputs_of(graph, [(1,)])

    def doubled(x: Symbol) -> Symbol:
        with while_loop(x.graph, CountBelow(3)) as inner:
            y = inner.carry(x)
            inner.next(y, y + x)
        return inner.result(y)

    with while_loop(graph, CountBelow(4)) as loop:
        x = loop.carry(x0)
        (y,) = case_of(loop.body, (piece, [x]), [doubled, lambda x: x - 2.0], [x], bypass=[x * 1.5])
        loop.next(x, piecewise(loop.body, y) + 0.25)
    verify(graph)
    for start in (-0.5, 0.3, 1.2, 4.0):
        value = start
        for _ in range(4):
            index = piece(Tensor.from_numpy(np.array([value])))
            value = value * 4 if index == 0 else value - 2.0 if index == 1 else value * 1.5
            value = expected_piece(value) + 0.25
        found = values_of(graph, [loop.result(x)], {x0: np.array([start])})[0].item()
        assert found == pytest.approx(value, rel=1e-12)


def test_branches_share_their_memory() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((64,), "f32"), "x")
    choice = graph.input(spec((), "i32"), "choice")
    (y,) = case_of(graph, choice, [lambda x: tanh(x) * x, lambda x: tanh(tanh(x)) - x], [x])
    given = {x: Tensor.zeros(x.spec), choice: Tensor.zeros(choice.spec)}
    statement = compile(graph, [y], given=given, backend="reference").memory()
    assert statement.workspace == 0
    # Each is computed where its result is wanted.
    assert statement.arena == 64 * 4


def test_misuse_is_refused() -> None:
    graph = SymbolicGraph()
    (x,) = inputs_of(graph, [(2,)])
    choice = graph.input(spec((), "i32"), "choice")
    with pytest.raises(ShapeError, match=r"case_of.*test_case_of\.py"):
        case_of(graph, choice, [tanh, reduce_sum], [x])
    with pytest.raises(ShapeError, match="case_of"):
        case_of(graph, choice, [lambda x: (x, x), tanh], [x])
    with pytest.raises(ShapeError, match="case_of"):
        case_of(graph, choice, [tanh], [x], bypass=[x, x])
    with pytest.raises(ArityError, match="no branch"):
        case_of(graph, choice, [], [x])


@pytest.mark.parametrize(("number", "factor"), [(-3, 2.0), (7, 5.0), (0, 1.0), (1, 1.0)])
@pytest.mark.parametrize("by_symbol", [True, False])
def test_branches_have_numbers_of_their_own(number: int, factor: float, by_symbol: bool) -> None:
    graph = SymbolicGraph()
    (x,) = inputs_of(graph, [(2,)])
    symbol = graph.input(spec((), "i32"), "choice")
    choice = symbol if by_symbol else (lambda tensor: int(tensor.numpy().item()), [symbol])
    (y,) = case_of(graph, choice, {7: lambda a: a * 5.0, -3: lambda a: a * 2.0}, [x], bypass=[x], name="pick")
    verify(graph)
    assert "pick" in [record.name for _, record in graph.execs.items()]
    (slope,) = backward(graph, [y], [x])
    values = {x: np.array([1.0, 3.0]), symbol: np.array(number)}
    found = values_of(graph, [y, slope], values)
    assert [value.tolist() for value in found] == [[factor, 3 * factor], [factor, factor]]


def test_a_number_that_no_branch_has_is_an_error_without_a_bypass() -> None:
    graph = SymbolicGraph()
    (x,) = inputs_of(graph, [(2,)])
    choice = graph.input(spec((), "i64"), "choice")
    (y,) = case_of(graph, choice, {7: lambda a: a * 5.0}, [x])
    with pytest.raises(IndexRangeError):
        values_of(graph, [y], {x: np.ones(2), choice: np.array(0)})


def test_a_loop_has_a_name() -> None:
    graph = SymbolicGraph()
    (x,) = inputs_of(graph, [(2,)])
    with while_loop(graph, CountBelow(2), name="twice") as loop:
        a = loop.carry(x)
        loop.next(a, a * 2.0)
    assert [record.name for _, record in graph.execs.items()] == ["twice"]


def test_an_operand_that_no_branch_reads_is_over_when_they_begin() -> None:
    graph = SymbolicGraph()
    start, w = inputs_of(graph, [(2,), (8, 2)])
    with while_loop(graph, CountBelow(2)) as loop:
        x = loop.carry(start)
        (handed,) = case_of(loop.body, loop.count, [lambda w: w, lambda w: w * 2.0], [loop.capture(w)])
        y = reduce_sum(handed, axes=0) + x
        branches = [lambda y, handed: tanh(y + w), lambda y, handed: y - w]
        (z,) = case_of(loop.body, loop.count, branches, [y, handed])
        loop.next(x, reduce_sum(z, axes=0))
    first, weight = random_arrays([(2,), (8, 2)])
    expected = np.tanh(weight.sum(0) + first + weight).sum(0)
    expected = ((2.0 * weight).sum(0) + expected - weight).sum(0)
    np.testing.assert_allclose(values_of(graph, [loop.result(x)], {start: first, w: weight})[0], expected)
