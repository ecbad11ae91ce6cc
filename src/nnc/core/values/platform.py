"""Processors that libraries are made for, as their files tell of them, and the sizes that a library leaves open."""

from __future__ import annotations

from enum import Enum
from itertools import product

from nnc.classes import dataclass


class ObjectFormat(Enum):
    """What an object file is: ELF, COFF (Windows), Mach-O (macOS) or WebAssembly."""

    ELF = "elf"
    COFF = "coff"
    MACHO = "macho"
    WASM = "wasm"


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """A processor that libraries are made for, in LLVM's words, and the C compiler that links them.

    `shares` says whether its programs load shared libraries.
    """

    name: str
    triple: str
    processor: str
    features: str
    format: ObjectFormat
    compiler: str
    flags: str
    shares: bool = False


@dataclass(frozen=True, slots=True)
class OpenDimensions:
    """Sizes that callers give with each run: by name those that there are programs for, in order."""

    choices: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What is open."""
        return tuple(name for name, _ in self.choices)

    @property
    def rows(self) -> list[tuple[int, ...]]:
        """The sizes of each program; the last dimension goes fastest, and the largest of all are last."""
        return [*product(*(sizes for _, sizes in self.choices))]
