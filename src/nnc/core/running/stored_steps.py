"""Native steps as they are kept on disk: kernels by the keys of their code, operands by the memory that they lie in.

    store = STEP_STORES.of("llvm")                of a backend, which need not be imported for it
    steps = store.recorded(calls, spans)          spans: all memory that the calls are on, and that outlives them
    kept = store.restored(steps, sizes)           in another process: the kernels are loaded, or None
    program = kept.on(spans)                      memory of the same sizes, in the same order

A place is the number of a span and an offset; behind the spans comes memory of the program's own, zeroed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Protocol, TypeAlias

from nnc.classes import dataclass
from nnc.core.running.dispatch import Call, Program
from nnc.faces import wire

# Address and bytes.
Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class StoredKernel:
    """The keys of a kernel's text and of its object, its phases (symbol, items, cost, first item), and what it reads.

    `sizes` are the words of the sizes at hand; `workspace` and `scratch` are bytes.
    """

    key: str
    stored: str
    phases: tuple[tuple[str, int, float, int], ...]
    sizes: tuple[int, ...]
    workspace: int
    scratch: int


@dataclass(frozen=True, slots=True)
class StoredLaunch:
    """A kernel by its number on operands (span, offset), with its own `words`; it touches (span, offset, bytes)."""

    kernel: int
    operands: tuple[tuple[int, int], ...]
    words: tuple[int, ...]
    reads: tuple[tuple[int, int, int], ...]
    writes: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class StoredSteps:
    """Launches in order, `own` bytes beside the spans, and the words there that are looked at behind a run.

    Of each word the operator that sets it, where it meets an index outside its axis, and the offset.
    """

    kernels: tuple[StoredKernel, ...]
    launches: tuple[StoredLaunch, ...]
    own: int
    checks: tuple[tuple[str, int], ...]


class RestoredSteps(Protocol):
    """Steps whose kernels are loaded."""

    def on(self, spans: Sequence[Span]) -> Program:
        """One program on this memory."""


class StepStore(Protocol):
    """Keeps the programs of a backend."""

    def storing_key(self) -> str:
        """All that decides on what its kernels are; empty where nothing may be kept."""

    def recorded(self, calls: Sequence[Call], spans: Sequence[Span]) -> StoredSteps | None:
        """The steps of these calls, which have run; None where they touch other memory."""

    def restored(self, steps: StoredSteps, sizes: Sequence[int]) -> RestoredSteps | None:
        """The steps with their kernels, of code that is on the disk, for spans of so many bytes.

        None where the code of a kernel is not there. ValueError where an operand is not inside of its span.
        """


@dataclass(slots=True, eq=False)
class StepStores:
    """Who keeps the programs of backends, by their names; made when first asked for."""

    _makers: dict[str, Callable[[], StepStore]] = field(default_factory=dict)

    def serve(self, name: str, make: Callable[[], StepStore]) -> None:
        """Programs of the backend of that name are kept by what `make` gives."""
        self._makers[name] = make

    def of(self, name: str) -> StepStore | None:
        """That of a backend, or without a name of the first one; None for one whose programs are not kept."""
        wire()
        make = self._makers.get(name) if name else next(iter(self._makers.values()), None)
        return None if make is None else make()


STEP_STORES = StepStores()
