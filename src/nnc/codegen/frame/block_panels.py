"""Panels of weights in blocks: panel[k][lane] = W[first + lane, k], or W[k, first + lane] where these lie by rows.

Values of some blocks are written into a buffer that stays in the nearest cache, and from there into the panel: blocks
of a row are as long as its sum, so panels whose lanes are rows are transposed on the way.
"""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.codegen.frame.block_values import block_vectors
from nnc.codegen.frame.kernel import ceiling
from nnc.codegen.frame.packing import transpose
from nnc.codegen.frame.tile import Tile
from nnc.codegen.ir.builder import F32, U8, Builder, Type, Value
from nnc.codegen.ir.native_kernel import aligned
from nnc.core.values.blocks import FORMATS, BlockFormat


@dataclass(frozen=True, slots=True)
class PanelPart:
    """Which part of the matrix a panel holds: columns from `column` on, `depth` steps of the sum from k on."""

    column: Value
    k: Value
    depth: Value


@dataclass(frozen=True, slots=True)
class BlockMatrix:
    """`rows` of `elements` in a format; in panels either rows are lanes, or elements of a row are."""

    format: str
    rows: int
    elements: int
    by_rows: bool

    @property
    def form(self) -> BlockFormat:
        """The format."""
        return FORMATS[self.format]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.form.row_bytes(self.elements)

    def steps(self, most: int) -> int:
        """Steps of a sum in equal parts of at most `most`: whole blocks where rows are lanes."""
        size = self.form.size if self.by_rows else 1
        inner = (self.elements if self.by_rows else self.rows) // size
        parts = ceiling(max(inner, 1), max(most // size, 1))
        return max(ceiling(inner, parts), 1) * size

    def buffer_bytes(self, tile: Tile) -> int:
        """What is unpacked at a time: a block of some rows, or all blocks of a row that a panel touches."""
        blocks = tile.lanes if self.by_rows else ceiling(tile.columns - 1, self.form.size) + 1
        return aligned(blocks * self.form.size * F32.size)

    def pack(self, b: Builder, matrix: Value, part: PanelPart, panel: Value, buffer: Value, tile: Tile) -> None:
        """Write a panel as the tile reads it; lanes beyond the last one hold any numbers."""
        write = self._transposed if self.by_rows else self._copied
        write(b, matrix, part, panel, buffer, tile)

    def _unpack(self, b: Builder, block: Value, place: Value) -> None:
        for start, values in block_vectors(b, self.format, block):
            b.store(values, place, start)

    def _transposed(self, b: Builder, matrix: Value, part: PanelPart, panel: Value, buffer: Value, tile: Tile) -> None:
        """A block of each of some rows at a time; squares of it are transposed in registers."""
        size, lanes, kind = self.form.size, tile.lanes, Type(F32, tile.lanes)
        with b.loop(0, part.depth // size) as number, b.loop(0, tile.columns, lanes) as first:
            with b.loop(0, lanes) as lane:
                row = b.least(part.column + first + lane, self.rows - 1)
                start = row * self.row_bytes + (part.k // size + number) * self.form.bytes
                self._unpack(b, b.offset(matrix, start, U8), b.offset(buffer, lane * size, F32))
            with b.loop(0, size, lanes) as step:
                rows = [b.load(buffer, step + lane * size, kind) for lane in range(lanes)]
                place = b.offset(panel, (number * size + step) * tile.columns + first, F32)
                for following, values in enumerate(transpose(b, rows)):
                    b.store(values, place, following * tile.columns)

    def _copied(self, b: Builder, matrix: Value, part: PanelPart, panel: Value, buffer: Value, tile: Tile) -> None:
        """All blocks of a row that the columns touch at a time."""
        size, kind = self.form.size, Type(F32, tile.lanes)
        begin = part.column // size
        end = b.least((part.column + (tile.columns - 1)) // size + 1, self.elements // size)
        with b.loop(0, part.depth) as step:
            row = b.offset(matrix, (part.k + step) * self.row_bytes, U8)
            with b.loop(begin, end) as number:
                place = b.offset(buffer, (number - begin) * size, F32)
                self._unpack(b, b.offset(row, number * self.form.bytes, U8), place)
            for lane in range(0, tile.columns, tile.lanes):
                values = b.load(buffer, part.column - begin * size + lane, kind)
                b.store(values, panel, step * tile.columns + lane)
