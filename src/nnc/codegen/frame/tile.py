"""Register tiles: acc[i, j] += a[i, k] * b[k, j] for a block of C that stays in registers over the whole k loop.

A tile is `rows` broadcasts against `vectors` vectors. Its size comes from the target: accumulators, one row of b and
one broadcast must fit the register file, and there must be enough of them to hide the latency of an FMA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import ceiling
from nnc.codegen.ir.builder import I32, Builder, LocalVariable, Scalar, Type, Value
from nnc.codegen.ir.target import FEW_REGISTERS, USUAL_CLOCK, TargetDescription
from nnc.core.values.sizes import decided

FMA_PER_CYCLE, LOADS_PER_CYCLE, FMA_LATENCY = 2, 2, 4
MAX_VECTORS = 16
# What a broadcast adds to a step of k, wherever its operand lies; a vector, which is a cache line, adds twice that.
LOADING_CYCLES = 0.05
# With few registers more loads stand beside each multiply-add. Where panels of three vectors stay in the nearest cache
# all loads count alike, and this much: 4x3 took 0.92 to 0.99 of the time of 6x2 (eight products at x86-64-v3).
CROWDED_CYCLES, CROWDED_VECTORS = 0.2, 3
# Another number of rows finds its code made where it has the same tile. Rows that most numbers of rows divide.
NEARLY, MANY_ROWS = 1.02, 5040
# From this many rows on, a product takes the tile of many: 0.97 to 1.03 of the time of the tile that is cheapest for
# them, where fewer rows took up to 1.10 (24 to 400 rows against 16 and 19, six products with weights in blocks; at
# x86-64-v3 0.92 to 1.03, and 1.11).
MANY = 24
# Alternatives to a tile: how many there are at most, and how much more they may cost.
MOST_ALTERNATIVES, DEAREST = 3, 1.5


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tile:
    """rows * (vectors * lanes) elements of C."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """Elements of one row."""
        return self.vectors * self.lanes

    @property
    def cycles(self) -> float:
        """About how many cycles one step of k takes."""
        return max(self.rows * self.vectors / FMA_PER_CYCLE, (self.rows + self.vectors) / LOADS_PER_CYCLE, FMA_LATENCY)

    def covering(self, rows: int, columns: int) -> float:
        """About how many cycles one step of k takes for rows x columns; of like tiles, the one that loads less wins."""
        loads = self.rows + 2 * self.vectors
        return ceiling(rows, self.rows) * ceiling(columns, self.columns) * (self.cycles + LOADING_CYCLES * loads)

    def crowded(self, rows: int, columns: int) -> float:
        """The same where registers are few and panels near."""
        loads = self.rows + self.vectors
        return ceiling(rows, self.rows) * ceiling(columns, self.columns) * (self.cycles + CROWDED_CYCLES * loads)

    @property
    def rests(self) -> tuple[int, ...]:
        """Rows at a time where there are fewer: as many as keep a processor busy, half as many, and so on."""
        heights = [1] if self.rows > 1 else []
        while heights and heights[0] * self.vectors < FMA_PER_CYCLE * FMA_LATENCY and 2 * heights[0] < self.rows:
            heights.insert(0, 2 * heights[0])
        return tuple(heights)

    @property
    def idle(self) -> bool:
        """Whether steps of k wait for each other's sums alone: some rows more take no longer."""
        multiplying, loading = self.rows * self.vectors / FMA_PER_CYCLE, (self.rows + self.vectors) / LOADS_PER_CYCLE
        return max(multiplying, loading) < FMA_LATENCY

    def __str__(self) -> str:
        """`14x2`: rows and vectors."""
        return f"{self.rows}x{self.vectors}"


@lru_cache(maxsize=64)
def candidates(target: TargetDescription, scalar: Scalar, width: int = 0) -> tuple[Tile, ...]:
    """Every tile that fits the registers, largest first; with a `width`, those with so many columns."""
    lanes = target.lanes(8 * scalar.size)
    tiles = [
        Tile(rows, vectors, lanes)
        for vectors in range(1, MAX_VECTORS + 1)
        for rows in range(1, target.vector_registers)
        if rows * vectors + vectors + 1 <= target.vector_registers and width in (0, vectors * lanes)
    ]
    return tuple(sorted(tiles, key=lambda tile: (-tile.rows * tile.vectors, tile.vectors)))


def tiles_for(target: TargetDescription, scalar: Scalar, width: int = 0) -> tuple[Tile, ...]:
    """The candidates; one row of sums beyond the registers, in memory, where panels are of wider registers than here.

    So blocks that were made for AVX-512, 64 columns wide, are read by 16 registers of 128 bits too, if slowly.
    """
    lanes = target.lanes(8 * scalar.size)
    return candidates(target, scalar, width) or (Tile(1, width // lanes, lanes),)


def choose_tile(
    target: TargetDescription, scalar: Scalar, rows: int, columns: int, width: int = 0, depth: int = 0
) -> Tile:
    """The tile of least cost, or one nearly as cheap that is for more sizes; with a `width`, of so many columns."""
    return decided(_cheapest_tile, target, scalar, rows, columns, width, depth)


@lru_cache(maxsize=1024)
def _cheapest_tile(target: TargetDescription, scalar: Scalar, rows: int, columns: int, width: int, depth: int) -> Tile:
    steady = cost_of_tiles(target, MANY_ROWS, columns, depth)
    cost = cost_of_tiles(target, rows, columns, depth)
    if target.vector_registers <= FEW_REGISTERS:
        # There costs lie close together, and which of them is least was measured (`CROWDED_CYCLES`).
        return min(tiles_for(target, scalar, width), key=cost)
    return steadiest(tiles_for(target, scalar, width), cost, lambda tile: (steady(tile), tile.rows))


def alike(rows: int) -> int:
    """A number of rows for all that have one tile."""
    return rows if rows < MANY else MANY_ROWS


def steadiest(choices: Iterable[T], cost: Callable[[T], float], steady: Callable[[T], tuple[float, int]]) -> T:
    """Of what costs at most `NEARLY` as much as the cheapest, the cheapest for many rows: one choice for more sizes."""
    costs = [(choice, cost(choice)) for choice in choices]
    most = NEARLY * min(each for _, each in costs)
    return min((choice for choice, each in costs if each <= most), key=steady)


def cost_of_tiles(target: TargetDescription, rows: int, columns: int, depth: int = 0) -> Callable[[Tile], float]:
    """The cycles in which a tile covers rows x columns; it reads panels of `depth` steps, if that is known."""
    near = CROWDED_VECTORS * target.vector_bits // 8 * depth <= target.machine.level_one_bytes
    crowded = depth > 0 and near and target.vector_registers <= FEW_REGISTERS
    return lambda tile: tile.crowded(rows, columns) if crowded else tile.covering(rows, columns)


def alternatives(tiles: Iterable[Tile], cost: Callable[[Tile], float], chosen: Tile) -> tuple[Tile, ...]:
    """For each number of vectors but that of the chosen tile the one of least cost, cheapest first, not the dearest."""
    cheapest: dict[int, Tile] = {}
    for tile in sorted(tiles, key=cost):
        cheapest.setdefault(tile.vectors, tile)
    most = DEAREST * min(map(cost, cheapest.values()))
    others = [tile for vectors, tile in cheapest.items() if vectors != chosen.vectors]
    return tuple(tile for tile in others if cost(tile) <= most)[:MOST_ALTERNATIVES]


def nanoseconds(target: TargetDescription, scalar: Scalar, products: float) -> float:
    """About how long one worker of the usual clock needs for so many multiply-adds."""
    return products / (target.lanes(8 * scalar.size) * target.machine.multiply_adds * USUAL_CLOCK)


@dataclass(frozen=True, slots=True)
class Accumulators:
    """The registers of a tile: slots[i][j]."""

    b: Builder
    tile: Tile
    scalar: Scalar
    slots: tuple[tuple[LocalVariable, ...], ...]

    @classmethod
    def zeros(cls, b: Builder, tile: Tile, scalar: Scalar) -> Accumulators:
        """acc = 0"""
        zero = b.zero(Type(scalar, tile.lanes))
        rows = tuple(tuple(b.variable(zero) for _ in range(tile.vectors)) for _ in range(tile.rows))
        return cls(b, tile, scalar, rows)

    def multiply(self, left: Sequence[Value], right: Sequence[Value]) -> None:
        """acc[i][j] += left[i] * right[j]; left are scalars, right vectors."""
        for row, factor in zip(self.slots, left, strict=True):
            spread = self.b.splat(factor, self.tile.lanes)
            for slot, vector in zip(row, right, strict=True):
                slot.set(self._step(spread, vector, slot.get()))

    def _step(self, left: Value, right: Value, total: Value) -> Value:
        """total + left * right; words are pairs of bf16."""
        if left.type.scalar == I32:
            return self.b.sum_pairs(left, right, total)
        return self.b.accumulate(left, right, total)


def load_row(
    b: Builder, pointer: Value, index: Value | int, tile: Tile, scalar: Scalar, masks: Sequence[Value | None]
) -> list[Value]:
    """The vectors of one row of a tile."""
    kind = Type(scalar, tile.lanes)
    start = b.offset(pointer, index, scalar)
    return [b.load(start, j * tile.lanes, kind, mask) for j, mask in enumerate(masks)]


def column_masks(b: Builder, tile: Tile, columns: Value, ragged: bool) -> list[Value | None]:
    """masks[j][lane]: column j * lanes + lane is below `columns`; None everywhere when nothing is ragged."""
    if not ragged:
        return [None] * tile.vectors
    return [b.mask(columns - j * tile.lanes, tile.lanes) for j in range(tile.vectors)]
