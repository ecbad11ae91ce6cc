"""Gradient of a convolution by its weights: w'[m, f] = sum_{n, o} x[n, pixel(o) + offset(m)] * g[n, o, f], m = (k, c).

A tile of rows m against a panel of filters stays in registers while it walks a block of output rows of one image; its
sum is then added to w'. Blocks come in the order of the images, so the sum of an element has one order. Items are
tiles; each worker makes the padded strips it reads for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithSizes, ceiling, phase
from nnc.codegen.frame.strip import Strip
from nnc.codegen.frame.tile import Accumulators, Tile, alternatives, candidates, column_masks, load_row, nanoseconds
from nnc.codegen.ir.builder import ADDRESS, INDEX, Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase, aligned
from nnc.codegen.ir.target import SUM_BYTES, TargetDescription
from nnc.core.values.derived import Read, largest, smallest

Pair = tuple[int, int]
# Of a device: sides of a tile and how many there should be, and the fewest pixels of a part.
DEVICE_TILE, DEVICE_TILES, DEVICE_PIXELS = 64, 264, 256
SCATTERED_COST = 1.3  # a tile whose rows are not neighbours needs an address for each


@dataclass(frozen=True, slots=True)
class WeightGradient(WithSizes):
    """Sizes as in convolution.Convolution. Operands: x, g, w', of which w' is f32 where x and g have 16 bits.

    `tile` takes the place of what the plan would choose.
    """

    scalar: Scalar
    batch: int
    sizes: Pair
    channels: int
    kernel: Pair
    filters: int
    outputs: Pair
    strides: Pair
    before: Pair
    dilations: Pair
    groups: int
    tile: Tile | None = None

    def opened(self, read: Read, target: TargetDescription) -> WeightGradient:
        """The batch and heights are read; offsets of the rows of w' follow the width."""
        (height, width), (rows, columns) = self.sizes, self.outputs
        tile = WeightGradientPlan.of(self, target).tile
        return replace(
            self, batch=read(self.batch), sizes=(read(height), width), outputs=(read(rows), columns), tile=tile
        )

    def parts(self, target: TargetDescription) -> int:
        """Parts of the sums over pixels: 1 but on devices, whose tiles are as many as keep them busy."""
        if not target.threads:
            return 1
        tiles = self.groups * ceiling(self.rows, DEVICE_TILE) * ceiling(self.group_filters, DEVICE_TILE)
        parts = smallest(ceiling(DEVICE_TILES, tiles), ceiling(self.pixels, DEVICE_PIXELS))
        return ceiling(self.pixels, ceiling(self.pixels, largest(parts, 1)))

    def workspace(self, target: TargetDescription) -> int:
        """The parts of w' on a device; elsewhere what is kept is a worker's own."""
        parts = self.parts(target)
        return aligned(parts * self.weights * self.work.size) if parts > 1 else 0

    def scratch(self, target: TargetDescription) -> int:
        """A strip of one image."""
        plan = WeightGradientPlan.of(self, target)
        return 0 if plan.direct else aligned(plan.strip.bytes)

    def alternatives(self, target: TargetDescription) -> dict[str, Generator]:
        """tile-RxV: another register tile of R rows and V vectors, but those that seem much slower."""
        chosen = WeightGradientPlan.of(self, target).tile
        tiles = alternatives(candidates(target, self.scalar), self.cost, chosen)
        return {f"tile-{tile}": replace(self, tile=tile) for tile in tiles}

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase."""
        plan = WeightGradientPlan.of(self, module.target)
        products = 1.0 * self.batch * self.outputs[0] * self.outputs[1] * self.rows * self.filters
        with phase(module, name) as writer:
            _WeightGradientWriter(plan, writer).write()
        return (Phase(name, plan.items, nanoseconds(module.target, self.work, products)),)

    @property
    def work(self) -> Scalar:
        """The element type of strips, sums and w'."""
        return computed(self.scalar)

    @property
    def pixels(self) -> int:
        """Outputs of all images."""
        return self.batch * self.outputs[0] * self.outputs[1]

    @property
    def weights(self) -> int:
        """Elements of w'."""
        return self.rows * self.filters

    @property
    def group_channels(self) -> int:
        return self.channels // self.groups

    @property
    def group_filters(self) -> int:
        return self.filters // self.groups

    @property
    def rows(self) -> int:
        """Rows m of w' in one group."""
        return self.kernel[0] * self.kernel[1] * self.group_channels

    @property
    def run(self) -> int:
        """Rows that are neighbours in x."""
        merged = self.groups == 1 and self.dilations[1] == 1
        return self.group_channels * (self.kernel[1] if merged else 1)

    def cost(self, tile: Tile) -> float:
        """About how many cycles a tile needs for one output pixel."""
        return tile.covering(self.rows, self.group_filters) * (1.0 if self.run % tile.rows == 0 else SCATTERED_COST)

    @property
    def padded(self) -> int:
        """Columns of a strip."""
        across = (self.outputs[1] - 1) * self.strides[1] + (self.kernel[1] - 1) * self.dilations[1] + 1
        return max(across, self.before[1] + self.sizes[1])

    @property
    def reach(self) -> int:
        """Rows of x that one output row reads."""
        return (self.kernel[0] - 1) * self.dilations[0] + 1


@dataclass(frozen=True, slots=True)
class WeightGradientPlan:
    """Tile and blocks chosen for one problem on one target."""

    problem: WeightGradient
    tile: Tile
    block_rows: int
    strip: Strip

    @classmethod
    def of(cls, p: WeightGradient, target: TargetDescription) -> WeightGradientPlan:
        """The tile with fewest cycles; blocks of output rows whose strip fits a quarter of `SUM_BYTES`."""
        tile = p.tile or min(candidates(target, p.work), key=p.cost)
        row_bytes = p.padded * p.channels * p.work.size
        fitting = (SUM_BYTES // 4 // row_bytes - p.reach) // p.strides[0] + 1
        block_rows = min(p.outputs[0], max(fitting, 1))
        rows = (block_rows - 1) * p.strides[0] + p.reach
        strip = Strip(p.scalar, tile.lanes, *p.sizes, p.channels, p.before[1], p.padded, rows)
        return cls(p, tile, block_rows, strip)

    @property
    def direct(self) -> bool:
        """True when no window leaves the image, and nothing of it is converted."""
        p = self.problem
        tallest = (p.outputs[0] - 1) * p.strides[0] + p.reach
        inside = p.before == (0, 0) and p.padded == p.sizes[1] and tallest <= p.sizes[0]
        return inside and p.work == p.scalar

    @property
    def neighbours(self) -> bool:
        """True when the rows of every tile are neighbours in x."""
        return self.problem.run % self.tile.rows == 0

    @property
    def panels(self) -> int:
        return ceiling(self.problem.group_filters, self.tile.columns)

    @property
    def row_tiles(self) -> int:
        return ceiling(self.problem.rows, self.tile.rows)

    @property
    def items(self) -> int:
        return self.problem.groups * self.panels * self.row_tiles


@dataclass(frozen=True, slots=True)
class _GradientBlock:
    """Output rows [row, row + rows) of image `number`; `image` is where the rows of x that they read begin."""

    number: Value
    image: Value
    row: Value
    rows: Value
    first: Value


class _WeightGradientWriter:
    """Writes the loops of a weight gradient."""

    def __init__(self, plan: WeightGradientPlan, writer: PhaseWriter) -> None:
        self.plan = plan
        self.p = plan.problem
        self.w = writer
        self.b: Builder = writer.b
        self.offsets = Value(writer.b.module.table("row_offsets", self._offsets()), ADDRESS, writer.b)

    def _offsets(self) -> list[int]:
        p = self.p
        return [
            (down * p.dilations[0] * p.padded + right * p.dilations[1]) * p.channels + channel
            for down in range(p.kernel[0])
            for right in range(p.kernel[1])
            for channel in range(p.group_channels)
        ]

    def write(self) -> None:
        """for image: for block of output rows: for tile in [begin, end)"""
        b, p, plan, w = self.b, self.p, self.plan, self.w
        x = w.argument(0)
        with b.loop(0, p.batch) as number, b.loop(0, p.outputs[0], plan.block_rows) as row:
            picture = b.offset(x, number * (p.sizes[0] * p.sizes[1] * p.channels), p.scalar)
            top = row * p.strides[0]
            if plan.direct:
                image = b.offset(picture, top * (p.sizes[1] * p.channels), p.scalar)
            else:
                image = w.scratch
                plan.strip.fill(b, picture, top - p.before[0], image)
            rows = b.least(p.outputs[0] - row, plan.block_rows)
            block = _GradientBlock(number, image, row, rows, number * p.outputs[0] + row)
            with b.loop(w.begin, w.end) as item:
                self._tile(block, item)

    def _tile(self, block: _GradientBlock, item: Value) -> None:
        b, p, plan = self.b, self.p, self.plan
        tile, rest = item % plan.row_tiles, item // plan.row_tiles
        panel, group = rest % plan.panels, rest // plan.panels
        first = panel * plan.tile.columns
        row = tile * plan.tile.rows
        filters = p.group_filters - first
        masks = column_masks(b, plan.tile, filters, p.group_filters % plan.tile.columns != 0)
        column = group * p.group_filters + first
        acc = Accumulators.zeros(b, plan.tile, p.work)
        places = self._places(b.offset(block.image, group * p.group_channels, p.work), row)
        self._sum(block, acc, places, column, masks)
        self._add(block, acc, row, column, masks)

    def _places(self, image: Value, row: Value) -> list[Value]:
        """Where the rows of a tile begin in x; rows outside repeat the last one."""
        b, p, plan = self.b, self.p, self.plan
        if plan.neighbours:
            start = b.offset(image, b.load(self.offsets, row, INDEX), p.work)
            return [b.offset(start, i, p.work) for i in range(plan.tile.rows)]
        rows = [b.least(row + i, p.rows - 1) for i in range(plan.tile.rows)]
        return [b.offset(image, b.load(self.offsets, index, INDEX), p.work) for index in rows]

    def _sum(
        self,
        block: _GradientBlock,
        acc: Accumulators,
        places: Sequence[Value],
        column: Value,
        masks: Sequence[Value | None],
    ) -> None:
        """acc[i][j] += x[pixel + offset(i)] * g[pixel, j] over the block's pixels"""
        b, p, plan = self.b, self.p, self.plan
        g = self.w.argument(1)
        start = (block.number * p.outputs[0] + block.row) * (p.outputs[1] * p.filters) + column
        with b.loop(0, block.rows) as down:
            moved = down * (p.strides[0] * p.padded * p.channels)
            left = [b.offset(place, moved, p.work) for place in places]
            right = b.offset(g, start + down * (p.outputs[1] * p.filters), p.scalar)
            with b.loop(0, p.outputs[1]) as across:
                vectors = load_row(b, right, across * p.filters, plan.tile, p.scalar, masks)
                step = across * (p.strides[1] * p.channels)
                factors = [b.load(place, step, Type(p.work)) for place in left]
                acc.multiply(factors, [b.cast(vector, p.work) for vector in vectors])

    def _add(
        self, block: _GradientBlock, acc: Accumulators, row: Value, column: Value, masks: Sequence[Value | None]
    ) -> None:
        """w' += acc; the first block of the first image writes instead"""
        b, p, plan = self.b, self.p, self.plan
        later = b.splat(b.compare(">", block.first, 0), plan.tile.lanes)
        reads = [later if mask is None else b.both(mask, later) for mask in masks]
        result = self.w.argument(2)
        for i, slots in enumerate(acc.slots):
            ragged = p.rows % plan.tile.rows != 0
            with b.when(b.compare("<", row + i, p.rows)) if ragged else b.always():
                place = b.offset(result, (row + i) * p.filters + column, p.work)
                earlier = load_row(b, place, 0, plan.tile, p.work, reads)
                for j, (slot, mask) in enumerate(zip(slots, masks, strict=True)):
                    b.store(earlier[j] + slot.get(), place, j * plan.tile.lanes, mask)
