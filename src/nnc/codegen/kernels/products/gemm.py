"""Matrix product: c[..., m, n] = sum_k a[..., m, k] * b[..., k, n] + bias[n], with any strides of a and b.

Loops around a register tile, outermost first: batch, blocks of columns, blocks of k, blocks of rows, tiles. Operands
are read where they are when the elements that a tile reads at one k lie side by side; meanwhile the tiles ask for the
cache lines that the next blocks read, so that memory works while they compute. Other operands are packed into the
worker's scratch, and so are operands of 16 bits, which become f32 there, or words of two steps where these are summed
at once; c is rounded once. A panel of b whose columns lie side by side is written by the first tile that reads it.
Items are panels along the longer side of c; every element of c is summed over k in one fixed order wherever it lies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnc.codegen.frame import matrix_tiles
from nnc.codegen.frame.access import Shape, locate
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.frame.kernel import Phase, PhaseWriter, aligned, ceiling, phase
from nnc.codegen.frame.packing import Packing, words_of
from nnc.codegen.frame.tile import (
    Accumulators,
    Tile,
    candidates,
    choose_tile,
    column_masks,
    load_row,
    nanoseconds,
)
from nnc.codegen.ir.builder import BF16, F32, Builder, LocalVariable, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.target import FEW_REGISTERS, SUM_BYTES, TargetDescription
from nnc.core.precautions.classes import dataclass
from nnc.core.values.spec import Blocked

# Steps of k in a block, and how few of them another plan may have.
MAX_DEPTH, LEAST_DEPTH = 384, 128
PACKED_BYTES = 2 * 1024 * 1024  # of a block of b
# Of a block of a: half of 2 MB took 1.01 to 1.1 times as long on an Emerald Rapids, 1024 rows, at 512 and 256 bits; at
# a quarter 197 and 256 rows are one block: 0.91 to 0.94 of the time of an eighth; 512 rows and more take as long.
MOST_BLOCK_BYTES = 512 * 1024
FEW_TILES, MANY_PANELS = 2, 16
# Steps of k that are so many bytes apart are not found ahead by the processor.
STRAY_BYTES = 1024
# Where registers have this many bits, reading part of one takes no longer than reading it whole.
MASKED_BITS = 512
# Columns that one tile asks for where each has cache lines of its own.
MOST_ASKED = 4
# Steps of k that take long enough to fetch a tile of c meanwhile.
FETCHING_DEPTH = 64
# Steps of k in one round of the loop: 0.94 to 0.97 of the time of one, 128x768x768 and 128x768x3072 in blocks.
STEPS_AT_ONCE = 4
# Steps of k before which the tile that packs a panel asks for its lines: rows of a power of two are fetched in time.
PACKED_AHEAD = 16
# Steps of k that are packed of all panels in turn: lines of so many rows of a stay in a set of the nearest cache.
FEW_STEPS = 8


@dataclass(frozen=True, slots=True)
class Gemm:
    """Sizes, and strides in elements: `*_batch` along the batch axes, `*_rows` etc. along the matrix axes.

    c's columns are contiguous. Operands: a, b, bias when there is one, extras of the epilogue, c. `tile` and
    `most_depth`, the most steps of k in a block, take the place of what the plan would choose. With a `width` b lies in
    panels of so many columns as tiles read it, `b_inner` apart for each k, the first of each where `b_columns` says.
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
    epilogue: Epilogue | None = None
    tile: Tile | None = None
    most_depth: int = 0
    width: int = 0

    def workspace(self, target: TargetDescription) -> int:
        """None: every worker packs for itself."""
        return 0

    def scratch(self, target: TargetDescription) -> int:
        """The packed blocks of a and b, and the sums of a tile that is no block of vector registers."""
        blocks = _Blocks(self, target)
        return aligned(blocks.a_bytes) + aligned(blocks.b_bytes) + blocks.spilled_bytes

    def depth(self, target: TargetDescription) -> int:
        """Steps of k in a block."""
        return _Blocks(self, target).depth

    def by_matrices(self, target: TargetDescription) -> bool:
        """Whether registers of matrices (AMX) compute it."""
        return _matrix_tile(self, target) is not None

    def steps(self, target: TargetDescription) -> int:
        """Steps of k in an element of the blocks of b that it reads."""
        return _Blocks(self, target).b_packing.steps

    def in_blocks(self, layout: Blocked) -> Gemm:
        """The product with a b that lies in this layout."""
        return replace(self, width=layout.width, b_inner=layout.width, b_columns=layout.shape[1] * layout.steps)

    def reads(self, layout: Blocked, target: TargetDescription) -> bool:
        """Whether some tile takes a b in these blocks, if another number of rows would have chosen them."""
        if layout.parts > 1 or not candidates(target, computed(self.scalar), layout.width):
            return False
        blocks = _Blocks(self.in_blocks(layout), target)
        return (blocks.tile.columns, blocks.b_packing.steps) == (layout.width, layout.steps)

    def packing(self, target: TargetDescription) -> tuple[Packing, float] | None:
        """How tiles read b, and how many nanoseconds packing takes in each run; None where b is best read in place.

        A few rows read a b that does not stay in the cache about as slowly as it is packed, where each step of k is on
        another page: [8,512] x [512,1376] took five times as long as in blocks when other products came in between.
        """
        blocks = _Blocks(self, target)
        in_place = blocks.b_direct and (self.width > 0 or not blocks.strays)
        if in_place or (blocks.matrix and self.inner % blocks.whole_steps):
            return None
        elements = float(math.prod(self.batch) * self.inner * self.columns)
        return blocks.b_packing, elements * blocks.b_packing.nanoseconds

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is one panel of one matrix of the batch."""
        blocks = _Blocks(self, module.target)
        products = float(math.prod(self.batch) * self.rows * self.columns * self.inner)
        cost = nanoseconds(module.target, computed(self.scalar), products)
        with phase(module, name) as writer:
            if blocks.items:
                with matrix_tiles.configured(writer.b) if blocks.matrix else writer.b.always():
                    _GemmWriter(blocks, writer).write()
        faster = 2 * matrix_tiles.FASTER if blocks.matrix else 1
        return (Phase(name, blocks.items, cost / faster),)


class _Blocks:
    """Sizes of tiles, blocks and buffers for one problem on one target."""

    def __init__(self, problem: Gemm, target: TargetDescription) -> None:
        self.problem = problem
        work = computed(problem.scalar)
        by_matrices = _matrix_tile(problem, target)
        self.matrix = by_matrices is not None
        usual = choose_tile(target, work, problem.rows, problem.columns, problem.width, MAX_DEPTH)
        self.tile = tile = problem.tile or by_matrices or usual
        size, narrow = work.size, work != problem.scalar
        pairs = self.matrix or (target.pairs and problem.scalar == BF16)
        row_tiles, column_tiles = ceiling(problem.rows, tile.rows), ceiling(problem.columns, tile.columns)
        self.ragged_rows = problem.rows % tile.rows != 0
        self.ragged_columns = problem.columns % tile.columns != 0
        # Rows of a tile that fall on one set of the first-level cache, and are more than it holds there, are packed.
        machine = target.machine
        apart = tile.rows <= machine.level_one_ways or problem.a_rows * size % machine.way_bytes != 0
        # Columns of a whose lines fall on several sets, a few tiles read in place: 0.94 of the time, 256x256x256 a^T.
        short = column_tiles <= 2 * FEW_TILES and problem.a_inner * size < machine.way_bytes
        in_order = (problem.a_rows == 1 and (target.in_place or short)) or (problem.a_inner == 1 and apart)
        self.a_direct = (in_order or column_tiles <= FEW_TILES) and not narrow
        if self.matrix:
            self.a_direct = problem.a_inner == 1 and not self.ragged_rows and problem.inner % self.whole_steps == 0
        unmasked = not self.ragged_columns or target.vector_bits == MASKED_BITS
        whole = target.in_place and unmasked
        beside = problem.b_columns == 1 and (whole or row_tiles <= FEW_TILES) and not narrow
        self.b_direct = beside or problem.width > 0
        # Read by a few tiles alone, and each step of k of a panel from another page.
        self.strays = row_tiles <= FEW_TILES and problem.b_inner * size >= STRAY_BYTES
        # Items along the longer side; by columns, a worker packs no more of b than it uses.
        packs_b = self.a_direct and not self.b_direct
        self.by_columns = column_tiles >= (min(row_tiles, MANY_PANELS) if packs_b else row_tiles)
        self.panels = (column_tiles if self.by_columns else row_tiles) if min(row_tiles, column_tiles) else 0
        self.items = math.prod(problem.batch) * self.panels
        # A block of a has at most half of the second-level cache; panels of b and what is fetched of c have the rest.
        cache_bytes = min(machine.level_two_bytes // 2, MOST_BLOCK_BYTES)
        limit = min(MAX_DEPTH, SUM_BYTES // 2 // (tile.columns * size))
        limit = min(limit, problem.most_depth or limit)
        # Parts of a sum that are left in c of 16 bits would be rounded, so there is one part.
        parts = 1 if narrow else ceiling(max(problem.inner, 1), limit)
        self.depth = max(1, ceiling(problem.inner, parts))
        # Of like height, so that each has tiles enough to ask for all of the next panel: 0.96 of the time of full
        # blocks and a rest for 197x768x768 with weights in blocks, 0.97 for 256x3072x768, 1.0 where both are packed.
        row_blocks = max(1, ceiling(row_tiles, max(1, cache_bytes // (self.depth * size * tile.rows))))
        self.block_rows = ceiling(row_tiles, row_blocks) * tile.rows
        wide = PACKED_BYTES // (self.depth * size)
        self.block_columns = min(column_tiles, max(1, wide // tile.columns)) * tile.columns
        # Where one block holds all rows, a panel of b is used by that block alone: it is packed just before.
        one_block = self.by_columns and row_tiles * tile.rows <= self.block_rows
        self.streams = one_block and not self.b_direct
        # Copied in a pass of its own, b took 1.03 to 1.06 times as long: 128x768x768, 128x3072x768, 128x768x3072. Masks
        # of the last columns would take registers where there are few.
        self.packs_along = problem.b_columns == 1 and not self.b_direct and not narrow and unmasked
        # Of one block of rows, the tiles ask for the next panel, unless its rows fall on few sets: 0.97 to 0.99 of the
        # time for 128 rows of 768 or 3072 steps, where no other process has half of the core 0.87 to 0.96.
        spread = problem.b_inner * size % machine.way_bytes != 0
        self.asks_along = self.packs_along and self.streams and spread and target.vector_bits == MASKED_BITS
        # What fits the cache is there after its first use; beside packed panels, asking costs more than it brings.
        large = machine.level_two_bytes // size
        self.asks_a = target.in_place and self.a_direct and problem.rows * problem.inner > large
        # Weights in blocks are cold in every run of a network, few as they may be: with asking 0.71 to 0.91 of the time
        # (49x480x1024 and 196x240x1024, other weights in turn), and no longer where they are warm.
        in_order = target.in_place and (problem.b_columns == 1 or problem.b_inner == 1)
        # Rows of b that are transposed for one block of a alone: 0.95 of the time (128x768x768, 128x768x3072).
        turned = self.streams and problem.b_inner == 1 and target.vector_registers > FEW_REGISTERS
        self.asks_b = problem.width > 0 or turned or (in_order and problem.inner * problem.columns > large)
        self.a_packing = Packing(
            problem.scalar, tile.lanes, tile.rows, problem.a_rows, problem.a_inner, self.ragged_rows, pairs
        )
        self.b_packing = Packing(
            problem.scalar, tile.lanes, tile.columns, problem.b_columns, problem.b_inner, self.ragged_columns, pairs
        )
        room = ceiling(self.depth, self.whole_steps) * self.whole_steps if self.matrix else self.depth
        self.a_panel = self.a_packing.elements(room)
        self.b_panel = self.b_packing.elements(room)
        self.a_bytes = 0 if self.a_direct else self.block_rows // tile.rows * self.a_panel * size
        b_panels = 1 if self.streams else self.block_columns // tile.columns
        self.b_bytes = 0 if self.b_direct else b_panels * self.b_panel * size
        self.spilled_bytes = aligned(tile.rows * tile.columns * size) if self.matrix else 0

    @property
    def whole_steps(self) -> int:
        """Steps of k in a register of a matrix."""
        return matrix_tiles.SIDE * 2


def _matrix_tile(problem: Gemm, target: TargetDescription) -> Tile | None:
    """The tile of registers of matrices, where there are ones and they take less time than vectors of f32 do."""
    if not target.tiles or problem.scalar != BF16 or problem.tile is not None or not problem.inner:
        return None
    rows, columns = problem.rows, problem.columns
    cycles, tile = matrix_tiles.cheapest(rows, columns, ceiling(problem.inner, 2), problem.width)
    return tile if cycles < choose_tile(target, F32, rows, columns).covering(rows, columns) * problem.inner else None


@dataclass(frozen=True, slots=True)
class _Matrices:
    """Where the matrices of one item begin."""

    a: Value
    b: Value
    c: Value
    bias: Value | None
    extras: Sequence[Value]


@dataclass(frozen=True, slots=True)
class _GemmBlock:
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


class _GemmWriter:
    """Writes the loops of a matrix product."""

    def __init__(self, blocks: _Blocks, writer: PhaseWriter) -> None:
        self.s = blocks
        self.w = writer
        self.b: Builder = writer.b
        self.problem = blocks.problem
        self.a_buffer = writer.scratch
        self.b_buffer = self.b.offset(writer.scratch, aligned(blocks.a_bytes) // self.work.size, self.work)

    @property
    def scalar(self) -> Scalar:
        return self.problem.scalar

    @property
    def work(self) -> Scalar:
        return computed(self.problem.scalar)

    def _spilled(self) -> Value:
        """Where the sums of a tile of matrices are written."""
        return self.b.offset(self.b_buffer, aligned(self.s.b_bytes) // self.work.size, self.work)

    def write(self) -> None:
        """for matrix of the batch: the panels of it that are in [begin, end)"""
        b, w, panels, problem = self.b, self.w, self.s.panels, self.problem
        first = 3 if problem.bias else 2
        count = first + (len(problem.epilogue.extras) if problem.epilogue else 0)
        pointers = [w.argument(index) for index in range(count + 1)]
        bias = pointers[2] if problem.bias else None
        extras = pointers[first:count]
        if not problem.batch:
            self._matrix(_Matrices(pointers[0], pointers[1], pointers[-1], bias, extras), w.begin, w.end)
            return
        with b.loop(w.begin // panels, (w.end - 1) // panels + 1) as matrix:
            starts = locate(b, matrix, problem.batch, (problem.a_batch, problem.b_batch, problem.c_batch))
            a, right, c = (
                b.offset(pointer, start, self.scalar)
                for pointer, start in zip((pointers[0], pointers[1], pointers[-1]), starts, strict=True)
            )
            low = b.greatest(w.begin - matrix * panels, 0)
            high = b.least(w.end - matrix * panels, panels)
            self._matrix(_Matrices(a, right, c, bias, extras), low, high)

    def _matrix(self, m: _Matrices, low: Value, high: Value) -> None:
        """Panels [low, high) of one matrix: for columns, for k, for rows."""
        b, s, problem = self.b, self.s, self.problem
        rows, columns = (b.constant(0), b.constant(problem.rows)), (b.constant(0), b.constant(problem.columns))
        if s.by_columns:
            columns = (low * s.tile.columns, b.least(high * s.tile.columns, problem.columns))
        else:
            rows = (low * s.tile.rows, b.least(high * s.tile.rows, problem.rows))
        with (
            b.loop(columns[0], columns[1], s.block_columns) as column,
            b.loop(0, max(problem.inner, 1), s.depth) as k,
        ):
            width = b.least(columns[1] - column, s.block_columns)
            depth = b.least(problem.inner - k, s.depth)
            with b.loop(rows[0], rows[1], s.block_rows) as row:
                height = b.least(rows[1] - row, s.block_rows)
                last = b.compare(">=", row + s.block_rows, rows[1])
                next_row, next_k = b.choose(last, rows[0], row + s.block_rows), b.choose(last, k + s.depth, k)
                first = b.compare("==", row, rows[0])
                block = _GemmBlock(row, height, column, width, k, depth, first, next_row, next_k)
                if not s.a_direct:
                    self._pack_a(m, block)
                self._tiles(m, block)

    def _pack_a(self, m: _Matrices, block: _GemmBlock) -> None:
        """All panels of a block; a few steps of k at a time where a line of a holds lanes of more than one panel."""
        b, s, problem = self.b, self.s, self.problem
        if s.matrix:
            with b.loop(0, block.rows, s.tile.rows) as row:
                source = b.offset(m.a, (block.row + row) * problem.a_rows, self.scalar)
                panel = b.offset(self.a_buffer, row // s.tile.rows * s.a_panel, self.work)
                matrix_tiles.pack_left(b, s.a_packing, source, block.rows - row, problem.inner, panel)
            return
        at_once = s.depth if s.a_packing.transposes else FEW_STEPS
        with b.loop(0, block.depth, at_once) as k, b.loop(0, block.rows, s.tile.rows) as row:
            start = (block.row + row) * problem.a_rows + (block.k + k) * problem.a_inner
            place = row // s.tile.rows * s.a_panel + k // s.a_packing.steps * s.tile.rows
            depth = b.least(block.depth - k, at_once)
            source, panel = b.offset(m.a, start, self.scalar), b.offset(self.a_buffer, place, self.work)
            s.a_packing.pack(b, source, block.rows - row, depth, panel)

    def _pack_b(self, m: _Matrices, block: _GemmBlock, column: Value) -> None:
        """The panel of a tile of columns, once for all blocks of rows."""
        b, s, problem = self.b, self.s, self.problem
        start = (block.column + column) * problem.b_columns + block.k * problem.b_inner
        source = b.offset(m.b, start, self.scalar)
        with b.always() if s.streams else b.when(block.first):
            s.b_packing.pack(b, source, block.columns - column, block.depth, self._panel(column))
            if s.matrix:
                matrix_tiles.clear_rest(b, s.tile, ceiling(problem.inner, 2), self._panel(column))

    def _panel(self, column: Value) -> Value:
        """Where the packed panel of a tile of columns lies."""
        s = self.s
        number = self.b.constant(0) if s.streams else column // s.tile.columns
        return self.b.offset(self.b_buffer, number * s.b_panel, self.work)

    def _tiles(self, m: _Matrices, block: _GemmBlock) -> None:
        b, tile = self.b, self.s.tile
        with b.loop(0, block.columns, tile.columns) as column:
            masks = column_masks(b, tile, block.columns - column, self.s.ragged_columns)
            if not self.s.b_direct and not self.s.packs_along:
                self._pack_b(m, block, column)
            with b.loop(0, block.rows, tile.rows) as row:
                if self.s.matrix:
                    self._sum_matrices(m, block, row, column)
                    self._finish_matrices(m, block, row, column, masks)
                else:
                    acc = Accumulators.zeros(b, tile, self.work)
                    self._sum(m, block, row, column, masks, acc)
                    self._finish(m, block, row, column, masks, acc)

    def _fetch(self, m: _Matrices, block: _GemmBlock, row: Value, column: Value, line: Value) -> None:
        """Ask for a line of the tile of c."""
        b, tile = self.b, self.s.tile
        place = (block.row + row + line // tile.vectors) * self.problem.c_rows + block.column + column
        b.prefetch(m.c, place + line % tile.vectors * tile.lanes, self.scalar)

    def _asked(self, m: _Matrices, block: _GemmBlock, row: Value, column: Value) -> list[tuple[Value, int]]:
        """Cache lines that the next blocks read: one at `place + k * step` for each place, step and k."""
        b, s, problem = self.b, self.s, self.problem
        found = []
        if s.asks_a:
            # Each tile of columns asks for one row where rows are contiguous, else for the line that all rows share.
            lane = b.least(column // s.tile.columns, s.tile.rows - 1) if problem.a_inner == 1 else b.constant(0)
            start = (block.next_row + row + lane) * problem.a_rows + block.next_k * problem.a_inner
            found.append((b.offset(m.a, start, self.scalar), problem.a_inner))
        line = b.target.machine.line_bytes // self.scalar.size
        tiles = ceiling(s.block_rows, s.tile.rows)
        if s.asks_b and problem.width:
            # Each tile of rows asks for its part of the panel after this one, spread over its steps: 0.92 to 0.95 of
            # the time that all in the first tiles takes with weights in memory (128x768x768, 256x3072x768).
            step = ceiling(s.tile.columns, tiles)
            start = self._following(block, column) + row // s.tile.rows * (s.depth * step)
            found += [(b.offset(m.b, start + i * line, self.scalar), step) for i in range(ceiling(step, line))]
        elif s.asks_b:
            # Each tile of rows asks for some lines of the panel after this one, or for some of its columns.
            apart = line if problem.b_columns == 1 else problem.b_columns
            count = ceiling(s.tile.columns, apart) if problem.b_columns == 1 else s.tile.columns
            each = min(ceiling(count, tiles), MOST_ASKED)
            start = self._following(block, column) + b.least(row // s.tile.rows * each, count - each) * apart
            found += [(b.offset(m.b, start + i * apart, self.scalar), problem.b_inner) for i in range(each)]
        return found

    def _asked_along(self, m: _Matrices, block: _GemmBlock, row: Value, column: Value) -> list[Value]:
        """Where the lines of the panel after this one begin: each tile of rows asks for one line of some steps."""
        b, s, step = self.b, self.s, self.problem.b_inner
        line = b.target.machine.line_bytes // self.scalar.size
        # A panel that begins within a line ends within another.
        lines = s.tile.columns // line + 1
        groups = max(1, s.block_rows // s.tile.rows // lines)
        number = row // s.tile.rows
        start = number % lines * line + number // lines * (ceiling(s.depth, groups) * step)
        place = b.offset(m.b, self._following(block, column) + start, self.scalar)
        return [b.offset(place, i * step, self.scalar) for i in range(ceiling(STEPS_AT_ONCE, groups))]

    def _ask_along(self, along: list[Value], turn: Value) -> None:
        """For one line of as many steps as a round has to ask for."""
        for place in along:
            self.b.prefetch(place, turn * (len(along) * self.problem.b_inner), self.scalar)

    def _ask(self, asked: list[tuple[Value, int]], k: Value, *, first: bool) -> None:
        """For what the next blocks read at this step; once in a round of steps where one line holds them all."""
        b, halves = self.b, self.s.a_packing.steps
        line = b.target.machine.line_bytes // self.scalar.size
        for place, step in asked:
            for half in range(halves):
                if (first and not half) or step * halves * STEPS_AT_ONCE > line:
                    b.prefetch(place, (k * halves + half) * step, self.scalar)

    def _following(self, block: _GemmBlock, column: Value) -> Value:
        """Where the panel of b after this one begins: beside it, or below the first of the block."""
        b, problem, columns = self.b, self.problem, self.s.tile.columns
        here = block.k * problem.b_inner + block.column * problem.b_columns
        below = here + problem.b_inner * self.s.depth
        last = b.compare(">=", column + columns, block.columns)
        return b.choose(last, below, here + (column + columns) * problem.b_columns)

    def _sum(
        self,
        m: _Matrices,
        block: _GemmBlock,
        row: Value,
        column: Value,
        masks: Sequence[Value | None],
        acc: Accumulators,
    ) -> None:
        """acc[i][j] += a[row + i, k] * b[k, column + j] over the block's k"""
        b, s, scalar = self.b, self.s, self.work
        kind = stored = scalar if s.a_direct else s.a_packing.scalar
        if s.b_direct and self.problem.width:
            stored = kind if s.a_packing.pairs else self.scalar
        left, left_step = self._left(m, block, row)
        right, right_step, right_masks = self._right(m, block, column, masks)
        asked = self._asked(m, block, row, column)
        along = self._asked_along(m, block, row, column) if s.asks_along else []
        steps = words_of(block.depth, s.a_packing.steps)
        # One line of c a step: all at once would hold up what the tile reads.
        packed = b.constant(0)
        if s.packs_along:
            begins = b.compare("==", row, 0)
            packed = b.choose(begins if s.streams else b.both(begins, block.first), steps, 0)
            self._pack_along(m, block, column, masks, packed, (left, left_step), acc)
        fetching = b.least(steps - packed, s.tile.rows * s.tile.vectors) if s.depth >= FETCHING_DEPTH else b.constant(0)
        single = steps - (steps - packed - fetching) // STEPS_AT_ONCE * STEPS_AT_ONCE
        for first, last, count in ((packed, single, 1), (single, steps, STEPS_AT_ONCE)):
            with b.loop(first, last, count) as start:
                for step in range(count):
                    k = start + step
                    if last is single and s.depth >= FETCHING_DEPTH:
                        self._fetch(m, block, row, column, k)
                    self._ask(asked, k, first=step == 0)
                    if step == 0 and count > 1:
                        self._ask_along(along, k // STEPS_AT_ONCE)
                    vectors = load_row(b, right, k * right_step, s.tile, stored, right_masks)
                    if stored != kind:
                        vectors = [b.cast(vector, kind) for vector in vectors]
                    factors = [b.load(place, k * left_step, Type(kind)) for place in left]
                    acc.multiply(factors, vectors)

    def _left(self, m: _Matrices, block: _GemmBlock, row: Value) -> tuple[list[Value], int]:
        """Where the rows of a tile begin, and how far their elements lie apart along k."""
        b, s, problem = self.b, self.s, self.problem
        if not s.a_direct:
            panel = b.offset(self.a_buffer, row // s.tile.rows * s.a_panel, self.work)
            return [b.offset(panel, i, self.work) for i in range(s.tile.rows)], s.tile.rows
        last = block.rows - 1
        lanes = [b.least(row + i, last) if s.ragged_rows else row + i for i in range(s.tile.rows)]
        starts = [(block.row + lane) * problem.a_rows + block.k * problem.a_inner for lane in lanes]
        return [b.offset(m.a, start, self.work) for start in starts], problem.a_inner

    def _right(
        self, m: _Matrices, block: _GemmBlock, column: Value, masks: Sequence[Value | None]
    ) -> tuple[Value, int, Sequence[Value | None]]:
        """Where the columns of a tile begin, how far they lie apart along k, and which of them there are."""
        b, s, problem = self.b, self.s, self.problem
        if not s.b_direct:
            return self._panel(column), s.tile.columns, column_masks(b, s.tile, block.columns, ragged=False)
        start = block.k * problem.b_inner + (block.column + column) * problem.b_columns
        there = column_masks(b, s.tile, block.columns, ragged=False) if problem.width else masks
        return b.offset(m.b, start, self.scalar), problem.b_inner, there

    def _pack_along(
        self,
        m: _Matrices,
        block: _GemmBlock,
        column: Value,
        masks: Sequence[Value | None],
        steps: Value,
        left: tuple[list[Value], int],
        acc: Accumulators,
    ) -> None:
        """The sum's first steps: acc[i][j] += a[row + i, k] * b[k, column + j], and panel[k, j] = b[k, column + j]"""
        b, tile, scalar, step = self.b, self.s.tile, self.scalar, self.problem.b_inner
        source, panel = b.offset(m.b, block.k * step + block.column + column, scalar), self._panel(column)
        rows, row_step = left
        with b.loop(0, steps) as k:
            for j in range(tile.vectors):
                b.prefetch(source, (k + PACKED_AHEAD) * step + j * tile.lanes, scalar)
            vectors = load_row(b, source, k * step, tile, scalar, masks)
            for j, vector in enumerate(vectors):
                b.store(vector, panel, k * tile.columns + j * tile.lanes)
            acc.multiply([b.load(row, k * row_step, Type(scalar)) for row in rows], vectors)

    def _sum_matrices(self, m: _Matrices, block: _GemmBlock, row: Value, column: Value) -> None:
        """spilled[i][j] = sum over k of a[row + i, k] * b[k, column + j]"""
        b, s, problem, side = self.b, self.s, self.problem, matrix_tiles.SIDE
        if s.a_direct:
            starts = [(block.row + row + i) * problem.a_rows for i in range(0, s.tile.rows, side)]
            places = [b.offset(m.a, start, self.scalar) for start in starts]
            left = matrix_tiles.Side(places, s.whole_steps * self.scalar.size, problem.a_rows * self.scalar.size)
        else:
            panel = b.offset(self.a_buffer, row // s.tile.rows * s.a_panel, self.work)
            places = [b.offset(panel, i * side, self.work) for i in range(0, s.tile.rows, side)]
            left = matrix_tiles.Side(places, s.tile.rows * matrix_tiles.ROW_BYTES, matrix_tiles.ROW_BYTES)
        first = (block.column + column) * problem.b_columns
        panel = b.offset(m.b, first, self.scalar) if s.b_direct else self._panel(column)
        right = matrix_tiles.Side.right(b, s.tile, panel)
        matrix_tiles.clear(b, s.tile)
        matrix_tiles.multiply(b, "tdpbf16ps", left, right, ceiling(problem.inner, s.whole_steps))
        matrix_tiles.spill(b, s.tile, self._spilled())

    def _finish_matrices(
        self, m: _Matrices, block: _GemmBlock, row: Value, column: Value, masks: Sequence[Value | None]
    ) -> None:
        """c = the sums, row by row"""
        b, tile = self.b, self.s.tile
        bias, extras = self._bias(m, block, column, masks), self._extras(m, block, column, masks)
        spilled = self._spilled()
        with b.loop(0, b.least(block.rows - row, tile.rows) if self.s.ragged_rows else tile.rows) as i:
            slots = matrix_tiles.spilled_row(b, tile, spilled, i, self.work)
            self._finish_row(m, block, (row, i), column, masks, slots, bias, extras)

    def _finish(
        self,
        m: _Matrices,
        block: _GemmBlock,
        row: Value,
        column: Value,
        masks: Sequence[Value | None],
        acc: Accumulators,
    ) -> None:
        """c = acc, plus what earlier blocks of k left in c, plus the bias after the last one"""
        b, s = self.b, self.s
        bias, extras = self._bias(m, block, column, masks), self._extras(m, block, column, masks)
        for i, slots in enumerate(acc.slots):
            with b.when(b.compare("<", row + i, block.rows)) if s.ragged_rows else b.always():
                self._finish_row(m, block, (row, i), column, masks, slots, bias, extras)

    def _finish_row(
        self,
        m: _Matrices,
        block: _GemmBlock,
        row: tuple[Value, Value | int],
        column: Value,
        masks: Sequence[Value | None],
        slots: Sequence[LocalVariable | matrix_tiles.SpilledVector],
        bias: Sequence[Value],
        extras: Sequence[Sequence[Value]],
    ) -> None:
        b, lanes = self.b, self.s.tile.lanes
        start = (block.row + row[0] + row[1]) * self.problem.c_rows + block.column + column
        place = b.offset(m.c, start, self.scalar)
        for j, (slot, mask) in enumerate(zip(slots, masks, strict=True)):
            value = self._add_earlier(slot.get(), place, j * lanes, block, mask)
            value = value + bias[j] if bias else value
            value = self._conclude(block, value, extras[j])
            b.store(b.cast(value, self.scalar), place, j * lanes, mask)

    def _add_earlier(self, value: Value, place: Value, index: int, block: _GemmBlock, mask: Value | None) -> Value:
        if self.s.depth >= self.problem.inner:
            return value
        b = self.b
        later = b.splat(b.compare(">", block.k, 0), value.type.lanes)
        return value + b.load(place, index, value.type, later if mask is None else b.both(mask, later))

    def _extras(
        self, m: _Matrices, block: _GemmBlock, column: Value, masks: Sequence[Value | None]
    ) -> list[Sequence[Value]]:
        """For each vector of columns what the epilogue reads there."""
        epilogue, lanes = self.problem.epilogue, self.s.tile.lanes
        if epilogue is None:
            return [()] * len(masks)
        first, kind = block.column + column, Type(self.work, lanes)
        return [epilogue.read(self.b, m.extras, first + j * lanes, kind, mask) for j, mask in enumerate(masks)]

    def _conclude(self, block: _GemmBlock, value: Value, extras: Sequence[Value]) -> Value:
        """The epilogue of the sum, once it is whole."""
        problem = self.problem
        if problem.epilogue is None:
            return value
        whole = None
        if self.s.depth < problem.inner:
            whole = self.b.compare(">=", block.k + block.depth, problem.inner)
        return problem.epilogue.apply(self.b, value, extras, whole)

    def _bias(self, m: _Matrices, block: _GemmBlock, column: Value, masks: Sequence[Value | None]) -> list[Value]:
        """The bias in the last block of k; zero, not read, before."""
        if m.bias is None:
            return []
        b, tile = self.b, self.s.tile
        if self.s.depth < self.problem.inner:
            last = b.splat(b.compare(">=", block.k + block.depth, self.problem.inner), tile.lanes)
            masks = [last if mask is None else b.both(mask, last) for mask in masks]
        return [
            b.cast(value, self.work) for value in load_row(b, m.bias, block.column + column, tile, self.scalar, masks)
        ]
