"""What a generator wrote: text, and formulas of all that depends on the sizes that the text reads.

text, written = write(generator, target, name)
written.at(sizes)        phases and words of the same text at other sizes; None where the text is another one
"""

from __future__ import annotations

from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, opened, word_of
from nnc.codegen.ir.builder import I64, SCALARS, Module
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Derivation, Formulas, Known, blank

MOST_SIGNED = 1 << 63


@dataclass(frozen=True, slots=True)
class SizedKernel:
    """The phases of a kernel at sizes at hand, and the words that it reads then."""

    phases: tuple[Phase, ...]
    words: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WrittenPhase:
    """A phase: where its items, cost and first item are among the numbers that are known."""

    symbol: str
    items: int
    cost: int
    first: int


@dataclass(frozen=True, slots=True)
class WrittenKernel:
    """Formulas, the places of the words with the names of their types, and the phases."""

    formulas: Formulas
    words: tuple[tuple[int, str], ...]
    phases: tuple[WrittenPhase, ...]

    def at(self, sizes: Sequence[int]) -> SizedKernel | None:
        """The kernel at these sizes; None where the generator would write another text."""
        known = self.formulas.at(sizes)
        if known is None:
            return None
        phases = tuple([Phase(p.symbol, int(known[p.items]), known[p.cost], int(known[p.first])) for p in self.phases])
        return SizedKernel(phases, tuple([_word(known[place], kind) for place, kind in self.words]))


def _word(number: Known, kind: str) -> int:
    if kind == I64.name and type(number) is int and number < MOST_SIGNED:
        return number
    return word_of(number, SCALARS[kind])


def outline(generator: Generator, target: TargetDescription) -> tuple[Generator, tuple[int, ...]]:
    """The generator without the sizes that it reads, which is what its code depends on, and these sizes."""
    sizes: list[int] = []

    def read(size: int) -> int:
        sizes.append(size)
        return blank()

    return opened(generator, read, target), tuple(sizes)


def write(generator: Generator, target: TargetDescription, name: str) -> tuple[str, WrittenKernel]:
    """The text of all functions, whose names begin with `name`."""
    module = Module(target)
    written = write_into(module, generator, name)
    return str(module), written


def write_into(module: Module, generator: Generator, name: str) -> WrittenKernel:
    """The same as functions of a module."""
    derivation = Derivation()
    phases = opened(generator, derivation.read, module.target).emit(module, name)
    place = derivation.place
    written = tuple(
        WrittenPhase(phase.symbol, place(phase.items), place(phase.cost), place(phase.first)) for phase in phases
    )
    return WrittenKernel(derivation.close(), tuple(derivation.words), written)
