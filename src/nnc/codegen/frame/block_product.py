"""Products of blocks that lie in a cache: result[i, j] = factor * factors[i] * sum_k left[i, k] * right[k, j].

Nothing is packed, and each row may need other columns and other steps of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnc.classes import dataclass
from nnc.codegen.frame.tile import Accumulators, Tile, choose_tile, column_masks, load_row
from nnc.codegen.ir.builder import Builder, Scalar, Type, Value
from nnc.core.values.derived import known

MOST_ROWS = 8  # of a register tile
# Steps of a sum in a round of its loop: 0.9 of the time where another process has half of the core.
UNROLL = 4
# From this many vectors of columns on, all have one tile, that of this many columns.
FEW_VECTORS, MANY_COLUMNS = 4, 256


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in memory: element (i, j) is at base + i * row + j * column; one of `held` is read as what is summed."""

    base: Value
    row: int
    column: int = 1
    held: Scalar | None = None


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
        """Whole register tiles of rows, then rows one by one; the loops over the shorter side are the inner ones."""
        tile = choose_tile(b.target, self.scalar, min(self.shape[0], MOST_ROWS), self._about(b))
        whole = rows // tile.rows * tile.rows
        columns = self.bounds(b.constant(0), rows).columns
        wide = self.shape[1] > self.shape[0]
        for low, high, part in ((b.constant(0), whole, tile), (whole, rows, Tile(1, tile.vectors, tile.lanes))):
            if part == tile or tile.rows > 1:
                sides = (low, high, part.rows), (b.constant(0), columns, part.columns)
                outer, inner = sides[::-1] if wide else sides
                with b.loop(*outer) as first, b.loop(*inner) as second:
                    self._columns(b, part, *((second, first) if wide else (first, second)))

    def _about(self, b: Builder) -> int:
        """The columns that a tile is chosen for; where they are read, one number for all that fill many vectors."""
        columns, lanes = self.shape[1], b.target.lanes(8 * self.scalar.size)
        if known(columns):
            return columns
        return next((v * lanes for v in range(1, FEW_VECTORS) if columns <= v * lanes), MANY_COLUMNS)

    def _columns(self, b: Builder, tile: Tile, row: Value, column: Value) -> None:
        """One tile if its rows need all of its columns; single vectors if they need some."""
        needed = self.bounds(row, row + tile.rows)
        end = b.least(needed.columns, column + tile.columns)
        filled = b.compare("==", end, column + tile.columns)
        with b.when(filled):
            self._tile(b, tile, row, column, needed, [None] * tile.vectors)
        last = Tile(tile.rows, 1, tile.lanes)
        with b.loop(b.choose(filled, end, column), end, last.columns) as place:
            self._tile(b, last, row, place, needed, column_masks(b, last, end - place, ragged=True))

    def _tile(
        self, b: Builder, tile: Tile, row: Value, column: Value, needed: Bounds, masks: Sequence[Value | None]
    ) -> None:
        left, right, scalar = self.left, self.right, self.scalar
        sums = Accumulators.zeros(b, tile, scalar)
        lines = [b.offset(left.base, (row + i) * left.row, scalar) for i in range(tile.rows)]
        held = right.held or scalar
        start = b.offset(right.base, column, held)
        # What few elements need is not worth the code.
        unroll = UNROLL if tile.rows > 1 and masks[0] is None else 1
        rest = needed.first + (needed.last - needed.first) // unroll * unroll
        for low, high, count in ((needed.first, rest, unroll), (rest, needed.last, 1))[: 1 + (unroll > 1)]:
            with b.loop(low, high, count) as first:
                for k in range(count):
                    factors = [b.load(line, (first + k) * left.column, Type(scalar)) for line in lines]
                    vectors = load_row(b, start, (first + k) * right.row, tile, held, masks)
                    sums.multiply(factors, [b.cast(vector, scalar) for vector in vectors])
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
