"""Programs over other tensors at each run: they give what the same program bound to these gives."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from nnc.core.settings import SETTINGS
from nnc.core.values.dtype import I64
from nnc.core.values.recorder import PROFILER, Record
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.ops import add, cast, contiguous, less, matmul, reduce_sum, sort, transpose
from nnc.symbolic import Symbol, SymbolicGraph, compile
from nnc.symbolic.compiler import Arena, MovingProgram
from nnc.symbolic.control import while_loop


def tensors(*values: float) -> list[Tensor]:
    return [Tensor.from_numpy(np.full((3, 4), value, np.float32)) for value in values]


def program_of(graph: SymbolicGraph, given: list[Symbol], y: Symbol, arena: Arena, backend: str = "") -> MovingProgram:
    compiled = compile(graph, [y], given=dict.fromkeys(given), bind={y: None}, backend=backend)
    return MovingProgram(compiled.in_arena_of(arena), given, [y])


@pytest.mark.parametrize("backend", ["", "reference"])
def test_each_run_goes_where_its_tensors_are(backend: str) -> None:
    graph, arena = SymbolicGraph(), Arena()
    a, b = graph.input(spec((3, 4))), graph.input(spec((3, 4)))
    y = contiguous(reduce_sum(matmul(a[:, 1:] * 2.0, transpose(b[:, 1:])) + 1.0, 1) @ b)
    program = program_of(graph, [a, b], y, arena, backend)
    for one, other in ((1.0, 2.0), (3.0, -1.0), (0.5, 0.5)):
        first, second = tensors(one, other)
        result = Tensor.empty(y.spec)
        program.run([first, second, result])
        want = (first.numpy()[:, 1:] * 2 @ second.numpy()[:, 1:].T + 1).sum(1) @ second.numpy()
        np.testing.assert_allclose(result.numpy(), want)
        program.run([second, second, result])
        want = (second.numpy()[:, 1:] * 2 @ second.numpy()[:, 1:].T + 1).sum(1) @ second.numpy()
        np.testing.assert_allclose(result.numpy(), want)


def test_an_arena_that_has_grown_is_laid_out_anew_and_commands_of_two_backends_move() -> None:
    arena = Arena()
    programs = []
    for size in (4, 400):
        graph = SymbolicGraph()
        a = graph.input(spec((size,)))
        y = add(sort(a * 2.0)[0], cast(sort(a + 1.0)[1], a.spec.dtype))
        programs.append((size, program_of(graph, [a], y, arena)))
    for size, program in (*programs, *programs):
        values = np.linspace(1, -1, size, dtype=np.float32)
        result = Tensor.empty(spec((size,)))
        program.run([Tensor.from_numpy(values), result])
        np.testing.assert_allclose(result.numpy(), np.sort(values * 2) + np.arange(size)[::-1], rtol=1e-6)


def test_programs_without_memory_of_their_own_serve_many_threads() -> None:
    graph, arena = SymbolicGraph(), Arena()
    a, b = graph.input(spec((3, 4))), graph.input(spec((3, 4)))
    y = add(a, b)
    program = program_of(graph, [a, b], y, arena)
    wrong = []

    def work(number: int) -> None:
        first, second = tensors(number, 2 * number)
        for _ in range(300):
            result = Tensor.empty(y.spec)
            program.run([first, second, result])
            if not (result.numpy() == 3 * number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert program.compiled.memory().arena == 0
    assert not wrong


def test_such_programs_are_noted_and_checked_as_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = SymbolicGraph()
    a, b = graph.input(spec((3, 4))), graph.input(spec((3, 4)))
    y = add(a, b)
    program = program_of(graph, [a, b], y, Arena())
    first, second = tensors(1.0, 3.0)
    for turn in range(6):
        result = Tensor.empty(y.spec)
        records: list[Record] = []
        monkeypatch.setattr(SETTINGS, "debug", turn == 2)
        if turn == 4:
            PROFILER.add(records)
        try:
            program.run([first, second, result])
        finally:
            PROFILER.remove(records)
        np.testing.assert_array_equal(result.numpy(), 4.0)
        assert bool(records) is (turn == 4)


def test_a_loop_runs_on_copies() -> None:
    graph = SymbolicGraph()
    a, limit = graph.input(spec((3, 4))), graph.input(spec((), I64))
    with while_loop(graph) as loop:
        x = loop.carry(a)
        loop.go_on_while(less(loop.count, loop.capture(limit)))
        loop.next(x, x * 2.0)
    y = loop.result(x)
    program = program_of(graph, [a, limit], contiguous(y), Arena())
    for count in (3, 0):
        (one,), result = tensors(1.0), Tensor.empty(spec((3, 4)))
        program.run([one, Tensor.from_numpy(np.array(count)), result])
        np.testing.assert_array_equal(result.numpy(), np.full((3, 4), 2.0**count))
