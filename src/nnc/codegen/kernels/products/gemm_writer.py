"""Writes the loops of a matrix product, by its plan (gemm_plan.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame import matrix_tiles
from nnc.codegen.frame.access import locate
from nnc.codegen.frame.block_panels import PanelPart
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.frame.kernel import PhaseWriter, ceiling
from nnc.codegen.frame.packing import words_of
from nnc.codegen.frame.tile import Accumulators, column_masks, load_row
from nnc.codegen.ir.builder import Builder, LocalVariable, Scalar, Type, Value
from nnc.codegen.ir.native_kernel import aligned
from nnc.codegen.kernels.products.gemm_places import Block, Matrices
from nnc.codegen.kernels.products.gemm_plan import MATRIX_STEPS, GemmPlan
from nnc.codegen.kernels.products.gemm_prefetching import PrefetchWriter
from nnc.core.values.derived import known

# Steps of k before which the tile that packs a panel asks for its lines: rows of a power of two are fetched in time.
PACKED_AHEAD = 16
# Steps of k that are packed of all panels in turn: lines of so many rows of a stay in a set of the nearest cache.
FEW_STEPS = 8


@dataclass(frozen=True, slots=True)
class _Read:
    """What a tile reads at step k: a scalar at left[i] + k * left_step, a row of vectors at right + k * right_step.

    Of these there are those that `masks` say; they are `stored` otherwise than the `scalar` that is multiplied.
    """

    left: list[Value]
    left_step: int
    right: Value
    right_step: int
    masks: Sequence[Value | None]
    scalar: Scalar
    stored: Scalar


class GemmWriter:
    """Writes the loops of a matrix product."""

    def __init__(self, plan: GemmPlan, epilogue: Epilogue | None, writer: PhaseWriter) -> None:
        self.problem = plan.problem
        self.epilogue = epilogue
        self.tiling, self.blocking = plan.tiling, plan.blocking
        self.packing, self.prefetching = plan.packing, plan.prefetching
        self.at_once = plan.steps_at_once
        self.tile = plan.tiling.tile
        self.w = writer
        self.b: Builder = writer.b
        self.ahead = PrefetchWriter(plan, writer.b)
        self.a_buffer = writer.scratch
        self.b_buffer = self.b.offset(writer.scratch, aligned(self.packing.a_bytes) // self.work.size, self.work)

    @property
    def scalar(self) -> Scalar:
        return self.problem.scalar

    @property
    def work(self) -> Scalar:
        return self.problem.work

    def _spilled(self) -> Value:
        """Where the sums of a tile of matrices are written, or weights in blocks are unpacked."""
        return self.b.offset(self.b_buffer, aligned(self.packing.b_bytes) // self.work.size, self.work)

    def write(self) -> None:
        """for matrix of the batch: the panels of it that are in [begin, end)"""
        b, w, panels, problem = self.b, self.w, self.blocking.panels, self.problem
        first = 3 if problem.bias else 2
        count = first + (len(self.epilogue.extras) if self.epilogue else 0)
        pointers = [w.argument(index) for index in range(count + 1)]
        bias = pointers[2] if problem.bias else None
        extras = pointers[first:count]
        if not problem.batch:
            self._matrix(Matrices(pointers[0], pointers[1], pointers[-1], bias, extras), w.begin, w.end)
            return
        with b.loop(w.begin // panels, (w.end - 1) // panels + 1) as matrix:
            starts = locate(b, matrix, problem.batch, (problem.a_batch, problem.b_batch, problem.c_batch))
            a, right, c = (
                b.offset(pointer, start, self.scalar)
                for pointer, start in zip((pointers[0], pointers[1], pointers[-1]), starts, strict=True)
            )
            low = b.greatest(w.begin - matrix * panels, 0)
            high = b.least(w.end - matrix * panels, panels)
            self._matrix(Matrices(a, right, c, bias, extras), low, high)

    def _matrix(self, m: Matrices, low: Value, high: Value) -> None:
        """Panels [low, high) of one matrix: for columns, for k, for rows."""
        b, problem = self.b, self.problem
        rows, columns = (b.constant(0), b.constant(problem.rows)), (b.constant(0), b.constant(problem.columns))
        of_rows = (low * self.tile.rows, b.least(high * self.tile.rows, problem.rows))
        of_columns = (low * self.tile.columns, b.least(high * self.tile.columns, problem.columns))
        if known(self.blocking.by_columns):
            rows, columns = (rows, of_columns) if self.blocking.by_columns else (of_rows, columns)
        else:
            by_columns = b.compare("!=", b.constant(self.blocking.by_columns), 0)
            rows = (b.choose(by_columns, rows[0], of_rows[0]), b.choose(by_columns, rows[1], of_rows[1]))
            columns = (b.choose(by_columns, of_columns[0], columns[0]), b.choose(by_columns, of_columns[1], columns[1]))
        with (
            b.loop(columns[0], columns[1], self.blocking.columns) as column,
            b.loop(0, max(problem.inner, 1), self.blocking.depth) as k,
        ):
            width = b.least(columns[1] - column, self.blocking.columns)
            depth = b.least(problem.inner - k, self.blocking.depth)
            with b.loop(rows[0], rows[1], self.blocking.rows) as row:
                height = b.least(rows[1] - row, self.blocking.rows)
                last = b.compare(">=", row + self.blocking.rows, rows[1])
                next_row, next_k = (
                    b.choose(last, rows[0], row + self.blocking.rows),
                    b.choose(last, k + self.blocking.depth, k),
                )
                first = b.compare("==", row, rows[0])
                block = Block(row, height, column, width, k, depth, first, next_row, next_k)
                if not self.packing.a_in_place:
                    self._pack_a(m, block)
                self._tiles(m, block)

    def _pack_a(self, m: Matrices, block: Block) -> None:
        """All panels of a block; a few steps of k at a time where a line of a holds lanes of more than one panel."""
        b, problem = self.b, self.problem
        if self.tiling.by_matrices:
            with b.loop(0, block.rows, self.tile.rows) as row:
                source = b.offset(m.a, (block.row + row) * problem.a_rows, self.scalar)
                panel = b.offset(self.a_buffer, row // self.tile.rows * self.packing.a_panel, self.work)
                matrix_tiles.pack_left(b, self.packing.a, source, block.rows - row, problem.inner, panel)
            return
        at_once = self.blocking.depth if self.packing.a.transposes else FEW_STEPS
        with b.loop(0, block.depth, at_once) as k, b.loop(0, block.rows, self.tile.rows) as row:
            start = (block.row + row) * problem.a_rows + (block.k + k) * problem.a_inner
            place = row // self.tile.rows * self.packing.a_panel + k // self.packing.a.steps * self.tile.rows
            depth = b.least(block.depth - k, at_once)
            source, panel = b.offset(m.a, start, self.scalar), b.offset(self.a_buffer, place, self.work)
            self.packing.a.pack(b, source, block.rows - row, depth, panel)

    def _pack_b(self, m: Matrices, block: Block, column: Value) -> None:
        """The panel of a tile of columns, once for all blocks of rows."""
        b, problem = self.b, self.problem
        if problem.blocks is not None:
            part = PanelPart(block.column + column, block.k, block.depth)
            with b.always() if self.packing.streams else b.when(block.first):
                problem.blocks.pack(b, m.b, part, self._panel(column), self._spilled(), self.tile)
            return
        with b.always() if self.packing.streams else b.when(block.first):
            self.packing.b.pack(b, *self._unpacked(m, block, column), self._panel(column))
            if self.tiling.by_matrices:
                matrix_tiles.clear_rest(b, self.tile, ceiling(problem.inner, 2), self._panel(column))

    def _unpacked(self, m: Matrices, block: Block, column: Value) -> tuple[Value, Value, Value]:
        """Where a panel of b begins that is not packed, its columns and its steps."""
        start = (block.column + column) * self.problem.b_columns + block.k * self.problem.b_inner
        return self.b.offset(m.b, start, self.scalar), block.columns - column, block.depth

    def _panel(self, column: Value) -> Value:
        """Where the packed panel of a tile of columns lies."""
        number = self.b.constant(0) if self.packing.streams else column // self.tile.columns
        return self.b.offset(self.b_buffer, number * self.packing.b_panel, self.work)

    def _tiles(self, m: Matrices, block: Block) -> None:
        b, tile = self.b, self.tile
        with b.loop(0, block.columns, tile.columns) as column:
            masks = column_masks(b, tile, block.columns - column, self.tiling.ragged_columns)
            if not self.packing.b_in_place and not self.packing.along:
                self._pack_b(m, block, column)
            if self.tiling.by_matrices:
                with b.loop(0, block.rows, tile.rows) as row:
                    self._sum_matrices(m, block, row, column)
                    self._finish_spilled(m, block, row, column, masks)
            else:
                self._rows(m, block, column, masks)

    def _rows(self, m: Matrices, block: Block, column: Value, masks: Sequence[Value | None]) -> None:
        """The tiles of a panel: whole ones, and the rows behind them."""
        b, tile = self.b, self.tile
        whole = block.rows // tile.rows * tile.rows if self.tiling.rests else block.rows
        with b.loop(0, whole, tile.rows) as row:
            acc = Accumulators.zeros(b, tile, self.work)
            self._sum(m, block, row, column, masks, acc)
            self._finish(m, block, row, column, masks, acc)
        if self.tiling.rests:
            with b.when(b.compare("<", whole, block.rows)):
                self._rest(m, block, whole, column, masks)

    def _rest(self, m: Matrices, block: Block, row: Value, column: Value, masks: Sequence[Value | None]) -> None:
        """The rows behind whole tiles, some at a time, half as many, and so on; their sums meet in memory.

        The last ones are computed where there are fewer, too, with the block's last row in the place of the others.
        """
        b, tile = self.b, self.tile
        if self.packing.along:
            with b.always() if self.packing.streams else b.when(block.first), b.when(b.compare("==", row, 0)):
                self.packing.b.pack(b, *self._unpacked(m, block, column), self._panel(column))
        first = row
        for rows in self.tiling.rests:
            fewer = rows == self.tiling.rests[-1]
            last = block.rows if fewer else first + (block.rows - first) // rows * rows
            with b.loop(first, last, rows) as begin:
                acc = Accumulators.zeros(b, replace(tile, rows=rows), self.work)
                each = [begin + i for i in range(rows)]
                if fewer:
                    each[1:] = [b.least(place, block.rows - 1) for place in each[1:]]
                self._sum_rest(m, block, each, column, masks, acc)
                place = b.offset(self._spilled(), (begin - row) * tile.columns, self.work)
                for i, slots in enumerate(acc.slots):
                    for j, slot in enumerate(slots):
                        b.store(slot.get(), place, i * tile.columns + j * tile.lanes)
            first = last
        self._finish_spilled(m, block, row, column, masks)

    def _sum(
        self,
        m: Matrices,
        block: Block,
        row: Value,
        column: Value,
        masks: Sequence[Value | None],
        acc: Accumulators,
    ) -> None:
        """acc[i][j] += a[row + i, k] * b[k, column + j] over the block's k"""
        b = self.b
        read = self._read(m, block, [row + i for i in range(len(acc.slots))], column, masks)
        asked = self.ahead.lines(m, block, row, column)
        along = self.ahead.along(m, block, row, column) if self.prefetching.panel_inline else []
        steps = words_of(block.depth, self.packing.a.steps)
        packed, at_once = b.constant(0), self.at_once
        if self.packing.along:
            begins = b.compare("==", row, 0)
            packed = b.choose(begins if self.packing.streams else b.both(begins, block.first), steps, 0)
            self._sum_and_pack(m, block, column, masks, packed, read, acc)
        # One line of c a step: all at once would hold up what the tile reads.
        fetching = b.least(steps - packed, self.tile.rows * self.tile.vectors) if self.prefetching.c else b.constant(0)
        single = steps - (steps - packed - fetching) // at_once * at_once if at_once > 1 else steps
        with b.loop(packed, single, 1) as k:
            if self.prefetching.c:
                self.ahead.prefetch_result(m, block, row, column, k)
            self.ahead.ask(asked, k, first=True)
            self._step(read, k, acc)
        if at_once > 1:
            with b.loop(single, steps, at_once) as start:
                for step in range(at_once):
                    k = start + step
                    self.ahead.ask(asked, k, first=step == 0)
                    if step == 0:
                        self.ahead.prefetch_panel_line(along, k // at_once)
                    self._step(read, k, acc)

    def _sum_rest(
        self,
        m: Matrices,
        block: Block,
        rows: Sequence[Value],
        column: Value,
        masks: Sequence[Value | None],
        acc: Accumulators,
    ) -> None:
        """The same for fewer rows than a tile has, of a panel that is packed."""
        read, asked = self._read(m, block, rows, column, masks), self.ahead.lines(m, block, rows[0], column)
        with self.b.loop(0, words_of(block.depth, self.packing.a.steps)) as k:
            self.ahead.ask(asked, k, first=True)
            self._step(read, k, acc)

    def _step(self, read: _Read, k: Value, acc: Accumulators) -> None:
        """acc[i][j] += a[row + i, k] * b[k, column + j]"""
        b = self.b
        vectors = load_row(b, read.right, k * read.right_step, self.tile, read.stored, read.masks)
        if read.stored != read.scalar:
            vectors = [b.cast(vector, read.scalar) for vector in vectors]
        acc.multiply([b.load(place, k * read.left_step, Type(read.scalar)) for place in read.left], vectors)

    def _read(
        self, m: Matrices, block: Block, rows: Sequence[Value], column: Value, masks: Sequence[Value | None]
    ) -> _Read:
        scalar = stored = self.work if self.packing.a_in_place else self.packing.a.scalar
        if self.packing.b_in_place and self.problem.width:
            stored = scalar if self.packing.a.pairs else self.scalar
        left, left_step = self._left(m, block, rows)
        right, right_step, present = self._right(m, block, column, masks)
        return _Read(left, left_step, right, right_step, present, scalar, stored)

    def _left(self, m: Matrices, block: Block, rows: Sequence[Value]) -> tuple[list[Value], int]:
        """Where these rows of a tile begin, and how far their elements lie apart along k."""
        b, problem = self.b, self.problem
        if not self.packing.a_in_place:
            starts = [row // self.tile.rows * self.packing.a_panel + row % self.tile.rows for row in rows]
            source, apart, step = self.a_buffer, 1, self.tile.rows
        else:
            starts = [(block.row + row) * problem.a_rows + block.k * problem.a_inner for row in rows]
            source, apart, step = m.a, problem.a_rows, problem.a_inner
        # LLVM need not ask how these places follow from all loops around: 0.83 of its time for a product. Where the
        # stride is read, it finds better ones: 1.03 to 1.1 of the run time of products of heads.
        if not known(apart):
            return [b.offset(source, start, self.work) for start in starts], step
        if len(rows) < self.tile.rows:
            return [b.opaque(b.offset(source, start, self.work)) for start in starts], step
        first = b.opaque(b.offset(source, starts[0], self.work))
        return [b.offset(first, i * apart, self.work) for i in range(len(rows))], step

    def _right(
        self, m: Matrices, block: Block, column: Value, masks: Sequence[Value | None]
    ) -> tuple[Value, int, Sequence[Value | None]]:
        """Where the columns of a tile begin, how far they lie apart along k, and which of them there are."""
        b, problem = self.b, self.problem
        if not self.packing.b_in_place:
            return self._panel(column), self.tile.columns, column_masks(b, self.tile, block.columns, ragged=False)
        start = block.k * problem.b_inner + (block.column + column) * problem.b_columns
        there = column_masks(b, self.tile, block.columns, ragged=False) if problem.width else masks
        return b.offset(m.b, start, self.scalar), problem.b_inner, there

    def _sum_and_pack(
        self,
        m: Matrices,
        block: Block,
        column: Value,
        masks: Sequence[Value | None],
        steps: Value,
        read: _Read,
        acc: Accumulators,
    ) -> None:
        """The sum's first steps: acc[i][j] += a[row + i, k] * b[k, column + j], and panel[k, j] = b[k, column + j]"""
        b, tile, scalar, step = self.b, self.tile, self.scalar, self.problem.b_inner
        source, panel = b.offset(m.b, block.k * step + block.column + column, scalar), self._panel(column)
        with b.loop(0, steps) as k:
            for j in range(tile.vectors):
                b.prefetch(source, (k + PACKED_AHEAD) * step + j * tile.lanes, scalar)
            vectors = load_row(b, source, k * step, tile, scalar, masks)
            for j, vector in enumerate(vectors):
                b.store(vector, panel, k * tile.columns + j * tile.lanes)
            acc.multiply([b.load(place, k * read.left_step, Type(scalar)) for place in read.left], vectors)

    def _sum_matrices(self, m: Matrices, block: Block, row: Value, column: Value) -> None:
        """spilled[i][j] = sum over k of a[row + i, k] * b[k, column + j]"""
        b, problem, side = self.b, self.problem, matrix_tiles.SIDE
        if self.packing.a_in_place:
            starts = [(block.row + row + i) * problem.a_rows for i in range(0, self.tile.rows, side)]
            places = [b.offset(m.a, start, self.scalar) for start in starts]
            left = matrix_tiles.Side(places, MATRIX_STEPS * self.scalar.size, problem.a_rows * self.scalar.size)
        else:
            panel = b.offset(self.a_buffer, row // self.tile.rows * self.packing.a_panel, self.work)
            places = [b.offset(panel, i * side, self.work) for i in range(0, self.tile.rows, side)]
            left = matrix_tiles.Side(places, self.tile.rows * matrix_tiles.ROW_BYTES, matrix_tiles.ROW_BYTES)
        first = (block.column + column) * problem.b_columns
        panel = b.offset(m.b, first, self.scalar) if self.packing.b_in_place else self._panel(column)
        right = matrix_tiles.Side.right(b, self.tile, panel)
        matrix_tiles.clear(b, self.tile)
        matrix_tiles.multiply(b, "tdpbf16ps", left, right, ceiling(problem.inner, MATRIX_STEPS))
        matrix_tiles.spill(b, self.tile, self._spilled())

    def _finish_spilled(
        self, m: Matrices, block: Block, row: Value, column: Value, masks: Sequence[Value | None]
    ) -> None:
        """c = the sums in memory, row by row"""
        b, tile = self.b, self.tile
        bias, extras = self._bias(m, block, column, masks), self._extras(m, block, column, masks)
        spilled = self._spilled()
        with b.loop(0, b.least(block.rows - row, tile.rows) if self.tiling.ragged_rows else tile.rows) as i:
            slots = matrix_tiles.spilled_row(b, tile, spilled, i, self.work)
            self._finish_row(m, block, (row, i), column, masks, slots, bias, extras)

    def _finish(
        self,
        m: Matrices,
        block: Block,
        row: Value,
        column: Value,
        masks: Sequence[Value | None],
        acc: Accumulators,
    ) -> None:
        """c = acc, plus what earlier blocks of k left in c, plus the bias after the last one"""
        bias, extras = self._bias(m, block, column, masks), self._extras(m, block, column, masks)
        for i, slots in enumerate(acc.slots):
            self._finish_row(m, block, (row, i), column, masks, slots, bias, extras)

    def _finish_row(
        self,
        m: Matrices,
        block: Block,
        row: tuple[Value, Value | int],
        column: Value,
        masks: Sequence[Value | None],
        slots: Sequence[LocalVariable | matrix_tiles.SpilledVector],
        bias: Sequence[Value],
        extras: Sequence[Sequence[Value]],
    ) -> None:
        b, lanes = self.b, self.tile.lanes
        start = (block.row + row[0] + row[1]) * self.problem.c_rows + block.column + column
        place = b.offset(m.c, start, self.scalar)
        for j, (slot, mask) in enumerate(zip(slots, masks, strict=True)):
            value = self._add_earlier(slot.get(), place, j * lanes, block, mask)
            value = value + bias[j] if bias else value
            value = self._conclude(block, value, extras[j])
            b.store(b.cast(value, self.scalar), place, j * lanes, mask)

    def _add_earlier(self, value: Value, place: Value, index: int, block: Block, mask: Value | None) -> Value:
        if self.blocking.depth >= self.problem.inner:
            return value
        b = self.b
        later = b.splat(b.compare(">", block.k, 0), value.type.lanes)
        return value + b.load(place, index, value.type, later if mask is None else b.both(mask, later))

    def _extras(self, m: Matrices, block: Block, column: Value, masks: Sequence[Value | None]) -> list[Sequence[Value]]:
        """For each vector of columns what the epilogue reads there."""
        epilogue, lanes = self.epilogue, self.tile.lanes
        if epilogue is None:
            return [()] * len(masks)
        first, kind = block.column + column, Type(self.work, lanes)
        return [epilogue.read(self.b, m.extras, first + j * lanes, kind, mask) for j, mask in enumerate(masks)]

    def _conclude(self, block: Block, value: Value, extras: Sequence[Value]) -> Value:
        """The epilogue of the sum, once it is whole."""
        if self.epilogue is None:
            return value
        whole = None
        if self.blocking.depth < self.problem.inner:
            whole = self.b.compare(">=", block.k + block.depth, self.problem.inner)
        return self.epilogue.apply(self.b, value, extras, whole)

    def _bias(self, m: Matrices, block: Block, column: Value, masks: Sequence[Value | None]) -> list[Value]:
        """The bias in the last block of k; zero, not read, before."""
        if m.bias is None:
            return []
        b, tile = self.b, self.tile
        if self.blocking.depth < self.problem.inner:
            last = b.splat(b.compare(">=", block.k + block.depth, self.problem.inner), tile.lanes)
            masks = [last if mask is None else b.both(mask, last) for mask in masks]
        return [
            b.cast(value, self.work) for value in load_row(b, m.bias, block.column + column, tile, self.scalar, masks)
        ]
