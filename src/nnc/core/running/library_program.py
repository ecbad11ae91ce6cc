"""A program as a backend makes a library of it: statements on tensors of this process, and what their memory is there.

    code = backend.library(program)        where backend is DISPATCHER.backend("target:aarch64")

Nothing of the tensors but constants' bytes is read: addresses say which byte of the arena, of constants or of lasting
state an operand is. What moves during a run is a stand-in, whose memory nobody touches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from nnc.classes import dataclass
from nnc.core.running.dispatch import Call
from nnc.core.values.platform import OpenDimensions, TargetFacts
from nnc.core.values.tensor import Tensor


@dataclass(frozen=True, slots=True)
class MemorySpan:
    """Bytes [begin, begin + nbytes) of this process, which begin at `offset` of what they are in the library."""

    begin: int
    nbytes: int
    offset: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Reassignment:
    """Stand-ins become other tensors, all at once."""

    moves: tuple[tuple[Tensor, Tensor], ...]


@dataclass(frozen=True, slots=True, eq=False)
class CyclicView:
    """A stand-in becomes `views[count]`; behind the last one `views[once]` and those behind it again and again."""

    standin: Tensor
    views: tuple[Tensor, ...]
    once: int
    count: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class LibraryLoop:
    """count = 0; before; leave unless count < limit, or `tested` is not zero; rest; count + 1; again."""

    count: Tensor
    limit: int | None
    tested: Tensor | None
    at_most: int | None
    before: tuple[LibraryStatement, ...]
    rest: tuple[LibraryStatement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LibraryBranch:
    """The branch that the integer in `chosen` + `offset` names, or else `otherwise`; None is an error."""

    chosen: Tensor
    offset: int
    branches: Mapping[int, tuple[LibraryStatement, ...]]
    otherwise: tuple[LibraryStatement, ...] | None = ()


LibraryStatement: TypeAlias = Call | Reassignment | CyclicView | LibraryLoop | LibraryBranch


@dataclass(frozen=True, slots=True, eq=False)
class LibraryProgram:
    """All that a library is made of.

    `constants` and `state` say where their spans lie in one block of bytes each; `content` is that of the constants,
    None where a caller maps a file; `initial` is how the state begins. `beside` are tensors that lie behind the arena.
    A `pooled` program may be run by several workers.
    """

    name: str
    statements: tuple[LibraryStatement, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    arena: MemorySpan
    constants: tuple[MemorySpan, ...]
    constant_bytes: int
    content: bytes | None
    state: tuple[MemorySpan, ...]
    initial: bytes
    beside: tuple[Tensor, ...] = ()
    standins: tuple[Tensor, ...] = ()
    pooled: bool = False


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """An object file with the names that it has for others, those that it leaves to others, and its bytes of code.

    `stack_bytes` is how deep the stack gets; 0 where that is not known beforehand.
    """

    content: bytes
    defined: tuple[str, ...]
    undefined: tuple[str, ...]
    code_bytes: int
    stack_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LibraryCode:
    """The object file of a program, and that of what compilers expect of a C library: memcpy and the like.

    `arena_bytes` counts those of the plan, and `beside` behind them by what they are for: words that kernels set and
    copies without gaps. A worker beyond the first needs `worker_bytes` more. `alone` is the program with what others
    find in a C library, where a module is made of it without a linker. `arenas` are the bytes for each size, of which
    `arena_bytes` is the largest.
    """

    target: TargetFacts
    program: ObjectFile
    support: ObjectFile
    arenas: tuple[int, ...]
    beside: Mapping[str, int]
    worker_bytes: int
    kernels: int
    alone: ObjectFile | None = None

    @property
    def arena_bytes(self) -> int:
        """Bytes that are enough for every size."""
        return max(self.arenas)


@runtime_checkable
class LibraryBackend(Protocol):
    """A backend that makes libraries."""

    @property
    def is_module(self) -> bool:
        """Whether they are modules of WebAssembly, which need no linker."""

    @property
    def facts(self) -> TargetFacts:
        """The processor that they are for."""

    def library(self, programs: Sequence[LibraryProgram], opened: OpenDimensions | None = None) -> LibraryCode:
        """Object code for programs all of whose calls are this backend's: one, or one for each row of open sizes.

        Those of several sizes have the same ports but for their sizes, the same state and the same constants.
        """
