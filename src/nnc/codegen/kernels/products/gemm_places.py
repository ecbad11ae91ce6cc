"""Where the loops of a matrix product stand: the matrices of an item, and the block of them."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.codegen.ir.builder import Value


@dataclass(frozen=True, slots=True)
class Matrices:
    """Where the matrices of one item begin."""

    a: Value
    b: Value
    c: Value
    bias: Value | None
    extras: Sequence[Value]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of c: rows [row, row + rows), columns [column, column + columns), steps [k, k + depth) of the sum.

    It is the `first` that reads its columns of b; the block of a after this one begins at (next_row, next_k).
    """

    row: Value
    rows: Value
    column: Value
    columns: Value
    k: Value
    depth: Value
    first: Value
    next_row: Value
    next_k: Value
