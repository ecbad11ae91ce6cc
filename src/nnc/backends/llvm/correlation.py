"""Correlation: y[n, r, q, f] = sum over taps t and k < depth of p[n, pixel(r, q) + tap(t) + k] * w[t, k, f] + bias[f].

p is the image with its zero border. This is the one inner kernel of a convolution and of its data gradient: a forward
convolution has one core, whose taps are the rows (or positions) of the kernel; a data gradient with strides has one
core per residue of the output position, each with the taps that meet it. A tile of output pixels against a panel of
channels stays in registers over all taps.

Phase 1 packs the weights into panels, unless they already are one. Phase 2's items are (image, block of rows, group,
panel), innermost last, so that a worker fills each strip of an image once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnc.backends.llvm.builder import ADDRESS, INDEX, Builder, Module, Scalar, Type, Value, Variable
from nnc.backends.llvm.kernel import Phase, PhaseWriter, aligned, ceiling, phase
from nnc.backends.llvm.packing import Packing
from nnc.backends.llvm.strip import Strip
from nnc.backends.llvm.target import TargetDescription
from nnc.backends.llvm.tile import Accumulators, Tile, candidates, column_masks, load_row, nanoseconds

SHORT_DEPTH = 4
STORE_CYCLES, TILE_CYCLES = 2.0, 30.0
CORE_SLOTS = 5


@dataclass(frozen=True, slots=True)
class Core:
    """Outputs rows x columns whose first lies at element `start` of y; taps as (row, column, index of the weights)."""

    taps: tuple[tuple[int, int, int], ...]
    start: int
    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Weights:
    """Where w[t, k, f] is: bases[t] + group * group_stride + k * depth_stride + f * lane_stride."""

    bases: tuple[int, ...]
    group_stride: int
    depth_stride: int
    lane_stride: int


@dataclass(frozen=True, slots=True)
class Correlation:
    """The image is height x width x channels with `top` and `left` zero rows and columns, `padded` columns in all.

    `reach` is how many image rows the taps span. `filters` and `depth` are per group. Operands: image, weights, bias
    when there is one, y.
    """

    scalar: Scalar
    batch: int
    height: int
    width: int
    channels: int
    top: int
    left: int
    padded: int
    reach: int
    row_step: int
    column_step: int
    groups: int
    group_channels: int
    depth: int
    filters: int
    cores: tuple[Core, ...]
    weights: Weights
    y_image: int
    y_row: int
    y_column: int
    bias: bool = False

    def workspace(self, target: TargetDescription) -> int:
        """The packed weights."""
        plan = Plan.of(self, target)
        return 0 if plan.packed else aligned(plan.packed_elements * self.scalar.size)

    def scratch(self, target: TargetDescription) -> int:
        """A strip of one image."""
        plan = Plan.of(self, target)
        return 0 if plan.direct else aligned(plan.strip.bytes)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Packing, if the weights need it, and the correlation."""
        plan = Plan.of(self, module.target)
        work = nanoseconds(module.target, self.scalar, float(self.batch * self.outputs * self.products))
        phases = [] if plan.packed else [_pack(module, f"{name}_pack", plan)]
        with phase(module, f"{name}_correlate") as writer:
            _Writer(plan, writer).write()
        return (*phases, Phase(f"{name}_correlate", plan.items, work))

    @property
    def outputs(self) -> int:
        """Output pixels of one image."""
        return sum(core.rows * core.columns for core in self.cores)

    @property
    def products(self) -> int:
        """Multiply-adds of one output pixel, about."""
        return self.groups * self.filters * self.depth * max(len(core.taps) for core in self.cores)

    @property
    def rows(self) -> int:
        """Output rows of the tallest core."""
        return max(core.rows for core in self.cores)


@dataclass(frozen=True, slots=True)
class Plan:
    """Tile, blocks and layouts chosen for one correlation on one target."""

    problem: Correlation
    tile: Tile
    tile_rows: int
    tile_columns: int
    block_rows: int
    strip: Strip
    packing: Packing

    @classmethod
    def of(cls, problem: Correlation, target: TargetDescription) -> Plan:
        """The tile with fewest cycles; blocks of rows whose strip fits a quarter of the second-level cache."""
        tile, tile_rows, tile_columns = choose_pixels(problem, target)
        row_bytes = problem.padded * problem.channels * problem.scalar.size
        fitting = (target.level_two_bytes // 4 // row_bytes - problem.reach) // problem.row_step + 1
        most = ceiling(problem.rows, tile_rows) * tile_rows
        block_rows = min(most, max(fitting // tile_rows * tile_rows, tile_rows))
        strip = Strip(
            problem.scalar, tile.lanes, problem.height, problem.width, problem.channels, problem.left, problem.padded,
            (block_rows - 1) * problem.row_step + problem.reach,
        )  # fmt: skip
        ragged = problem.filters % tile.columns != 0
        weights = problem.weights
        packing = Packing(problem.scalar, tile.lanes, tile.columns, weights.lane_stride, weights.depth_stride, ragged)
        return cls(problem, tile, tile_rows, tile_columns, block_rows, strip, packing)

    @property
    def direct(self) -> bool:
        """True when no window leaves the image, so that it is read where it is."""
        p = self.problem
        tallest = (p.rows - 1) * p.row_step + p.reach
        return p.top == 0 and p.left == 0 and p.padded == p.width and tallest <= p.height

    @property
    def packed(self) -> bool:
        """True when the weights are one panel as they are."""
        p, w = self.problem, self.problem.weights
        order = tuple(t * p.depth * p.filters for t in range(len(w.bases)))
        exact = p.filters == self.tile.columns == w.depth_stride
        return p.groups == 1 and w.lane_stride == 1 and exact and w.bases == order

    @property
    def panels(self) -> int:
        return ceiling(self.problem.filters, self.tile.columns)

    @property
    def tap_elements(self) -> int:
        """Elements between the packed weights of neighbouring taps."""
        return self.packing.extent(self.problem.depth)

    @property
    def panel_elements(self) -> int:
        return self.tap_elements * len(self.problem.weights.bases)

    @property
    def packed_elements(self) -> int:
        return self.panel_elements * self.panels * self.problem.groups

    @property
    def blocks(self) -> int:
        return ceiling(self.problem.rows, self.block_rows)

    @property
    def items(self) -> int:
        return self.problem.batch * self.blocks * self.problem.groups * self.panels

    @property
    def ragged_pixels(self) -> bool:
        """True when some tile has fewer pixels."""
        cores = self.problem.cores
        return any(core.rows % self.tile_rows or core.columns % self.tile_columns for core in cores)


def choose_pixels(problem: Correlation, target: TargetDescription) -> tuple[Tile, int, int]:
    """The tile, and its pixels as rows x columns, that need fewest cycles over all cores."""
    steps = problem.depth * max(len(core.taps) for core in problem.cores)
    best: tuple[float, Tile, int, int] | None = None
    for tile in candidates(target, problem.scalar):
        panels = ceiling(problem.filters, tile.columns)
        cycles = tile.cycles * steps + STORE_CYCLES * tile.rows * tile.vectors + TILE_CYCLES
        for height in (rows for rows in range(1, tile.rows + 1) if tile.rows % rows == 0):
            width = tile.rows // height
            tiles = sum(ceiling(core.rows, height) * ceiling(core.columns, width) for core in problem.cores)
            cost = panels * tiles * cycles
            if best is None or cost < best[0]:
                best = (cost, tile, height, width)
    assert best is not None
    return best[1:]


def _pack(module: Module, name: str, plan: Plan) -> Phase:
    """Items are (group, panel, tap): panel[tap][k][lane] = w."""
    p, taps = plan.problem, len(plan.problem.weights.bases)
    items = p.groups * plan.panels * taps
    table = module.table(f"{name}_bases", p.weights.bases)
    with phase(module, name) as w:
        b = w.b
        source, target = w.argument(1), w.argument(4 if p.bias else 3)
        with b.loop(w.begin, w.end) as item:
            tap, rest = item % taps, item // taps
            panel, group = rest % plan.panels, rest // plan.panels
            first = panel * plan.tile.columns
            base = b.load(Value(table, ADDRESS, b), tap, INDEX)
            start = base + group * p.weights.group_stride + first * p.weights.lane_stride
            place = b.offset(target, item * plan.tap_elements, p.scalar)
            depth = b.constant(p.depth)
            plan.packing.pack(b, b.offset(source, start, p.scalar), p.filters - first, depth, place)
    elements = float(p.groups * p.filters * p.depth * taps)
    return Phase(name, items, elements * (0.5 if plan.packing.transposes else 0.15))


@dataclass(frozen=True, slots=True)
class _Item:
    """What one item works on: its image rows, weights and outputs, and how many rows its block has at most."""

    image: Value
    weights: Value
    bias: Value | None
    y: Value
    row: Value
    filters: Value


class _Writer:
    """Writes the loops of a correlation."""

    def __init__(self, plan: Plan, writer: PhaseWriter) -> None:
        self.plan = plan
        self.p = plan.problem
        self.w = writer
        self.b: Builder = writer.b
        module = writer.b.module
        taps = [tap for core in self.p.cores for tap in core.taps]
        offsets = [(row * self.p.padded + column) * self.p.channels for row, column, _ in taps]
        self.tap_offsets = module.table("tap_offsets", offsets or [0])
        self.tap_weights = module.table("tap_weights", [tap[2] * plan.tap_elements for tap in taps] or [0])
        self.core_table = module.table("cores", self._core_rows())

    def _core_rows(self) -> list[int]:
        rows: list[int] = []
        first = 0
        for core in self.p.cores:
            rows += [first, first + len(core.taps), core.start, core.rows, core.columns]
            first += len(core.taps)
        return rows

    def write(self) -> None:
        """for item: fill its strip if it is a new one, then all cores"""
        b, p, plan, w = self.b, self.p, self.plan, self.w
        image, weights, y = w.argument(0), w.argument(1), w.argument(3 if p.bias else 2)
        panels = weights if plan.packed else w.argument(4 if p.bias else 3)
        bias = w.argument(2) if p.bias else None
        current = b.variable(b.constant(-1))
        with b.loop(w.begin, w.end) as item:
            panel, rest = item % plan.panels, item // plan.panels
            group, place = rest % p.groups, rest // p.groups
            block, number = place % plan.blocks, place // plan.blocks
            source = self._image(image, number, block, place, current)
            first = panel * plan.tile.columns
            channel = group * p.filters + first
            filled = (group * plan.panels + panel) * plan.panel_elements
            self._cores(
                _Item(
                    b.offset(source, group * p.group_channels, p.scalar),
                    b.offset(panels, filled, p.scalar),
                    None if bias is None else b.offset(bias, channel, p.scalar),
                    b.offset(y, number * p.y_image + channel, p.scalar),
                    block * plan.block_rows,
                    p.filters - first,
                )
            )

    def _image(self, image: Value, number: Value, block: Value, place: Value, current: Variable) -> Value:
        """Where the block's first row begins: in the image itself, or in the strip, filled when the place is new."""
        b, p, plan = self.b, self.p, self.plan
        picture = b.offset(image, number * (p.height * p.width * p.channels), p.scalar)
        first = block * (plan.block_rows * p.row_step)
        if plan.direct:
            return b.offset(picture, first * (p.width * p.channels), p.scalar)
        with b.when(b.compare("!=", place, current.get())):
            plan.strip.fill(b, picture, first - p.top, self.w.scratch)
            current.set(place)
        return self.w.scratch

    def _cores(self, item: _Item) -> None:
        """for core: for tile of the block's rows"""
        b, p, plan = self.b, self.p, self.plan
        masks = column_masks(b, plan.tile, item.filters, plan.packing.ragged)
        bias = [] if item.bias is None else load_row(b, item.bias, 0, plan.tile, p.scalar, masks)
        with b.loop(0, len(p.cores)) as core:
            low, high, start, rows, columns = self._core(core)
            block = b.least(rows - item.row, plan.block_rows)
            with b.loop(0, block, plan.tile_rows) as row, b.loop(0, columns, plan.tile_columns) as column:
                pixels = self._pixels(row, column, block, columns)
                acc = Accumulators.zeros(b, plan.tile, p.scalar)
                self._sum(item, acc, pixels, low, high)
                corner = start + (item.row + row) * p.y_row + column * p.y_column
                self._store(item, acc, corner, (block - row, columns - column), masks, bias)

    def _core(self, core: Value) -> tuple[Value, ...]:
        """First and last tap, start, rows and columns of a core."""
        if core.constant is not None:
            return tuple(self.b.constant(number) for number in self._core_rows()[:CORE_SLOTS])
        table = Value(self.core_table, ADDRESS, self.b)
        return tuple(self.b.load(table, core * CORE_SLOTS + slot, INDEX) for slot in range(CORE_SLOTS))

    def _pixels(self, row: Value, column: Value, rows: Value, columns: Value) -> list[Value]:
        """Where each pixel of the tile begins in the image; pixels outside repeat the last one inside."""
        b, p, plan = self.b, self.p, self.plan
        result = []
        for index in range(plan.tile.rows):
            down, right = row + index // plan.tile_columns, column + index % plan.tile_columns
            if plan.ragged_pixels:
                down, right = b.least(down, rows - 1), b.least(right, columns - 1)
            result.append((down * (p.row_step * p.padded) + right * p.column_step) * p.channels)
        return result

    def _sum(self, item: _Item, acc: Accumulators, pixels: Sequence[Value], low: Value, high: Value) -> None:
        """acc[i][j] += p[pixel(i) + tap + k] * w[tap, k, j]"""
        b, p, plan = self.b, self.p, self.plan
        places = [b.offset(item.image, pixel, p.scalar) for pixel in pixels]
        none: list[Value | None] = [None] * plan.tile.vectors
        with b.loop(low, high) as tap:
            moved = b.load(Value(self.tap_offsets, ADDRESS, b), tap, INDEX)
            weights = b.offset(item.weights, b.load(Value(self.tap_weights, ADDRESS, b), tap, INDEX), p.scalar)
            left = [b.offset(place, moved, p.scalar) for place in places]

            def step(k: Value) -> None:
                vectors = load_row(b, weights, k * plan.tile.columns, plan.tile, p.scalar, none)
                acc.multiply([b.load(place, k, Type(p.scalar)) for place in left], vectors)

            if p.depth <= SHORT_DEPTH:
                for k in range(p.depth):
                    step(b.constant(k))
            else:
                with b.loop(0, p.depth) as index:
                    step(index)

    def _store(
        self,
        item: _Item,
        acc: Accumulators,
        corner: Value,
        room: tuple[Value, Value],
        masks: Sequence[Value | None],
        bias: Sequence[Value],
    ) -> None:
        """y = acc + bias, for the pixels of the tile that exist"""
        b, p, plan = self.b, self.p, self.plan
        for index, slots in enumerate(acc.slots):
            down, right = index // plan.tile_columns, index % plan.tile_columns
            exists = b.both(b.compare(">", room[0], down), b.compare(">", room[1], right))
            with b.when(exists) if plan.ragged_pixels else b.always():
                place = b.offset(item.y, corner + (down * p.y_row + right * p.y_column), p.scalar)
                for j, (slot, mask) in enumerate(zip(slots, masks, strict=True)):
                    value = slot.get() + bias[j] if bias else slot.get()
                    b.store(value, place, j * plan.tile.lanes, mask)
