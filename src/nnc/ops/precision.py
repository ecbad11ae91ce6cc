"""Precision rules: in which floats an operator may run when a network is computed in 16 bits.

LOW       in 16 bits: products, whose sums are kept in f32 by every kernel and rounded once
FOLLOW    in 16 bits between others that do: moves, and functions that enlarge no relative error by much
FULL      as it is: sums, exponentials, losses, optimizers, and all operators without a rule
"""

from __future__ import annotations

from enum import Enum

from nnc.classes import dataclass
from nnc.graph import OpAttr


class Runs(Enum):
    """The three classes."""

    LOW = "low"
    FOLLOW = "follow"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Precision:
    """The class of an operator, and the positions of inputs that stay f32 beside 16 bits: statistics, angles."""

    runs: Runs
    kept: tuple[int, ...] = ()


PRECISION = OpAttr[Precision]("precision")

LOW, FOLLOW, FULL = Precision(Runs.LOW), Precision(Runs.FOLLOW), Precision(Runs.FULL)
