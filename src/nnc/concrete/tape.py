"""The tape: memory for each iteration of loops, so that a backward loop finds what the forward one had.

    version[place, index], number[node, index];  index = counts of all loops around, outermost first

It also is what turns places into tensors: a run reads and writes through a tape, or through none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import ClassVar, TypeAlias, assert_never

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.concrete.counter import Counter, Index
from nnc.concrete.multiview import Carry, Multiview, Phi, Place, Recalled, Reference, Taped
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.running.dispatch import Call, Program
from nnc.core.values.tensor import Tensor
from nnc.errors import UsageError


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A program with the calls that it was made of, which keep its tensors alive."""

    program: Program
    calls: tuple[Call, ...]
    traced: list[Callable[[], None]] = field(default_factory=list)


# Programs by the identities of the tensors that they run on.
Programs: TypeAlias = dict[tuple[int, ...], Bound]
# A node on the tape: the counter of its graph, and its key there.
Node: TypeAlias = tuple[Counter, int]


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """The tensor of a place in the iteration `index` of a run."""

    tensor: Tensor
    index: Index
    run: int


@dataclass(slots=True, eq=False)
class Tape(Uncopied):
    """What happened in each iteration. Memory is kept and used again by the next run along the same tape.

    A loop or a branch that begins again forgets what earlier runs left of it, so that one of no iterations leaves
    nothing.
    """

    instead: ClassVar[str] = "run along a new tape"

    programs: dict[object, Programs] = field(default_factory=dict)
    runs: int = 0
    _memory: dict[tuple[Taped, Index], Tensor] = field(default_factory=dict)
    _versions: dict[tuple[Taped, Index], _Entry] = field(default_factory=dict)
    _notes: dict[tuple[Taped, Index], _Entry] = field(default_factory=dict)
    _latest: dict[tuple[Taped, Index], _Entry] = field(default_factory=dict)
    _numbers: dict[tuple[Node, Index], int] = field(default_factory=dict)
    # By place and index, the last run that began the loop or the branch there anew.
    _loops: dict[tuple[Taped, Index], int] = field(default_factory=dict)
    _branches: dict[tuple[Taped, Index], int] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of all versions."""
        return sum(tensor.storage.nbytes for tensor in self._memory.values())

    def begin(self) -> TapeAccess:
        """How another run along this tape finds its tensors."""
        self.runs += 1
        return TapeAccess(self, self.runs)

    def begin_loop(self, places: Iterable[Taped], index: Index, run: int) -> None:
        """What earlier runs left of these places in iterations of a loop at the index is gone."""
        self._loops.update(((place, index), run) for place in places)

    def begin_branch(self, places: Iterable[Taped], index: Index, run: int) -> None:
        """What earlier runs left of these places in a branch at the index is gone."""
        self._branches.update(((place, index), run) for place in places)

    def version(self, taped: Taped, index: Index, run: int = 0) -> Tensor:
        """The memory of an iteration to be written; made at the first call."""
        key = (taped, index)
        if key not in self._memory:
            self._memory[key] = Tensor.empty(taped.spec, "tape")
        entry = self._versions[key] = _Entry(self._memory[key], index, run)
        for depth in range(len(index)):
            self._latest[taped, index[:depth]] = entry
        return entry.tensor

    def find(self, taped: Taped, index: Index) -> Tensor | None:
        """What was written at the index, or last within it, or else in the nearest enclosing iteration."""
        keys = [(taped, index[:depth]) for depth in range(len(index) - 1, -1, -1)]
        here = (self._versions.get((taped, index)), self._latest.get((taped, index)))
        return self._first_left(taped, (*here, *map(self._versions.get, keys)))

    def note(self, taped: Taped, index: Index, tensor: Tensor, run: int = 0) -> None:
        """Keep in mind which tensor the place was."""
        entry = _Entry(tensor, index, run)
        for depth in range(len(index) + 1):
            self._notes[taped, index[:depth]] = entry

    def noted(self, taped: Taped, index: Index) -> Tensor | None:
        """What `note` was told at the index, or at the nearest enclosing one."""
        return self._first_left(taped, (self._notes.get((taped, index[:depth])) for depth in range(len(index), -1, -1)))

    def _first_left(self, taped: Taped, entries: Iterable[_Entry | None]) -> Tensor | None:
        """The first of the entries that no later run has forgotten."""
        for entry in entries:
            if entry is not None and not self._is_forgotten(taped, entry):
                return entry.tensor
        return None

    def _is_forgotten(self, taped: Taped, entry: _Entry) -> bool:
        index = entry.index
        if self._branches.get((taped, index), 0) > entry.run:
            return True
        return any(self._loops.get((taped, index[:depth]), 0) > entry.run for depth in range(len(index)))

    def number(self, node: Node, index: Index) -> int:
        """What a node did at the index: the iterations of a loop, the branch of a case..of (-1: none)."""
        number = self._numbers.get((node, index))
        if number is None:
            raise UsageError(
                "tape",
                got=f"nothing about node %{node[1]} at iteration {list(index)}",
                need="a forward run along the same tape first",
            )
        return number

    def set_number(self, node: Node, index: Index, number: int) -> None:
        """Write down what a node did at the index."""
        self._numbers[node, index] = number

    def clear(self) -> None:
        """Forget everything and give the memory back."""
        for table in (self._memory, self._versions, self._notes, self._latest, self._numbers, self.programs):
            table.clear()
        self._loops.clear()
        self._branches.clear()


@dataclass(frozen=True, slots=True, eq=False)
class TapeAccess:
    """How a run finds the tensor behind a place, along a tape or without."""

    tape: Tape | None = None
    run: int = 0

    def read(self, place: Place, index: Index) -> Tensor:
        """The tensor that a node at `index` reads."""
        match place:
            case Tensor():
                return place
            case Multiview():
                return self._select(place, index)
            case Carry():
                return self.read(place.initial, index) if place.current is None else place.current
            case Phi():
                return _current(place)
            case Reference():
                return place.tensor
            case Taped():
                return self._read_taped(place, index)
            case Recalled():
                return self._recall(place, index)
            case _:
                assert_never(place)

    def write(self, place: Place, index: Index) -> Tensor:
        """The tensor that a node at `index` writes."""
        if not isinstance(place, Taped):
            return self.read(place, index)
        if self.tape is None:
            return self.write(place.inner, index)
        return self.tape.version(place, index, self.run)

    def _select(self, place: Multiview, index: Index) -> Tensor:
        if not place.counter.active and place.current is not None:
            return place.current
        turn = place.counter.turn if place.counter.active else 0
        return place.touch(self.read(place.select(turn), index))

    def _read_taped(self, place: Taped, index: Index) -> Tensor:
        if self.tape is None:
            return self.read(place.inner, index)
        taped = self.tape.find(place, index)
        tensor = self.read(place.inner, index) if taped is None else taped
        self.tape.note(place, index, tensor, self.run)
        return tensor

    def _recall(self, place: Recalled, index: Index) -> Tensor:
        if self.tape is None:
            raise UsageError("recall", got="a run without a tape", need="the tape of the forward run", fix="tape=")
        for tensor in (self.tape.find(place.taped, index), self.tape.noted(place.taped, index)):
            if tensor is not None:
                return tensor
        return self.read(place.taped.inner, index)


def tapes_in(place: Place | None) -> Iterator[Taped]:
    """The taped places that reading this one may read."""
    match place:
        case Taped():
            yield place
            yield from tapes_in(place.inner)
        case Multiview():
            for view in place.views:
                yield from tapes_in(view)
        case Phi():
            for inner in (place.passed, *place.taken):
                yield from tapes_in(inner)
        case Carry():
            yield from tapes_in(place.initial)
        case Reference():
            yield from tapes_in(place.source)
        case None | Tensor() | Recalled():
            return
        case _:
            assert_never(place)


def sample(place: Place) -> Tensor:
    """Some tensor that the place can be, without running anything: for measuring and for printing."""
    while True:
        match place:
            case Tensor():
                return place
            case Multiview():
                place = place.views[0]
            case Phi():
                place = place.taken[0]
            case Carry():
                place = place.initial
            case Taped():
                place = place.inner
            case Recalled():
                place = place.taped
            case Reference():
                if place.source is None:
                    raise UsageError("reference", got="no source", need="synchronize_to_multiview() first")
                return part_of(place, sample(place.source))
            case _:
                assert_never(place)


@checked
def multiview_synchronize(source: Multiview | Phi | Carry, access: TapeAccess | None = None) -> Tensor:
    """Bring a multiview and all its references up to its loop's present turn."""
    index = source.counter.index() if isinstance(source, Multiview) else ()
    tensor = (access or TapeAccess()).read(source, index)
    for reference in source.followers:
        reference.follow(tensor)
    return tensor


def _current(place: Phi) -> Tensor:
    if place.current is None:
        raise UsageError("phi", got="a read before its case..of ran", need="an edge from the case..of to the reader")
    return place.current


def part_of(reference: Reference, whole: Tensor) -> Tensor:
    """What a reference would be if its source were `whole`."""
    part = Reference(reference.spec, reference.offset, reference.strides)
    part.follow(whole)
    return part.tensor
