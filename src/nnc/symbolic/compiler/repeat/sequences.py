"""Sequences over steps in graphs: which operators go step by step, and where their steps may be cut.

    parts of T steps of B examples:  [0, L), [L, 2 · L), … T   with L = max(⌈T / 16⌉, ⌈128 / B⌉)

What is summed over all steps, as the gradient of a weight is, is summed part by part in the order in which a gradient
goes (`passes/numbers/step_sums.py`). A schedule within a limit cuts sequences at the same places (`segments.py`), so
that the bits are those of the sequence in one piece.
"""

from __future__ import annotations

from typing import Any

from nnc.classes import dataclass
from nnc.graph import Op
from nnc.ops.sequence.recurrent import (
    GRU,
    GRU_GRADIENT,
    LSTM,
    LSTM_GRADIENT,
    RNN,
    RNN_GRADIENT,
    RecurrentAttrs,
    RnnAttrs,
)
from nnc.symbolic.ir import SymbolicGraph
from nnc.symbolic.records import ExecSymbol

# Segments of √T of the 64 to 1,024 steps that are usual; each is a few execs more.
MOST_PARTS = 16
# A product that sums fewer rows at a time reads and writes its result too often for what it computes.
LEAST_ROWS = 128


@dataclass(frozen=True, slots=True)
class Cell:
    """Places of the operands of a recurrent operator that are sequences, and what a part takes over from another.

    Forwards, `carried` says which output, at the last step of one part, is which operand of the next. Backwards, the
    gradient of a state that a part ends with is an output, and is added to a sequence at the step where it belongs; and
    the state that a part began with, an operand, is a step of another operand: `before` has these (operand, sequence).
    """

    sequences: tuple[int, ...]
    carried: tuple[tuple[int, int], ...]
    backward: bool = False
    before: tuple[tuple[int, int], ...] = ()


CELLS: dict[Op[Any], Cell] = {
    LSTM: Cell((0,), ((0, 2), (1, 3))),
    GRU: Cell((0,), ((0, 2),)),
    RNN: Cell((0,), ((0, 2),)),
    LSTM_GRADIENT: Cell((0, 1, 2, 3), ((1, 0), (2, 1)), True, ((5, 3),)),
    GRU_GRADIENT: Cell((0, 1, 2), ((2, 0),), True, ((4, 2),)),
    RNN_GRADIENT: Cell((0, 1), ((1, 0),), True),
}


def is_recurrent(record: ExecSymbol) -> bool:
    """Whether an exec goes over a sequence step by step."""
    return record.command.op in CELLS


def recurrent_gradients(graph: SymbolicGraph) -> list[ExecSymbol]:
    """The execs that go backwards through a sequence."""
    return [record for _, record in graph.execs.items() if is_recurrent(record) and CELLS[record.command.op].backward]


def is_ascending(record: ExecSymbol) -> bool:
    """Whether it begins with the first step."""
    attrs = record.command.attrs
    assert isinstance(attrs, RecurrentAttrs | RnnAttrs)
    return attrs.reverse == CELLS[record.command.op].backward


def parts_of(steps: int, batch: int) -> list[int]:
    """Where parts begin, and the end of the last one."""
    length = max(-(-steps // MOST_PARTS), -(-LEAST_ROWS // max(batch, 1)), 1)
    return [*range(0, steps, length), steps]
