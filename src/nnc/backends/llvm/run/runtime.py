"""Native programs: a table of steps that one call runs on all workers.

    program = NativeProgram(launches);  program.run()

Workers are Python daemon threads that live in native code, one pool per process; they are started by the first
program that wants more than one worker, and a forked child starts its own. Two Python threads that run programs on
several workers at once take turns; programs on one worker run side by side. A barrier stands before a step only where
it touches memory that an earlier step of another worker touches and one of the two writes.
"""

from __future__ import annotations

import atexit
import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from nnc.addresses import start
from nnc.backends.llvm.run import control_words
from nnc.backends.llvm.run.jit import Jit
from nnc.backends.llvm.run.steps import FIRST, WINDOW, Launch, ProgramStep, Words, barriers, steps_of, with_branches
from nnc.classes import dataclass
from nnc.codegen.ir.native_kernel import AddressRange, NativeKernel, aligned
from nnc.core.precautions.forking import in_children
from nnc.core.precautions.shield import Shield
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.running.late_names import LateModule
from nnc.core.settings import usable_processors
from nnc.core.values.recorder import WorkerTime
from nnc.core.values.storage import ALLOCATOR

if TYPE_CHECKING:
    from nnc.backends.llvm.run import interpreter as writing
    from nnc.backends.llvm.run import loop_code as loops
    from nnc.codegen.ir.builder import Module
    from nnc.codegen.ir.target import TargetDescription
else:
    # What writes the interpreter is imported where its code is not on the disk.
    writing, loops = LateModule("nnc.backends.llvm.run.interpreter"), LateModule("nnc.backends.llvm.run.loop_code")

WORD_BYTES = 8
# Up to this many operands are moved one by one; beyond that NumPy takes less time (3: 0.5 of 1.9 µs, 16: 1.3 of 2.0).
FEW_OPERANDS = 16
# Steps, their number, workers, the stop flag, scratch memory, its stride: slots side by side. The words that follow are
# not among them: what is packed is zero for a moment, and late workers read there.
_RUN_SLOTS = struct.Struct("=6q")


@dataclass(frozen=True, slots=True)
class ZeroedMemory:
    """Zeroed bytes at an aligned address, kept because asking NumPy for it takes longer than a small kernel."""

    data: NDArray[np.uint8]
    address: int

    @classmethod
    def allocate(cls, size: int) -> ZeroedMemory:
        """Fresh memory of `size` bytes. OutOfMemoryError when the system has not that much."""
        return cls(*ALLOCATOR.take(size, zeroed=True))

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(self.data.nbytes)

    @property
    def words(self) -> Words:
        """The memory as 64-bit integers."""
        return self.data.view(np.int64)

    @property
    def extent(self) -> AddressRange:
        """Where it lies."""
        return AddressRange(self.address, self.address + self.nbytes)


@dataclass(frozen=True, slots=True)
class NativeEntry:
    """The interpreter's functions as Python sees them; calls release the interpreter lock."""

    launch: Callable[[int], None]
    # Table, steps and scratch memory of a run on one worker; None where times are noted.
    alone: Callable[[int, int, int], None] | None
    repeat: Callable[[int, int], None]
    release: Callable[[int], None]
    work: Callable[[int, int, int], None]
    branches: int
    owner: object

    @classmethod
    def load(cls, jit: Jit, clock: int | None = None) -> NativeEntry:
        """Compile and load the interpreter; with a `clock` that which notes times."""
        words = control_words
        symbols = (words.LAUNCH, words.ALONE, words.RELEASE, words.WORK, words.BRANCHES, words.LOOP)
        code = jit.load_named(f"interpreter {clock}", symbols, partial(_interpreter, jit.target, clock))
        launch, alone, release, work, branches, repeat = code.addresses
        of_one = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        of_two = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        of_three = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        direct = None if clock is not None else ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        quick = None if direct is None else direct(alone)
        return cls(of_one(launch), quick, of_two(repeat), of_one(release), of_three(work), branches, code)


def _interpreter(target: TargetDescription, clock: int | None) -> Module:
    """The code of the interpreter and of loops."""
    module = writing.emit_interpreter(target, clock)
    loops.emit_loop(module)
    return module


def places_of(processors: Sequence[int], workers: int) -> Words:
    """What the interpreter places workers by: positions of processors, the mask of each, room for workers' masks."""
    most, slots = control_words.MOST_PROCESSORS, control_words.MASK_SLOTS
    positions = np.zeros(most, dtype=np.int64)
    masks = np.zeros((len(processors) + workers, slots), dtype=np.uint64)
    for index, processor in enumerate(processors):
        positions[processor] = index
        slot, bit = divmod(processor, 64)
        masks[index, slot] = np.uint64(1 << bit)
    return np.concatenate([positions, masks.reshape(-1).view(np.int64)])


class ControlBlock:
    """What the interpreter reads of a run: the table, the workers, scratch memory and words for each step."""

    def __init__(self, workers: int) -> None:
        self._memory = ZeroedMemory.allocate(8 * control_words.control_slots(workers))
        known = usable_processors() if workers > 1 and sys.platform == "linux" else []
        processors = [processor for processor in known if processor < control_words.MOST_PROCESSORS]
        self._places = places_of(processors, workers)
        self._scratch, self._room = ZeroedMemory.allocate(0), 0
        self._words = [_step_words(WINDOW)]
        self.slots = self._memory.words
        self.slots[control_words.PLACES] = self._places.ctypes.data
        self.slots[control_words.PROCESSORS] = len(processors)
        self.slots[control_words.WORDS] = self._words[-1].address
        self._prepared: tuple[int, ...] = ()

    @property
    def address(self) -> int:
        """Where the interpreter finds it."""
        return self._memory.address

    def prepare(self, table: int, count: int, workers: int, scratch: int) -> None:
        """Say what the next run is: `count` steps at address `table` on `workers` workers with `scratch` bytes each."""
        prepared = (table, count, workers, scratch)
        # A loop says itself where the tables of its halves are, so table 0 is never what was said before.
        if prepared == self._prepared and table:
            return
        # Until the end: where memory runs out halfway, the next run must not think that all of this was said.
        self._prepared = ()
        stride = aligned(scratch)
        address = self.scratch(stride * workers)
        if count * 8 * control_words.WORD_SLOTS > self._words[-1].nbytes:
            # Late workers may still read the smaller ones, so they are kept; sizes double, so few are.
            self._words.append(_step_words(2 * count))
            # Before the count: there are never more steps to walk than words.
            self.slots[control_words.WORDS] = self._words[-1].address
        # In one call: one by one takes as long as a small kernel.
        words = (table, count, workers, 0, address, stride // 8)
        _RUN_SLOTS.pack_into(self._memory.data.data, 8 * control_words.STEPS, *words)
        self._prepared = prepared

    def scratch(self, nbytes: int) -> int:
        """The address of so many bytes of scratch memory."""
        if nbytes > self._room:
            self._scratch = ZeroedMemory.allocate(nbytes)
            self._room = nbytes
        return self._scratch.address


class WorkerPool(Uncopied):
    """The workers of a process. Runs that share workers take turns; a run on one worker disturbs nobody."""

    instead: ClassVar[str] = "copy values"

    def __init__(self, entry: NativeEntry) -> None:
        self._entry = entry
        self.branches = entry.branches
        self.alone = entry.alone
        self._lock = threading.Lock()
        self._tracing = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._shared = ControlBlock(1)
        self._alone = threading.local()
        self._retired = False

    def run(self, table: int, count: int, workers: int, scratch: int, loop: int = 0) -> None:
        """Run the `count` steps of the table at address `table` on `workers` workers with `scratch` bytes each.

        With the address of the state of a loop run that, over tables of at most so many steps.
        """
        if workers == 1 and not loop and self.alone is not None:
            self.alone(table, count, self._own_block().scratch(scratch) if scratch else 0)
            return
        if workers == 1 or self._retired:
            self._launch(self._own_block(), table, count, 1, scratch, loop)
            return
        with self._lock:
            if workers > len(self._threads) + 1:
                # A worker that nobody knows of would wait for ever, in memory that is used again.
                with Shield():
                    self._start(workers)
            self._launch(self._shared, table, count, workers, scratch, loop)

    def repeat(self, loop: int, programs: Sequence[NativeProgram]) -> None:
        """Run the loop over these programs whose state is at address `loop`."""
        steps, workers, scratch = (max(words) for words in zip(*((p.steps, p.workers, p.scratch) for p in programs)))
        self.run(0, steps, workers, scratch, loop)

    def _launch(self, block: ControlBlock, table: int, count: int, workers: int, scratch: int, loop: int) -> None:
        block.prepare(table, count, workers, scratch)
        if loop:
            self._entry.repeat(block.address, loop)
        else:
            self._entry.launch(block.address)

    def _own_block(self) -> ControlBlock:
        """The control block of the calling Python thread."""
        block: ControlBlock | None = getattr(self._alone, "block", None)
        if block is None:
            block = self._alone.block = ControlBlock(1)
        return block

    def _start(self, workers: int) -> None:
        self._stop()
        self._shared = ControlBlock(workers)
        for worker in range(1, workers):
            arguments = (self._shared.address, worker, 0)
            name = f"nnc-worker-{worker}"
            thread = threading.Thread(target=self._entry.work, args=arguments, name=name, daemon=True)
            start(thread, "a worker")
            ticket = control_words.TICKETS + worker * control_words.TICKET_SLOTS
            self._shared.slots[ticket + control_words.THREAD] = thread.native_id or 0
            self._threads.append(thread)

    def _stop(self) -> None:
        """End the workers: each gets a ticket and sees the stop flag."""
        if not self._threads:
            return
        slots = self._shared.slots
        slots[control_words.STOP] = 1
        slots[control_words.RUN] += 1
        slots[control_words.WORKERS] = len(self._threads) + 1
        self._entry.release(self._shared.address)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def traced(self, program: NativeProgram) -> tuple[WorkerTime, ...]:
        """Run a program on a pool that notes times: those of each worker that had a part in it."""
        alone = program.workers == 1 or self._retired
        # Those of a thread's own block nobody else touches.
        with nullcontext() if alone else self._tracing:
            program.run()
            block = self._own_block() if alone else self._shared
            tickets = block.slots[control_words.TICKETS :].reshape(-1, control_words.TICKET_SLOTS)
            taken = tickets.copy()
            tickets[:, control_words.CLOCKED :] = 0
        seconds, rest = taken[:, control_words.CLOCKED].tolist(), taken[:, control_words.CLOCKED + 1].tolist()
        busy, begun = taken[:, control_words.BUSY].tolist(), taken[:, control_words.BEGUN].tolist()
        rows = enumerate(zip(begun, seconds, rest, busy, strict=True))
        return tuple(WorkerTime(worker, b, s * 10**9 + n, time) for worker, (b, s, n, time) in rows if b)

    def close(self) -> None:
        """End all workers; a later run starts new ones."""
        with self._lock, Shield():
            self._stop()

    def retire(self) -> None:
        """End all workers for good: what runs while the interpreter ends has its caller alone."""
        self._retired = True
        self.close()

    def forget_threads(self) -> None:
        """In a forked child: the parent's workers do not exist here, and its lock may be held by none of ours."""
        self._lock = threading.Lock()
        self._tracing = threading.Lock()
        self._threads = []
        self._shared = ControlBlock(1)
        self._alone = threading.local()


def _step_words(steps: int) -> ZeroedMemory:
    return ZeroedMemory.allocate(8 * control_words.WORD_SLOTS * steps)


def make_pool(jit: Jit, clock: int | None = None) -> WorkerPool:
    """A pool that ends its workers with the interpreter and starts afresh in forked children."""
    pool = WorkerPool(NativeEntry.load(jit, clock))
    atexit.register(pool.retire)
    in_children(pool)
    return pool


class NativeProgram(Uncopied):
    """Launches laid out as one table; `run` is one native call."""

    instead: ClassVar[str] = "copy values"

    def __init__(self, pool: WorkerPool, launches: Sequence[Launch], workers: int) -> None:
        self._pool = pool
        tables = [(launch.kernel.table_head, *launch.addresses) for launch in launches]
        addresses = np.array([word for table in tables for word in table], dtype=np.int64)
        steps: list[ProgramStep] = []
        begin = int(addresses.ctypes.data)
        for launch, words in zip(launches, tables, strict=True):
            steps += steps_of(launch, begin + WORD_BYTES)
            begin += WORD_BYTES * len(words)
        steps, branches = with_branches(steps, pool.branches, min(workers, control_words.MAX_WORKERS))
        alone = all(step.owner == FIRST for step in steps)
        self.workers = 1 if alone else min(workers, control_words.MAX_WORKERS)
        flags = barriers(steps)
        rows = [(s.function, s.table, s.items, flag, s.owner, s.first) for s, flag in zip(steps, flags, strict=True)]
        table = np.array(rows, dtype=np.int64)
        # Owners of every address in the table: the interpreter's code is the pool's.
        self.kernels = tuple([launch.kernel for launch in launches])
        self._kept = (table, addresses, branches)
        self.table, self.addresses = int(table.ctypes.data), int(addresses.ctypes.data)
        self._entries = addresses
        self._operands = [launch.operands for launch in launches]
        self._words = [*map(len, tables)]
        self.steps = len(steps)
        self.barriers = sum(flags)
        self.scratch = max((launch.kernel.scratch for launch in launches), default=0)

    def relocation(self, spans: Sequence[tuple[int, int]]) -> Callable[[Sequence[int]], None]:
        """What moves operands inside these spans of addresses to where the spans begin from now on."""
        starts = np.cumsum([0, *self._words])[:-1]
        places = [start + 1 + at for start, count in zip(starts, self._operands, strict=True) for at in range(count)]
        positions = np.array(places, dtype=np.int64)
        begins, ends = (np.array([span[side] for span in spans], dtype=np.int64) for side in (0, 1))
        at = self._entries[positions]
        inside = (begins[:, None] <= at) & (at < ends[:, None])
        which, column = np.nonzero(inside)
        offsets, target, addresses = at[column] - begins[which], positions[column], self._entries

        def move(bases: Sequence[int]) -> None:
            addresses[target] = np.array(bases, dtype=np.int64)[which] + offsets

        words, rows = addresses.data, [*zip(target.tolist(), which.tolist(), offsets.tolist(), strict=True)]

        def move_few(bases: Sequence[int]) -> None:
            for place, base, offset in rows:
                words[place] = bases[base] + offset

        return move if len(rows) > FEW_OPERANDS else move_few

    def run(self) -> None:
        """Run all steps and return when the last one is done."""
        if self.steps:
            self._pool.run(self.table, self.steps, self.workers, self.scratch)


class SingleLaunch(Uncopied):
    """One kernel that is run again and again on other addresses: what eager execution needs, with little per call."""

    instead: ClassVar[str] = "copy values"

    def __init__(self, pool: WorkerPool, kernel: NativeKernel, workers: int, words: Sequence[int] = ()) -> None:
        self._pool = pool
        self._kernel = kernel
        # What the kernel reads behind its operands.
        self._behind = tuple(words)
        self._scratch = kernel.scratch
        nowhere = Launch(kernel, (), (), ())
        steps = steps_of(nowhere, 0)
        alone = all(step.owner == FIRST for step in steps)
        self._workers = 1 if alone else min(workers, control_words.MAX_WORKERS)
        rows = [(s.function, 0, s.items, not alone and index > 0, s.owner, s.first) for index, s in enumerate(steps)]
        self._rows = np.array(rows, dtype=np.int64).reshape(-1, control_words.STEP_SLOTS)
        self._count = len(self._rows)
        self._free: list[_LaunchTable] = []
        # The short way: one worker without scratch memory.
        self._direct = pool.alone if self.is_single_threaded and not self._scratch else None

    @property
    def is_single_threaded(self) -> bool:
        """Whether it is a matter of one worker, however many there are."""
        return self._workers == 1

    def run(self, addresses: Sequence[int]) -> None:
        """Run the kernel on operands at `addresses`."""
        if not self._count:
            return
        try:
            table = self._free.pop()
        except IndexError:
            table = _LaunchTable(self._rows, len(addresses), self._behind, self._kernel.table_head)
        table.pack_into(table.buffer, WORD_BYTES, *addresses)
        if self._direct is not None:
            self._direct(table.address, self._count, 0)
        else:
            self._pool.run(table.address, self._count, self._workers, self._scratch)
        self._free.append(table)


class _LaunchTable:
    """The steps of a launch and the addresses that they read, for one run at a time."""

    __slots__ = ("address", "buffer", "pack_into", "rows")

    def __init__(self, rows: Words, count: int, behind: tuple[int, ...], head: int) -> None:
        arguments: Words = np.array((head, *[0] * count, *behind), dtype=np.int64)
        self.buffer = arguments.data
        self.pack_into = struct.Struct(f"={count}q").pack_into
        self.rows = rows.copy()
        self.rows[:, 1] = arguments.ctypes.data + WORD_BYTES
        self.address = int(self.rows.ctypes.data)
