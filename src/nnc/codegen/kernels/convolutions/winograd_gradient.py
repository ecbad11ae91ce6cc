"""Weight gradient of a convolution with 3 x 3 kernels without strides, in tiles: Winograd's algorithm turned round.

    v[p, tile, c] = B^T d B        t[p, tile, f] = A e A^T        m[p, c, f] = sum_tile v[p, tile, c] * t[p, tile, f]

for each of the products p of a tile of inputs d and gradients of outputs e, and w' = G^T m G, with the matrices of
winograd_algorithm.py: y is linear in w, and this is the transposed map. A tile of 4 x 4 gradients takes 36 products
where the sum written out takes 144.

An item is a block of channels against a block of filters over some tiles, a few of which are transformed at a time; m
stays in the cache. How tiles are cut depends on the shape alone, and so do sums; parts of them are added up last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithSizes, ceiling, phase
from nnc.codegen.frame.tile import Accumulators, Tile, candidates, load_row, nanoseconds
from nnc.codegen.ir.builder import F32, Builder, Module, Type, Value
from nnc.codegen.ir.native_kernel import Phase, aligned
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.convolutions.weight_gradient import WeightGradient
from nnc.codegen.kernels.convolutions.winograd_algorithm import F4, TAPS, Grid, instructions, transform, transposed
from nnc.core.values.derived import Read

# Sides of a block: 64 x 64 sums of 36 products are 0.6 MB. Both are filled with vectors, of which the longest has 16.
MOST_SIDE, SIDE_STEP = 64, 16
# Elements of v and t together for one product: as many bytes again as two blocks of sums.
TRANSFORMED = 8192
# Items that four workers share evenly, of so many rounds of tiles at least.
FEW_ITEMS, LEAST_ROUNDS = 16, 2
# Sums written out win unless so much is saved.
GAIN = 0.8
# Tiles in one round of the loop of products.
STEPS_AT_ONCE = 4
SPREAD_OUTPUTS, GATHER_TAPS = transposed(F4.result), transposed(F4.kernel)


@dataclass(frozen=True, slots=True)
class WinogradGradient(WithSizes):
    """The generator; operands and sizes are those of `problem`, of f32."""

    problem: WeightGradient

    def opened(self, read: Read, target: TargetDescription) -> WinogradGradient:
        """The batch, heights and widths are read."""
        p = self.problem
        sizes, outputs = ((read(height), read(width)) for height, width in (p.sizes, p.outputs))
        return WinogradGradient(replace(p, batch=read(p.batch), sizes=sizes, outputs=outputs))

    @property
    def counts(self) -> tuple[int, int]:
        """Tiles along both axes."""
        rows, columns = self.problem.outputs
        return ceiling(rows, F4.outputs), ceiling(columns, F4.outputs)

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.problem.batch * self.counts[0] * self.counts[1]

    @property
    def sides(self) -> tuple[int, int]:
        """Channels and filters of a block."""
        return side(self.problem.channels), side(self.problem.filters)

    @property
    def blocks(self) -> int:
        """Blocks of channels times blocks of filters."""
        return self.problem.channels // self.sides[0] * (self.problem.filters // self.sides[1])

    @property
    def round(self) -> int:
        """Tiles that are transformed at a time."""
        return min(TRANSFORMED // sum(self.sides), self.tiles)

    @property
    def share(self) -> int:
        """Tiles of a part: whole rounds."""
        rounds = ceiling(self.tiles, self.round)
        parts = min(ceiling(FEW_ITEMS, self.blocks), max(rounds // LEAST_ROUNDS, 1))
        return ceiling(rounds, parts) * self.round

    @property
    def parts(self) -> int:
        """How many sums are added up last."""
        return ceiling(self.tiles, self.share)

    @property
    def weights(self) -> int:
        """Elements of w'."""
        return TAPS * TAPS * self.problem.channels * self.problem.filters

    @property
    def cost(self) -> float:
        """Vector instructions, in units of multiply-adds."""
        channels, filters = self.sides
        transforms = instructions(F4.image) / filters + instructions(SPREAD_OUTPUTS) / channels
        each = self.tiles * (F4.products + transforms) + self.parts * instructions(GATHER_TAPS)
        return each * self.problem.channels * self.problem.filters

    @property
    def pays(self) -> bool:
        """True where the sum written out takes longer."""
        outputs = self.problem.batch * self.problem.outputs[0] * self.problem.outputs[1]
        return self.cost < GAIN * outputs * self.weights

    def tile(self, target: TargetDescription) -> Tile:
        """The register tile of a block, whose columns it divides."""
        channels, filters = self.sides
        whole = [tile for tile in candidates(target, F32) if filters % tile.columns == 0]
        return min(whole, key=lambda tile: tile.covering(channels, filters))

    def rooms(self, target: TargetDescription) -> tuple[int, int, int]:
        """Elements of one product of v, t and m: a line more, so that the next falls on other sets of the cache."""
        (channels, filters), tile = self.sides, self.tile(target)
        line, rows = target.machine.line_bytes // F32.size, ceiling(channels, tile.rows) * tile.rows
        return self.round * channels + line, self.round * filters + line, rows * filters + line

    def compact(self) -> WeightGradient:
        """The sum written out."""
        return self.problem

    def alternatives(self, target: TargetDescription) -> dict[str, Generator]:
        """The sum written out, with each of its register tiles."""
        return {"direct": self.problem, **self.problem.alternatives(target)}

    def workspace(self, target: TargetDescription) -> int:
        """The parts of w', if they are more than one."""
        return aligned(self.parts * self.weights * F32.size) if self.parts > 1 else 0

    def scratch(self, target: TargetDescription) -> int:
        """v, t and m."""
        return sum(aligned(F4.products * elements * F32.size) for elements in self.rooms(target))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; a second one adds up parts, an item of which is a vector."""
        lanes = module.target.lanes(32)
        with phase(module, name) as writer:
            _WinogradGradientWriter(self, writer).write()
        first = Phase(name, self.parts * self.blocks, nanoseconds(module.target, F32, self.cost))
        if self.parts == 1:
            return (first,)
        with phase(module, f"{name}_total") as writer:
            self._add_up(writer, Type(F32, lanes))
        adding = nanoseconds(module.target, F32, 1.0 * self.parts * self.weights)
        return (first, Phase(f"{name}_total", self.weights // lanes, adding))

    def _add_up(self, w: PhaseWriter, kind: Type) -> None:
        """w' = sum of its parts"""
        b = w.b
        result, parts = w.argument(2), w.argument(3)
        with b.loop(w.begin, w.end) as item:
            total = b.load(parts, item * kind.lanes, kind)
            for part in range(1, self.parts):
                total = total + b.load(parts, item * kind.lanes + part * self.weights, kind)
            b.store(total, result, item * kind.lanes)


def side(size: int) -> int:
    """The longest side of a block that divides `size`."""
    return max((length for length in range(SIDE_STEP, MOST_SIDE + 1, SIDE_STEP) if size % length == 0), default=1)


def in_tiles(problem: WeightGradient) -> WinogradGradient | None:
    """The same gradient in tiles, where that is possible and pays."""
    plain = problem.kernel == (TAPS, TAPS) and problem.strides == problem.dilations == (1, 1) and problem.groups == 1
    if not plain or problem.scalar != F32 or problem.channels % SIDE_STEP or problem.filters % SIDE_STEP:
        return None
    gradient = WinogradGradient(problem)
    return gradient if gradient.tiles and gradient.pays else None


@dataclass(frozen=True, slots=True)
class _Plane:
    """An image, or the gradients of its outputs: `base` is its first channel of the block."""

    base: Value
    sizes: tuple[int, int]
    depth: int


class _WinogradGradientWriter:
    """Writes the loops of one problem."""

    def __init__(self, problem: WinogradGradient, writer: PhaseWriter) -> None:
        self.problem = problem
        self.p = problem.problem
        self.w = writer
        self.b: Builder = writer.b
        self.tile = problem.tile(writer.b.target)
        self.kind = Type(F32, self.tile.lanes)
        self.rooms = problem.rooms(writer.b.target)
        starts = [0]
        for elements in self.rooms[:-1]:
            starts.append(starts[-1] + aligned(F4.products * elements * F32.size) // F32.size)
        self.v, self.t, self.m = (self.b.offset(writer.scratch, start, F32) for start in starts)
        self.result = writer.argument(3 if problem.parts > 1 else 2)

    def write(self) -> None:
        """for item: for round of tiles: v, t, m += v · t; then w' of the block"""
        b, problem, p = self.b, self.problem, self.p
        channels, filters = problem.sides
        across = p.filters // filters
        with b.loop(self.w.begin, self.w.end) as item:
            part, block = item // problem.blocks, item % problem.blocks
            channel, column = block // across * channels, block % across * filters
            low = part * problem.share
            high = b.least(low + problem.share, problem.tiles)
            image = _Plane(b.offset(self.w.argument(0), channel, F32), p.sizes, p.channels)
            outputs = _Plane(b.offset(self.w.argument(1), column, F32), p.outputs, p.filters)
            with b.loop(low, high, problem.round) as first:
                count = b.least(high - first, problem.round)
                with b.loop(0, count) as index:
                    self._transform(image, first + index, p.before, F4.image, self.v, index * channels, 0)
                    self._transform(outputs, first + index, (0, 0), SPREAD_OUTPUTS, self.t, index * filters, 1)
                self._products(count, b.compare(">", first, low))
            start = (part * (TAPS * TAPS * p.channels) + channel) * p.filters + column
            self._gather(b.offset(self.result, start, F32))

    def _transform(
        self,
        plane: _Plane,
        tile: Value,
        before: tuple[int, int],
        matrix: tuple[tuple[float, ...], ...],
        target: Value,
        place: Value,
        which: int,
    ) -> None:
        """target[:, place + c] = matrix · grid · matrix^T of one tile, with zeros for what is outside the plane"""
        b, (down, right), extent = self.b, self.problem.counts, len(matrix[0])
        image, rest = tile // (down * right), tile % (down * right)
        top, left = rest // right * F4.outputs - before[0], rest % right * F4.outputs - before[1]
        rows, columns = plane.sizes
        source = b.offset(plane.base, ((image * rows + top) * columns + left) * plane.depth, F32)

        def spread(mask: Callable[[int, int], Value | None]) -> None:
            with b.loop(0, self.problem.sides[which], self.kind.lanes) as channel:
                grid = [
                    [
                        b.load(source, channel + (i * columns + j) * plane.depth, self.kind, mask(i, j))
                        for j in range(extent)
                    ]
                    for i in range(extent)
                ]
                self._spread(transform(b, matrix, grid), target, place + channel, self.rooms[which])

        inside = b.both(
            b.both(b.compare(">=", top, 0), b.compare("<=", top + extent, rows)),
            b.both(b.compare(">=", left, 0), b.compare("<=", left + extent, columns)),
        )
        with b.when(inside):
            spread(lambda i, j: None)
        with b.when(b.opposite(inside)):
            held = [
                [_within(b, start + step, size) for step in range(extent)]
                for start, size in ((top, rows), (left, columns))
            ]
            spread(lambda i, j: b.splat(b.both(held[0][i], held[1][j]), self.kind.lanes))

    def _spread(self, grid: Grid, target: Value, place: Value, stride: int) -> None:
        """target[p, place] = grid, for the products p of a tile"""
        for number, value in enumerate(value for row in grid for value in row):
            self.b.store(value, target, place + number * stride)

    def _products(self, count: Value, later: Value) -> None:
        """m[p, c, f] = sum_tile v[p, tile, c] * t[p, tile, f], plus what earlier rounds left there"""
        b, tile, (channels, filters) = self.b, self.tile, self.problem.sides
        held = b.splat(later, tile.lanes)
        with (
            b.loop(0, F4.products) as number,
            b.loop(0, filters, tile.columns) as column,
            b.loop(0, channels, tile.rows) as row,
        ):
            v, t = (
                b.offset(base, number * room, F32) for base, room in zip((self.v, self.t), self.rooms, strict=False)
            )
            m = b.offset(self.m, number * self.rooms[2] + row * filters + column, F32)
            left = [b.offset(v, b.least(row + i, channels - 1), F32) for i in range(tile.rows)]
            right = b.offset(t, column, F32)
            acc = Accumulators.zeros(b, tile, F32)
            whole = count // STEPS_AT_ONCE * STEPS_AT_ONCE
            for low, high, steps in ((b.constant(0), whole, STEPS_AT_ONCE), (whole, count, 1)):
                with b.loop(low, high, steps) as start:
                    for step in range(steps):
                        k = start + step
                        vectors = load_row(b, right, k * filters, tile, F32, [None] * tile.vectors)
                        acc.multiply([b.load(place, k * channels, Type(F32)) for place in left], vectors)
            for i, slots in enumerate(acc.slots):
                place = b.offset(m, i * filters, F32)
                for j, slot in enumerate(slots):
                    earlier = b.load(place, j * tile.lanes, self.kind, held)
                    b.store(earlier + slot.get(), place, j * tile.lanes)

    def _gather(self, result: Value) -> None:
        """w' = G^T m G, for each channel and vector of filters of the block"""
        b, p, extent, (channels, filters) = self.b, self.p, F4.inputs, self.problem.sides
        with b.loop(0, channels) as channel, b.loop(0, filters, self.kind.lanes) as column:
            place = channel * filters + column
            grid = [
                [b.load(self.m, place + (i * extent + j) * self.rooms[2], self.kind) for j in range(extent)]
                for i in range(extent)
            ]
            for number, value in enumerate(value for row in transform(b, GATHER_TAPS, grid) for value in row):
                b.store(value, result, (channel + number * p.channels) * p.filters + column)


def _within(b: Builder, position: Value, size: int) -> Value:
    return b.both(b.compare(">=", position, 0), b.compare("<", position, size))
