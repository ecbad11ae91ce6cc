"""Running: parts of a graph, asynchronous runs, errors and cancellation on all streams, what a run keeps."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from tests.concrete.eager import ADDITION, affine, graph, number, room, rooms, tensor

from nnc.concrete import ConcreteGraph, CountBelow, ExecKey, MultiviewKind, Tape, Taped
from nnc.concrete.run import KEPT_PROGRAMS
from nnc.core.running.dispatch import Call, Dispatcher, Program, Specs, Tensors
from nnc.core.running.stream import Stream
from nnc.core.values.command import AnyCommand
from nnc.core.values.tensor import Tensor
from nnc.errors import ArityError, CancelledError, GraphError, ShapeError, UnknownKeyError, UsageError

PATIENCE = 30.0


class Broken(Exception):
    """What a failing node raises."""


def fail(*tensors: Tensor) -> int:
    raise Broken("node")


def chain(root: ConcreteGraph, count: int) -> tuple[Tensor, list[ExecKey]]:
    """x ← 2 · x, `count` times in a row."""
    x = tensor([1.0])
    keys: list[ExecKey] = []
    for _ in range(count):
        keys.append(root.add(affine(2.0), [x], [x], after=keys[-1:]))
    return x, keys


def test_parts_of_a_graph() -> None:
    root = graph()
    x, keys = chain(root, 6)
    root.run(sources=[keys[1]], destinations=[keys[3]])
    assert number(x) == 2.0**3
    root.run(destinations=[keys[0]])
    assert number(x) == 2.0**4
    root.run(sources=[keys[5]])
    assert number(x) == 2.0**5
    root.set_sources([keys[2]])
    root.set_destinations([keys[2]])
    assert (root.sources(), root.destinations()) == ((keys[2],), (keys[2],))
    root.run()
    assert number(x) == 2.0**6
    root.set_sources(None)
    root.set_destinations(None)
    root.run()
    assert number(x) == 2.0**12


def test_only_what_lies_between_runs() -> None:
    """Of a -> b, a -> c, d -> b: from a to b runs neither c nor d."""
    root = graph()
    cells = [tensor([0.0]) for _ in range(4)]
    a, b, c, d = (root.add(affine(1.0, 1.0), [cell], [cell]) for cell in cells)
    for earlier, later in ((a, b), (a, c), (d, b)):
        root.connect(earlier, later)
    root.run(sources=[a], destinations=[b])
    assert [number(cell) for cell in cells] == [1.0, 1.0, 0.0, 0.0]


def test_sources_and_destinations_follow_edits() -> None:
    """sum -> product, sum -> log: two ends each after the first edge is cut, one each without the product."""
    root = graph()
    total, product, log = (root.add_noop(name=name) for name in ("sum", "product", "log"))
    root.connect(total, product)
    root.connect(total, log)
    assert (root.sources(), root.destinations()) == ((total,), (product, log))
    root.disconnect(total, product)
    assert (len(root.sources()), len(root.destinations())) == (2, 2)
    root.remove(product)
    assert (root.sources(), root.destinations()) == ((total,), (log,))
    assert len(root) == 2
    assert product not in root
    with pytest.raises(GraphError, match="without an edge"):
        root.disconnect(log, total)


def test_removing_a_node_takes_it_out_of_all_lists() -> None:
    root = graph()
    first, second = root.add_noop(), root.add_noop()
    root.set_sources([first, second])
    root.set_destinations([first])
    root.set_while(CountBelow(1), breakpoints=[first, second])
    root.remove(first)
    assert (root.sources(), root.destinations(), root.body.breakpoints) == ((second,), (), (second,))


def test_reachability() -> None:
    """log1(a→b), log2(c→d), sum1(a,c→e), log3(d→f), sum2(b,f→g)."""
    root = graph()
    log1, log2, sum1, log3, sum2 = (root.add_noop() for _ in range(5))
    root.connect(log2, log3)
    root.connect(log1, sum2)
    root.connect(log3, sum2)

    def bits(sources: Sequence[ExecKey], destinations: Sequence[ExecKey]) -> int:
        return sum(found << place for place, found in enumerate(root.reaches(sources, destinations)))

    assert bits([sum1, log1, log2, log1], [sum2]) == 0b1110
    assert bits([sum1, log1, log2], [sum1]) == 1
    assert bits([log3, log1, log2], [sum2]) == 7
    with pytest.raises(UnknownKeyError):
        root.reaches([ExecKey(99)], [sum1])


def test_inputs_and_outputs_are_edited_between_runs() -> None:
    root = graph()
    x, y, z = tensor([2.0]), room(1), room(1)
    key = root.add(affine(2.0), [x], [y])
    root.run()
    root.set_io(key, [y], [z])
    root.run()
    assert (number(y), number(z)) == (4.0, 8.0)
    root.set_command(key, affine(0.5))
    root.run()
    assert number(z) == 2.0
    with pytest.raises(ShapeError):
        root.set_io(key, [x], [room(2)])
    with pytest.raises(ArityError):
        root.set_command(key, ADDITION)
    with pytest.raises(GraphError, match="need a node of kind Exec"):
        root.set_io(root.add_noop(), [x], [y])
    root.run()
    assert number(z) == 2.0


def test_a_run_on_a_stream_returns_at_once() -> None:
    root = graph()
    gate = threading.Event()
    x = tensor([1.0])
    wait = root.case_of(lambda: -1 if gate.wait(PATIENCE) else fail())
    root.add(affine(2.0), [x], [x], after=[wait])
    with Stream() as stream:
        signal = root.run(stream)
        assert signal is not None
        assert not signal.emitted
        assert signal.emitter is stream
        gate.set()
        signal.wait()
        assert number(x) == 2.0


def test_runs_of_the_same_nodes_wait_for_each_other() -> None:
    """On two streams and here: nothing is lost, in whatever order the threads would like to run."""
    root = graph()
    x, _ = chain(root, 3)
    with Stream("one") as one, Stream("two") as two:
        for turn in range(10):
            root.run((one, two)[turn % 2])
        root.run()
    assert number(x) == 2.0**33


@pytest.mark.parametrize("streams", [1, 2, 4])
def test_independent_nodes_run_at_the_same_time_and_errors_surface(streams: int) -> None:
    """One of four independent nodes fails: the run raises it, no lane hangs, and the next run is whole."""
    root = graph()
    broken = [True]
    done = tensor([0.0])
    nodes = [root.case_of(lambda: -1) for _ in range(3)]
    nodes.append(root.case_of(lambda: fail() if broken[0] else -1))
    join = root.add(affine(1.0, 1.0), [done], [done], after=nodes)
    schedule = root.schedule(streams)
    assert len(schedule.table.lanes) == streams
    for _ in range(5):
        with pytest.raises(Broken):
            root.run(schedule=schedule)
    with Stream() as stream:
        signal = root.run(stream, schedule=schedule)
        assert signal is not None
        with pytest.raises(Broken):
            signal.wait()
        with pytest.raises(Broken):
            stream.drain()
    broken[0] = False
    root.run(schedule=schedule)
    assert number(done) == 1.0
    assert join in root


def test_two_lanes_meet() -> None:
    """Each node waits for the other to begin: on one thread this would never end."""
    barrier = threading.Barrier(2)
    root = graph()
    for _ in range(2):
        root.case_of(lambda: barrier.wait(PATIENCE) - 2)
    root.run(schedule=root.schedule(2))
    assert not barrier.broken


def test_a_failed_run_poisons_what_waits_for_it() -> None:
    root, other = graph(), graph()
    root.case_of(fail)
    x, _ = chain(other, 1)
    with Stream("first") as first, Stream("second") as second:
        signal = root.run(first)
        assert signal is not None
        second.wait(signal)
        other.run(second)
        with pytest.raises(Broken):
            second.drain()
        with pytest.raises(Broken):
            first.drain()
        other.run(second)
        second.drain()
    assert number(x) == 2.0


def test_cancel_stops_a_loop_that_would_not_end() -> None:
    root, body = graph(), graph()
    begun = threading.Event()

    def begin() -> int:
        begun.set()
        return -1

    body.case_of(begin)
    root.while_loop(body, lambda: True)
    with Stream() as stream:
        signal = root.run(stream)
        assert signal is not None
        assert begun.wait(PATIENCE)
        root.cancel()
        with pytest.raises(CancelledError):
            signal.wait()
        with pytest.raises(CancelledError):
            stream.drain()


def test_cancel_from_within_and_a_later_run() -> None:
    root, body = graph(), graph()
    x = tensor([1.0])
    stops = [True]

    def below(count: Tensor) -> bool:
        if stops[0] and int(count.numpy()) == 2:
            root.cancel()
        return int(count.numpy()) < 4

    body.add(affine(2.0), [x], [x])
    root.while_loop(body, below, inputs=[body.count])
    with pytest.raises(CancelledError, match="run again"):
        root.run()
    assert number(x) == 4.0
    root.cancel()
    stops[0] = False
    root.run()
    assert number(x) == 64.0


@dataclass(frozen=True, slots=True, eq=False)
class CountingKernel:
    """y = number of bytes of scratch memory."""

    workspace_bytes: int

    def run(self, inputs: Tensors, outputs: Tensors, workspace: Tensor | None) -> None:
        assert outputs[0] is not None
        outputs[0].numpy()[...] = 0 if workspace is None else workspace.spec.nbytes


@dataclass(slots=True, eq=False)
class CountingBackend:
    """Claims everything, and counts the programs it makes with their lengths."""

    name: str = "counting"
    workspace_bytes: int = 0
    programs: list[int] = field(default_factory=list)
    rooms: set[int] = field(default_factory=set)

    def absence(self) -> str:
        return ""

    def refusal(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> str:
        return ""

    def kernel(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> CountingKernel:
        return CountingKernel(self.workspace_bytes)

    def variants(self, command: AnyCommand, inputs: Specs, outputs: Specs) -> dict[str, CountingKernel]:
        return {}

    def program(self, calls: Sequence[Call]) -> Program:
        fixed = tuple(calls)
        self.programs.append(len(fixed))
        self.rooms.update(call.workspace.address for call in fixed if call.workspace is not None)

        def run() -> None:
            for call in fixed:
                call.kernel.run(call.inputs, call.outputs, call.workspace)

        return run


def counting(workspace_bytes: int = 0) -> tuple[ConcreteGraph, CountingBackend, Dispatcher]:
    backend = CountingBackend(workspace_bytes=workspace_bytes)
    dispatcher = Dispatcher()
    dispatcher.add(backend)
    return ConcreteGraph(dispatcher), backend, dispatcher


def test_a_plain_graph_is_one_program_made_once() -> None:
    root, backend, _ = counting()
    chain(root, 5)
    for _ in range(3):
        root.run()
    assert backend.programs == [5]


def test_programs_are_cut_where_places_move_and_kept_by_tensors() -> None:
    root, backend, dispatcher = counting()
    body = ConcreteGraph(dispatcher)
    fixed = tensor([1.0])
    moving = body.multiview(rooms(2, 1))
    first = body.add(affine(1.0), [fixed], [fixed])
    second = body.add(affine(2.0), [fixed], [fixed], after=[first])
    third = body.add(affine(1.0), [fixed], [moving], after=[second])
    fourth = body.add(affine(1.0), [moving], [moving], after=[third])
    body.add(affine(1.0), [fixed], [fixed], after=[fourth])
    loop = root.while_loop(body, CountBelow(7))
    root.add(affine(1.0), [fixed], [fixed], after=[loop])
    for _ in range(3):
        root.run()
    assert sorted(backend.programs) == [1, 1, 2, 2, 2]


def test_programs_of_many_tensors_are_bounded_and_those_of_a_tape_are_its_own() -> None:
    root, backend, dispatcher = counting()
    body = ConcreteGraph(dispatcher)
    taped = Taped(room(1))
    body.add(affine(1.0), [tensor([1.0])], [taped])
    body.set_while(CountBelow(KEPT_PROGRAMS + 10))
    root.while_loop(body)
    tape = Tape()
    root.run(tape=tape)
    (kept,) = tape.programs.values()
    assert len(kept) == KEPT_PROGRAMS
    assert len(backend.programs) == KEPT_PROGRAMS + 10
    memory = weakref.ref(next(iter(kept.values())).calls[0].outputs[0])
    del kept
    tape.clear()
    assert memory() is None


def test_scratch_memory_is_one_piece_per_stream() -> None:
    root, backend, _ = counting(workspace_bytes=100)
    cells = [tensor([0.0]) for _ in range(4)]
    for cell in cells:
        root.add(affine(1.0), [cell], [cell])
    root.run()
    assert [number(cell) for cell in cells] == [100.0] * 4
    assert len(backend.rooms) == 1
    root.run(schedule=root.schedule(2))
    assert len(backend.rooms) == 3
    given = Tensor.empty(tensor([0.0]).spec)
    root.add(affine(1.0), [cells[0]], [cells[0]], workspace=given)
    root.run()
    assert number(cells[0]) == 100.0


def test_a_dropped_graph_is_freed() -> None:
    root, body = graph(), graph()
    x = tensor([1.0])
    follower = body.multiview([x, room(1)], MultiviewKind.K1N)
    body.add(affine(1.0), [x], [follower])
    root.while_loop(body, CountBelow(3))
    root.add_noop()
    root.run(schedule=root.schedule(2))
    watched = [weakref.ref(root.execs), weakref.ref(body.execs)]
    del root, body
    assert [one() for one in watched] == [None, None]


def test_an_unknown_earlier_node_is_refused_before_anything_changes() -> None:
    root = graph()
    with pytest.raises(UnknownKeyError):
        root.add_noop(after=[ExecKey(3)])
    assert len(root) == 0
    with pytest.raises(UsageError):
        root.run(sources=[ExecKey(3)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_runs_a_scheduled_graph_on_streams_of_its_own() -> None:
    root = graph()
    cells = [tensor([1.0]) for _ in range(2)]
    for cell in cells:
        root.add(affine(2.0), [cell], [cell])
    schedule = root.schedule(2)
    root.run(schedule=schedule)
    child = os.fork()
    if child == 0:
        root.run(schedule=schedule)
        os._exit(0 if [number(cell) for cell in cells] == [4.0, 4.0] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [number(cell) for cell in cells] == [2.0, 2.0]


def test_threads_that_run_one_graph_take_turns() -> None:
    """x ← x + 1 in a loop of three: runs that met would share the loop's count, and lose additions."""
    root, body = graph(), graph()
    x = tensor([0.0])
    body.add(affine(1.0, 1.0), [x], [x])
    root.while_loop(body, CountBelow(3))
    threads = [threading.Thread(target=lambda: [root.run() for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert number(x) == 3 * 50 * 4
