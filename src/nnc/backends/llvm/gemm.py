"""Matrix product: c[..., m, n] = sum_k a[..., m, k] * b[..., k, n] + bias[n], with any strides of a and b.

Loops around a register tile, outermost first: batch, blocks of columns, blocks of k, blocks of rows, tiles. Blocks of a
and b are packed into the worker's scratch, unless so few tiles read an operand that packing does not pay. Items are
panels along the longer side of c; every element of c is summed over k in one fixed order wherever it lies. Operands of
16 bits become f32 where they are packed, and c is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnc.backends.llvm.access import Shape, locate
from nnc.backends.llvm.builder import Builder, Module, Scalar, Type, Value
from nnc.backends.llvm.epilogue import Epilogue
from nnc.backends.llvm.kernel import Phase, PhaseWriter, aligned, ceiling, phase
from nnc.backends.llvm.packing import Packing
from nnc.backends.llvm.pointwise import computed
from nnc.backends.llvm.target import TargetDescription
from nnc.backends.llvm.tile import Accumulators, choose_tile, column_masks, load_row, nanoseconds

# Steps of k in a block, and how few of them may be if the block then holds all rows; more where b is read where it is.
MAX_DEPTH, LEAST_DEPTH, DIRECT_DEPTH = 1024, 256, 2048
PACKED_BYTES = 2 * 1024 * 1024  # of a block of b
FEW_TILES = 2
# Rows of a that are contiguous along k are read where they are by a few more panels, unless they are so far apart that
# the rows of a tile fall on one set of the first-level cache and are more than it holds there.
FEW_PANELS, CACHE_WAYS, CACHE_WAY_BYTES = 9, 8, 4096
LINE_BYTES = 64


@dataclass(frozen=True, slots=True)
class Gemm:
    """Sizes, and strides in elements: `*_batch` along the batch axes, `*_rows` etc. along the matrix axes.

    c's columns are contiguous. Operands: a, b, bias when there is one, extras of the epilogue, c.
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

    def workspace(self, target: TargetDescription) -> int:
        """None: every worker packs for itself."""
        return 0

    def scratch(self, target: TargetDescription) -> int:
        """The packed blocks of a and b."""
        blocks = _Blocks(self, target)
        return aligned(blocks.a_bytes) + aligned(blocks.b_bytes)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is one panel of one matrix of the batch."""
        blocks = _Blocks(self, module.target)
        products = float(math.prod(self.batch) * self.rows * self.columns * self.inner)
        with phase(module, name) as writer:
            if blocks.items:
                _Writer(blocks, writer).write()
        return (Phase(name, blocks.items, nanoseconds(module.target, computed(self.scalar), products)),)


class _Blocks:
    """Sizes of tiles, blocks and buffers for one problem on one target."""

    def __init__(self, problem: Gemm, target: TargetDescription) -> None:
        self.problem = problem
        work = computed(problem.scalar)
        self.tile = tile = choose_tile(target, work, problem.rows, problem.columns)
        size, narrow = work.size, work != problem.scalar
        row_tiles, column_tiles = ceiling(problem.rows, tile.rows), ceiling(problem.columns, tile.columns)
        self.by_columns = column_tiles >= row_tiles
        self.panels = max(row_tiles, column_tiles) if min(row_tiles, column_tiles) else 0
        self.items = math.prod(problem.batch) * self.panels
        apart = tile.rows <= CACHE_WAYS or problem.a_rows * size % CACHE_WAY_BYTES != 0
        readable = problem.a_inner == 1 and apart and column_tiles <= FEW_PANELS
        self.a_direct = (readable or column_tiles <= FEW_TILES) and not narrow
        self.b_direct = row_tiles <= FEW_TILES and problem.b_columns == 1 and not narrow
        # A block of a and a panel of b have half of the second-level cache each.
        room = target.level_two_bytes // 2
        limit = DIRECT_DEPTH if self.b_direct else min(MAX_DEPTH, room // (tile.columns * size))
        holding = room // (max(problem.rows, 1) * size)
        if self.by_columns and holding >= LEAST_DEPTH:
            limit = min(limit, holding)
        # Parts of a sum that are left in c of 16 bits would be rounded, so there is one part.
        parts = 1 if narrow else ceiling(max(problem.inner, 1), limit)
        self.depth = max(1, ceiling(problem.inner, parts))
        fitting = room // (self.depth * size) // tile.rows * tile.rows
        self.block_rows = min(row_tiles * tile.rows, max(fitting, tile.rows))
        wide = PACKED_BYTES // (self.depth * size)
        self.block_columns = min(column_tiles, max(1, wide // tile.columns)) * tile.columns
        # Where one block holds all rows, a panel of b is used by that block alone: it is packed just before.
        one_block = self.by_columns and row_tiles * tile.rows <= self.block_rows
        self.streams = one_block and not self.b_direct
        self.asks = (
            self.streams
            and problem.b_columns == 1
            and problem.inner * problem.columns * size > (target.level_two_bytes)
        )
        self.ragged_rows = problem.rows % tile.rows != 0
        self.ragged_columns = problem.columns % tile.columns != 0
        self.a_packing = Packing(
            problem.scalar, tile.lanes, tile.rows, problem.a_rows, problem.a_inner, self.ragged_rows
        )
        self.b_packing = Packing(
            problem.scalar, tile.lanes, tile.columns, problem.b_columns, problem.b_inner, self.ragged_columns
        )
        self.a_panel = self.a_packing.elements(self.depth)
        self.b_panel = self.b_packing.elements(self.depth)
        self.a_bytes = 0 if self.a_direct else self.block_rows // tile.rows * self.a_panel * size
        b_panels = 1 if self.streams else self.block_columns // tile.columns
        self.b_bytes = 0 if self.b_direct else b_panels * self.b_panel * size


@dataclass(frozen=True, slots=True)
class _Matrices:
    """Where the matrices of one item begin."""

    a: Value
    b: Value
    c: Value
    bias: Value | None
    extras: Sequence[Value]


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of c: rows [row, row + rows), columns [column, column + columns), steps [k, k + depth) of the sum."""

    row: Value
    rows: Value
    column: Value
    columns: Value
    k: Value
    depth: Value


class _Writer:
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
            if not s.b_direct and not s.streams:
                self._pack_b(m, column, width, k, depth)
            with b.loop(rows[0], rows[1], s.block_rows) as row:
                height = b.least(rows[1] - row, s.block_rows)
                block = _Block(row, height, column, width, k, depth)
                if not s.a_direct:
                    self._pack_a(m, block)
                self._tiles(m, block)

    def _pack_a(self, m: _Matrices, block: _Block) -> None:
        b, s, problem = self.b, self.s, self.problem
        with b.loop(0, block.rows, s.tile.rows) as row:
            source = b.offset(m.a, (block.row + row) * problem.a_rows + block.k * problem.a_inner, self.scalar)
            panel = b.offset(self.a_buffer, row // s.tile.rows * s.a_panel, self.work)
            s.a_packing.pack(b, source, block.rows - row, block.depth, panel)

    def _pack_b(self, m: _Matrices, column: Value, width: Value, k: Value, depth: Value) -> None:
        b, s, problem = self.b, self.s, self.problem
        with b.loop(0, width, s.tile.columns) as panel_column:
            start = (column + panel_column) * problem.b_columns + k * problem.b_inner
            panel = b.offset(self.b_buffer, panel_column // s.tile.columns * s.b_panel, self.work)
            s.b_packing.pack(b, b.offset(m.b, start, self.scalar), width - panel_column, depth, panel)

    def _tiles(self, m: _Matrices, block: _Block) -> None:
        b, tile = self.b, self.s.tile
        with b.loop(0, block.columns, tile.columns) as column:
            masks = column_masks(b, tile, block.columns - column, self.s.ragged_columns)
            if self.s.streams:
                self._pack_b(
                    m, block.column + column, b.least(block.columns - column, tile.columns), block.k, block.depth
                )
            following = self._following(m, block, column) if self.s.asks else None
            with b.loop(0, block.rows, tile.rows) as row:
                acc = Accumulators.zeros(b, tile, self.work)
                self._sum(m, block, row, column, masks, acc, following)
                self._finish(m, block, row, column, masks, acc)

    def _following(self, m: _Matrices, block: _Block, column: Value) -> Value:
        """Where the panel of b begins that is packed after this one: beside it, or below the first of the block."""
        b, problem, columns = self.b, self.problem, self.s.tile.columns
        here = block.k * problem.b_inner + block.column
        below = here + problem.b_inner * self.s.depth
        last = b.compare(">=", column + columns, block.columns)
        return b.offset(m.b, b.choose(last, below, here + column + columns), self.scalar)

    def _ask(self, following: Value, row: Value, k: Value) -> None:
        """Ask for step k of the panel after this one: each tile of rows for some of its cache lines."""
        b, s = self.b, self.s
        line = LINE_BYTES // self.scalar.size
        lines = ceiling(s.tile.columns, line)
        each = ceiling(lines, ceiling(self.problem.rows, s.tile.rows))
        first = b.least(row // s.tile.rows * each, lines - each) * line
        for number in range(each):
            b.prefetch(following, k * self.problem.b_inner + first + number * line, self.scalar)

    def _sum(
        self,
        m: _Matrices,
        block: _Block,
        row: Value,
        column: Value,
        masks: Sequence[Value | None],
        acc: Accumulators,
        following: Value | None,
    ) -> None:
        """acc[i][j] += a[row + i, k] * b[k, column + j] over the block's k; `following` is asked for meanwhile"""
        b, s, problem, scalar = self.b, self.s, self.problem, self.work
        if s.a_direct:
            last = block.rows - 1
            lanes = [b.least(row + i, last) if s.ragged_rows else row + i for i in range(s.tile.rows)]
            starts = [(block.row + lane) * problem.a_rows + block.k * problem.a_inner for lane in lanes]
            left = [b.offset(m.a, start, scalar) for start in starts]
            left_step = problem.a_inner
        else:
            panel = b.offset(self.a_buffer, row // s.tile.rows * s.a_panel, scalar)
            left = [b.offset(panel, i, scalar) for i in range(s.tile.rows)]
            left_step = s.tile.rows
        if s.b_direct:
            right = b.offset(m.b, block.k * problem.b_inner + block.column + column, scalar)
            right_step, right_masks = problem.b_inner, masks
        else:
            panel = b.constant(0) if s.streams else column // s.tile.columns * s.b_panel
            right = b.offset(self.b_buffer, panel, scalar)
            right_step, right_masks = s.tile.columns, column_masks(b, s.tile, block.columns, ragged=False)
        with b.loop(0, block.depth) as k:
            if following is not None:
                self._ask(following, row, k)
            vectors = load_row(b, right, k * right_step, s.tile, scalar, right_masks)
            factors = [b.load(place, k * left_step, Type(scalar)) for place in left]
            acc.multiply(factors, vectors)

    def _finish(
        self, m: _Matrices, block: _Block, row: Value, column: Value, masks: Sequence[Value | None], acc: Accumulators
    ) -> None:
        """c = acc, plus what earlier blocks of k left in c, plus the bias after the last one"""
        b, s = self.b, self.s
        bias, extras = self._bias(m, block, column, masks), self._extras(m, block, column, masks)
        for i, slots in enumerate(acc.slots):
            with b.when(b.compare("<", row + i, block.rows)) if s.ragged_rows else b.always():
                start = (block.row + row + i) * self.problem.c_rows + block.column + column
                place = b.offset(m.c, start, self.scalar)
                for j, (slot, mask) in enumerate(zip(slots, masks, strict=True)):
                    value = self._add_earlier(slot.get(), place, j * s.tile.lanes, block, mask)
                    value = value + bias[j] if bias else value
                    value = self._conclude(block, value, extras[j])
                    b.store(b.cast(value, self.scalar), place, j * s.tile.lanes, mask)

    def _add_earlier(self, value: Value, place: Value, index: int, block: _Block, mask: Value | None) -> Value:
        if self.s.depth >= self.problem.inner:
            return value
        b = self.b
        later = b.splat(b.compare(">", block.k, 0), value.type.lanes)
        return value + b.load(place, index, value.type, later if mask is None else b.both(mask, later))

    def _extras(
        self, m: _Matrices, block: _Block, column: Value, masks: Sequence[Value | None]
    ) -> list[Sequence[Value]]:
        """For each vector of columns what the epilogue reads there."""
        epilogue, lanes = self.problem.epilogue, self.s.tile.lanes
        if epilogue is None:
            return [()] * len(masks)
        first, kind = block.column + column, Type(self.work, lanes)
        return [epilogue.read(self.b, m.extras, first + j * lanes, kind, mask) for j, mask in enumerate(masks)]

    def _conclude(self, block: _Block, value: Value, extras: Sequence[Value]) -> Value:
        """The epilogue of the sum, once it is whole."""
        problem = self.problem
        if problem.epilogue is None:
            return value
        whole = None
        if self.s.depth < problem.inner:
            whole = self.b.compare(">=", block.k + block.depth, problem.inner)
        return problem.epilogue.apply(self.b, value, extras, whole)

    def _bias(self, m: _Matrices, block: _Block, column: Value, masks: Sequence[Value | None]) -> list[Value]:
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
