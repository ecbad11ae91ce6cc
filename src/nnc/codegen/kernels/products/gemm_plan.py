"""The plan of a matrix product: its register tile, what is read in place, blocks, panels, what is asked for ahead.

    tiling       the tile, and how often it covers c
    blocking     items, steps of k in a block, rows and columns of a block
    packing      what is read where it is, and where and when the rest is packed
    prefetching  which cache lines tiles ask for before they are read

Each decision is a function that says what it decides and the figures that made it. Only the tile and the depth of a
block change the bits of a result, and neither follows the machine (docs/design/0026).
"""

from __future__ import annotations

import math
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame import matrix_tiles
from nnc.codegen.frame.access import Shape
from nnc.codegen.frame.block_panels import BlockMatrix
from nnc.codegen.frame.kernel import ceiling
from nnc.codegen.frame.packing import Packing
from nnc.codegen.frame.tile import Tile, alike, choose_tile
from nnc.codegen.ir.builder import BF16, F32, Scalar
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import aligned
from nnc.codegen.ir.target import FEW_REGISTERS, SUM_BYTES, TargetDescription
from nnc.core.values.derived import Read, known, known_multiple, largest, whether_at_most

# Steps of k in a block, and how few of them another plan may have.
MAX_DEPTH, LEAST_DEPTH = 384, 128
PACKED_BYTES = 2 * 1024 * 1024  # of a block of b
# Of a block of a: half of 2 MB took 1.01 to 1.1 times as long on an Emerald Rapids, 1024 rows, at 512 and 256 bits; at
# a quarter 197 and 256 rows are one block: 0.91 to 0.94 of the time of an eighth; 512 rows and more take as long.
MOST_BLOCK_BYTES = 512 * 1024
FEW_TILES, MANY_PANELS = 2, 16
# The processor does not prefetch steps of k that are at least this many bytes apart.
STRAY_BYTES = 1024
# Where registers have this many bits, reading part of one takes no longer than reading it whole.
MASKED_BITS = 512
# Steps of k that take long enough to fetch a tile of c meanwhile.
FETCHING_DEPTH = 64
# Steps of k in one round of the loop: 0.94 to 0.97 of the time of one, 128x768x768 and 128x768x3072 in blocks.
STEPS_AT_ONCE = 4
# Steps of k in a register of a matrix.
MATRIX_STEPS = matrix_tiles.SIDE * 2


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """Sizes, and strides in elements: `*_batch` along the batch axes, `*_rows` etc. along the matrix axes.

    c's columns are contiguous. `tile` and `most_depth`, the most steps of k in a block, take the place of what the plan
    would choose. With a `width` b lies in panels of so many columns as tiles read it, `b_inner` apart for each k, the
    first of each where `b_columns` says. Where b is in `blocks` of bytes its strides say nothing.
    """

    scalar: Scalar
    batch: Shape
    rows: int
    columns: int
    inner: int
    a_batch: Shape
    a_rows: int
    a_inner: int
    b_batch: Shape
    b_inner: int
    b_columns: int
    c_batch: Shape
    c_rows: int
    bias: bool = False
    tile: Tile | None = None
    most_depth: int = 0
    width: int = 0
    blocks: BlockMatrix | None = None

    def opened(self, read: Read) -> MatrixProduct:
        """Rows are read, and batches; columns and steps of the sum are those of weights, which shape the code.

        Where b has a matrix for each of the batch it is no weights: all sizes are read. Where a is transposed, as for
        gradients of weights, its steps are rows of activations.
        """
        batch, a_batch, b_batch, c_batch = (
            tuple([step if step in (0, 1) else read(step) for step in part])
            for part in (self.batch, self.a_batch, self.b_batch, self.c_batch)
        )
        opened = replace(self, batch=batch, a_batch=a_batch, b_batch=b_batch, c_batch=c_batch, rows=read(self.rows))
        every = any(self.b_batch)
        if not every and self.a_inner == 1:
            return opened
        opened = replace(opened, inner=read(self.inner))
        if not every:
            return opened
        a_rows, a_inner, b_inner, b_columns, c_rows = (
            step if step in (0, 1) else read(step)
            for step in (self.a_rows, self.a_inner, self.b_inner, self.b_columns, self.c_rows)
        )
        return replace(
            opened, columns=read(self.columns), a_rows=a_rows, a_inner=a_inner, b_inner=b_inner, b_columns=b_columns,
            c_rows=c_rows,
        )  # fmt: skip

    @property
    def work(self) -> Scalar:
        """The element type of sums and of packed operands."""
        return computed(self.scalar)

    @property
    def widens(self) -> bool:
        """Whether elements have 16 bits, which are computed in f32."""
        return self.work != self.scalar


@dataclass(frozen=True, slots=True)
class Tiling:
    """The register tile, whether it is of registers of matrices (AMX), and how many cover the rows and columns of c."""

    tile: Tile
    by_matrices: bool
    row_tiles: int
    column_tiles: int
    ragged_rows: bool
    ragged_columns: bool

    @classmethod
    def of(cls, problem: MatrixProduct, target: TargetDescription) -> Tiling:
        """The tile asked for, else that of matrices where it is faster, else the cheapest."""
        of_matrices, rows, columns = matrix_tile(problem, target), problem.rows, problem.columns
        tile = problem.tile or of_matrices
        if tile is None:
            tile = choose_tile(target, problem.work, alike(rows), columns, problem.width, MAX_DEPTH)
        counts = ceiling(rows, tile.rows), ceiling(columns, tile.columns)
        ragged = [not known_multiple(size, each) for size, each in ((rows, tile.rows), (columns, tile.columns))]
        return cls(tile, of_matrices is not None, *counts, *ragged)

    @property
    def rests(self) -> tuple[int, ...]:
        """Rows at a time behind whole tiles, if there may be any; the last ones are computed too where they are fewer.

        Down to one row at a time, code took 1.16 times as long to compile. Without, ten products of 23 to 128
        rows take 0.99 of the time as a whole, those of 25 and 29 rows 1.03 to 1.05 (256 bits, in turns).
        """
        heights = self.tile.rests if self.ragged_rows else ()
        last = next((rows for rows in heights if replace(self.tile, rows=rows).idle), 1)
        return tuple(rows for rows in heights if rows >= last)

    @property
    def spilled_rows(self) -> int:
        """Rows of sums that are in memory before they are stored: of a tile of matrices, or behind whole tiles."""
        if self.by_matrices:
            return self.tile.rows
        return ceiling(self.tile.rows - 1, self.rests[-1]) * self.rests[-1] if self.rests else 0

    def reads_part_of_a_register(self, target: TargetDescription) -> bool:
        """Whether the last columns need masks, and these take registers or time."""
        return self.ragged_columns and target.vector_bits != MASKED_BITS


@dataclass(frozen=True, slots=True)
class Sources:
    """Which operands tiles read where they are."""

    a_in_place: bool
    b_in_place: bool

    @classmethod
    def of(cls, problem: MatrixProduct, tiling: Tiling, target: TargetDescription) -> Sources:
        """Each operand by itself."""
        return cls(_reads_a_in_place(problem, tiling, target), _reads_b_in_place(problem, tiling, target))


@dataclass(frozen=True, slots=True)
class Blocking:
    """Items are `panels` along the longer side of c, by columns (1) or by rows (0); sizes of a block, in elements."""

    by_columns: int
    panels: int
    items: int
    depth: int
    rows: int
    columns: int

    @classmethod
    def of(cls, problem: MatrixProduct, tiling: Tiling, sources: Sources, target: TargetDescription) -> Blocking:
        """Blocks of a for the second-level cache, blocks of b for the one behind it."""
        by_columns = _divides_columns(tiling, sources)
        covered = min(tiling.row_tiles, tiling.column_tiles) > 0
        panels = by_columns * tiling.column_tiles + (1 - by_columns) * tiling.row_tiles if covered else 0
        depth = _depth(problem, tiling.tile)
        rows, columns = _block_rows(problem, tiling, depth, target), _block_columns(problem, tiling, depth)
        return cls(by_columns, panels, math.prod(problem.batch) * panels, depth, rows, columns)


@dataclass(frozen=True, slots=True)
class PackingPlan:
    """Which operands are packed, how, and the memory that a worker needs for it.

    `streams`: a panel of b is used by one block of a alone, so one panel is kept. `along`: the first tile that reads a
    panel packs it. `*_panel` are elements from a panel to the next one, `*_bytes` the bytes of all that are kept.
    """

    a_in_place: bool
    b_in_place: bool
    streams: bool
    along: bool
    a: Packing
    b: Packing
    a_panel: int
    b_panel: int
    a_bytes: int
    b_bytes: int
    spilled_bytes: int
    buffer_bytes: int

    @classmethod
    def of(
        cls, problem: MatrixProduct, tiling: Tiling, blocking: Blocking, sources: Sources, target: TargetDescription
    ) -> PackingPlan:
        """Panels as the tile reads them; those of matrices are whole registers deep."""
        tile, size = tiling.tile, problem.work.size
        streams = not sources.b_in_place and _has_one_block_of_rows(tiling, blocking)
        a, b = _packings(problem, tiling, target)
        depth = ceiling(blocking.depth, MATRIX_STEPS) * MATRIX_STEPS if tiling.by_matrices else blocking.depth
        a_panels, b_panels = blocking.rows // tile.rows, 1 if streams else blocking.columns // tile.columns
        return cls(
            a_in_place=sources.a_in_place,
            b_in_place=sources.b_in_place,
            streams=streams,
            along=not sources.b_in_place and _packs_inline(problem, tiling, target),
            a=a,
            b=b,
            a_panel=a.elements(depth),
            b_panel=b.elements(depth),
            a_bytes=0 if sources.a_in_place else a_panels * a.elements(depth) * size,
            b_bytes=0 if sources.b_in_place else b_panels * b.elements(depth) * size,
            spilled_bytes=aligned(tiling.spilled_rows * tile.columns * size),
            buffer_bytes=problem.blocks.buffer_bytes(tile) if problem.blocks else 0,
        )


@dataclass(frozen=True, slots=True)
class Prefetching:
    """Whether tiles ask for lines of the next block of a, of the next panel of b, and of their own tile of c.

    `panel_inline`: each round of steps asks for some lines of the panel that is packed next, not each step for one.
    """

    a: bool
    b: bool
    panel_inline: bool
    c: bool

    @classmethod
    def of(cls, problem: MatrixProduct, packing: PackingPlan, depth: int, target: TargetDescription) -> Prefetching:
        """What memory has to bring meanwhile; nothing where code is small."""
        if target.small:
            return cls(a=False, b=False, panel_inline=False, c=False)
        return cls(
            a=_asks_for_a(problem, packing, target),
            b=_asks_for_b(problem, packing, target),
            panel_inline=_prefetches_panels(problem, packing, target),
            c=depth >= FETCHING_DEPTH,
        )


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """All that is decided for one product on one target."""

    problem: MatrixProduct
    tiling: Tiling
    blocking: Blocking
    packing: PackingPlan
    prefetching: Prefetching
    steps_at_once: int

    @classmethod
    def of(cls, problem: MatrixProduct, target: TargetDescription) -> GemmPlan:
        """Each decision follows those before it; `steps_at_once` are those of k in one round of the loop."""
        tiling = Tiling.of(problem, target)
        sources = Sources.of(problem, tiling, target)
        blocking = Blocking.of(problem, tiling, sources, target)
        packing = PackingPlan.of(problem, tiling, blocking, sources, target)
        prefetching = Prefetching.of(problem, packing, blocking.depth, target)
        return cls(problem, tiling, blocking, packing, prefetching, 1 if target.small else STEPS_AT_ONCE)

    @property
    def scratch(self) -> int:
        """Bytes of a worker: packed blocks of a and b, and the sums of a tile that is no block of vector registers.

        Weights in blocks are unpacked into a buffer behind them.
        """
        packed = aligned(self.packing.a_bytes) + aligned(self.packing.b_bytes)
        return packed + self.packing.spilled_bytes + self.packing.buffer_bytes

    @property
    def b_is_scattered(self) -> bool:
        """Whether a few tiles alone read b, and each step of k of a panel lies on another page."""
        p = self.problem
        return self.tiling.row_tiles <= FEW_TILES and p.b_inner * p.work.size >= STRAY_BYTES


def matrix_tile(problem: MatrixProduct, target: TargetDescription) -> Tile | None:
    """The tile of registers of matrices, where there are ones and they take less time than vectors of f32 do."""
    if not target.tiles or problem.scalar != BF16 or problem.tile is not None or not problem.inner:
        return None
    rows, columns = problem.rows, problem.columns
    cycles, tile = matrix_tiles.cheapest(rows, columns, ceiling(problem.inner, 2), problem.width)
    return tile if cycles < choose_tile(target, F32, rows, columns).covering(rows, columns) * problem.inner else None


# -- what is read where it is


def _reads_a_in_place(problem: MatrixProduct, tiling: Tiling, target: TargetDescription) -> bool:
    """Where the elements that a tile reads at one k lie side by side, or few tiles read them."""
    if tiling.by_matrices:
        return problem.a_inner == 1 and not tiling.ragged_rows and problem.inner % MATRIX_STEPS == 0
    size, machine = problem.work.size, target.machine
    # Rows of a tile that fall on one set of the first-level cache, and are more than it holds there, are packed.
    apart = tiling.tile.rows <= machine.level_one_ways or problem.a_rows * size % machine.way_bytes != 0
    # Columns of a whose lines fall on several sets, a few tiles read in place: 0.94 of the time, 256x256x256 a^T.
    short = tiling.column_tiles <= 2 * FEW_TILES and problem.a_inner * size < machine.way_bytes
    in_order = (problem.a_rows == 1 and (target.in_place or short)) or (problem.a_inner == 1 and apart)
    return (in_order or tiling.column_tiles <= FEW_TILES) and not problem.widens


def _reads_b_in_place(problem: MatrixProduct, tiling: Tiling, target: TargetDescription) -> bool:
    """Where columns lie side by side and no masks are needed, or few tiles read them; always in panels, never bytes."""
    if problem.blocks is not None:
        return False
    whole = target.in_place and not tiling.reads_part_of_a_register(target)
    beside = problem.b_columns == 1 and (whole or tiling.row_tiles <= FEW_TILES) and not problem.widens
    return beside or problem.width > 0


# -- blocks


def _divides_columns(tiling: Tiling, sources: Sources) -> int:
    """Items along the longer side; by columns, a worker packs no more of b than it uses.

    How b is packed follows it, so there it is a condition of the code.
    """
    if sources.b_in_place:
        return whether_at_most(tiling.row_tiles, tiling.column_tiles)
    return int(tiling.column_tiles >= (min(tiling.row_tiles, MANY_PANELS) if sources.a_in_place else tiling.row_tiles))


def _depth(problem: MatrixProduct, tile: Tile) -> int:
    """Steps of k in a block: equal parts. It follows the sizes alone, never the machine, as the bits follow it."""
    most = min(MAX_DEPTH, SUM_BYTES // 2 // (tile.columns * problem.work.size))
    most = min(most, problem.most_depth or most)
    if problem.blocks is not None:
        return problem.blocks.steps(most)
    # Parts of a sum that are left in c of 16 bits would be rounded, so there is one part.
    parts = 1 if problem.widens else ceiling(max(problem.inner, 1), most)
    return max(1, ceiling(problem.inner, parts))


def _block_rows(problem: MatrixProduct, tiling: Tiling, depth: int, target: TargetDescription) -> int:
    """A block of a has at most half of the second-level cache; panels of b and what is fetched of c have the rest.

    Blocks are of like height, so that each has tiles enough to ask for all of the next panel: 0.96 of the time of full
    blocks and a rest for 197x768x768 with weights in blocks, 0.97 for 256x3072x768, 1.0 where both are packed.
    """
    cache_bytes = min(target.machine.level_two_bytes // 2, MOST_BLOCK_BYTES)
    tiles = max(1, cache_bytes // (depth * problem.work.size * tiling.tile.rows))
    blocks = largest(1, ceiling(tiling.row_tiles, tiles))
    return ceiling(tiling.row_tiles, blocks) * tiling.tile.rows


def _block_columns(problem: MatrixProduct, tiling: Tiling, depth: int) -> int:
    """As many whole panels as `PACKED_BYTES` hold, at least one."""
    wide = PACKED_BYTES // (depth * problem.work.size)
    return min(tiling.column_tiles, max(1, wide // tiling.tile.columns)) * tiling.tile.columns


def _has_one_block_of_rows(tiling: Tiling, blocking: Blocking) -> bool:
    """Where one block holds all rows, a panel of b is used by that block alone: it is packed just before."""
    return blocking.by_columns == 1 and tiling.row_tiles * tiling.tile.rows <= blocking.rows


# -- packing


def _packings(problem: MatrixProduct, tiling: Tiling, target: TargetDescription) -> tuple[Packing, Packing]:
    """How panels of a and of b are made."""
    p, tile, scalar = problem, tiling.tile, problem.scalar
    pairs = tiling.by_matrices or (target.pairs and scalar == BF16)
    a = Packing(scalar, tile.lanes, tile.rows, p.a_rows, p.a_inner, tiling.ragged_rows, pairs)
    b = Packing(scalar, tile.lanes, tile.columns, p.b_columns, p.b_inner, tiling.ragged_columns, pairs)
    return a, b


def _packs_inline(problem: MatrixProduct, tiling: Tiling, target: TargetDescription) -> bool:
    """Whether the first tile that reads a panel of b packs it.

    Copied in a pass of its own, b took 1.03 to 1.06 times as long: 128x768x768, 128x3072x768, 128x768x3072. Masks of
    the last columns would take registers where there are few.
    """
    side_by_side = problem.b_columns == 1 and problem.blocks is None
    return side_by_side and not problem.widens and not tiling.reads_part_of_a_register(target)


# -- what is asked for before it is read


def _exceeds_cache(problem: MatrixProduct, elements: int, target: TargetDescription) -> bool:
    """What fits the second-level cache is there after its first use."""
    return elements > target.machine.level_two_bytes // problem.work.size


def _asks_for_a(problem: MatrixProduct, packing: PackingPlan, target: TargetDescription) -> bool:
    """Whether the next block of a is asked for; beside packed panels, asking costs more than it brings."""
    elements = problem.rows * problem.inner
    return target.in_place and packing.a_in_place and (not known(elements) or _exceeds_cache(problem, elements, target))


def _asks_for_b(problem: MatrixProduct, packing: PackingPlan, target: TargetDescription) -> bool:
    """Whether the next panel of b is asked for.

    Weights in blocks are cold in every run of a network, few as they may be: with asking 0.71 to 0.91 of the time
    (49x480x1024 and 196x240x1024, other weights in turn), and no longer where they are warm. Rows of b that are
    transposed for one block of a alone: 0.95 of the time (128x768x768, 128x768x3072).
    """
    if problem.blocks is not None:
        return False
    in_order = target.in_place and (problem.b_columns == 1 or problem.b_inner == 1)
    turned = packing.streams and problem.b_inner == 1 and target.vector_registers > FEW_REGISTERS
    large = _exceeds_cache(problem, problem.inner * problem.columns, target)
    return problem.width > 0 or turned or (in_order and large)


def _prefetches_panels(problem: MatrixProduct, packing: PackingPlan, target: TargetDescription) -> bool:
    """Whether the tiles of the one block of rows ask for the next panel, unless its rows fall on few sets.

    0.97 to 0.99 of the time for 128 rows of 768 or 3072 steps, where no other process has half of the core 0.87 to
    0.96.
    """
    spread = problem.b_inner * problem.work.size % target.machine.way_bytes != 0
    return packing.along and packing.streams and spread and target.vector_bits == MASKED_BITS
