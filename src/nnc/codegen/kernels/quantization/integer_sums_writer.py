"""The phases of sums of products of bytes: hold images, pack weights, multiply."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from nnc.classes import dataclass
from nnc.codegen.frame import matrix_tiles
from nnc.codegen.frame.access import locate
from nnc.codegen.frame.kernel import PhaseWriter, phase
from nnc.codegen.frame.tile import column_masks, load_row, nanoseconds
from nnc.codegen.ir.builder import F32, I32, INDEX, U8, LocalVariable, Module, Type, Value
from nnc.codegen.ir.dot_products import WORD_BYTES
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.quantization.integer_operands import (
    IntegerOperands,
    W,
    hold_images,
    pack_panel,
    pack_weights,
    table,
)
from nnc.codegen.kernels.quantization.integer_sums import IntegerPlan, IntegerProblem, plan_of

Masks = Sequence[Value | None]


@dataclass(frozen=True, slots=True)
class IntegerSums:
    """The generator of a problem."""

    problem: IntegerProblem

    def workspace(self, target: TargetDescription) -> int:
        """Images with their borders, and packed weights."""
        plan = plan_of(self.problem, target)
        return plan.held_bytes + plan.packed_bytes

    def scratch(self, target: TargetDescription) -> int:
        """A packed panel, and what registers of matrices need."""
        plan = plan_of(self.problem, target)
        return plan.panel_bytes + plan.spilled_bytes + plan.staged_bytes

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Holding and packing where there is need for it, and the sums."""
        plan = plan_of(self.problem, module.target)
        phases = []
        if plan.held:
            phases.append(hold_images(module, f"{name}_hold", plan))
        if not plan.streams:
            phases.append(pack_weights(module, f"{name}_pack", plan))
        with phase(module, f"{name}_sum") as w:
            if plan.items:
                with matrix_tiles.configured(w.b) if plan.matrix else w.b.always():
                    _SumsWriter(plan, w).write()
        cost = nanoseconds(module.target, I32, self.problem.products / plan.dot.steps)
        return (*phases, Phase(f"{name}_sum", plan.items, cost / (matrix_tiles.FASTER if plan.matrix else 1)))


@dataclass(frozen=True, slots=True)
class _IntegerItem:
    """A block of one image, its weights, where the results lie, the filters from the panel's first on.

    The weights are a panel, or where they are read directly those of its filters. `zeros` is where the zero points of
    the image and of the weights begin.
    """

    image: Value
    panel: Value
    zeros: tuple[Value, Value]
    y: Value
    row: Value
    filters: Value
    channel: Value


class _SumsWriter:
    """Writes the loops of the sums."""

    def __init__(self, plan: IntegerPlan, w: PhaseWriter) -> None:
        self.plan, self.w, self.b = plan, w, w.b
        self.p = p = plan.problem
        self.operands = IntegerOperands(plan, w)
        width = plan.image_size[1]
        offsets = [(row * width + column) * p.channels for row, column in p.taps]
        self.offsets = table(w.b.module, "offsets", w.b, offsets)
        self.bases = table(w.b.module, "bases", w.b, p.bases)
        self.y = w.argument(self.operands.y)
        self.extras = [w.argument(place) for place in range(self.operands.first_extra, self.operands.y)]

    def write(self) -> None:
        """for place: for panel: sums; or for panel: pack it; for place: sums"""
        b, plan, w = self.b, self.plan, self.w
        if not plan.streams:
            none = b.constant(0)
            with b.loop(w.begin, w.end) as item:
                place, unit = item // plan.units, item % plan.units
                panel = b.offset(self.operands.packed, unit * plan.packing.words, I32)
                self._block(place, none, unit, panel, none)
            return
        with b.loop(w.begin // plan.places, (w.end - 1) // plan.places + 1) as unit:
            each = self.p.groups * plan.panels
            number, rest = (unit // each, unit % each) if plan.own_weights else (b.constant(0), unit)
            panel, first_zero = self._weights(number, rest)
            low = b.greatest(w.begin - unit * plan.places, 0)
            high = b.least(w.end - unit * plan.places, plan.places)
            with b.loop(low, high) as place:
                self._block(place, number, rest, panel, first_zero)

    def _weights(self, number: Value, unit: Value) -> tuple[Value, Value]:
        """A panel, packed just now, or where the weights of its filters begin; and their zero points."""
        b, p, plan = self.b, self.p, self.plan
        zeros = p.w_zero.outer if p.w_zero else (0,) * len(p.outer)
        start, first_zero = locate(b, number, p.outer, (p.w_outer, zeros))
        group, panel = unit // plan.panels, unit % plan.panels
        if plan.direct:
            start = start + group * p.w_group + panel * (plan.tile.columns * p.order.filter_elements)
            return b.offset(self.w.argument(W), start, plan.dot.w), first_zero
        pack_panel(self.operands, self.bases, (start, first_zero), group, panel, self.w.scratch)
        return self.w.scratch, first_zero

    def _block(self, place: Value, number: Value, unit: Value, panel: Value, w_zero: Value) -> None:
        """All tiles of a block for one panel."""
        b, p, plan = self.b, self.p, self.plan
        outer = number if plan.own_weights else place // plan.blocks
        block = place if plan.own_weights else place % plan.blocks
        group, lane = unit // plan.panels, unit % plan.panels * plan.tile.columns
        zeros = p.x_zero.outer if p.x_zero else (0,) * len(p.outer)
        image, result, x_zero = locate(b, outer, p.outer, (plan.image_steps, p.y_outer, zeros))
        channel = group * p.filters + lane
        item = _IntegerItem(
            b.offset(self.operands.held, image + group * p.x_group, plan.read),
            panel,
            (x_zero, w_zero),
            b.offset(self.y, result + channel, p.y),
            block * plan.block_rows,
            p.filters - lane,
            channel,
        )
        height = b.least(p.rows - item.row, plan.block_rows)
        with b.loop(0, height, plan.tile_rows) as row, b.loop(0, p.columns, plan.tile_columns) as column:
            inside = (height - row, p.columns - column)
            tile = partial(self._matrix_tile if plan.matrix else self._tile, item, row, column, inside)
            fits = [b.compare(">=", inside[0], plan.tile_rows), b.compare(">=", inside[1], plan.tile_columns)]
            whole = b.both(*fits)
            with b.when(whole) if plan.ragged_pixels else b.always():
                tile(ragged=False)
            if plan.ragged_pixels:
                with b.when(b.opposite(whole)):
                    tile(ragged=True)

    def _tile(
        self, item: _IntegerItem, row: Value, column: Value, inside: tuple[Value, Value], *, ragged: bool
    ) -> None:
        """y = the sums of a tile; pixels that do not exist repeat the last one that does."""
        b, p, plan = self.b, self.p, self.plan
        places, rows = [], []
        width = plan.image_size[1]
        for index in range(plan.tile.rows):
            down, right = index // plan.tile_columns, index % plan.tile_columns
            if ragged:
                lower, further = b.least(b.constant(down), inside[0] - 1), b.least(b.constant(right), inside[1] - 1)
            else:
                lower, further = b.constant(down), b.constant(right)
            rows.append(item.row + row + lower)
            moved = (lower * (p.steps[0] * width) + further * p.steps[1]) * p.channels
            places.append(moved)
        corner = ((item.row + row) * (p.steps[0] * width) + column * p.steps[1]) * p.channels
        first = b.offset(item.image, corner, plan.read)
        pixels = [b.offset(first, moved, plan.read) for moved in places]
        masks = column_masks(b, plan.tile, item.filters, plan.packing.ragged)
        sums, totals = self._sums(item, pixels, masks)
        self._store(item, row, column, inside, pixels, rows, masks, sums, totals, ragged)

    def _matrix_tile(
        self, item: _IntegerItem, row: Value, column: Value, inside: tuple[Value, Value], *, ragged: bool
    ) -> None:
        """The same by registers of matrices: sums go through memory, pixel by pixel."""
        b, p, plan = self.b, self.p, self.plan
        width, tile = plan.image_size[1], plan.tile
        corner = ((item.row + row) * (p.steps[0] * width) + column * p.steps[1]) * p.channels
        first = b.offset(item.image, corner, plan.read)
        masks = column_masks(b, tile, item.filters, plan.packing.ragged)
        spilled = b.offset(self.w.scratch, plan.panel_bytes, U8)
        self._sum_matrices(item, first, inside, spilled, ragged=ragged)
        totals: list[Value] = []
        if plan.subtracts_x:
            totals = load_row(b, item.panel, plan.packing.sums, tile, I32, [None] * tile.vectors)
        zeros = self.operands.w_zeros(item.zeros[1], item.channel, masks) if plan.subtracts_w else []
        extras = self._extras(item, masks)
        start = (item.row + row) * p.y_row + column * p.y_column
        with b.loop(0, tile.rows) as index:
            down, right = index // plan.tile_columns, index % plan.tile_columns
            exists = b.both(b.compare(">", inside[0], down), b.compare(">", inside[1], right))
            with b.when(exists) if ragged else b.always():
                moved = (down * (p.steps[0] * width) + right * p.steps[1]) * p.channels
                pixel = b.offset(first, moved, plan.read)
                slots = matrix_tiles.spilled_row(b, tile, spilled, index, I32)
                place = down * p.y_row + right * p.y_column
                self._store_pixel(item, start, place, pixel, item.row + row + down, masks, slots, totals, zeros, extras)

    def _sum_matrices(
        self, item: _IntegerItem, first: Value, inside: tuple[Value, Value], spilled: Value, *, ragged: bool
    ) -> None:
        """spilled[i][j] = sum over taps and words of x[pixel i] · w[j], of pixels from `first` on"""
        b, plan, tile = self.b, self.plan, self.plan.tile
        staged = b.offset(spilled, plan.spilled_bytes, U8)
        evenly = plan.pixel_step and not ragged
        starts = range(0, tile.rows, matrix_tiles.SIDE)
        count, row = plan.packing.rows // matrix_tiles.SIDE, matrix_tiles.ROW_BYTES
        product = f"tdpb{'s' if plan.dot.x.signed else 'u'}{'s' if plan.dot.w.signed else 'u'}d"
        matrix_tiles.clear(b, tile)
        # Pixels that do not lie evenly are moved for each register along the sum.
        with b.loop(0, len(self.p.taps)) as tap, b.loop(0, 1 if evenly else count) as block:
            pixel = b.offset(first, self._moved(tap) + block * row, plan.read)
            words = tap * plan.packing.tap_words + block * (matrix_tiles.SIDE * tile.columns)
            right = matrix_tiles.Side.right(b, tile, b.offset(item.panel, words, I32))
            if evenly:
                left = matrix_tiles.Side(
                    [b.offset(pixel, self._away(i), plan.read) for i in starts], row, plan.pixel_step
                )
            else:
                self._stage(pixel, inside, staged, ragged=ragged)
                left = matrix_tiles.Side([b.offset(staged, i * row, U8) for i in starts], row, row)
            matrix_tiles.multiply(b, product, left, right, count if evenly else 1)
        matrix_tiles.spill(b, tile, spilled)

    def _away(self, index: int) -> int:
        """Elements from the first pixel of a tile to another one."""
        p, plan = self.p, self.plan
        down, right = index // plan.tile_columns, index % plan.tile_columns
        return (down * (p.steps[0] * plan.image_size[1]) + right * p.steps[1]) * p.channels

    def _stage(self, first: Value, inside: tuple[Value, Value], staged: Value, *, ragged: bool) -> None:
        """staged[i] = what registers read of pixel i; those that do not exist repeat the last ones that do"""
        b, p, plan, row = self.b, self.p, self.plan, matrix_tiles.ROW_BYTES
        with b.loop(0, plan.tile.rows) as index:
            down, right = index // plan.tile_columns, index % plan.tile_columns
            if ragged:
                down, right = b.least(down, inside[0] - 1), b.least(right, inside[1] - 1)
            moved = (down * (p.steps[0] * plan.image_size[1]) + right * p.steps[1]) * p.channels
            b.store(b.load(first, moved, Type(U8, row)), staged, index * row)

    def _sums(
        self, item: _IntegerItem, pixels: Sequence[Value], masks: Masks
    ) -> tuple[list[list[LocalVariable]], list[Value]]:
        """sums[i][j] = sum over taps and words of x[pixel i] · w[j]; and the sums of w[j] where they are wanted"""
        b, plan = self.b, self.plan
        packing, tile = plan.packing, plan.tile
        zero, none = b.zero(Type(I32, tile.lanes)), [None] * tile.vectors
        sums = [[b.variable(zero) for _ in masks] for _ in pixels]
        totals = [b.variable(zero) for _ in masks] if plan.direct and packing.summed else []
        zeros = self._direct_zeros(item, masks)
        with b.loop(0, len(self.p.taps)) as tap:
            moved = self._moved(tap)
            left = [b.offset(pixel, moved, plan.read) for pixel in pixels]
            if plan.direct:
                panel = b.offset(item.panel, b.load(self.bases, tap, INDEX), plan.dot.w)
            else:
                panel = b.offset(item.panel, tap * packing.tap_words, I32)
            with b.loop(0, packing.rows) as word:
                if plan.direct:
                    (vectors,) = packing.made(b, panel, word, packing.read, masks, zeros)
                    packing.add_up(b, vectors, totals)
                else:
                    vectors = load_row(b, panel, word * tile.columns, tile, I32, none)
                for place, slots in zip(left, sums, strict=True):
                    spread = b.splat(self._word(place, word), tile.lanes)
                    for slot, vector in zip(slots, vectors, strict=True):
                        slot.set(plan.dot.add(b, spread, vector, slot.get()))
        if plan.direct or not plan.subtracts_x:
            return sums, [total.get() for total in totals]
        return sums, load_row(b, item.panel, packing.sums, tile, I32, none)

    def _direct_zeros(self, item: _IntegerItem, masks: Masks) -> list[Value] | None:
        """What is subtracted from weights on their way."""
        if not (self.plan.direct and self.plan.dot.in_pairs and self.p.w_zero):
            return None
        return self.operands.w_zeros(item.zeros[1], item.channel, masks)

    def _moved(self, tap: Value) -> Value:
        """Elements from a pixel to what a tap reads."""
        return self.b.constant(0) if len(self.p.taps) == 1 else self.b.load(self.offsets, tap, INDEX)

    def _word(self, place: Value, word: Value) -> Value:
        """A word of x, which may lie anywhere."""
        b, read = self.b, self.plan.read
        return b.words(b.load(place, word * self.plan.dot.steps, Type(read, WORD_BYTES // read.size)))

    def _row_sum(self, pixel: Value) -> Value:
        """sum over taps and k of x, as it is held."""
        b, plan = self.b, self.plan
        lanes, depth = b.vector(I32).lanes, self.p.depth
        size = lanes * plan.dot.steps
        total = b.variable(b.zero(Type(I32, lanes)))
        with b.loop(0, len(self.p.taps)) as tap:
            place = b.offset(pixel, self._moved(tap), plan.read)
            with b.loop(0, depth, size) as k:
                mask = b.mask(depth - k, size) if depth % size else None
                words = b.words(b.load(place, k, Type(plan.read, size), mask))
                total.set(plan.dot.sum_x(b, words, total.get()))
        return b.fold(total.get(), "add")

    def _store(
        self,
        item: _IntegerItem,
        row: Value,
        column: Value,
        inside: tuple[Value, Value],
        pixels: Sequence[Value],
        rows: Sequence[Value],
        masks: Masks,
        sums: Sequence[Sequence[LocalVariable]],
        totals: Sequence[Value],
        ragged: bool,
    ) -> None:
        """y = the epilogue of the sums without zero points, for the pixels of the tile that exist"""
        b, p, plan = self.b, self.p, self.plan
        zeros = self.operands.w_zeros(item.zeros[1], item.channel, masks) if plan.subtracts_w else []
        extras = self._extras(item, masks)
        corner = (item.row + row) * p.y_row + column * p.y_column
        for index, slots in enumerate(sums):
            down, right = index // plan.tile_columns, index % plan.tile_columns
            exists = b.both(b.compare(">", inside[0], down), b.compare(">", inside[1], right))
            with b.when(exists) if ragged else b.always():
                place = down * p.y_row + right * p.y_column
                self._store_pixel(item, corner, place, pixels[index], rows[index], masks, slots, totals, zeros, extras)

    def _store_pixel(
        self,
        item: _IntegerItem,
        corner: Value,
        moved: Value | int,
        pixel: Value,
        row: Value,
        masks: Masks,
        slots: Sequence[LocalVariable | matrix_tiles.SpilledVector],
        totals: Sequence[Value],
        zeros: Sequence[Value],
        extras: Sequence[Sequence[Value]],
    ) -> None:
        b, p, lanes = self.b, self.p, self.plan.tile.lanes
        zero = self.operands.x_zero(item.zeros[0], row) if totals or zeros else None
        values = [slot.get() for slot in slots]
        if totals and zero is not None:
            spread = b.splat(zero, lanes)
            values = [value - spread * total for value, total in zip(values, totals, strict=True)]
        if zeros and zero is not None:
            rest = self._row_sum(pixel) - zero * (p.depth * len(p.taps))
            spread = b.splat(rest, lanes)
            values = [value - spread * correction for value, correction in zip(values, zeros, strict=True)]
        place = b.offset(item.y, corner + moved, p.y)
        for j, (value, mask) in enumerate(zip(values, masks, strict=True)):
            done = p.epilogue.apply(b, value, extras[j]) if p.epilogue else value
            b.store(b.cast(done, p.y), place, j * lanes, mask)

    def _extras(self, item: _IntegerItem, masks: Sequence[Value | None]) -> list[Sequence[Value]]:
        """For each vector of filters what the epilogue reads there."""
        epilogue, lanes = self.p.epilogue, self.plan.tile.lanes
        if epilogue is None:
            return [()] * len(masks)
        kind = Type(F32, lanes)
        return [
            epilogue.read(self.b, self.extras, item.channel + j * lanes, kind, mask) for j, mask in enumerate(masks)
        ]
