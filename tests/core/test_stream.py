"""Streams: order, waits between streams, errors, ends. Events bound every wait, so nothing depends on time."""

from __future__ import annotations

import threading
from typing import TypeVar

import numpy as np
import pytest

from nnc.core.stream import Signal, Stream, Task

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
