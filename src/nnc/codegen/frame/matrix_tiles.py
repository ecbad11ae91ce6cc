"""Tiles of AMX: sums[i, j] += sum over words p of a register and elements e of a word: left[i, p, e] * right[p, j, e].

A register has 16 rows of 64 bytes: 16 x 16 sums of 32 bits, 16 rows of 16 words of the left side, or 16 rows of words
of 16 columns of the right one. A word is two steps of the sum in bf16, or four of bytes. The eight registers hold
up to 2 x 2 blocks of sums, two blocks of each side. They are configured on entry of a phase and released at its
end, so that nobody else ever finds them in use. Products round as AMX does: two sums of f32, of even and of odd steps,
for the words of a register, denormals as 0; then their sum is added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import ceiling
from nnc.codegen.frame.packing import Packing
from nnc.codegen.frame.tile import Tile
from nnc.codegen.ir.builder import ADDRESS, I32, Builder, Scalar, Type, Value

SIDE = 16  # rows of a register, and words of a row
WORD_BYTES, ROW_BYTES = 4, 64
REGISTERS = 8
# Cycles of a product of two registers, and of reading one (Intel's optimization manual, 20.5).
PRODUCT_CYCLES, LOAD_CYCLES = 16.0, 8.0
# Words multiplied in the time of one by vectors, which do two registers in a cycle; words of bf16 are two of f32 there.
FASTER = SIDE * SIDE * SIDE / PRODUCT_CYCLES / (2 * SIDE)
# Registers: sums of (row, column) are row * 2 + column.
LEFT, RIGHT = 4, 6
# Palette 1: every register has 16 rows of 64 bytes. Words of eight bytes, the first in front.
_CONFIGURATION = (1, 0, 0x0040_0040_0040_0040, 0x0040_0040_0040_0040, 0, 0, 0x1010_1010_1010_1010, 0)
# Blocks of sums: 2 x 2 read least for each product.
BLOCKS = ((2, 2), (1, 2), (2, 1), (1, 1))


def tile_of(blocks: tuple[int, int]) -> Tile:
    """So many registers of sums down and across."""
    return Tile(blocks[0] * SIDE, blocks[1], SIDE)


def cycles(tile: Tile, words: int) -> float:
    """About how many cycles the sums of a tile take over so many words."""
    down, across = tile.rows // SIDE, tile.vectors
    each = max(PRODUCT_CYCLES * down * across, LOAD_CYCLES * (down + across))
    return ceiling(words, SIDE) * each


def cheapest(rows: int, columns: int, words: int, width: int = 0) -> tuple[float, Tile]:
    """The cycles of a product, and the tile that needs fewest; with a `width`, of those with so many columns."""
    tiles = [tile for tile in map(tile_of, BLOCKS) if width in (0, tile.columns)]
    costs = [(ceiling(rows, each.rows) * ceiling(columns, each.columns) * cycles(each, words), each) for each in tiles]
    return min(costs, key=lambda cost: cost[0], default=(float("inf"), tile_of(BLOCKS[0])))


@contextmanager
def configured(b: Builder) -> Iterator[None]:
    """Registers of tiles may be used inside."""
    name = b.module.table(f"{b.name}_tiles", _CONFIGURATION)
    _call(b, "ldtilecfg", Value(name, ADDRESS, b))
    yield
    _call(b, "tilerelease")


@dataclass(frozen=True, slots=True)
class Side:
    """Where blocks of one side begin, and how far apart they are: bytes from block to block along the sum, and from row
    to row of a register.
    """

    blocks: Sequence[Value]
    step: int
    row: int

    @classmethod
    def right(cls, b: Builder, tile: Tile, panel: Value) -> Side:
        """The columns of a tile, from the first word of a panel of them on."""
        row = tile.columns * WORD_BYTES
        return cls([b.offset(panel, j * SIDE, I32) for j in range(tile.vectors)], SIDE * row, row)


def multiply(b: Builder, product: str, left: Side, right: Side, count: Value | int) -> None:
    """sums[i][j] += left.blocks[i] · right.blocks[j], over `count` registers along the sum"""
    with b.loop(0, count) as index:
        for first, side in ((LEFT, left), (RIGHT, right)):
            for number, block in enumerate(side.blocks):
                place = b.offset(block, index * (side.step // WORD_BYTES), I32)
                _move(b, "tileloadd64", first + number, place, side.row)
        for i in range(len(left.blocks)):
            for j in range(len(right.blocks)):
                _call(b, product, 2 * i + j, LEFT + i, RIGHT + j)


def clear(b: Builder, tile: Tile) -> None:
    """sums = 0"""
    for number in _sums(tile):
        _call(b, "tilezero", number)


def spill(b: Builder, tile: Tile, place: Value) -> None:
    """place[row][column] = sums, words of 32 bits"""
    for number in _sums(tile):
        first = number // 2 * SIDE * tile.columns + number % 2 * SIDE
        _move(b, "tilestored64", number, b.offset(place, first, I32), tile.columns * WORD_BYTES)


def _sums(tile: Tile) -> list[int]:
    return [2 * i + j for i in range(tile.rows // SIDE) for j in range(tile.vectors)]


def _move(b: Builder, name: str, register: int, place: Value, row: int) -> None:
    _call(b, name, register, place, b.constant(row))


def _call(b: Builder, name: str, *operands: Value | int) -> None:
    """A call of an intrinsic; numbers of registers are immediates."""
    given = [
        ("i8", str(operand)) if isinstance(operand, int) else (str(operand.type), operand.text) for operand in operands
    ]
    b.module.declare(f"llvm.x86.{name}", "void", [kind for kind, _ in given])
    b.line(f"call void @llvm.x86.{name}({', '.join(f'{kind} {text}' for kind, text in given)})")


@dataclass(frozen=True, slots=True)
class SpilledVector:
    """A vector of sums in memory."""

    b: Builder
    place: Value
    index: int
    kind: Type

    def get(self) -> Value:
        """Read it."""
        return self.b.load(self.place, self.index, self.kind)


def spilled_row(b: Builder, tile: Tile, place: Value, row: Value, scalar: Scalar) -> tuple[SpilledVector, ...]:
    """The vectors of a row of sums."""
    start = b.offset(place, row * tile.columns, scalar)
    return tuple(SpilledVector(b, start, j * tile.lanes, Type(scalar, tile.lanes)) for j in range(tile.vectors))


def pack_left(b: Builder, packing: Packing, source: Value, count: Value, depth: int, panel: Value) -> None:
    """panel[block along the sum][row][word] = the words of `count` rows, zero beyond the last row and step."""
    with b.loop(0, ceiling(depth, SIDE * packing.steps)) as block, b.loop(0, packing.width, SIDE) as first:
        place = b.offset(panel, (block * packing.width + first) * SIDE, I32)
        for row, words in enumerate(packing.square(b, source, count, b.constant(depth), first, block * SIDE)):
            b.store(words, place, row * SIDE)


def clear_rest(b: Builder, tile: Tile, words: int, panel: Value) -> None:
    """panel[word][column] = 0 for the words that fill up the last register of a right side"""
    zero = b.zero(Type(I32, SIDE))
    for index in range(words * tile.columns, ceiling(words, SIDE) * SIDE * tile.columns, SIDE):
        b.store(zero, panel, index)
