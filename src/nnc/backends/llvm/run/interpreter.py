"""The native program interpreter, as IR: one call from Python runs a whole table of steps on several workers.

A step is cut into one chunk per worker. Whoever comes first takes a chunk: a worker its own before others'. So a worker
that the system does not let run delays nobody, and chunks never change results. A step with a barrier waits until all
chunks of all earlier steps are done. Steps with an owner are run by worker 0, the caller, alone.

    for step in table:
        wait until `retired` chunks >= step.need
        while a chunk of the step is left: take it, do items [n * chunk / chunks, n * (chunk + 1) / chunks) behind the
        step's first one, retire it

Every run has a number. It is the upper half of `retired` and of each step's word of chunks left, so a worker that is
late finds another number and goes back to wait for its ticket. What such a worker may read, the words of the steps, is
memory of the pool that is never freed; tables and tensors are read after a chunk is taken, when the run must still
last. A worker without a ticket spins for a while, then sleeps.

Who wakes a sleeper first binds it to a processor that is not the caller's, and the sleeper takes back the mask that it
had when it runs. Without this the system may queue it behind the caller for milliseconds: a virtual machine's processor
that has halted counts as taken. PLACES holds what both need: each processor's position among those that the process
may use, the mask of each alone, and a mask for each worker.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from nnc.backends.llvm.run.control_words import (
    ALONE,
    BEGUN,
    BOUND,
    BRANCH_SLOTS,
    BRANCHES,
    BUSY,
    CLOCKED,
    COUNT,
    FUTEX_CALL,
    FUTEX_WAIT,
    FUTEX_WAKE,
    HALF,
    IDLE_SPINS,
    LAST_RUN,
    LAUNCH,
    LOW_HALF,
    MASK_SLOTS,
    MOST_PROCESSORS,
    PAUSE,
    PLACES,
    PROCESSORS,
    READ_MASK,
    RELEASE,
    RETIRED,
    RUN,
    SCRATCH,
    SLEEPING,
    SPINS,
    STEP_SLOTS,
    STEPS,
    STOP,
    STRIDE,
    THREAD,
    TICKET_SLOTS,
    TICKETS,
    WALK,
    WORD_SLOTS,
    WORDS,
    WORK,
    WORKERS,
    WRITE_MASK,
)
from nnc.codegen.ir.builder import (
    ADDRESS,
    BOOL,
    I32,
    I64,
    INDEX,
    Builder,
    LocalVariable,
    Module,
    Repeat,
    Type,
    Value,
)
from nnc.codegen.ir.target import TargetDescription


def emit_interpreter(target: TargetDescription, clock: int | None = None) -> Module:
    """The module with `launch`, `release` and `work`; with a `clock` of the system each worker notes its times."""
    module = Module(target)
    _Interpreter(module, clock).emit()
    return module


class _Interpreter:
    """Writes the functions of the interpreter."""

    def __init__(self, module: Module, clock: int | None) -> None:
        self.module = module
        self.clock = clock
        machine = module.target.triple.split("-")[0].replace("arm64", "aarch64")
        self.pause = PAUSE.get(machine, "")
        self.futex = FUTEX_CALL.get(machine) if sys.platform == "linux" else None
        self.posix = sys.platform != "win32"

    def emit(self) -> None:
        """Write all functions."""
        self._declare()
        self._walk()
        self._release()
        self._launch()
        self._work()
        self._branches()
        self._alone()

    def _declare(self) -> None:
        if self.pause:
            name, _, rest = self.pause[1:].partition("(")
            self.module.declare(name, "void", ["i32"] if rest != ")" else [])
        if self.futex is not None:
            self.module.declare("syscall", "i64", ["i64", "..."])
            self.module.declare("sched_getcpu", "i32", [])
            for name in (READ_MASK, WRITE_MASK):
                self.module.declare(name, "i32", ["i32", "i64", "ptr"])
        if self.clock is not None:
            self.module.declare("clock_gettime", "i32", ["i32", "ptr"])
        if self.posix:
            self.module.declare("sched_yield", "i32", [])
            self.module.declare("usleep", "i32", ["i32"])

    # -- instructions that only this file needs

    def _read(self, b: Builder, pointer: Value, slot: Value | int) -> Value:
        place = b.offset(pointer, slot, I64)
        return b.emit(INDEX, f"load atomic i64, ptr {place.text} seq_cst, align 8")

    def _write(self, b: Builder, pointer: Value, slot: Value | int, value: Value, order: str = "seq_cst") -> None:
        place = b.offset(pointer, slot, I64)
        b.line(f"store atomic i64 {value.text}, ptr {place.text} {order}, align 8")

    def _increase(self, b: Builder, pointer: Value, slot: int, amount: Value) -> None:
        place = b.offset(pointer, slot, I64)
        b.emit(INDEX, f"atomicrmw add ptr {place.text}, i64 {amount.text} seq_cst, align 8")

    def _exchange(self, b: Builder, pointer: Value, before: Value, after: Value) -> Value:
        """Replace `before` by `after` in memory; true when it was still there."""
        pair = f"cmpxchg ptr {pointer.text}, i64 {before.text}, i64 {after.text} seq_cst seq_cst, align 8"
        result = b.emit(Type(I64), pair)
        return b.emit(Type(BOOL), f"extractvalue {{ i64, i1 }} {result.text}, 1")

    def _pause(self, b: Builder) -> None:
        if self.pause:
            b.line(f"call void {self.pause}")

    @contextmanager
    def _patience(self, b: Builder) -> Iterator[Repeat]:
        """Repeat the block until it leaves; let other threads run once it takes long."""
        with b.repeat() as forever:
            with b.loop(0, SPINS):
                yield forever
                self._pause(b)
            if self.posix:
                b.emit(Type(I32), "call i32 @sched_yield()")

    # -- functions

    def _walk(self) -> None:
        """Do as much of run `run` as there is for this worker."""
        indices = (("worker", INDEX), ("run", INDEX))
        b = Builder(self.module, WALK, (("control", ADDRESS), *indices))
        control, worker, run = b.arguments
        steps = b.load(control, STEPS, ADDRESS)
        # In this order: words are put in place before the count that they are for.
        count = self._read(b, control, COUNT)
        words = self._pointer(b, control, WORDS)
        pending = b.variable(b.constant(0))
        caller = b.compare("==", worker, 0)
        with b.repeat() as once:
            with b.loop(0, count) as index:
                word = b.offset(words, index * WORD_SLOTS, I64)
                need = self._read(b, word, 1)
                with b.when(b.compare(">=", need, 0)):
                    self._flush(b, control, pending)
                    self._await_chunks(b, control, run, need, once)
                self._take_chunks(b, control, word, steps, index, worker, run, once)
                with b.when(caller):
                    self._do_owned(b, control, b.offset(steps, index * STEP_SLOTS, I64), pending)
            self._flush(b, control, pending)
            once.until(b.constant(1, Type(BOOL)))
        b.finish()

    def _pointer(self, b: Builder, control: Value, slot: int) -> Value:
        place = b.offset(control, slot, I64)
        return b.emit(ADDRESS, f"load atomic ptr, ptr {place.text} seq_cst, align 8")

    def _flush(self, b: Builder, control: Value, pending: LocalVariable) -> None:
        """Retire the owned steps done since the last time."""
        count = pending.get()
        with b.when(b.compare("!=", count, 0)):
            self._increase(b, control, RETIRED, count)
            pending.set(b.constant(0))

    def _await_chunks(self, b: Builder, control: Value, run: Value, need: Value, walk: Repeat) -> None:
        """Wait until `need` chunks are retired; leave the walk when the run is over."""
        with self._patience(b) as wait:
            retired = self._read(b, control, RETIRED)
            walk.until(b.compare("!=", b.shift_right(retired, HALF), run))
            wait.until(b.compare(">=", self._low(b, retired), need))

    def _low(self, b: Builder, word: Value) -> Value:
        return b.both(word, b.constant(LOW_HALF))

    def _take_chunks(
        self,
        b: Builder,
        control: Value,
        word: Value,
        steps: Value,
        index: Value,
        worker: Value,
        run: Value,
        walk: Repeat,
    ) -> None:
        """while a chunk is left: take this worker's own or else the first, and do it"""
        with b.repeat() as again:
            before = self._read(b, word, 0)
            walk.until(b.compare("!=", b.shift_right(before, HALF), run))
            left = self._low(b, before)
            again.until(b.compare("==", left, 0))
            own = b.emit(INDEX, f"shl i64 1, {worker.text}")
            first = b.both(left, b.negative(left))
            chosen = b.choose(b.compare("!=", b.both(left, own), 0), own, first)
            with b.when(self._exchange(b, word, before, before - chosen)):
                step = b.offset(steps, index * STEP_SLOTS, I64)
                self._do_chunk(b, control, step, self._position(b, chosen), worker)
                self._increase(b, control, RETIRED, b.constant(1))

    def _position(self, b: Builder, bit: Value) -> Value:
        self.module.declare("llvm.cttz.i64", "i64", ["i64", "i1 immarg"])
        return b.emit(INDEX, f"call i64 @llvm.cttz.i64(i64 {bit.text}, i1 false)")

    def _do_chunk(self, b: Builder, control: Value, step: Value, chunk: Value, worker: Value) -> None:
        items = b.load(step, 2, INDEX)
        chunks = b.intrinsic("llvm.smin", items, b.load(control, WORKERS, INDEX))
        self._call(b, control, step, (items * chunk) // chunks, (items * (chunk + 1)) // chunks, worker)

    def _do_owned(self, b: Builder, control: Value, step: Value, pending: LocalVariable) -> None:
        with b.when(b.compare(">=", b.load(step, 4, INDEX), 0)):
            self._call(b, control, step, b.constant(0), b.load(step, 2, INDEX), b.constant(0))
            pending.set(pending.get() + 1)

    def _call(self, b: Builder, control: Value, step: Value, begin: Value, end: Value, worker: Value) -> None:
        scratch = b.offset(b.load(control, SCRATCH, ADDRESS), worker * b.load(control, STRIDE, INDEX), I64)
        function, table, first = b.load(step, 0, ADDRESS), b.load(step, 1, ADDRESS), b.load(step, 5, INDEX)
        begin, end = first + begin, first + end
        with self._noted(b, self._ticket(b, control, worker)):
            b.line(f"call void {function.text}(ptr {table.text}, i64 {begin.text}, i64 {end.text}, ptr {scratch.text})")

    @contextmanager
    def _noted(self, b: Builder, ticket: Value) -> Iterator[None]:
        """Add the time that the block takes to the worker's."""
        if self.clock is None:
            yield
            return
        begin = self._look(b, ticket)
        with b.when(b.compare("==", b.load(ticket, BEGUN, INDEX), 0)):
            b.store(begin, ticket, BEGUN)
        yield
        b.store(b.load(ticket, BUSY, INDEX) + self._look(b, ticket) - begin, ticket, BUSY)

    def _look(self, b: Builder, ticket: Value) -> Value:
        place = b.offset(ticket, CLOCKED, I64)
        b.emit(Type(I32), f"call i32 @clock_gettime(i32 {self.clock}, ptr {place.text})")
        return b.load(place, 0, INDEX) * 1_000_000_000 + b.load(place, 1, INDEX)

    def _ticket(self, b: Builder, control: Value, worker: Value) -> Value:
        return b.offset(control, worker * TICKET_SLOTS + TICKETS, I64)

    def _release(self) -> None:
        """Hand a ticket to workers 1 … workers - 1 and wake those that sleep."""
        b = Builder(self.module, RELEASE, (("control", ADDRESS),))
        (control,) = b.arguments
        run = self._read(b, control, RUN)
        with b.loop(1, b.load(control, WORKERS, INDEX)) as worker:
            ticket = self._ticket(b, control, worker)
            self._write(b, ticket, 0, run)
            if self.futex is not None:
                call = f"i64 {self.futex}, ptr {ticket.text}, i64 {FUTEX_WAKE}, i64 1"
                with b.when(b.compare("!=", self._read(b, ticket, SLEEPING), 0)):
                    self._place(b, control, worker, ticket)
                    b.emit(INDEX, f"call i64 (i64, ...) @syscall({call})")
        b.finish()

    def _place(self, b: Builder, control: Value, worker: Value, ticket: Value) -> None:
        """Bind a sleeper to the processor that lies `worker` places behind the caller's."""
        count, thread = b.load(control, PROCESSORS, INDEX), b.load(ticket, THREAD, INDEX)
        free = b.compare("==", self._read(b, ticket, BOUND), 0)
        with b.when(b.both(free, b.compare(">", count, 1))):
            places = b.load(control, PLACES, ADDRESS)
            here = b.emit(INDEX, f"sext i32 {b.emit(Type(I32), 'call i32 @sched_getcpu()').text} to i64")
            known = b.least(b.greatest(here, 0), MOST_PROCESSORS - 1)
            chosen = (b.load(places, known, INDEX) + worker) % count
            with b.when(b.compare(">=", self._mask(b, READ_MASK, thread, self._own_mask(b, control, worker)), 0)):
                self._mask(b, WRITE_MASK, thread, b.offset(places, chosen * MASK_SLOTS + MOST_PROCESSORS, I64))
                self._write(b, ticket, BOUND, b.constant(1))

    def _own_mask(self, b: Builder, control: Value, worker: Value) -> Value:
        """Where the mask that a worker had is kept."""
        index = b.load(control, PROCESSORS, INDEX) + worker
        return b.offset(b.load(control, PLACES, ADDRESS), index * MASK_SLOTS + MOST_PROCESSORS, I64)

    def _mask(self, b: Builder, name: str, thread: Value, mask: Value) -> Value:
        """Read or write the processors that a thread may use; negative where that fails."""
        short = b.emit(Type(I32), f"trunc i64 {thread.text} to i32")
        size = 8 * MASK_SLOTS
        return b.emit(Type(I32), f"call i32 @{name}(i32 {short.text}, i64 {size}, ptr {mask.text})")

    def _launch(self) -> None:
        """Run the steps named in the control block on its workers; the caller is worker 0."""
        b = Builder(self.module, LAUNCH, (("control", ADDRESS),))
        (control,) = b.arguments
        run = b.both(self._read(b, control, RUN) + 1, b.constant(LAST_RUN))
        self._write(b, control, RUN, run)
        self._write(b, control, RETIRED, b.shift_left(run, HALF))
        total = self._prepare(b, control, run)
        b.call(RELEASE, control)
        b.call(WALK, control, b.constant(0), run)
        with self._patience(b) as wait:
            wait.until(b.compare("==", self._low(b, self._read(b, control, RETIRED)), total))
        b.finish()

    def _prepare(self, b: Builder, control: Value, run: Value) -> Value:
        """Write the words of all steps; the number of chunks in all."""
        steps, words = b.load(control, STEPS, ADDRESS), self._pointer(b, control, WORDS)
        workers = b.load(control, WORKERS, INDEX)
        total = b.variable(b.constant(0))
        with b.loop(0, b.load(control, COUNT, INDEX)) as index:
            step, word = b.offset(steps, index * STEP_SLOTS, I64), b.offset(words, index * WORD_SLOTS, I64)
            before = total.get()
            barrier = b.compare("!=", b.load(step, 3, INDEX), 0)
            self._write(b, word, 1, b.choose(barrier, before, b.constant(-1)), "release")
            shared = b.compare("<", b.load(step, 4, INDEX), 0)
            chunks = b.intrinsic("llvm.smin", b.load(step, 2, INDEX), workers)
            bits = b.emit(INDEX, f"shl i64 1, {chunks.text}") - 1
            left = b.choose(shared, bits, b.constant(0))
            self._write(b, word, 0, b.either(b.shift_left(run, HALF), left), "release")
            total.set(before + b.choose(shared, chunks, b.constant(1)))
        return total.get()

    def _branches(self) -> None:
        """A step whose items are shares: lists of steps that one worker does in order."""
        arguments = (("table", ADDRESS), ("begin", INDEX), ("end", INDEX), ("scratch", ADDRESS))
        b = Builder(self.module, BRANCHES, arguments)
        table, begin, end, scratch = b.arguments
        with b.loop(begin, end) as share:
            rows = b.load(table, share, ADDRESS)
            with b.loop(0, b.load(rows, 0, INDEX)) as index:
                row = b.offset(rows, index * BRANCH_SLOTS + 1, I64)
                function, inner, first = b.load(row, 0, ADDRESS), b.load(row, 1, ADDRESS), b.load(row, 3, INDEX)
                last = first + b.load(row, 2, INDEX)
                span = f"i64 {first.text}, i64 {last.text}"
                b.line(f"call void {function.text}(ptr {inner.text}, {span}, ptr {scratch.text})")
        b.finish()

    def _alone(self) -> None:
        """The steps of a table one after another: a run on one worker, which meets nobody."""
        b = Builder(self.module, ALONE, (("steps", ADDRESS), ("count", INDEX), ("scratch", ADDRESS)))
        steps, count, scratch = b.arguments
        with b.loop(0, count) as index:
            step = b.offset(steps, index * STEP_SLOTS, I64)
            function, table, first = b.load(step, 0, ADDRESS), b.load(step, 1, ADDRESS), b.load(step, 5, INDEX)
            span = f"i64 {first.text}, i64 {(first + b.load(step, 2, INDEX)).text}"
            b.line(f"call void {function.text}(ptr {table.text}, {span}, ptr {scratch.text})")
        b.finish()

    def _work(self) -> None:
        """What a worker's thread does until it is told to stop; `seen` is the ticket it starts from."""
        b = Builder(self.module, WORK, (("control", ADDRESS), ("worker", INDEX), ("seen", INDEX)))
        control, worker, start = b.arguments
        seen = b.variable(start)
        ticket = self._ticket(b, control, worker)
        with b.repeat() as forever:
            self._await(b, control, worker, ticket, seen)
            seen.set(self._read(b, ticket, 0))
            forever.until(b.compare("!=", self._read(b, control, STOP), 0))
            b.call(WALK, control, worker, seen.get())
        b.finish()

    def _await(self, b: Builder, control: Value, worker: Value, ticket: Value, seen: LocalVariable) -> None:
        """Spin until the ticket moves; when that takes long, sleep until it does."""
        before = seen.get()
        with b.repeat() as again:
            with b.loop(0, IDLE_SPINS):
                again.until(b.compare("!=", self._read(b, ticket, 0), before))
                self._pause(b)
            self._sleep(b, control, worker, ticket, before)

    def _sleep(self, b: Builder, control: Value, worker: Value, ticket: Value, before: Value) -> None:
        if self.futex is not None:
            self._write(b, ticket, SLEEPING, b.constant(1))
            call = f"i64 {self.futex}, ptr {ticket.text}, i64 {FUTEX_WAIT}, i64 {before.text}, ptr null"
            b.emit(INDEX, f"call i64 (i64, ...) @syscall({call})")
            self._write(b, ticket, SLEEPING, b.constant(0))
            with b.when(b.compare("!=", self._read(b, ticket, BOUND), 0)):
                self._mask(b, WRITE_MASK, b.constant(0), self._own_mask(b, control, worker))
                self._write(b, ticket, BOUND, b.constant(0))
        elif self.posix:
            b.emit(Type(I32), "call i32 @usleep(i32 50)")
