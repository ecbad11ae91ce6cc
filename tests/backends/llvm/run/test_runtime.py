from __future__ import annotations

import os
import signal
import struct
import sys
import threading
import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, jit, launch, pool

from nnc.backends.llvm.run import engine as module
from nnc.backends.llvm.run.control_words import (
    COUNT,
    MASK_SLOTS,
    MAX_WORKERS,
    MOST_PROCESSORS,
    PROCESSORS,
    SCRATCH,
    WALK,
    WORDS,
)
from nnc.backends.llvm.run.host import host_target
from nnc.backends.llvm.run.interpreter import emit_interpreter
from nnc.backends.llvm.run.runtime import ControlBlock, NativeProgram, make_pool, places_of
from nnc.backends.llvm.run.steps import Launch, barriers, steps_of
from nnc.codegen.frame.kernel import phase
from nnc.codegen.ir.builder import F32, Module, Type
from nnc.codegen.ir.native_kernel import AddressRange, Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.storage import ALLOCATOR, Bytes
from nnc.errors import OutOfMemoryError

ITEMS = 100


@dataclass(frozen=True, slots=True)
class DoubleAndOne:
    """y[i] = 2 x[i] + 1; a cost that makes it shared or the caller's own."""

    cost: float

    def workspace(self, target: TargetDescription) -> int:
        return 0

    def scratch(self, target: TargetDescription) -> int:
        return 64

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as item:
            value = w.b.load(w.argument(0), item, Type(F32))
            w.b.store(value * 2.0 + 1.0, w.argument(1), item)
        return (Phase(name, ITEMS, self.cost),)


SHARED, OWNED = DoubleAndOne(1e9), DoubleAndOne(0.0)


def ladder(x: Array, y: Array, z: Array, kinds: str) -> list[Launch]:
    """x -> y -> z -> y ..., one step per letter: s shared, o owned."""
    places = [x, y, z]
    launches = []
    for index, kind in enumerate(kinds):
        source = places[0] if index == 0 else places[2 - index % 2]
        target = places[1 + index % 2]
        launches.append(launch(SHARED if kind == "s" else OWNED, [source], [target], []))
    return launches


def climb(x: Array, steps: int) -> Array:
    for _ in range(steps):
        x = x * 2 + 1
    return x


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("kinds", ["s", "o", "ssss", "soos", "ooss", "sosososo"])
def test_steps_see_what_earlier_steps_wrote(kinds: str, workers: int) -> None:
    x, y, z = np.arange(ITEMS, dtype=np.float32), np.zeros(ITEMS, np.float32), np.zeros(ITEMS, np.float32)
    program = NativeProgram(pool(), ladder(x, y, z, kinds), workers)
    for _ in range(20):
        y[:] = z[:] = -1
        program.run()
        np.testing.assert_array_equal(z if len(kinds) % 2 == 0 else y, climb(x, len(kinds)))


@dataclass(frozen=True, slots=True)
class CountedTwice(DoubleAndOne):
    """y[i] = 2 y[i] + 1 in two phases of one function: each item belongs to one of them."""

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as item:
            value = w.b.load(w.argument(1), item, Type(F32))
            w.b.store(value * 2.0 + 1.0, w.argument(1), item)
        return Phase(name, 60, self.cost), Phase(name, ITEMS - 60, self.cost, 60)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("cost", [0.0, 3000.0, 1e9], ids=["owned", "branches", "shared"])
def test_phases_of_one_function_have_items_of_their_own(cost: float, workers: int) -> None:
    arrays = [np.arange(ITEMS, dtype=np.float32) + place for place in range(8)]
    want = [climb(array, 2) for array in arrays]
    unread = np.zeros(ITEMS, np.float32)
    program = NativeProgram(pool(), [launch(CountedTwice(cost), [unread], [one], []) for one in arrays], workers)
    assert (program.steps == 1) == (cost == 3000.0 and workers > 1)
    for _ in range(2):
        program.run()
    np.testing.assert_array_equal(arrays, want)


def test_barriers_stand_only_where_memory_is_shared() -> None:
    arrays = [np.zeros(ITEMS, np.float32) for _ in range(4)]
    chain = [launch(SHARED, [arrays[i]], [arrays[i + 1]], []) for i in range(3)]
    apart = [launch(SHARED, [arrays[0]], [arrays[1]], []), launch(SHARED, [arrays[2]], [arrays[3]], [])]
    owned = [launch(OWNED, [arrays[i]], [arrays[i + 1]], []) for i in range(3)]

    def flags(launches: list[Launch]) -> list[bool]:
        return barriers([step for one in launches for step in steps_of(one, 0)])

    assert flags(chain) == [False, True, True]
    assert flags(apart) == [False, False]
    assert flags(owned) == [False, False, False]
    assert flags([owned[0], chain[1]]) == [False, True]
    assert flags([chain[1], chain[1]]) == [False, True]


def test_a_program_of_owned_steps_wakes_nobody() -> None:
    x, y, z = (np.zeros(ITEMS, np.float32) for _ in range(3))
    program = NativeProgram(pool(), ladder(x, y, z, "ooo"), 4)
    assert program.workers == 1
    program.run()


def test_no_steps_are_no_call() -> None:
    program = NativeProgram(pool(), [], 2)
    program.relocation([(0, 64)])([128])
    program.run()


def test_more_workers_than_chunks_have_bits() -> None:
    x, y = np.arange(ITEMS, dtype=np.float32), np.zeros(ITEMS, np.float32)
    program = NativeProgram(pool(), [launch(SHARED, [x], [y], [])], 1000)
    assert program.workers == MAX_WORKERS


def test_a_long_program() -> None:
    x, y, z = np.zeros(ITEMS, np.float32), np.zeros(ITEMS, np.float32), np.zeros(ITEMS, np.float32)
    launches = ladder(x, y, z, "ss") * 500
    program = NativeProgram(pool(), launches, 2)
    program.run()
    np.testing.assert_array_equal(z, climb(x, 2))


def test_python_threads_take_turns() -> None:
    faults: list[int] = []

    def work(number: int) -> None:
        x = np.arange(ITEMS, dtype=np.float32) + number
        y, z = np.zeros(ITEMS, np.float32), np.zeros(ITEMS, np.float32)
        for turn in range(100):
            NativeProgram(pool(), ladder(x, y, z, "sos" * (1 + turn % 3) + "s"), 1 + turn % 3).run()
            steps = 3 * (1 + turn % 3) + 1
            if not np.array_equal(z if steps % 2 == 0 else y, climb(x, steps)):
                faults.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_starts_its_own_workers() -> None:
    x, y, z = np.arange(ITEMS, dtype=np.float32), np.zeros(ITEMS, np.float32), np.zeros(ITEMS, np.float32)
    program = NativeProgram(pool(), ladder(x, y, z, "ssss"), 2)
    program.run()
    child = os.fork()
    if child == 0:
        z[:] = 0
        program.run()
        os._exit(0 if np.array_equal(z, climb(x, 4)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    program.run()


def test_workers_end_and_start_again() -> None:
    x, y, z = np.arange(ITEMS, dtype=np.float32), np.zeros(ITEMS, np.float32), np.zeros(ITEMS, np.float32)
    program = NativeProgram(pool(), ladder(x, y, z, "ss"), 3)
    program.run()
    before = threading.active_count()
    pool().close()
    assert threading.active_count() <= before - 2
    z[:] = 0
    program.run()
    np.testing.assert_array_equal(z, climb(x, 2))


def test_a_late_worker_finds_words_while_the_next_run_is_said() -> None:
    """Packing writes zeros before it writes what does not fit: where the words are must not be among them."""
    block = ControlBlock(2)
    block.prepare(table=8, count=1, workers=2, scratch=0)
    words = block.slots[WORDS]
    with pytest.raises(struct.error):
        block.prepare(table=2**70, count=1, workers=2, scratch=0)
    assert block.slots[WORDS] == words != 0


def test_a_run_that_got_no_scratch_memory_is_said_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run later found itself said already, and its kernels wrote to the scratch memory that was not there."""

    def refuse(nbytes: int, zeroed: bool) -> Bytes:
        raise MemoryError

    block = ControlBlock(2)
    with monkeypatch.context() as patch:
        patch.setattr(ALLOCATOR, "source", refuse)
        with pytest.raises(OutOfMemoryError, match="got 8192 bytes"):
            block.prepare(table=8, count=1, workers=2, scratch=4096)
    block.prepare(table=8, count=1, workers=2, scratch=4096)
    assert block.slots[SCRATCH] != 0
    assert block.slots[COUNT] == 1


def test_a_late_worker_reads_the_count_before_the_words_that_are_for_it() -> None:
    text = str(emit_interpreter(host_target()))
    walk = text[text.index(f"@{WALK}(ptr %control") :]
    count, words = (walk.index(f"i64, ptr %control, i64 {slot}\n") for slot in (COUNT, WORDS))
    assert count < words


def test_places_are_positions_and_masks() -> None:
    words = places_of([1, 3, 66], 2)
    assert list(words[[1, 3, 66]]) == [0, 1, 2]
    masks = words[MOST_PROCESSORS:].reshape(-1, MASK_SLOTS)
    assert [[int(word) for word in mask[:2]] for mask in masks] == [[2, 0], [8, 0], [0, 4], [0, 0], [0, 0]]
    assert not masks[:, 2:].any()


def rest(workers: list[int], masks: list[set[int]]) -> None:
    """Wait until workers that were woken have their masks again, and then until they sleep."""
    deadline = time.monotonic() + 10
    while [os.sched_getaffinity(worker) for worker in workers] != masks and time.monotonic() < deadline:
        time.sleep(0.001)
    assert [os.sched_getaffinity(worker) for worker in workers] == masks
    time.sleep(0.02)


def kept_masks() -> list[set[int]]:
    """The masks that workers had when they were last bound."""
    block = pool()._shared
    masks = block._places[MOST_PROCESSORS:].reshape(-1, MASK_SLOTS)[int(block.slots[PROCESSORS]) + 1 :]
    return [{bit for bit in range(64 * MASK_SLOTS) if int(mask[bit // 64]) >> bit % 64 & 1} for mask in masks]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux binds threads to processors")
def test_workers_that_slept_have_the_processors_that_they_had() -> None:
    x, y, z = np.arange(ITEMS, dtype=np.float32), np.zeros(ITEMS, np.float32), np.zeros(ITEMS, np.float32)
    program = NativeProgram(pool(), ladder(x, y, z, "ssss"), 3)
    allowed = os.sched_getaffinity(0)
    program.run()
    workers = [one.native_id or 0 for one in pool()._threads]
    masks = [allowed for _ in workers]
    for _ in range(3):
        rest(workers, masks)
        program.run()
    rest(workers, masks)
    masks[0] = {min(allowed)}
    os.sched_setaffinity(workers[0], masks[0])
    try:
        for _ in range(3):
            program.run()
            rest(workers, masks)
        assert os.sched_getaffinity(0) == allowed
        if len(allowed) > 1:
            assert kept_masks()[:2] == masks[:2]
    finally:
        os.sched_setaffinity(workers[0], allowed)


def test_ranges_that_touch_do_not_overlap() -> None:
    assert not AddressRange(0, 4).overlaps(AddressRange(4, 8))
    assert AddressRange(0, 5).overlaps(AddressRange(4, 8))
    assert not AddressRange(3, 3).overlaps(AddressRange(4, 8))


@pytest.mark.parametrize("started", [1, 2])
def test_an_interrupt_while_workers_start_leaves_a_pool_that_works(
    monkeypatch: pytest.MonkeyPatch, started: int
) -> None:
    own = make_pool(jit())
    x, y, z = np.arange(ITEMS, dtype=np.float32), np.zeros(ITEMS, np.float32), np.zeros(ITEMS, np.float32)
    program = NativeProgram(own, ladder(x, y, z, "ss"), 3)
    start, threads = threading.Thread.start, []

    def start_and_press(thread: threading.Thread) -> None:
        start(thread)
        threads.append(thread)
        if len(threads) == started:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_and_press)
        with pytest.raises(KeyboardInterrupt):
            program.run()
    program.run()
    np.testing.assert_array_equal(z, climb(x, 2))
    own.close()
    for thread in threads:
        thread.join(10.0)
        assert not thread.is_alive()


def test_a_pool_runs_on_its_caller_alone_once_the_interpreter_ends() -> None:
    own = make_pool(jit())
    own.retire()
    x, y, z = np.arange(ITEMS, dtype=np.float32), np.zeros(ITEMS, np.float32), np.zeros(ITEMS, np.float32)
    before = threading.active_count()
    NativeProgram(own, ladder(x, y, z, "ss"), 3).run()
    assert threading.active_count() == before
    np.testing.assert_array_equal(z, climb(x, 2))


def test_threads_that_come_first_together_get_one_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[object] = []

    def slow(jit: object) -> object:
        time.sleep(0.05)
        pools.append(jit)
        return object()

    monkeypatch.setattr(module, "make_pool", slow)
    monkeypatch.setattr(module, "_MEASURES", [])
    fresh = lru_cache(maxsize=1)(module.engine.__wrapped__)
    monkeypatch.setattr(module, "made", lru_cache(maxsize=1)(module.made.__wrapped__))
    threads = [threading.Thread(target=fresh) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pools) == 1
