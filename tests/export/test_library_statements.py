"""Loops and branches in libraries: the results of our own run, nothing left to Python."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.export.compiled_c import Array, aligned_bytes, pointers, run, shared

import nnc
from nnc import export, nn, ops
from nnc.concrete import CountBelow
from nnc.core.values.spec import spec
from nnc.errors import BackendError
from nnc.ops import reduce_sum, tanh
from nnc.symbolic import Symbol, SymbolicGraph, backward, case_of, compile, while_loop


def built(graph: SymbolicGraph, inputs: Sequence[Symbol], outputs: Sequence[Symbol]) -> export.CLibrary:
    compiled = compile(graph, list(outputs), backend="target:native")
    ports = export.ProgramPorts(
        compiled,
        {f"x{number}": symbol for number, symbol in enumerate(inputs)},
        {f"y{number}": symbol for number, symbol in enumerate(outputs)},
    )
    return export.library(ports, "looped")


def same_as_ours(
    folder: Path, graph: SymbolicGraph, inputs: Sequence[Symbol], outputs: Sequence[Symbol], *runs: Sequence[Array]
) -> None:
    made = built(graph, inputs, outputs)
    code, ours = shared(made, folder), compile(graph, list(outputs))
    for arrays in runs:
        wanted = ours(dict(zip(inputs, arrays, strict=True)), *outputs)
        got = run(code, made, *arrays)
        assert [array.tobytes() for array in got] == [array.tobytes() for array in wanted]


def vectors(*shapes: tuple[int, ...]) -> list[Array]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_a_counted_loop_with_values_that_swap(limit: int, tmp_path: Path) -> None:
    graph = SymbolicGraph()
    a0, b0, w = (graph.input(spec((8,)), name) for name in "abw")
    with while_loop(graph, CountBelow(limit)) as loop:
        a, b = loop.carry(a0), loop.carry(b0)
        loop.next(a, b)
        loop.next(b, tanh(a * w) + b)
    same_as_ours(tmp_path, graph, (a0, b0, w), (loop.result(a), loop.result(b)), vectors((8,), (8,), (8,)))


def test_a_loop_that_data_ends_and_one_inside_it(tmp_path: Path) -> None:
    graph = SymbolicGraph()
    x0 = graph.input(spec(()), "x")
    with while_loop(graph) as outer:
        x = outer.carry(x0)
        with while_loop(x.graph, CountBelow(3)) as inner:
            y = inner.carry(x)
            inner.next(y, y * 1.25 + 0.5)
        outer.next(x, inner.result(y))
        outer.go_on_while(reduce_sum(x) < 100.0)
    runs = [[np.array(value, np.float32)] for value in (1.0, -1.5, 99.5, 1000.0)]
    same_as_ours(tmp_path, graph, (x0,), (outer.result(x),), *runs)


def test_a_branch_that_an_integer_chooses(tmp_path: Path) -> None:
    graph = SymbolicGraph()
    x, choice = graph.input(spec((4,)), "x"), graph.input(spec((), "i32"), "choice")
    (y,) = case_of(graph, choice, [lambda x: x * 2.0, lambda x: tanh(x)], [x], bypass=[x])
    runs = [[*vectors((4,)), np.array(number, np.int32)] for number in (0, 1, 2, -1)]
    same_as_ours(tmp_path, graph, (x, choice), (y + 1.0,), *runs)


def test_a_branch_in_a_loop(tmp_path: Path) -> None:
    graph = SymbolicGraph()
    x0, choice = graph.input(spec((4,)), "x"), graph.input(spec((), "i64"), "choice")
    with while_loop(graph, CountBelow(4)) as loop:
        x = loop.carry(x0)
        (y,) = case_of(x.graph, choice, [lambda x: x * 2.0 - 1.0, lambda x: tanh(x)], [x], bypass=[x])
        loop.next(x, y)
    runs = [[*vectors((4,)), np.array(number, np.int64)] for number in (0, 1, 7)]
    same_as_ours(tmp_path, graph, (x0, choice), (loop.result(x),), *runs)


def test_the_gradient_of_a_counted_loop(tmp_path: Path) -> None:
    graph = SymbolicGraph()
    x0, w = graph.input(spec((6,)), "x"), graph.input(spec((6,)), "w")
    with while_loop(graph, CountBelow(5)) as loop:
        x = loop.carry(x0)
        loop.next(x, tanh(x * w))
    loss = reduce_sum(loop.result(x))
    same_as_ours(tmp_path, graph, (x0, w), (loss, *backward(graph, [loss], [x0, w])), vectors((6,), (6,)))


def test_errors_of_data_are_codes(tmp_path: Path) -> None:
    graph = SymbolicGraph()
    x, choice = graph.input(spec((4,)), "x"), graph.input(spec((), "i32"), "choice")
    (y,) = case_of(graph, choice, [lambda x: x * 2.0, lambda x: tanh(x)], [x])
    with while_loop(graph, at_most=3) as loop:
        z = loop.carry(x)
        loop.next(z, z + 1.0)
        loop.go_on_while(reduce_sum(z) < 100.0)
    made = built(graph, (x, choice), (y, loop.result(z)))
    code, arena = shared(made, tmp_path), aligned_bytes(made.arena_bytes)
    results = np.zeros(4, np.float32), np.zeros(4, np.float32)

    def ran(value: float, number: int) -> int:
        given = pointers(np.full(4, value, np.float32), np.array(number, np.int32))
        return int(code.looped_run(ctypes.c_void_p(arena.ctypes.data), given, pointers(*results)))

    assert [ran(24.0, 1), ran(24.0, 2), ran(24.0, -1), ran(0.0, 0)] == [0, 5, 5, 6]


def test_indices_outside_their_axis_are_a_code(tmp_path: Path) -> None:
    graph = SymbolicGraph()
    table, rows = graph.input(spec((5, 3)), "table"), graph.input(spec((2,), "i32"), "rows")
    made = built(graph, (table, rows), (ops.index_select(table, rows),))
    code, arena, y = shared(made, tmp_path), aligned_bytes(made.arena_bytes), np.zeros((2, 3), np.float32)
    (values,) = vectors((5, 3))
    for indices, wanted in (([1, 4], 0), ([1, 5], 5), ([-9, 0], 5), ([0, 0], 0)):
        given = pointers(values, np.array(indices, np.int32))
        assert code.looped_run(ctypes.c_void_p(arena.ctypes.data), given, pointers(y)) == wanted


def test_functions_of_python_are_refused_together() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec((1,)), "x")
    (y,) = case_of(graph, (lambda tensor: 0, [x]), [lambda x: x * 2.0, lambda x: tanh(x)], [x])
    z = ops.cholesky(ops.reshape(y, (1, 1)))
    with pytest.raises(BackendError, match="cholesky.*|a branch that a function of Python chooses") as refused:
        built(graph, (x,), (z,))
    assert "cholesky" in str(refused.value)
    assert "a function of Python chooses" in str(refused.value)


def test_a_compiled_function_with_variables_and_a_loop_is_a_library(tmp_path: Path) -> None:
    (weights,), dense = vectors((3, 3)), nn.Dense(3)

    @nnc.compile
    def iterated(x: nnc.Variable, scale: nnc.Variable) -> tuple[nnc.Variable, nnc.Variable]:
        y = nnc.while_loop(lambda y: y.sum() < 1.0, lambda y: nnc.tanh(y @ weights) * scale + 0.5, dense(x))
        return y, nnc.cond(y.sum() > 3.0, lambda y: y.sum(), lambda y: y.mean(), y)

    x, scale = vectors((2, 3), (3,))
    made = export.library(iterated, "iterated", example=(x, scale))
    assert [port.name for port in made.inputs] == ["x", "scale"]
    got = run(shared(made, tmp_path), made, x, scale)
    assert [array.tobytes() for array in got] == [value.numpy().tobytes() for value in iterated(x, scale)]
