"""A native program of many calls at work, with the checks behind it."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.backends.llvm.run.runtime import NativeProgram, ZeroedMemory
from nnc.classes import dataclass
from nnc.core.running.dispatch import Relocation
from nnc.errors import IndexRangeError


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """The word that a checked kernel sets when it meets an index outside its axis."""

    subject: str
    word: ZeroedMemory

    def __call__(self) -> None:
        """IndexRangeError if the word is set; it is cleared for the next run."""
        if self.word.words[0]:
            self.word.words[0] = 0
            raise IndexRangeError(self.subject, got="an index outside its axis", need="0 ≤ index < the axis's size")


@dataclass(frozen=True, slots=True, eq=False)
class AssembledProgram:
    """A native program with the checks behind it, and what it keeps alive."""

    program: NativeProgram
    checks: tuple[IndexCheck, ...]
    kept: object

    def __call__(self) -> None:
        self.program.run()
        for check in self.checks:
            check()

    def relocation(self, spans: Sequence[tuple[int, int]]) -> Relocation:
        """Operands inside the spans move."""
        return self.program.relocation(spans)
