"""Memory that programs take turns in: those of one model, or of several that share an arena.

sizes = the largest need of all users, by kind of memory           one storage of each kind
process = arena + sum(bound + programs + beside) + max(outputs) + max(scratch) + compiling + start
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Protocol, Self, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from nnc.arguments import Size, checked
from nnc.classes import dataclass
from nnc.concrete import PendingRuns
from nnc.core.settings import SETTINGS
from nnc.core.values.device import HOST, device_of
from nnc.core.values.storage import Storage, allocate_on, trim_free_memory
from nnc.errors import MemoryLimitError, UsageError
from nnc.symbolic.compiler.place.memory_statement import (
    COMPILING,
    GUARD,
    POISON,
    START,
    ArenaLimit,
    MemoryStatement,
    checked_limit,
    in_memory,
)

R = TypeVar("R")
# A program of at least this many bytes of arena and bound tensors gives back what making it left, before it runs.
LARGE = 1 << 24


class Resident(Protocol):
    """A program in an arena."""

    statement: MemoryStatement

    def forget_layout(self) -> None:
        """Hold no memory of the arena's."""
        ...


@dataclass(frozen=True, slots=True)
class ArenaMember:
    """What one user of an arena takes: of the arena (`arenas` by kind of memory), and in bytes beside it.

    `bound` are its weights and states, `programs` the objects of what it keeps, `start` what comes with the first of
    them, `outputs` the results of its largest run, `scratch` what workers keep, `beside` all else, as the bytes of a
    file.
    """

    name: str
    arenas: Mapping[str, int]
    bound: int
    programs: int
    start: int
    outputs: int
    scratch: int
    beside: int

    @classmethod
    def of(cls, name: str, statements: Sequence[MemoryStatement], beside: int) -> Self:
        """That of programs over the same weights."""
        return cls(
            name,
            largest_sizes([statement.arenas for statement in statements]),
            bound=max((statement.bound for statement in statements), default=0),
            programs=sum(statement.program for statement in statements),
            start=max((statement.start for statement in statements), default=0),
            outputs=max((statement.outputs for statement in statements), default=0),
            scratch=max((statement.scratch for statement in statements), default=0),
            beside=beside,
        )

    @property
    def arena(self) -> int:
        """Bytes of the arena that its largest program needs."""
        return in_memory(self.arenas)


@dataclass(frozen=True, slots=True)
class ArenaMemory:
    """The joint statement of all that shares an arena, by what was planned so far; nothing need be allocated."""

    limit: int | None
    members: tuple[ArenaMember, ...]

    @property
    def arena(self) -> int:
        """max over members, summed over kinds of memory"""
        return in_memory(largest_sizes([member.arenas for member in self.members]))

    @property
    def apart(self) -> int:
        """What the arenas would take together if each member had its own."""
        return sum(member.arena for member in self.members)

    @property
    def bound(self) -> int:
        """Weights and states of all members."""
        return sum(member.bound for member in self.members)

    @property
    def process(self) -> int:
        """About what a process takes that runs the members in turn, imports and inputs of the caller's left out."""
        outputs = max((member.outputs for member in self.members), default=0)
        scratch = max((member.scratch for member in self.members), default=0)
        running = max(self.arena + outputs + scratch, COMPILING)
        start = max((member.start for member in self.members), default=START)
        return running + self.bound + sum(member.programs + member.beside for member in self.members) + start

    def __str__(self) -> str:
        most = "" if self.limit is None else f" of at most {self.limit} B"
        rows = ", ".join(f"{member.name} {member.arena} B" for member in self.members)
        head = f"arena {self.arena} B{most} for {len(self.members)} members ({rows}), apart {self.apart} B"
        return f"{head}; weights and states {self.bound} B, in all a process of about {self.process} B"


@checked
@dataclass(slots=True, eq=False)
class Arena:
    """Memory for programs that run one after another, whoever calls them; allocated when the first of them needs it.

    It has `sizes` bytes of each kind of memory, at most `limit` together. When these have changed and a program is laid
    out there is other memory; programs in the old one let go of it and are laid out anew when they run; what was
    written there is lost. That of the host begins at `base`. `turn` counts runs. `needs` are by who keeps programs.

    Runs of two threads take turns. A copy of what shares an arena shares it too; unpickled it has one of that limit.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    limit: int | None = None
    storages: Mapping[str, Storage] | None = None
    base: int = 0
    turn: int = 0
    runs: PendingRuns = field(default_factory=PendingRuns)
    lock: threading.Lock = field(default_factory=threading.Lock)
    programs: WeakSet[Resident] = field(default_factory=WeakSet)
    needs: WeakKeyDictionary[object, tuple[Mapping[str, int], ArenaMember]] = field(default_factory=WeakKeyDictionary)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return arena, (self.limit,)

    def __repr__(self) -> str:
        most = "" if self.limit is None else f", at most {self.limit:,} B"
        return f"Arena({self.nbytes:,} B{most})"

    @property
    def nbytes(self) -> int:
        """Bytes of all kinds together."""
        return in_memory(self.sizes)

    @property
    def taken(self) -> int:
        """Bytes that it has now."""
        return sum(each.nbytes for each in (self.storages or {}).values() if not each.device.is_file)

    def memory(self) -> ArenaMemory:
        """What all that shares this arena takes together, by the programs that were planned so far."""
        with self.lock:
            return ArenaMemory(self.limit, tuple(member for _, member in self.needs.values()))

    def exclusively(self, work: Callable[[], R]) -> R:
        """What `work` gives, such as of several members in one turn; no other thread runs a program here meanwhile."""
        return self.runs.exclusively(work)

    def within(self, limit: ArenaLimit | None) -> ArenaLimit | None:
        """The limit of a member that has one of its own.

        UsageError for one by device where the arena has one of all together.
        """
        if limit is None or self.limit is None:
            return limit if self.limit is None else self.limit
        if isinstance(limit, Mapping):
            need = "a limit of all arenas together, as the arena's"
            raise UsageError("arena", got="a memory_limit by device", need=need, fix="leave one of the two out")
        return min(self.limit, checked_limit(limit))

    def reserve(self, sizes: Mapping[str, int]) -> None:
        """Let it have at least these bytes, by kind of memory, when a program is laid out next.

        MemoryLimitError for more than its limit.
        """
        with self.lock:
            self._resize([self.sizes, sizes])

    def fit(
        self,
        owner: object,
        programs: Iterable[Resident],
        stated: Iterable[Resident] = (),
        name: str = "",
        beside: int = 0,
    ) -> None:
        """Let it have what all owners' largest programs need when a program is laid out next: these are one owner's.

        Those `stated` are in no memory yet; the joint statement counts them.
        """
        own = tuple(programs)
        kept = {id(program.statement): program.statement for program in (*own, *stated)}
        member = ArenaMember.of(name or type(owner).__name__, tuple(kept.values()), beside)
        sizes = largest_sizes([program.statement.arenas for program in own])
        with self.lock:
            others = [need for other, (need, _) in self.needs.items() if other is not owner]
            self._resize([*others, sizes])
            self.needs[owner] = sizes, member

    def _resize(self, needs: Sequence[Mapping[str, int]]) -> None:
        sizes = largest_sizes(needs)
        if self.limit is not None and (nbytes := in_memory(sizes)) > self.limit:
            got, need = f"an arena of {nbytes} bytes", f"at most {self.limit}"
            raise MemoryLimitError("arena", got=got, need=need, fix="compile it with memory_limit=arena.limit")
        self.sizes = sizes

    def allocate(self, sizes: Mapping[str, int]) -> Mapping[str, Storage]:
        """The memory, of at least these bytes, whatever another thread says meanwhile that it needs.

        In debug mode with guards in front of `base` and behind the arena, all of it not-a-number.
        """
        with self.lock:
            self._resize([self.sizes, sizes])
            needed = self._needed()
            if self.storages is not None and needed == {kind: each.nbytes for kind, each in self.storages.items()}:
                return self.storages
            self.base = GUARD if SETTINGS.debug else 0
            needed = self._needed()
        self.storages = None
        for program in tuple(self.programs):
            program.forget_layout()
        self.programs.clear()
        self.storages = {kind: allocate_on(device_of(kind), nbytes, "arena") for kind, nbytes in needed.items()}
        if SETTINGS.debug:
            self.storages[HOST].bytes.fill(POISON)
        return self.storages

    def _needed(self) -> dict[str, int]:
        """Bytes by kind of memory, with the guards of the host's."""
        sizes = {kind: nbytes for kind, nbytes in self.sizes.items() if nbytes}
        return {**sizes, HOST: sizes.get(HOST, 0) + 2 * self.base}


def largest_sizes(needs: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The most bytes of each kind of memory."""
    kinds = dict.fromkeys(kind for sizes in needs for kind in sizes)
    return {kind: max(sizes.get(kind, 0) for sizes in needs) for kind in kinds}


@checked
def arena(limit: Size | str | None = None) -> Arena:
    """Memory for models, ONNX files and compiled functions that never run at once: as much as the largest needs.

    `nn.Model(…, arena=shared)`, `nnc.onnx.load(…, arena=shared)` and `nnc.compile(…, arena=shared)` have their
    activations there; weights and states stay their own. Each is fitted to the `limit`, in bytes or as "2GB", as by a
    `memory_limit`, or MemoryLimitError says what it would take. Threads that run two of them take turns, and results
    are those without sharing. `memory()` is the joint statement.

    >>> shared = nnc.arena(limit="100MB")
    >>> first = nn.Model(nn.Dense(4), (8,), arena=shared)
    >>> second = nn.Model(nn.Dense(2), (4,), arena=shared)
    >>> second.predict(first.predict(np.ones((1, 8), np.float32))).shape
    (1, 2)
    >>> len(shared.memory().members)
    2
    """
    return Arena(limit=None if limit is None else checked_limit(limit))


def trim_after(nbytes: int) -> None:
    """Give back what making a program of so many bytes left behind, where these are many."""
    if nbytes >= LARGE:
        trim_free_memory()
