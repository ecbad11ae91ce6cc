"""A compiled program as statements on tensors, and what stands in the way of a library of it.

    Statements().of(graph.body)             commands, loops and branches in order
    check_native(graph.body, backend, …)    BackendError with all that a library cannot hold

A place that moves during a run (a carried value, a view that takes turns, what a branch wrote) has a stand-in: a tensor
whose memory nobody touches, which statements make another one. Reads of it name the stand-in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import assert_never

from nnc.classes import dataclass
from nnc.concrete.body import CaseOfExec, ConcreteBody, Exec, Noop, Record, WhileExec, all_bodies
from nnc.concrete.control import CountBelow, NonZero, PythonChoice, PythonTest, Selector, TapedChoice
from nnc.concrete.multiview import Carry, Multiview, Phi, Place, Recalled, Reference, Taped
from nnc.core.running.dispatch import DISPATCHER, Call, Specs
from nnc.core.running.library_program import (
    CyclicView,
    LibraryBranch,
    LibraryLoop,
    LibraryStatement,
    Reassignment,
)
from nnc.core.values.tensor import Tensor
from nnc.errors import BackendError

# Whether an action between commands is of no matter to a library.
IsNote = Callable[[Callable[[], None]], bool]


def check_native(body: ConcreteBody, backend: str, is_note: IsNote) -> None:
    """BackendError with every command, test and choice that this backend has no code for, and its line."""
    refused = [row for inner in all_bodies(body) for row in _refused(inner, backend, is_note)]
    if refused:
        rows = "; ".join(dict.fromkeys(refused))
        need = f"commands that {backend} has kernels for"
        raise BackendError("library", got=rows, need=need, fix="docs/library.md says what a library may hold")


def _refused(body: ConcreteBody, backend: str, is_note: IsNote) -> Iterator[str]:
    if isinstance(body.test, PythonTest):
        yield "a loop whose test is a function of Python's"
    for _, record in body.execs.items():
        reason = _reason(record, backend, is_note)
        if reason:
            yield f"{reason} ({record.origin})" if record.origin else reason


def _reason(record: Record, backend: str, is_note: IsNote) -> str:
    match record:
        case Exec():
            if any(isinstance(place, Taped | Recalled) for place in (*record.inputs, *record.outputs)):
                return f"{record.command.op.name} along a tape"
            if record.claim.backend.name == backend:
                return ""
            inputs, outputs = _specs(record.inputs), _specs(record.outputs)
            why = DISPATCHER.backend(backend).refusal(record.command, inputs, outputs)
            return f"{record.command.op.name}: {why}"
        case Noop():
            is_needless = record.action is None or is_note(record.action)
            return "" if is_needless else "a function of Python's between commands"
        case CaseOfExec():
            return "" if isinstance(record.choice, Selector) else _of_choice(record.choice)
        case WhileExec():
            return "" if record.forward is None else "a loop that goes back along a tape"
        case _:
            assert_never(record)


def _of_choice(choice: PythonChoice | TapedChoice) -> str:
    return f"a branch that {'a function of Python' if isinstance(choice, PythonChoice) else 'a tape'} chooses"


def _specs(places: Sequence[Place | None]) -> Specs:
    return tuple(None if place is None else place.spec for place in places)


@dataclass(slots=True, eq=False)
class Statements:
    """Statements in the making, and the stand-ins of the places that move; `counts` are the counts of loops."""

    standins: dict[Place, Tensor] = field(default_factory=dict)
    counts: list[Tensor] = field(default_factory=list)

    def of(self, body: ConcreteBody) -> tuple[LibraryStatement, ...]:
        """All nodes of a body in order."""
        return self._nodes(body, body.span(body.sources, body.destinations))

    def _nodes(self, body: ConcreteBody, keys: Sequence[object]) -> tuple[LibraryStatement, ...]:
        statements: list[LibraryStatement] = []
        for key in keys:
            record = body.execs[key]  # type: ignore[index]  # keys of this body
            match record:
                case Exec():
                    statements += self._turns((*record.inputs, *record.outputs))
                    statements.append(self._call(record))
                case WhileExec():
                    statements += self._loop(record)
                case CaseOfExec():
                    statements += self._case(record)
                case Noop():
                    pass
                case _:
                    assert_never(record)
        return tuple(statements)

    # ---- places

    def tensor(self, place: Place) -> Tensor:
        """The tensor, or the stand-in, that a place is where it stands."""
        match place:
            case Tensor():
                return place
            case Carry() | Multiview() | Phi():
                if place not in self.standins:
                    self.standins[place] = Tensor.empty(place.spec, "stand-in")
                return self.standins[place]
            case Reference():
                assert place.source is not None, "a reference of a compiled program follows a place"
                return self._part(place, self.tensor(place.source))
            case _:
                raise AssertionError("places along a tape were refused")

    def _part(self, reference: Reference, whole: Tensor) -> Tensor:
        if reference.strides is None and reference.offset == 0 and reference.spec == whole.spec:
            return whole
        strides = whole.strides if reference.strides is None else reference.strides
        return whole.view(reference.spec, reference.offset, strides)

    def _turns(self, places: Sequence[Place | None]) -> Iterator[LibraryStatement]:
        """What makes views that take turns the ones of this iteration, those that they are made of first."""
        for place in dict.fromkeys(places):
            if isinstance(place, Reference):
                yield from self._turns((place.source,))
            if isinstance(place, Multiview):
                yield from self._turns(place.views)
                views = tuple(map(self.tensor, place.views))
                yield CyclicView(self.tensor(place), views, int(place.kind), place.counter.tensor)

    def _call(self, record: Exec) -> Call:
        inputs, outputs = (
            tuple(None if place is None else self.tensor(place) for place in places)
            for places in (record.inputs, record.outputs)
        )
        return Call(record.claim.kernel, inputs, outputs, record.workspace, record)

    # ---- loops and branches

    def _loop(self, record: WhileExec) -> Iterator[LibraryStatement]:
        body = record.body
        before, rest = body.split()
        self.counts.append(body.counter.tensor)
        initial = tuple((self.tensor(carry), self.tensor(carry.initial)) for _, carry in body.carry_overs)
        yield from self._turns([carry.initial for _, carry in body.carry_overs])
        if initial:
            yield Reassignment(initial)
        first, behind = self._nodes(body, before), list(self._nodes(body, rest))
        behind += self._turns([source for source, _ in body.carry_overs])
        moves = tuple((self.tensor(carry), self.tensor(source)) for source, carry in body.carry_overs)
        if moves:
            behind.append(Reassignment(moves))
        limit, tested, most = None, None, None
        match body.test:
            case CountBelow():
                limit = body.test.limit
            case NonZero():
                first = (*first, *self._turns((body.test.place,)))
                tested, most = self.tensor(body.test.place), body.test.at_most
            case _:
                raise AssertionError("tests of Python's were refused")
        yield LibraryLoop(body.counter.tensor, limit, tested, most, first, tuple(behind))

    def _case(self, record: CaseOfExec) -> Iterator[LibraryStatement]:
        assert isinstance(record.choice, Selector)
        yield from self._turns((record.choice.place,))
        phis = [place for place in record.outputs if isinstance(place, Phi)]
        branches = {}
        for index, branch in record.branches.items():
            branches[index] = (*self.of(branch), *self._chosen(phis, index))
        choice, otherwise = record.choice, tuple(self._chosen(phis, None))
        chosen = self.tensor(choice.place)
        if choice.count is None:
            yield LibraryBranch(chosen, record.offset, branches, otherwise)
        else:
            bypass = branches.pop(choice.count) if choice.has_bypass else None
            yield LibraryBranch(chosen, record.offset, branches, bypass)

    def _chosen(self, phis: Sequence[Phi], branch: int | None) -> Iterator[LibraryStatement]:
        """What went past a branch, or what it wrote, is what each phi is from here on."""
        selected = [(phi, phi.select(branch)) for phi in phis]
        yield from self._turns([place for _, place in selected])
        if selected:
            yield Reassignment(tuple((self.tensor(phi), self.tensor(place)) for phi, place in selected))
