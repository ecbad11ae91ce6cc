"""Masks of attention: what is added to scores, or hides them, an element for each."""

from __future__ import annotations

import math

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import PhaseWriter
from nnc.codegen.ir.builder import BOOL, F32, Builder, Scalar, Type, Value
from nnc.codegen.kernels.sequence.attention import Attention

# The place of the mask among the operands.
POSITION = 3
# Scores in powers of two.
IN_POWERS_OF_TWO = 1.0 / math.log(2.0)


@dataclass(frozen=True, slots=True)
class ScoreMask:
    """The mask of a head, of elements of `scalar`; its first one is at `start`, and its numbers count `unit` each."""

    problem: Attention
    scalar: Scalar
    place: Value
    start: Value
    unit: float

    @classmethod
    def of(
        cls, w: PhaseWriter, problem: Attention, scalar: Scalar | None, batch: Value, head: Value,
        position: int = POSITION, unit: float = IN_POWERS_OF_TWO,
    ) -> ScoreMask | None:  # fmt: skip
        """The operand of a position; None where there is no mask."""
        if scalar is None:
            return None
        steps = problem.mask_strides
        return cls(problem, scalar, w.argument(position), batch * steps[0] + head * steps[1], unit)

    def applied(self, b: Builder, score: Value, row: Value, column: Value) -> Value:
        """A score in these units with the mask; rows and columns behind the last read that one's."""
        p, steps = self.problem, self.problem.mask_strides
        index = self.start + b.least(row, p.rows - 1) * steps[2] + b.least(column, p.columns - 1) * steps[3]
        read = b.load(self.place, index, Type(self.scalar))
        if self.scalar == BOOL:
            return b.choose(read, score, -math.inf)
        return score + b.cast(read, F32) * self.unit
