"""Products of blocks that lie in a cache: result[i, j] = factor * factors[i] * sum_k left[i, k] * right[k, j].

Nothing is packed, and each row may need other columns and other steps of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnc.backends.llvm.frame.tile import Accumulators, Tile, choose_tile, column_masks, load_row
from nnc.backends.llvm.ir.builder import Builder, Scalar, Type, Value

MOST_ROWS = 8  # of a register tile


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in memory: element (i, j) is at base + i * row + j * column."""

    base: Value
    row: int
    column: int = 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of some rows of a product: the columns [0, columns), and the steps [first, last) of their sums."""

    columns: Value
    first: Value
    last: Value


@dataclass(frozen=True, slots=True)
class BlockProduct:
    """One product. `bounds(first, end)` is what rows [first, end) need; `factors` is the address of one per row.

    `added` keeps what is in the result and adds to it. `shape` is about how many rows and columns there are.
    """

    scalar: Scalar
    left: Matrix
    right: Matrix
    result: Matrix
    bounds: Callable[[Value, Value], Bounds]
    shape: tuple[int, int]
    factor: float = 1.0
    factors: Value | None = None
    added: bool = False

    def write(self, b: Builder, rows: Value) -> None:
        """Rows [0, rows): whole register tiles, then one by one."""
        tile = choose_tile(b.target, self.scalar, min(self.shape[0], MOST_ROWS), self.shape[1])
        whole = rows // tile.rows * tile.rows
        with b.loop(0, whole, tile.rows) as row:
            self._strip(b, tile, row)
        if tile.rows > 1:
            with b.loop(whole, rows) as row:
                self._strip(b, Tile(1, tile.vectors, tile.lanes), row)

    def _strip(self, b: Builder, tile: Tile, row: Value) -> None:
        """The rows of one tile: whole tiles of columns, then single vectors."""
        needed = self.bounds(row, row + tile.rows)
        filled = needed.columns // tile.columns * tile.columns
        with b.loop(0, filled, tile.columns) as column:
            self._tile(b, tile, row, column, needed, [None] * tile.vectors)
        last = Tile(tile.rows, 1, tile.lanes)
        with b.loop(filled, needed.columns, last.columns) as column:
            self._tile(b, last, row, column, needed, column_masks(b, last, needed.columns - column, ragged=True))

    def _tile(
        self, b: Builder, tile: Tile, row: Value, column: Value, needed: Bounds, masks: Sequence[Value | None]
    ) -> None:
        left, right, scalar = self.left, self.right, self.scalar
        sums = Accumulators.zeros(b, tile, scalar)
        lines = [b.offset(left.base, (row + i) * left.row, scalar) for i in range(tile.rows)]
        start = b.offset(right.base, column, scalar)
        with b.loop(needed.first, needed.last) as k:
            factors = [b.load(line, k * left.column, Type(scalar)) for line in lines]
            sums.multiply(factors, load_row(b, start, k * right.row, tile, scalar, masks))
        for i, slots in enumerate(sums.slots):
            place = b.offset(self.result.base, (row + i) * self.result.row + column, scalar)
            values = self._scaled(b, tile, row + i, [slot.get() for slot in slots])
            for j, (value, mask) in enumerate(zip(values, masks, strict=True)):
                before = b.load(place, j * tile.lanes, value.type, mask) if self.added else None
                b.store(value if before is None else value + before, place, j * tile.lanes, mask)

    def _scaled(self, b: Builder, tile: Tile, row: Value, values: list[Value]) -> list[Value]:
        if self.factors is not None:
            factor = b.splat(b.load(self.factors, row, Type(self.scalar)) * self.factor, tile.lanes)
            return [value * factor for value in values]
        return values if self.factor == 1.0 else [value * self.factor for value in values]
