"""Loops that a backend runs by itself: nothing of an iteration is left to Python.

Such a loop has nodes of that backend alone, on one stream; a limit or an element decides, and what moves are carries
and multiviews of the loop itself. All other places are the same tensor in each iteration: they are looked up when the
loop begins, and a program is kept for each set of tensors that they turn out to be.

The backend is asked for as many iterations at a time as take some milliseconds, so interrupts and `cancel` are seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from time import perf_counter
from typing import TypeAlias

from nnc.classes import dataclass
from nnc.concrete.body import ConcreteBody, Exec, ExecKey, Noop
from nnc.concrete.check import check_memory
from nnc.concrete.control import CountBelow, NonZero, beyond
from nnc.concrete.counter import Counter
from nnc.concrete.multiview import Carry, Multiview, Place, Recalled, Reference
from nnc.concrete.tape import TapeAccess, part_of, tapes_in
from nnc.core.running.dispatch import Call, Kernel, LoopBackend, LoopCalls, LoopCell, LoopProgram, LoopState
from nnc.core.values.command import AnyCommand
from nnc.core.values.tensor import Tensor

# Programs kept for the tensors that still places were; beyond it the least recently used is dropped.
KEPT_LOOPS = 64
# Iterations that run in one call take about this long, and are at most this many times those of the call before.
SECONDS, GROWTH = 0.005, 4
# Iterations whose memory is looked at before the first run, unless they repeat earlier.
CHECKED_ITERATIONS = 1024

Moving: TypeAlias = Carry | Multiview


@dataclass(frozen=True, slots=True, eq=False)
class MovingCall:
    """A kernel on places."""

    command: AnyCommand
    kernel: Kernel
    inputs: tuple[Place | None, ...]
    outputs: tuple[Place | None, ...]
    workspace: Tensor | None
    source: Exec

    @property
    def operands(self) -> tuple[Place, ...]:
        """All places."""
        return tuple(place for place in (*self.inputs, *self.outputs) if place is not None)

    def on(self, find: Callable[[Place], Tensor]) -> Call:
        """The call on the tensors that `find` gives."""
        inputs, outputs = (
            tuple(None if place is None else find(place) for place in part) for part in (self.inputs, self.outputs)
        )
        return Call(self.kernel, inputs, outputs, self.workspace, self.source)


def moving_call(record: Exec, workspace: Tensor | None) -> MovingCall:
    """The call of a node."""
    return MovingCall(record.command, record.claim.kernel, record.inputs, record.outputs, workspace, record)


@dataclass(slots=True, eq=False)
class LoweredLoop:
    """A loop for the backend. `moving` are the places that change; `still` the others that are no tensors."""

    backend: LoopBackend
    counter: Counter
    test: CountBelow | NonZero
    before: tuple[MovingCall, ...]
    rest: tuple[MovingCall, ...]
    carry_overs: tuple[tuple[Place, Carry], ...]
    moving: tuple[Moving, ...]
    still: tuple[Place, ...]
    iterations: int = 8
    refused: bool = False
    standins: dict[Place, Tensor] = field(default_factory=dict)
    programs: dict[tuple[int, ...], tuple[LoopProgram | None, object]] = field(default_factory=dict)

    def run(self, access: TapeAccess, check: Callable[[], None]) -> bool:
        """Run the loop from its start; False where Python must. `check` raises when the run is to stop."""
        program = None if access.tape is not None or self.refused else self._program(access)
        if program is None:
            return False
        program.begin()
        try:
            state = self._iterate(program, check)
        finally:
            self._settle(program, access)
        if state is LoopState.BEYOND:
            raise beyond()
        return True

    def _program(self, access: TapeAccess) -> LoopProgram | None:
        """The program on what the still places are now."""
        index = self.counter.index()
        tensors = {place: access.read(place, index) for place in self.still}
        key = tuple(map(id, tensors.values()))
        # What was used last stands last.
        kept = self.programs.pop(key, None) or (_Binding(self, tensors).program(), tensors)
        self.programs[key] = kept
        if len(self.programs) > KEPT_LOOPS:
            del self.programs[next(iter(self.programs))]
        return kept[0]

    def _iterate(self, program: LoopProgram, check: Callable[[], None]) -> LoopState:
        while True:
            check()
            begun = perf_counter()
            state = program.run(self.iterations)
            if state is not LoopState.RUNNING:
                return state
            taken = max(perf_counter() - begun, 1e-9)
            self.iterations = max(1, int(self.iterations * min(SECONDS / taken, GROWTH)))

    def _settle(self, program: LoopProgram, access: TapeAccess) -> None:
        """What the places are behind the loop."""
        count, cells = program.place()
        self.counter.move(count)
        for moved, tensor in zip(self.moving, cells, strict=False):
            if isinstance(moved, Carry):
                moved.touch(tensor)
        # What stands in front of the test has run once more than the rest.
        for part, turn in ((self.rest, count - 1), (self.before, count)):
            for place in dict.fromkeys(place for call in part for place in call.operands):
                if isinstance(place, Multiview) and place in self.moving and turn >= 0:
                    place.touch(access.read(place.select(turn), self.counter.index()))


def lowered_loop(
    body: ConcreteBody, parts: Sequence[Sequence[ExecKey]], workspace: Callable[[Exec], Tensor | None]
) -> LoweredLoop | None:
    """The loop of a body of which the nodes `parts` run before the test and behind it; None where Python must help."""
    records = [[body.execs[key] for key in keys] for keys in parts]
    test, backend = body.test, _only_backend(record for part in records for record in part)
    if not isinstance(test, CountBelow | NonZero) or not isinstance(backend, LoopBackend):
        return None
    before, rest = (
        tuple(moving_call(record, workspace(record)) for record in part if isinstance(record, Exec)) for part in records
    )
    operands = [place for call in (*before, *rest) for place in call.operands]
    operands += [test.place] if isinstance(test, NonZero) else []
    places = _LoopPlaces.of(body, operands)
    if places.moves_untold(body.counter):
        return None
    moving: tuple[Moving, ...] = (*places.carries, *places.views)
    return LoweredLoop(backend, body.counter, test, before, rest, body.carry_overs, moving, places.still)


def _only_backend(records: Iterable[object]) -> object:
    """The backend that all nodes run on; None where there are several, or where a node runs in Python."""
    backend: object = None
    for record in records:
        if isinstance(record, Noop) and record.action is None:
            continue
        if not isinstance(record, Exec) or backend not in (None, record.claim.backend):
            return None
        backend = record.claim.backend
    return backend


@dataclass(frozen=True, slots=True)
class _LoopPlaces:
    """The places that a loop reads or writes: carried ones, multiviews of its counter, and all others."""

    carries: tuple[Carry, ...]
    views: tuple[Multiview, ...]
    others: tuple[Place, ...]

    @classmethod
    def of(cls, body: ConcreteBody, operands: Sequence[Place]) -> _LoopPlaces:
        """Those of the operands, and what is carried over."""
        carries = tuple(carry for _, carry in body.carry_overs)
        sources = [source for source, _ in body.carry_overs]
        views = dict.fromkeys(
            place for place in (*operands, *sources) if isinstance(place, Multiview) and place.counter is body.counter
        )
        within = {place for place in operands if isinstance(place, Reference) and place.source in carries}
        every = dict.fromkeys((*operands, *sources, *(view for place in views for view in place.views)))
        told = {*carries, *views, *within}
        return cls(carries, tuple(views), tuple(place for place in every if place not in told))

    @property
    def still(self) -> tuple[Place, ...]:
        """What is looked up in front of a run: carried places, and others that are no tensors."""
        return (*self.carries, *(place for place in self.others if not isinstance(place, Tensor)))

    def moves_untold(self, counter: Counter) -> bool:
        """Whether another place than carried ones and multiviews changes from one iteration to the next."""
        return any(map(partial(_moves, counter, {*self.carries, *self.views}), self.others))


def _moves(counter: Counter, moving: Collection[Place], place: Place) -> bool:
    """Whether a place is another tensor in another iteration in a way that a backend is not told."""
    if isinstance(place, Recalled) or any(tapes_in(place)):
        return True
    if isinstance(place, Reference):
        return place.source in moving
    if not isinstance(place, Multiview):
        return False
    return place.counter is counter or any(view in moving or _moves(counter, moving, view) for view in place.views)


class _Binding:
    """A loop on the tensors that its still places are."""

    def __init__(self, loop: LoweredLoop, tensors: Mapping[Place, Tensor]) -> None:
        self.loop = loop
        self.tensors = tensors
        # The same for all programs of the loop: they are addresses, of memory that nobody touches.
        loop.standins = loop.standins or {place: Tensor.empty(place.spec, "stand-in") for place in loop.moving}
        self.standins = loop.standins
        self.options: dict[Place, dict[Tensor, None]] = {
            place: dict.fromkeys([tensors[place]] if isinstance(place, Carry) else map(self.tensor, place.views))
            for place in loop.moving
        }
        grown = True
        while grown:
            before = sum(map(len, self.options.values()))
            for source, carry in loop.carry_overs:
                self.options[carry].update(self.options.get(source) or {self.tensor(source): None})
            grown = sum(map(len, self.options.values())) > before

    def tensor(self, place: Place, now: Mapping[Place, Tensor] | None = None) -> Tensor:
        """The tensor of a place: of those that move the one that they are now, or else their stand-in."""
        moving = self.standins if now is None else now
        if place in moving:
            return moving[place]
        if isinstance(place, Reference) and place.source is not None and place.source in moving:
            return part_of(place, moving[place.source])
        return place if isinstance(place, Tensor) else self.tensors[place]

    def program(self) -> LoopProgram | None:
        """The backend's program; UsageError where nodes share memory that they must not."""
        loop = self.loop
        if not all(tensor.is_contiguous for options in self.options.values() for tensor in options):
            return None
        self._check()
        cells = [self._cell(place) for place in loop.moving]
        numbers: dict[Place, int] = {place: number for number, place in enumerate(loop.moving)}
        for source, _ in loop.carry_overs:
            if source not in numbers:
                numbers[source] = len(cells)
                cells.append(LoopCell(None, (self.tensor(source),)))
        moves = tuple((numbers[source], numbers[carry]) for source, carry in loop.carry_overs)
        before, rest = (tuple(call.on(self.tensor) for call in part) for part in (loop.before, loop.rest))
        test, count = loop.test, loop.counter.tensor
        if isinstance(test, CountBelow):
            calls = LoopCalls(tuple(cells), moves, before, rest, count, test.limit, None, None)
        else:
            calls = LoopCalls(tuple(cells), moves, before, rest, count, None, self.tensor(test.place), test.at_most)
        program = loop.backend.loop(calls)
        loop.refused = program is None
        return program

    def _cell(self, place: Moving) -> LoopCell:
        views = tuple(map(self.tensor, place.views)) if isinstance(place, Multiview) else ()
        once = int(place.kind) if isinstance(place, Multiview) else 0
        return LoopCell(self.standins[place], tuple(self.options[place]), views, once)

    def _check(self) -> None:
        """What no node may do with the memory of its operands, none does in any iteration that there is.

        Behind the last iteration of a counted loop places have moved on to memory that others may use: only what
        stands in front of the test runs there.
        """
        loop, seen = self.loop, set[tuple[int, ...]]()
        before, rest = ([call for call in part if self._may_share(call)] for part in (loop.before, loop.rest))
        views = [place for place in loop.moving if isinstance(place, Multiview)]
        now: dict[Place, Tensor] = {place: next(iter(options)) for place, options in self.options.items()}
        last = loop.test.limit if isinstance(loop.test, CountBelow) else CHECKED_ITERATIONS
        for turn in range(min(last + 1, CHECKED_ITERATIONS) if before or rest else 0):
            now |= {place: self.tensor(place.select(turn)) for place in views}
            state = tuple(map(id, now.values()))
            if state not in seen:
                seen.add(state)
                for call in (*before, *(rest if turn < last else ())):
                    bound = call.on(partial(self.tensor, now=now))
                    check_memory(call.command, bound.inputs, bound.outputs)
            elif not views:
                return
            moved = [self.tensor(source, now) for source, _ in loop.carry_overs]
            now |= {carry: tensor for (_, carry), tensor in zip(loop.carry_overs, moved, strict=True)}

    def _may_share(self, call: MovingCall) -> bool:
        """Whether an output may lie over another operand in some iteration."""
        spans = [None if place is None else self._span(place) for place in (*call.inputs, *call.outputs)]
        for number, output in enumerate(spans[len(call.inputs) :], len(call.inputs)):
            for other in spans[:number]:
                if output is not None and other is not None and output[0] < other[1] and other[0] < output[1]:
                    return any(place in self.options or isinstance(place, Reference) for place in call.operands)
        return False

    def _span(self, place: Place) -> tuple[int, int]:
        """The first address of all that a place may be, and the one behind its last."""
        whole = place.source if isinstance(place, Reference) and place.source in self.options else place
        assert whole is not None
        extents = [tensor.extent for tensor in self.options.get(whole) or (self.tensor(whole),)]
        return min(begin for begin, _ in extents), max(end for _, end in extents)
