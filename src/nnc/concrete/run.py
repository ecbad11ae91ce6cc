"""Running: plans of steps, on the calling thread and on as many streams as the plan has lanes.

    while:    up to the breakpoints; leave when the test fails; the rest; carry-overs move; count + 1; again
    backward: the rest at the last count; then for each count below it, downwards, the whole body

A step is a program for fixed tensors, calls whose tensors are found at each run, a loop, a branch or a Python action.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, assert_never

from nnc.classes import dataclass
from nnc.concrete.body import StreamPool
from nnc.concrete.check import check_memory
from nnc.concrete.control import PASS_THROUGH, Choice, Test, choose, holds
from nnc.concrete.counter import Counter
from nnc.concrete.joined import LoweredLoop, MovingCall
from nnc.concrete.multiview import Carry, Phi, Place, Taped
from nnc.concrete.tape import Bound, Node, Programs, TapeAccess
from nnc.core.precautions.shield import Shield
from nnc.core.running.deferred import DeferredBackend
from nnc.core.running.dispatch import Backend, Call, Program, Tensors, TracedBackend
from nnc.core.running.inspectors import INSPECTORS
from nnc.core.running.late_names import LateModule
from nnc.core.running.stream import Signal
from nnc.core.values.recorder import PROFILER, run_timed
from nnc.errors import CancelledError, UsageError

if TYPE_CHECKING:
    from nnc.ops import work as measuring
else:
    # Of a program from the disk nobody counts operations.
    measuring = LateModule("nnc.ops.work")

# Programs kept for the tensors that moving places were; beyond it the least recently used is dropped.
KEPT_PROGRAMS = 256


@dataclass(slots=True, eq=False)
class Context:
    """One run: how places are found, whether somebody has asked it to stop, and the threads of its other lanes."""

    access: TapeAccess = field(default_factory=TapeAccess)
    cancelled: bool = False
    threads: set[int] = field(default_factory=set)

    def check(self) -> None:
        """CancelledError when the run is to stop."""
        if self.cancelled:
            raise CancelledError("run", got="a call of cancel()", need="nothing", fix="run again for whole results")


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """A program on tensors that never change, the calls that it is made of, and each of these for who profiles."""

    backend: Backend
    program: Program
    calls: tuple[Call, ...] = ()
    traced: list[Callable[[], None]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Moving:
    """Calls of one backend on places; one program for each set of tensors that they turn out to be."""

    backend: Backend
    calls: tuple[MovingCall, ...]
    counter: Counter
    programs: Programs = field(default_factory=dict)

    def run(self, access: TapeAccess) -> None:
        """Find the tensors and run their program."""
        index = self.counter.index()
        # Programs on a tape's memory are kept by the tape, so that they go when it goes.
        programs = self.programs if access.tape is None else access.tape.programs.setdefault(self, {})
        operands = [(_read_all(call, access, index), _write_all(call, access, index)) for call in self.calls]
        key = tuple(id(tensor) for inputs, outputs in operands for tensor in (*inputs, *outputs))
        # What was used last stands last.
        kept = programs.pop(key, None) or self._make(operands)
        programs[key] = kept
        if len(programs) > KEPT_PROGRAMS:
            del programs[next(iter(programs))]
        if PROFILER.recorders:
            _run_one_by_one(self.backend, kept)
        else:
            kept.program()

    def _make(self, operands: list[tuple[Tensors, Tensors]]) -> Bound:
        pairs = list(zip(self.calls, operands, strict=True))
        for call, (inputs, outputs) in pairs:
            check_memory(call.command, inputs, outputs)
        calls = tuple(
            Call(call.kernel, inputs, outputs, call.workspace, call.source) for call, (inputs, outputs) in pairs
        )
        return Bound(self.backend.program(calls), calls)


@dataclass(frozen=True, slots=True, eq=False)
class RunLoop:
    """A `while`: its parts, its carry-overs, its node on the tape and, backwards, the node that it mirrors.

    `taped` are the places that a tape has for each of its iterations, `joined` is what a backend may run by itself.
    """

    counter: Counter
    test: Test | None
    before: RunPlan
    rest: RunPlan
    carry_overs: tuple[tuple[Place, Carry], ...]
    node: Node
    forward: Node | None
    taped: tuple[Taped, ...] = ()
    joined: LoweredLoop | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """A `case..of`: its branches by index."""

    choice: Choice
    offset: int
    outputs: tuple[Place, ...]
    plans: Mapping[int, RunPlan]
    node: Node
    taped: tuple[Taped, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Action:
    """A Python function that a node calls."""

    function: Callable[[], None]


Step: TypeAlias = Fixed | Moving | RunLoop | Branch | Action


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A step of a lane: the signals it waits for, and the one it fires; no step where only signals are left."""

    step: Step | None
    waits: tuple[int, ...] = ()
    fires: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RunPlan:
    """Steps on lanes. Lane 0 is the calling thread; `end` are the signals that it waits for at the end."""

    lanes: tuple[tuple[Item, ...], ...]
    pool: StreamPool
    signals: int = 0
    end: tuple[int, ...] = ()


def never(_: Action) -> bool:
    """No cut."""
    return False


def fixed_parts(plan: RunPlan, is_cut: Callable[[Action], bool]) -> tuple[tuple[Fixed, ...], ...] | None:
    """The programs of a plan, in parts between its cuts; None where it is more than programs on fixed tensors."""
    parts: list[list[Fixed]] = [[]]
    for step in (item.step for item in plan.lanes[0] if item.step is not None):
        if isinstance(step, Fixed):
            parts[-1].append(step)
        elif isinstance(step, Action) and is_cut(step):
            parts.append([])
        else:
            return None
    return tuple(map(tuple, parts)) if len(plan.lanes) == 1 else None


def execute(plan: RunPlan, context: Context) -> None:
    """Run a plan and return when all of it is done."""
    if len(plan.lanes) == 1:
        for item in plan.lanes[0]:
            if item.step is not None:
                _perform(item.step, context)
    else:
        _Crew(plan, context).run()


class _Crew:
    """The lanes of one run of a plan. After an error every lane only fires its signals, so nobody waits for ever."""

    def __init__(self, plan: RunPlan, context: Context) -> None:
        self.plan = plan
        self.context = context
        self.error: BaseException | None = None
        self.signals = [Signal() for _ in range(plan.signals)]
        self.finished = [Signal() for _ in plan.lanes]
        self.others: list[Signal] = []

    def run(self) -> None:
        try:
            with Shield():
                self.plan.pool.submit([partial(self._work, lane) for lane in range(1, len(self.plan.lanes))])
                self.others = self.finished[1:]
            self._work(0)
            for signal in self.plan.end:
                self.signals[signal].settle()
        except BaseException as error:
            # Ctrl-C between two steps or in a wait: the other lanes must not wait for what this one does no more.
            self.error = self.error or error
        if self.error is not None:
            with Shield(breakable=True):
                self._fire_all(0)
                for finished in self.others:
                    finished.settle()
            raise self.error

    def _fire_all(self, lane: int) -> None:
        for item in self.plan.lanes[lane]:
            if item.fires is not None:
                self.signals[item.fires].set()

    def _work(self, lane: int) -> None:
        thread = threading.get_ident()
        if lane:
            self.context.threads.add(thread)
        for item in self.plan.lanes[lane]:
            self._do(item)
        if lane:
            self.context.threads.discard(thread)
        self.finished[lane].set()

    def _do(self, item: Item) -> None:
        for signal in item.waits:
            self.signals[signal].settle()
        try:
            if self.error is None and item.step is not None:
                _perform(item.step, self.context)
        except BaseException as error:
            self.error = self.error or error
        finally:
            if item.fires is not None:
                self.signals[item.fires].set()


def _run_one_by_one(backend: Backend, program: Fixed | Bound) -> None:
    """Each call as a program of its own, which says how long it took: with the same result."""
    if not program.traced:
        program.traced.extend(timed_call(backend, call) for call in program.calls)
    for run in program.traced:
        run()


def timed_call(backend: Backend, call: Call) -> Callable[[], None]:
    """A program of one call that notes when it ran."""
    assert call.source is not None
    specs = (tuple(None if tensor is None else tensor.spec for tensor in part) for part in (call.inputs, call.outputs))
    inputs, outputs = specs
    operations = measuring.work(call.source.command, inputs, [spec for spec in outputs if spec is not None])
    traced = backend.traced if isinstance(backend, TracedBackend) else DeferredBackend("", lambda: backend).traced
    program, source = traced([call]), call.source

    def run() -> None:
        run_timed(program, source, backend.name, operations)
        INSPECTORS.show(source, call.inputs, call.outputs)

    return run


def _perform(step: Step, context: Context) -> None:
    context.check()
    match step:
        case Fixed():
            if PROFILER.recorders:
                _run_one_by_one(step.backend, step)
            else:
                step.program()
        case Moving():
            step.run(context.access)
        case RunLoop():
            _run_loop(step, context)
        case Branch():
            _run_branch(step, context)
        case Action():
            step.function()
        case _:
            assert_never(step)


def _run_loop(loop: RunLoop, context: Context) -> None:
    counter = loop.counter
    outside = loop.node[0].index()
    if context.access.tape is not None:
        context.access.tape.begin_loop(loop.taped, outside, context.access.run)
    initial = [context.access.read(carry.initial, outside) for _, carry in loop.carry_overs]
    for (_, carry), tensor in zip(loop.carry_overs, initial, strict=True):
        carry.touch(tensor)
    counter.active = True
    try:
        if loop.forward is not None:
            _run_backward(loop, context)
        elif loop.joined is None or PROFILER.recorders or not loop.joined.run(context.access, context.check):
            _run_forward(loop, context)
    finally:
        counter.active = False
    if context.access.tape is not None and loop.forward is None:
        context.access.tape.set_number(loop.node, outside, counter.count)


def _run_forward(loop: RunLoop, context: Context) -> None:
    counter, test = loop.counter, loop.test
    assert test is not None
    counter.move(0)
    while True:
        context.check()
        execute(loop.before, context)
        if not holds(test, counter, context.access, counter.index()):
            return
        execute(loop.rest, context)
        _carry_over(loop, context)
        counter.move(counter.count + 1)


def _run_backward(loop: RunLoop, context: Context) -> None:
    if context.access.tape is None or loop.forward is None:
        raise UsageError("while", got="a backward run without a tape", need="the tape of the forward run", fix="tape=")
    last = context.access.tape.number(loop.forward, loop.node[0].index())
    partial = any(item.step is not None for lane in loop.rest.lanes for item in lane)
    if partial:
        # What the forward loop did up to its breakpoints, once more than the rest.
        loop.counter.move(last, 0)
        execute(loop.rest, context)
        _carry_over(loop, context)
    for turn, count in enumerate(range(last - 1, -1, -1), start=int(partial)):
        context.check()
        loop.counter.move(count, turn)
        execute(loop.before, context)
        execute(loop.rest, context)
        _carry_over(loop, context)


def _carry_over(loop: RunLoop, context: Context) -> None:
    """All sources are read before any carry moves: x0 <- x1, x1 <- x2 is no chain."""
    index = loop.counter.index()
    moved = [context.access.read(source, index) for source, _ in loop.carry_overs]
    for (_, carry), tensor in zip(loop.carry_overs, moved, strict=True):
        carry.touch(tensor)


def _run_branch(branch: Branch, context: Context) -> None:
    access = context.access
    index = branch.node[0].index()
    if access.tape is not None:
        access.tape.begin_branch(branch.taped, index, access.run)
    chosen = choose(branch.choice, branch.offset, access, index)
    plan = branch.plans.get(chosen)
    if plan is not None:
        execute(plan, context)
    for place in branch.outputs:
        if isinstance(place, Phi):
            place.touch(access.read(place.select(None if plan is None else chosen), index))
    if access.tape is not None:
        access.tape.set_number(branch.node, index, PASS_THROUGH if plan is None else chosen)


def _read_all(call: MovingCall, access: TapeAccess, index: tuple[int, ...]) -> Tensors:
    return tuple(None if place is None else access.read(place, index) for place in call.inputs)


def _write_all(call: MovingCall, access: TapeAccess, index: tuple[int, ...]) -> Tensors:
    return tuple(None if place is None else access.write(place, index) for place in call.outputs)
