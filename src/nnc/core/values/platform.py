"""Processors that libraries are made for, as their files tell of them, and the size that a library leaves open."""

from __future__ import annotations

from enum import Enum

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
class OpenSize:
    """A size that callers give with each run, by name, and those that there are programs for, in order."""

    name: str
    sizes: tuple[int, ...]
