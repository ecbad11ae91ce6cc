"""The native program interpreter, as IR: one call from Python runs a whole table of steps on several workers.

    for step in table:
        if step.barrier: wait for all workers
        items [n*w/W, n*(w+1)/W) of the step, or all of them when this worker is the step's only owner

A worker waits on its own ticket: it spins for a while, then sleeps. The main thread hands out tickets, does its own
share as worker 0, and waits until all others are done.
"""

from __future__ import annotations

import sys

from nnc.backends.llvm.builder import ADDRESS, I32, I64, INDEX, Builder, Module, Type, Value, Variable
from nnc.backends.llvm.target import TargetDescription

# Slots of the control block, in i64, each group on its own cache line.
DONE, BARRIER_COUNT, BARRIER_ROUND, STEPS, COUNT, WORKERS, STOP, SCRATCH, STRIDE = 0, 8, 16, 24, 25, 26, 27, 28, 29
TICKETS, TICKET_SLOTS, SLEEPING = 32, 8, 1
STEP_SLOTS = 5  # function, arguments, items, barrier, owner
SPINS = 4000
FUTEX_WAIT, FUTEX_WAKE = 128, 129  # the private variants
FUTEX_CALL = {"x86_64": 202, "aarch64": 98}
PAUSE = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}
RUN, LAUNCH, RELEASE, WORK = "nnc_run", "nnc_launch", "nnc_release", "nnc_work"


def control_slots(workers: int) -> int:
    """i64 slots of a control block."""
    return TICKETS + TICKET_SLOTS * workers


def emit_interpreter(target: TargetDescription) -> Module:
    """The module with `run`, `launch` and `work`."""
    module = Module(target)
    _Interpreter(module).emit()
    return module


class _Interpreter:
    """Writes the functions of the interpreter."""

    def __init__(self, module: Module) -> None:
        self.module = module
        machine = module.target.triple.split("-")[0].replace("arm64", "aarch64")
        self.pause = PAUSE.get(machine, "")
        self.futex = FUTEX_CALL.get(machine) if sys.platform == "linux" else None
        self.posix = sys.platform != "win32"

    def emit(self) -> None:
        """Write all functions."""
        self._declare()
        self._barrier()
        self._run()
        self._release()
        self._launch()
        self._work()

    def _declare(self) -> None:
        if self.pause:
            name, _, rest = self.pause[1:].partition("(")
            self.module.declare(name, "void", ["i32"] if rest != ")" else [])
        if self.futex is not None:
            self.module.declare("syscall", "i64", ["i64", "..."])
        if self.posix:
            self.module.declare("sched_yield", "i32", [])
            self.module.declare("usleep", "i32", ["i32"])

    # -- instructions that only this file needs

    def _read(self, b: Builder, pointer: Value, slot: Value | int) -> Value:
        place = b.offset(pointer, slot, I64)
        return b.emit(INDEX, f"load atomic i64, ptr {place.text} seq_cst, align 8")

    def _write(self, b: Builder, pointer: Value, slot: Value | int, value: Value) -> None:
        place = b.offset(pointer, slot, I64)
        b.line(f"store atomic i64 {value.text}, ptr {place.text} seq_cst, align 8")

    def _increment(self, b: Builder, pointer: Value, slot: Value | int) -> Value:
        place = b.offset(pointer, slot, I64)
        return b.emit(INDEX, f"atomicrmw add ptr {place.text}, i64 1 seq_cst, align 8")

    def _pause(self, b: Builder) -> None:
        if self.pause:
            b.line(f"call void {self.pause}")

    def _yield(self, b: Builder) -> None:
        if self.posix:
            b.emit(Type(I32), "call i32 @sched_yield()")

    def _spin_until(self, b: Builder, pointer: Value, slot: Value | int, relation: str, value: Value) -> None:
        """Spin, and let others run once it takes long."""
        with b.repeat() as again:
            with b.loop(0, SPINS):
                again.until(b.compare(relation, self._read(b, pointer, slot), value))
                self._pause(b)
            self._yield(b)

    # -- functions

    def _barrier(self) -> None:
        b = Builder(self.module, "nnc_barrier", (("control", ADDRESS), ("workers", INDEX)))
        control, workers = b.arguments
        turn = self._read(b, control, BARRIER_ROUND)
        arrived = self._increment(b, control, BARRIER_COUNT) + 1
        last = b.compare("==", arrived, workers)
        with b.when(last):
            self._write(b, control, BARRIER_COUNT, b.constant(0))
            self._write(b, control, BARRIER_ROUND, turn + 1)
        with b.when(b.opposite(last)):
            self._spin_until(b, control, BARRIER_ROUND, "!=", turn)
        b.finish()

    def _run(self) -> None:
        """Do one worker's share of all steps."""
        indices = (("count", INDEX), ("worker", INDEX), ("workers", INDEX))
        arguments = (("steps", ADDRESS), *indices, ("control", ADDRESS), ("scratch", ADDRESS))
        b = Builder(self.module, RUN, arguments)
        steps, count, worker, workers, control, scratch = b.arguments
        with b.loop(0, count) as index:
            step = b.offset(steps, index * STEP_SLOTS, I64)
            together = b.compare(">", workers, 1)
            with b.when(b.both(together, b.compare("!=", b.load(step, 3, INDEX), 0))):
                b.call("nnc_barrier", control, workers)
            items, owner = b.load(step, 2, INDEX), b.load(step, 4, INDEX)
            shared = b.compare("<", owner, 0)
            mine = b.compare("==", owner % workers, worker)
            alone = b.choose(mine, items, b.constant(0))
            begin = b.choose(shared, (items * worker) // workers, b.constant(0))
            end = b.choose(shared, (items * (worker + 1)) // workers, alone)
            with b.when(b.compare("<", begin, end)):
                function, table = b.load(step, 0, ADDRESS), b.load(step, 1, ADDRESS)
                b.line(
                    f"call void {function.text}(ptr {table.text}, i64 {begin.text}, i64 {end.text}, ptr {scratch.text})"
                )
        b.finish()

    def _ticket(self, b: Builder, control: Value, worker: Value) -> Value:
        return b.offset(control, worker * TICKET_SLOTS + TICKETS, I64)

    def _release(self) -> None:
        """Hand a ticket to workers 1 … workers - 1 and wake those that sleep."""
        b = Builder(self.module, RELEASE, (("control", ADDRESS),))
        (control,) = b.arguments
        with b.loop(1, b.load(control, WORKERS, INDEX)) as worker:
            ticket = self._ticket(b, control, worker)
            self._increment(b, ticket, 0)
            if self.futex is not None:
                call = f"i64 {self.futex}, ptr {ticket.text}, i64 {FUTEX_WAKE}, i64 1"
                with b.when(b.compare("!=", self._read(b, ticket, SLEEPING), 0)):
                    b.emit(INDEX, f"call i64 (i64, ...) @syscall({call})")
        b.finish()

    def _launch(self) -> None:
        """Run the steps named in the control block on its workers; the caller is worker 0."""
        b = Builder(self.module, LAUNCH, (("control", ADDRESS),))
        (control,) = b.arguments
        workers = b.load(control, WORKERS, INDEX)
        self._write(b, control, DONE, b.constant(0))
        b.call(RELEASE, control)
        self._share(b, control, b.constant(0), workers)
        self._spin_until(b, control, DONE, "==", workers - 1)
        b.finish()

    def _share(self, b: Builder, control: Value, worker: Value, workers: Value) -> None:
        steps, count = b.load(control, STEPS, ADDRESS), b.load(control, COUNT, INDEX)
        scratch = b.offset(b.load(control, SCRATCH, ADDRESS), worker * b.load(control, STRIDE, INDEX), I64)
        b.call(RUN, steps, count, worker, workers, control, scratch)

    def _work(self) -> None:
        """What a worker's thread does until it is told to stop; `seen` is the ticket it starts from."""
        b = Builder(self.module, WORK, (("control", ADDRESS), ("worker", INDEX), ("seen", INDEX)))
        control, worker, start = b.arguments
        seen = b.variable(start)
        ticket = self._ticket(b, control, worker)
        with b.repeat() as forever:
            self._await(b, ticket, seen)
            seen.set(self._read(b, ticket, 0))
            forever.until(b.compare("!=", self._read(b, control, STOP), 0))
            self._share(b, control, worker, b.load(control, WORKERS, INDEX))
            self._increment(b, control, DONE)
        b.finish()

    def _await(self, b: Builder, ticket: Value, seen: Variable) -> None:
        """Spin until the ticket moves; when that takes long, sleep until it does."""
        before = seen.get()
        with b.repeat() as again:
            with b.loop(0, SPINS):
                again.until(b.compare("!=", self._read(b, ticket, 0), before))
                self._pause(b)
            self._sleep(b, ticket, before)

    def _sleep(self, b: Builder, ticket: Value, before: Value) -> None:
        if self.futex is not None:
            self._write(b, ticket, SLEEPING, b.constant(1))
            call = f"i64 {self.futex}, ptr {ticket.text}, i64 {FUTEX_WAIT}, i64 {before.text}, ptr null"
            b.emit(INDEX, f"call i64 (i64, ...) @syscall({call})")
            self._write(b, ticket, SLEEPING, b.constant(0))
        elif self.posix:
            b.emit(Type(I32), "call i32 @usleep(i32 50)")
