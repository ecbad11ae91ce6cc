"""What a program is made of, as numbers: places in memory, launches of kernels, loops, branches.

    program = kernels, and statements on places;   place = base + offset

A base is the arena, the constants, the lasting state, or a pointer that statements move.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator
from nnc.codegen.ir.builder import Scalar


class Base(Enum):
    """Memory that a caller hands over, or that the library has: constants."""

    ARENA = "arena"
    CONSTANTS = "constants"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Pointer:
    """A variable of the program that holds an address."""

    number: int


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """The byte `offset` behind a base."""

    base: Base | Pointer
    offset: int


@dataclass(frozen=True, slots=True)
class KernelRun:
    """A kernel by its number, the places of its operands and workspace, and numbers that it reads.

    From `scratch` on is the memory that whoever runs it alone has for itself.
    """

    kernel: int
    places: tuple[MemoryPlace, ...]
    scratch: MemoryPlace
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PointerMove:
    """Pointers become the addresses of places, all at once."""

    moves: tuple[tuple[Pointer, MemoryPlace], ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """A pointer becomes `views[count]`; behind the last of them `views[once]` and those behind it again and again."""

    pointer: Pointer
    views: tuple[MemoryPlace, ...]
    once: int
    count: MemoryPlace


@dataclass(frozen=True, slots=True)
class Repetition:
    """count = 0; before; leave unless the test holds; rest; count + 1; again.

    It goes on while count < `limit`, or while the element at `tested` is not zero: an error beyond `most` iterations.
    """

    count: MemoryPlace
    limit: int | None
    tested: tuple[MemoryPlace, Scalar] | None
    most: int | None
    before: tuple[Statement, ...]
    rest: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """The branch that the integer at `chosen` + `offset` names, or else `otherwise`; None is an error."""

    chosen: tuple[MemoryPlace, Scalar]
    offset: int
    branches: Mapping[int, tuple[Statement, ...]]
    otherwise: tuple[Statement, ...] | None


Statement: TypeAlias = KernelRun | PointerMove | Turn | Repetition | Selection


@dataclass(frozen=True, slots=True)
class PortPlace:
    """An input or output of the caller's: its bytes, its alignment and where it is in the arena."""

    nbytes: int
    alignment: int
    place: MemoryPlace


@dataclass(frozen=True, slots=True)
class LinkedProgram:
    """A program with its ports, and words that kernels set where an index is outside its axis.

    `state` is how the lasting memory begins. `constants` are in the library; None where the caller maps a file of them.
    `pointers` is how many there are. Bytes of the arena from `behind` on are no part of the plan. A `pooled` program
    may have several workers, each of whom but the first has `worker_bytes` behind the arena.
    """

    name: str
    kernels: tuple[Generator, ...]
    statements: tuple[Statement, ...]
    inputs: tuple[PortPlace, ...]
    outputs: tuple[PortPlace, ...]
    checks: tuple[MemoryPlace, ...]
    behind: int
    arena_bytes: int
    state: bytes
    constants: bytes | None
    constant_bytes: int
    pointers: int = 0
    worker_bytes: int = 0
    pooled: bool = False

    @property
    def state_bytes(self) -> int:
        """Bytes of the lasting memory."""
        return len(self.state)
