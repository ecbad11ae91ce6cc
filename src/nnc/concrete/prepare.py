"""Preparing: a body becomes a plan. Consecutive nodes of one backend become one program.

Programs are cut at loops and branches, where another backend takes over, where places move, and at signals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import assert_never

from nnc.classes import dataclass
from nnc.concrete.body import CaseOfExec, ConcreteBody, Exec, ExecKey, Noop, Places, Record, WhileExec, all_bodies
from nnc.concrete.joined import lowered_loop, moving_call
from nnc.concrete.multiview import Taped
from nnc.concrete.run import Action, Branch, Fixed, Item, Moving, RunLoop, RunPlan
from nnc.concrete.schedule import Schedule, make_schedule
from nnc.concrete.tape import tapes_in
from nnc.core.running.dispatch import Call, Tensors
from nnc.core.values.dtype import U8
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import GraphError


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A plan, valid as long as none of the bodies that it was made of has changed."""

    plan: RunPlan
    stamps: tuple[tuple[ConcreteBody, int], ...]

    @property
    def is_current(self) -> bool:
        """Whether every body is as it was."""
        return all([body.version == version for body, version in self.stamps])  # noqa: C419  # a generator is a call more for each


def prepare(body: ConcreteBody, keys: Sequence[ExecKey], streams: int) -> Prepared:
    """The plan of the nodes `keys` of a body, given in topological order, on at most `streams` streams.

    Loops and branches inside are scheduled on as many streams of their own. Scratch memory that no node was given
    is one piece per stream.
    """
    bodies = all_bodies(body)
    scratch = max((_workspace_bytes(record) for inner in bodies for _, record in inner.execs.items()), default=0)
    own = Tensor.empty(workspace_spec(scratch), "workspace") if scratch else None
    plan = _Preparation(streams, scratch).plan(body, keys, own)
    return Prepared(plan, tuple((inner, inner.version) for inner in bodies))


def workspace_spec(nbytes: int) -> TensorSpec:
    """The spec of `nbytes` bytes of scratch memory."""
    return TensorSpec((nbytes,), U8)


def make_body_schedule(body: ConcreteBody, keys: Sequence[ExecKey], streams: int) -> Schedule[ExecKey]:
    """The schedule of some nodes; commands of one kind are kept on one stream where they can be."""
    return make_schedule(body.execs, keys, streams, lambda key: _kind(body.execs[key]))


def _kind(record: Record) -> object:
    return record.command.op if isinstance(record, Exec) else type(record)


def _workspace_bytes(record: Record) -> int:
    return record.claim.kernel.workspace_bytes if isinstance(record, Exec) and record.workspace is None else 0


@dataclass(frozen=True, slots=True)
class _Preparation:
    """What is the same for all bodies of one plan: the limit of streams, and bytes of scratch memory per stream."""

    streams: int
    scratch: int

    def plan(
        self, body: ConcreteBody, keys: Sequence[ExecKey], scratch: Tensor | None, *, late: bool = False
    ) -> RunPlan:
        """The plan of some nodes; with `late` programs are made when they first run."""
        if self.streams == 1:
            return RunPlan((self._lane(body, keys, scratch, {}, {}, late=late),), body.streams)
        schedule = make_body_schedule(body, keys, self.streams)
        fires = {key: signal for signal, key in enumerate(sorted(schedule.emitters))}
        waits = {key: tuple(fires[source] for source in sources) for key, sources in schedule.waits.items()}
        pool = body.streams.take(len(schedule.lanes) - 1)
        rooms = [scratch, *(stream.workspace(self.scratch) if self.scratch else None for stream in pool)]
        pairs = zip(schedule.lanes, rooms, strict=True)
        lanes = tuple(self._lane(body, lane, room, waits, fires) for lane, room in pairs)
        return RunPlan(lanes, body.streams, len(fires), tuple(fires[key] for key in schedule.end))

    def _lane(
        self,
        body: ConcreteBody,
        keys: Sequence[ExecKey],
        scratch: Tensor | None,
        waits: dict[ExecKey, tuple[int, ...]],
        fires: dict[ExecKey, int],
        *,
        late: bool = False,
    ) -> tuple[Item, ...]:
        lane = _Lane(body, scratch, late)
        for key in keys:
            lane.wait(waits.get(key, ()))
            record = body.execs[key]
            match record:
                case Exec():
                    lane.add(record)
                case Noop():
                    if record.action is not None:
                        lane.put(Action(record.action))
                case WhileExec():
                    lane.put(self._loop(body, key, record, scratch))
                case CaseOfExec():
                    lane.put(self._branch(body, key, record, scratch))
                case _:
                    assert_never(record)
            lane.fire(fires.get(key))
        return lane.finish()

    def _loop(self, body: ConcreteBody, key: ExecKey, record: WhileExec, scratch: Tensor | None) -> RunLoop:
        inner = record.body
        if record.forward is None and inner.test is None:
            raise GraphError(
                "while", got=f"node %{key} without a test", need="a body that knows when to end", fix="set_while()"
            )
        before, rest = inner.split()
        if record.forward is not None and not inner.breakpoints:
            # The forward loop was tested at its start, so what mirrors that point stands at the end.
            before, rest = rest, before
        joined = None
        if record.forward is None and self.streams == 1:
            joined = lowered_loop(inner, (before, rest), partial(_room, scratch))
        return RunLoop(
            inner.counter,
            inner.test,
            self.plan(inner, before, scratch, late=joined is not None),
            self.plan(inner, rest, scratch, late=joined is not None),
            inner.carry_overs,
            (body.counter, key),
            record.forward,
            _taped([inner], with_read=record.forward is None),
            joined,
        )

    def _branch(self, body: ConcreteBody, key: ExecKey, record: CaseOfExec, scratch: Tensor | None) -> Branch:
        plans = {
            index: self.plan(branch, branch.span(branch.sources, branch.destinations), scratch)
            for index, branch in record.branches.items()
        }
        taped = _taped(list(record.branches.values()), with_read=False)
        return Branch(record.choice, record.offset, record.outputs, plans, (body.counter, key), taped)


def _taped(bodies: Sequence[ConcreteBody], *, with_read: bool) -> tuple[Taped, ...]:
    """The taped places that the bodies, and those inside, write or also read."""
    inside = [inner for body in bodies for inner in all_bodies(body)]
    execs = [record for body in inside for _, record in body.execs.items() if isinstance(record, Exec)]
    tapes = [place for record in execs for place in record.outputs if isinstance(place, Taped)]
    if with_read:
        tapes += [taped for record in execs for place in record.inputs for taped in tapes_in(place)]
        tapes += [taped for body in inside for place, _ in body.carry_overs for taped in tapes_in(place)]
    return tuple(dict.fromkeys(tapes))


@dataclass(slots=True, eq=False)
class _Lane:
    """The items of one lane in the making, and the nodes that will be one program."""

    body: ConcreteBody
    scratch: Tensor | None
    late: bool
    items: list[Item] = field(default_factory=list)
    group: list[Exec] = field(default_factory=list)
    waits: tuple[int, ...] = ()

    def add(self, record: Exec) -> None:
        """Append a command; it joins the program before it where it can."""
        if self.group:
            last = self.group[-1]
            if (last.claim.backend, last.is_fixed) != (record.claim.backend, record.is_fixed):
                self._flush()
        self.group.append(record)

    def put(self, step: RunLoop | Branch | Action) -> None:
        """Append a step of its own."""
        self._flush()
        self._append(Item(step, self.waits))

    def wait(self, signals: tuple[int, ...]) -> None:
        """What comes next waits for these signals."""
        if signals:
            self._flush()
            self.waits += signals

    def fire(self, signal: int | None) -> None:
        """All so far is followed by this signal."""
        if signal is not None:
            self._flush(signal)

    def finish(self) -> tuple[Item, ...]:
        """The items, with waits that are left over."""
        self._flush()
        if self.waits:
            self._append(Item(None, self.waits))
        return tuple(self.items)

    def _flush(self, fires: int | None = None) -> None:
        if self.group:
            records, self.group = self.group, []
            fixed = records[0].is_fixed and not self.late
            step = self._fixed(records) if fixed else self._moving(records)
            self._append(Item(step, self.waits, fires))
        elif fires is not None:
            self._append(Item(None, self.waits, fires))

    def _append(self, item: Item) -> None:
        self.items.append(item)
        self.waits = ()

    def _fixed(self, records: Sequence[Exec]) -> Fixed:
        calls = []
        for record in records:
            inputs, outputs = _tensors(record.inputs), _tensors(record.outputs)
            calls.append(Call(record.claim.kernel, inputs, outputs, _room(self.scratch, record), record))
        backend = records[0].claim.backend
        return Fixed(backend, backend.program(calls), tuple(calls))

    def _moving(self, records: Sequence[Exec]) -> Moving:
        calls = tuple(moving_call(record, _room(self.scratch, record)) for record in records)
        return Moving(records[0].claim.backend, calls, self.body.counter)


def _room(scratch: Tensor | None, record: Exec) -> Tensor | None:
    """The workspace that a node was given, or scratch memory of its lane."""
    return scratch if record.workspace is None and record.claim.kernel.workspace_bytes else record.workspace


def _tensors(places: Places) -> Tensors:
    fixed = tuple(place for place in places if place is None or isinstance(place, Tensor))
    assert len(fixed) == len(places)
    return fixed
