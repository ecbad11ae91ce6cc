"""Streams: order, waits between streams, errors, ends. Events bound every wait, so nothing depends on time."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest

from nnc.core.running.stream import Signal, Stream, Task
from nnc.errors import OutOfMemoryError, StreamError, UsageError

PATIENCE = 30.0
V = TypeVar("V")


class Broken(Exception):
    """What a failing task raises."""


def fail() -> None:
    raise Broken("task")


def append(seen: list[V], value: V) -> Task:
    """A task that records that it ran."""

    def task() -> None:
        seen.append(value)

    return task


def hold(gate: threading.Event) -> Task:
    """A task that ends when the gate opens."""

    def task() -> None:
        if not gate.wait(PATIENCE):
            raise Broken("nobody opened the gate")

    return task


def test_tasks_run_in_order_on_one_other_thread(stream: Stream) -> None:
    seen: list[int] = []
    threads: list[int] = []
    for number in range(200):
        stream.submit(append(seen, number))
        stream.submit(lambda: threads.append(threading.get_ident()))
    stream.drain()
    assert seen == list(range(200))
    assert len(set(threads)) == 1
    assert threading.get_ident() not in threads


def test_a_stream_whose_thread_did_not_start_starts_another(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its tasks would wait for ever."""

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    seen: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        with pytest.raises(OutOfMemoryError, match="a stream"):
            stream.submit(append(seen, 1))
    stream.submit(append(seen, 2))
    stream.drain()
    assert seen == [2]


def test_submit_does_not_wait(stream: Stream) -> None:
    gate = threading.Event()
    stream.submit(hold(gate))
    signal = stream.emit(Signal("after"))
    states = [signal.emitted]
    gate.set()
    signal.wait()
    states.append(signal.emitted)
    stream.drain()
    assert states == [False, True]


def test_a_stream_waits_for_a_signal_of_another() -> None:
    seen: list[str] = []
    gate = threading.Event()
    with Stream("first") as first, Stream("second") as second:
        done = Signal("done")
        second.wait(done)
        second.submit(append(seen, "second"))
        first.submit(hold(gate))
        first.submit(append(seen, "first"))
        first.emit(done)
        assert seen == []
        gate.set()
        second.drain()
    assert seen == ["first", "second"]


def test_streams_run_at_the_same_time() -> None:
    """Each task waits for the other to begin: one thread alone would never end."""
    barrier = threading.Barrier(2)

    def meet() -> None:
        barrier.wait(PATIENCE)

    with Stream("first") as first, Stream("second") as second:
        for one in (first, second):
            one.submit(meet)
        first.drain()
        second.drain()
    assert not barrier.broken


def test_a_ring_of_signals() -> None:
    seen: list[int] = []
    streams = [Stream(f"ring {number}") for number in range(4)]
    signals = [Signal() for _ in range(41)]
    for step in range(40):
        turn = streams[step % 4]
        turn.wait(signals[step])
        turn.submit(append(seen, step))
        turn.emit(signals[step + 1])
    signals[0].set()
    signals[40].wait()
    for turn in streams:
        turn.close()
    assert seen == list(range(40))


def test_the_first_error_is_raised_by_drain_once(stream: Stream) -> None:
    seen: list[int] = []
    stream.submit(fail)
    stream.submit(append(seen, 1))
    stream.submit(hold(threading.Event()))
    with pytest.raises(Broken, match="task"):
        stream.drain()
    assert seen == []
    stream.submit(append(seen, 2))
    stream.drain()
    assert seen == [2]


def test_signals_fire_after_an_error_and_carry_it_to_whoever_waits(stream: Stream) -> None:
    seen: list[int] = []
    stream.submit(fail)
    signal = stream.emit(Signal())
    with Stream("waiting") as other:
        other.wait(signal)
        other.submit(append(seen, 1))
        with pytest.raises(Broken):
            other.drain()
    assert signal.emitted
    assert seen == []
    with pytest.raises(Broken):
        stream.drain()


def test_a_failed_stream_waits_for_nobody(stream: Stream) -> None:
    stream.submit(fail)
    stream.wait(Signal("never"))
    with pytest.raises(Broken):
        stream.drain()


def test_close_runs_what_is_queued_and_raises_errors() -> None:
    seen: list[int] = []
    stream = Stream()
    stream.submit(append(seen, 1))
    stream.close()
    assert seen == [1]
    stream.close()
    stream.submit(fail)
    with pytest.raises(Broken):
        stream.close()
    stream.close()


def test_a_block_raises_the_error_of_its_tasks() -> None:
    with pytest.raises(Broken), Stream() as stream:
        stream.submit(fail)


def fail_inside_and_out() -> None:
    with Stream() as stream:
        stream.submit(fail)
        raise Broken("block")


def test_an_error_of_the_block_is_not_hidden_by_one_of_its_tasks() -> None:
    with pytest.raises(Broken, match="block"):
        fail_inside_and_out()


def test_a_closed_stream_leaves_no_thread() -> None:
    before = threading.active_count()
    with Stream() as stream:
        stream.submit(lambda: None)
        stream.drain()
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_an_unused_stream_has_no_thread_and_nothing_to_wait_for() -> None:
    before = threading.active_count()
    stream = Stream()
    stream.drain()
    stream.close()
    assert threading.active_count() == before


def test_random_numbers_come_from_the_seed() -> None:
    first, same, other = (Stream(seed=seed).generator.random(4) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_many_threads_may_submit(stream: Stream) -> None:
    seen: list[tuple[int, int]] = []

    def submit(who: int) -> None:
        for number in range(100):
            stream.submit(append(seen, (who, number)))

    threads = [threading.Thread(target=submit, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream.drain()
    assert [[number for one, number in seen if one == who] for who in range(4)] == [list(range(100))] * 4


def test_callbacks_run_in_order_and_are_told_of_errors(stream: Stream) -> None:
    seen: list[object] = []
    stream.submit(append(seen, 1))
    stream.add_callback(lambda error: seen.append(error))
    stream.submit(fail)
    stream.add_callback(lambda error: seen.append(type(error)))
    with pytest.raises(Broken):
        stream.drain()
    assert seen == [1, None, Broken]


def test_an_error_of_a_callback_surfaces(stream: Stream) -> None:
    stream.add_callback(lambda error: fail())
    with pytest.raises(Broken):
        stream.drain()


def test_a_signal_knows_its_emitter_and_has_one_only(stream: Stream) -> None:
    signal = Signal("once")
    assert signal.emitter is None
    assert stream.emit(signal).emitter is stream
    with pytest.raises(StreamError, match="signal once of test; need a signal that nobody emits yet"):
        stream.emit(signal)
    signal.wait()


def test_whoever_waits_for_a_failed_stream_is_told(stream: Stream) -> None:
    stream.submit(fail)
    signal = stream.emit(Signal())
    for _ in range(2):
        with pytest.raises(Broken):
            signal.wait()
    signal.settle()
    with pytest.raises(Broken):
        stream.drain()


def test_errors_spread_along_a_chain_of_streams() -> None:
    seen: list[object] = []
    streams = [Stream(f"chain {number}") for number in range(4)]
    streams[0].submit(fail)
    for before, after in itertools.pairwise(streams):
        after.wait(before.emit(Signal()))
        after.submit(append(seen, 1))
    for one in streams:
        with pytest.raises(Broken):
            one.close()
    assert seen == []


@pytest.mark.parametrize("wait", [Stream.drain, Stream.close])
def test_a_task_cannot_wait_for_its_own_stream(stream: Stream, wait: Callable[[Stream], None]) -> None:
    stream.submit(lambda: wait(stream))
    with pytest.raises(StreamError, match="one of its own tasks"):
        stream.drain()


def test_a_task_cannot_wait_for_a_later_signal_of_its_own_stream(stream: Stream) -> None:
    gate = threading.Event()
    signal = Signal("later")
    stream.submit(hold(gate))
    stream.wait(signal)
    stream.emit(signal)
    gate.set()
    with pytest.raises(StreamError, match="signal later"):
        stream.drain()


def test_each_stream_has_scratch_memory_that_grows() -> None:
    first, second = Stream("first"), Stream("second")
    small = first.workspace(100)
    assert small.spec.nbytes == 100
    assert first.workspace(50) is small
    large = first.workspace(1000)
    assert large.spec.nbytes == 1000
    assert first.workspace(100) is large
    assert second.workspace(100).address != large.address
    assert large.address % 64 == 0


def test_a_seed_counts_for_what_is_submitted_later(stream: Stream) -> None:
    drawn: list[float] = []

    def draw() -> None:
        drawn.append(stream.generator.random())

    stream.set_seed(7)
    for _ in range(2):
        stream.submit(draw)
        stream.submit(draw)
        stream.set_seed(7)
    stream.drain()
    assert drawn[:2] == drawn[2:]
    assert drawn[0] == Stream(seed=7).generator.random()


def test_a_dropped_stream_ends_its_thread() -> None:
    stream = Stream("dropped")
    stream.submit(lambda: None)
    stream.drain()
    (thread,) = [one for one in threading.enumerate() if one.name == "nnc-dropped"]
    del stream
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_gets_an_error_and_may_make_its_own(stream: Stream) -> None:
    stream.submit(lambda: None)
    signal = stream.emit(Signal())
    gate, late = threading.Event(), Signal("late")
    stream.submit(hold(gate))
    stream.emit(late)
    stream_of_child = Stream("unused")

    def misuse() -> list[bool]:
        refused = []
        calls: list[Task] = [lambda: stream.submit(fail), stream.drain, late.wait]
        for call in calls:
            try:
                call()
            except StreamError as error:
                refused.append("parent process" in str(error))
        stream.close()
        signal.wait()
        ran: list[object] = []
        with stream_of_child:
            stream_of_child.submit(append(ran, True))
        return [*refused, stream.is_foreign, ran == [True]]

    signal.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if misuse() == [True] * 5 else 1)
    gate.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not stream.is_foreign


@pytest.mark.parametrize("task", [None, 3, "task"])
def test_what_cannot_be_called_is_no_task(stream: Stream, task: object) -> None:
    for call in (stream.submit, stream.add_callback):
        with pytest.raises(UsageError, match="need a function"):
            call(task)
    seen: list[int] = []
    stream.submit(append(seen, 1))
    stream.drain()
    assert seen == [1]


def press(*arguments: object) -> None:
    """Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("call", [Stream.drain, Stream.close])
def test_a_wait_that_is_interrupted_can_be_taken_up(call: Callable[[Stream], None], stream: Stream) -> None:
    gate = threading.Event()
    stream.submit(hold(gate))
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call(stream)
    timer.join()
    seen: list[int] = []
    stream.submit(append(seen, 1))
    gate.set()
    stream.drain()
    assert seen == [1]
    call(stream)
    stream.submit(append(seen, 2))
    stream.close()
    assert seen == [1, 2]


def test_an_interrupt_at_the_first_task_loses_neither_thread_nor_task(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def start_and_press(thread: threading.Thread) -> None:
        press()
        start(thread)
        press()

    seen: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_and_press)
        with pytest.raises(KeyboardInterrupt):
            stream.submit(append(seen, 1))
    stream.submit(append(seen, 2))
    stream.drain()
    assert seen == [1, 2]


SHUTDOWN = """
import sys, threading
from nnc.core.running.stream import Signal, Stream

streams = [Stream(str(number)) for number in range(3)]
begun = threading.Event()

def work():
    begun.set()
    print("worked", sum(range(2_000_000)), flush=True)

streams[0].submit(work)
streams[1].wait(Signal("that nobody emits"))
streams[2].wait(streams[0].emit(Signal("behind the work")))
begun.wait()
if len(sys.argv) > 1:
    del streams
"""


@pytest.mark.parametrize("arguments", [(), ("dropped",)])
def test_a_process_ends_while_its_streams_work(arguments: tuple[str, ...]) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SHUTDOWN, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE * 6, env=environment)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == f"worked {sum(range(2_000_000))}\n"


def test_what_is_abandoned_drops_its_tasks_and_waits_for_nobody(stream: Stream) -> None:
    gate, seen = threading.Event(), []
    stream.submit(hold(gate))
    stream.submit(append(seen, 1))
    other = Stream("other")
    other.wait(Signal("that nobody emits"))
    for one in (stream, other):
        one._worker.abandon()
    gate.set()
    for one in (stream, other):
        with pytest.raises(StreamError, match="the end of the interpreter"):
            one.close()
    assert seen == []
