"""Programs and the threads and streams of their callers: runs in one memory take turns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.together import in_threads

from nnc import ops
from nnc.concrete.pending import PendingRun
from nnc.core.running.stream import Stream
from nnc.core.values.spec import spec
from nnc.core.values.tensor import Tensor
from nnc.errors import DeadlockError, StreamError, SymbolError, UsageError
from nnc.graph import Registry
from nnc.ops.composed.custom import custom_operator
from nnc.ops.operand import apply
from nnc.ops.rules import NoAttrs
from nnc.symbolic import Compiled, Symbol, SymbolicGraph, compile

PATIENCE = 30.0


class CallingOut:
    """A program y = 2 x + 1 with a command in the middle that calls `then`."""

    def __init__(self, streams: int = 1) -> None:
        self.then: Callable[[], object] = lambda: None

        def kernel(attrs: NoAttrs, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            outputs[0][...] = inputs[0]
            self.then()

        op = custom_operator("call", infer=lambda attrs, specs: specs, kernel=kernel, registry=Registry("turns"))
        self.graph = SymbolicGraph()
        self.x = self.graph.input(spec([4]), "x")
        middle = apply(op, NoAttrs(), self.x * 2.0)
        self.y = middle + 1.0
        self.compiled = compile(self.graph, [self.y], backend="reference", streams=streams)

    def __call__(self, value: float) -> list[float]:
        found: list[float] = self.compiled({self.x: [value] * 4}, self.y)[0].tolist()
        return found


def chain(rows: int = 64, backend: str = "llvm") -> tuple[Compiled, Symbol, Symbol, Symbol]:
    graph = SymbolicGraph()
    x, w = graph.input(spec((rows, 16)), "x"), graph.input(spec((16, 16)), "w")
    y = ops.tanh(x @ w) @ w
    return compile(graph, [y], given={w: Tensor.zeros(w.spec)}, backend=backend), x, w, y


@pytest.mark.parametrize("backend", ["llvm", "reference"])
def test_a_program_called_from_many_threads_answers_each(backend: str) -> None:
    compiled, x, w, y = chain(backend=backend)
    compiled.tensor(w).copy_from(np.eye(16))
    wrong: list[float] = []

    def ask(value: float) -> None:
        wanted = np.full((64, 16), np.tanh(np.float32(value)), np.float32)
        for _ in range(60):
            if not np.allclose(compiled({x: np.full((64, 16), value)}, y)[0], wanted, rtol=1e-5):
                wrong.append(value)

    in_threads(*[lambda value=value: ask(value) for value in (0.1, 0.2, 0.3)])  # type: ignore[misc]  # bound by default
    assert wrong == []


def test_programs_in_one_arena_answer_threads_of_their_own() -> None:
    large, x, w, y = chain(64, "reference")
    small, a, v, b = chain(3, "reference")
    inside = small.in_arena_of(large)
    large.tensor(w).copy_from(np.eye(16))
    inside.tensor(v).copy_from(np.eye(16))
    wrong: list[str] = []

    def ask(program: Compiled, given: Symbol, wanted: Symbol, value: float) -> None:
        for _ in range(60):
            got = program({given: np.full(given.shape, value)}, wanted)[0]
            if not np.allclose(got, np.tanh(value), rtol=1e-5):
                wrong.append(str(given.spec))

    in_threads(lambda: ask(large, x, y, 0.1), lambda: ask(inside, a, b, 0.2))
    assert wrong == []


def test_a_program_and_its_rebinding_run_on_two_streams_one_after_the_other() -> None:
    graph = SymbolicGraph()
    x, y = graph.input(spec([512, 512]), "x"), graph.input(spec([512, 512]), "y")
    product = (x @ y) @ (x @ x)
    given = {x: Tensor.from_numpy(np.eye(512, dtype=np.float32)), y: Tensor.from_numpy(np.eye(512, dtype=np.float32))}
    outputs = [Tensor.zeros(x.spec) for _ in range(2)]
    first = compile(graph, [product], given=given, bind={product: outputs[0]})
    second = first.rebind({product: outputs[1], x: Tensor.from_numpy(2 * np.eye(512, dtype=np.float32))})
    with Stream("one") as one, Stream("two") as two:
        for _ in range(5):
            first.run(one)
            second.run(two)
        one.drain()
        two.drain()
    assert [output.numpy()[0, 0] for output in outputs] == [1.0, 8.0]
    assert all(np.array_equal(output.numpy(), output.numpy()[0, 0] * np.eye(512)) for output in outputs)


def test_writing_waits_for_the_run_on_a_stream() -> None:
    program = CallingOut()
    release = threading.Event()
    program.then = lambda: release.wait(PATIENCE)
    program.compiled.write(program.x, [3.0] * 4)
    seen: list[float] = []
    with Stream() as stream:
        signal = program.compiled.run(stream)
        assert signal is not None
        threading.Timer(0.02, release.set).start()
        program.compiled.write(program.x, [7.0] * 4)
        assert signal.emitted
        program.then = lambda: None
        program.compiled.run()
        seen.extend(program.compiled.tensor(program.y).numpy())
    assert seen == [15.0] * 4


@pytest.mark.parametrize("streams", [1, 2])
def test_a_command_that_calls_its_own_program_is_refused(streams: int) -> None:
    program = CallingOut(streams)
    for inside in (
        lambda: program(1.0),
        lambda: program.compiled.write(program.x, [1.0] * 4),
        lambda: program.compiled.allocate().run(),
    ):
        program.then = inside
        with pytest.raises(UsageError, match=r"a call from inside a run of the same memory.*Fix: compile another"):
            program(5.0)
    program.then = lambda: None
    assert program(5.0) == [11.0] * 4


def test_a_command_on_a_stream_that_calls_its_own_program_is_refused() -> None:
    program = CallingOut()
    program.then = lambda: program(1.0)
    program.compiled.write(program.x, [1.0] * 4)
    stream = Stream()
    program.compiled.run(stream)
    with pytest.raises((StreamError, UsageError)):
        stream.close()
    program.then = lambda: None
    assert program(5.0) == [11.0] * 4


def test_a_command_may_call_another_program() -> None:
    outer, inner = CallingOut(), CallingOut()
    found: list[list[float]] = []
    outer.then = lambda: found.append(inner(1.0))
    assert outer(5.0) == [11.0] * 4
    assert found == [[3.0] * 4]


@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize("count", [2, 3])
def test_the_last_of_threads_that_call_crosswise_is_refused(count: int, streams: int) -> None:
    programs = [CallingOut(streams) for _ in range(count)]
    everybody = threading.Barrier(count)
    refused: list[int] = []
    found: list[list[float]] = []

    def call(number: int) -> None:
        programs[number].then = lambda: None
        everybody.wait(PATIENCE)
        try:
            found.append(programs[(number + 1) % count](1.0))
        except DeadlockError:
            refused.append(number)

    for number, program in enumerate(programs):
        program.then = partial(call, number)
    in_threads(*[lambda program=program: found.append(program(5.0)) for program in programs])  # type: ignore[misc]  # bound by default
    assert len(refused) == 1
    assert sorted(found) == [[3.0] * 4] * (count - 1) + [[11.0] * 4] * count


def test_a_stream_is_part_of_a_circle_too() -> None:
    one, other = CallingOut(), CallingOut()
    stream, inside = Stream(), threading.Event()
    other.compiled.write(other.x, [1.0] * 4)
    refused: list[str] = []

    def from_one() -> None:
        one.then = lambda: None
        other.compiled.run(stream)
        assert inside.wait(PATIENCE)
        other.compiled.allocate().run()

    def from_other() -> None:
        other.then = lambda: None
        inside.set()
        one(5.0)

    one.then, other.then = from_one, from_other
    for name, work in (("the caller", lambda: one(5.0)), ("the stream", stream.close)):
        try:
            work()
        except DeadlockError as error:
            refused.append(f"{name}: {error}")
    assert len(refused) == 1
    assert "waits for this one" in refused[0]


def test_many_that_wait_for_one_run_go_on_behind_it() -> None:
    run = PendingRun(None, None, None)
    run.busy.acquire()
    waiting = [threading.Thread(target=run.wait) for _ in range(4)]
    for thread in waiting:
        thread.start()
    run.ended = True
    for _ in range(3):
        run.resume_waiting()
    for thread in waiting:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_run_that_failed_lets_others_run() -> None:
    program = CallingOut()

    def fail() -> None:
        raise KeyboardInterrupt

    program.then = fail
    with pytest.raises(KeyboardInterrupt):
        program(1.0)
    program.then = lambda: None
    found: list[list[float]] = []
    in_threads(lambda: found.append(program(5.0)))
    assert found == [[11.0] * 4]


# ---- what is given, what is missing


def test_an_input_that_nobody_wrote_is_named() -> None:
    graph = SymbolicGraph()
    x, y = graph.input(spec([3]), "left"), graph.input(spec([3]), "right")
    compiled = compile(graph, [z := x * y + x])
    with pytest.raises(SymbolError, match=r"no value for %1 right.*; need every input"):
        compiled({x: [1, 2, 3]}, z)
    compiled.write(x, [1, 2, 3])
    compiled.write(y, [1, 2, 3])
    compiled.run()
    with pytest.raises(SymbolError, match=r"no value for %0 left: f32\[3\], %1 right"):
        compiled.run()
    assert compiled({x: [1, 2, 3], y: [1, 1, 1]}, z)[0].tolist() == [2, 4, 6]


def test_what_was_written_is_lost_when_another_program_runs_in_the_arena() -> None:
    large, x, _, _ = chain(64, "reference")
    small, a, _, b = chain(3, "reference")
    inside = small.in_arena_of(large)
    large.write(x, np.zeros((64, 16)))
    inside({a: np.zeros((3, 16))}, b)
    with pytest.raises(SymbolError, match="no value for"):
        large.run()


def test_an_input_that_outputs_do_not_need_is_accepted_and_checked() -> None:
    graph = SymbolicGraph()
    x, spare = graph.input(spec([3]), "x"), graph.input(spec([2]), "spare")
    other = ops.relu(spare)
    compiled = compile(graph, [y := x + 1.0])
    assert compiled({x: [1, 2, 3], spare: [1, 1]}, y)[0].tolist() == [2, 3, 4]
    with pytest.raises(UsageError, match="write"):
        compiled({x: [1, 2, 3], spare: [1, 1, 1]}, y)
    with pytest.raises(SymbolError):
        compiled({x: [1, 2, 3], other: [1, 1]}, y)


def test_an_empty_slice_is_an_empty_result() -> None:
    graph = SymbolicGraph()
    x = graph.input(spec([3, 4]), "x")
    none, some = x[1:1], x + 1.0
    compiled = compile(graph, [none, some[:, 2:2], some])
    got = compiled({x: np.zeros((3, 4))}, none, some)
    assert [one.shape for one in got] == [(0, 4), (3, 4)]
    alone = compile(graph, [none])
    assert alone({x: np.zeros((3, 4))}, none)[0].shape == (0, 4)
