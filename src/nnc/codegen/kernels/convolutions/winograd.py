"""Convolution with 3 x 3 kernels without strides, also dilated, in tiles: Winograd's algorithm (winograd_algorithm.py).

    v[p, tile, c] = B^T d B        u[p, c, f] = G g G^T        m[p, tile, f] = sum_c v[p, tile, c] * u[p, c, f]

for each of the products p of a tile, and y = A^T m A. One phase does all of it: an item is a block of tiles against a
group of filters. Its v is made once; then, for a panel of filters, u is made for some channels at a time and used
while it is in the cache. Nothing is kept between runs, so weights may change.
"""

from __future__ import annotations

from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.frame.kernel import PhaseWriter, WithSizes, ceiling, phase
from nnc.codegen.frame.packing import Packing
from nnc.codegen.frame.tile import Accumulators, Tile, load_row, nanoseconds
from nnc.codegen.ir.builder import ADDRESS, F32, INDEX, Builder, Module, Type, Value
from nnc.codegen.ir.native_kernel import Phase, aligned
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.convolutions.correlation import Correlation
from nnc.codegen.kernels.convolutions.winograd_algorithm import TAPS, Grid, transform
from nnc.codegen.kernels.convolutions.winograd_plan import Tiles, WinogradPlan, cost
from nnc.core.values.derived import Read


@dataclass(frozen=True, slots=True)
class Winograd(WithSizes):
    """The generator; operands are those of `Tiles`, of f32. `size` names a row of `ALGORITHMS`.

    `written_out` is the same convolution as sums, where its sizes are no words that are read.
    """

    tiles: Tiles
    size: int
    written_out: Correlation | None
    epilogue: Epilogue | None = None
    tile: Tile | None = None

    def compact(self) -> Correlation:
        """The sums written out, with the same epilogue."""
        assert self.written_out is not None, "asked before sizes are opened"
        return replace(self.written_out, epilogue=self.epilogue)

    def opened(self, read: Read, target: TargetDescription) -> Winograd:
        """The batch, heights and widths are read; the register tile of these sizes is part of the code."""
        return replace(self, tiles=self.tiles.opened(read), written_out=None, tile=self.plan(target).tile)

    def plan(self, target: TargetDescription) -> WinogradPlan:
        """How it is computed."""
        return WinogradPlan.of(self.tiles, self.size, target, self.tile)

    def workspace(self, target: TargetDescription) -> int:
        """None: every worker transforms for itself."""
        return 0

    def scratch(self, target: TargetDescription) -> int:
        """v, u, m, and packed weights."""
        plan = self.plan(target)
        return sum(aligned(elements * F32.size) for elements in plan.rooms)

    def packing(self, target: TargetDescription) -> tuple[Packing, float] | None:
        """None, as weights are transformed in each run; that of the sums written out where code is small."""
        return self.compact().packing(target) if target.small else None

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a block of tiles against a group of filters."""
        plan, t = self.plan(module.target), self.tiles
        with phase(module, name) as writer:
            _WinogradWriter(self, plan, writer).write()
        products = cost(t, plan.algorithm) * t.channels * t.filters
        return (Phase(name, plan.division.blocks * plan.groups, nanoseconds(module.target, F32, products)),)


@dataclass(frozen=True, slots=True)
class _Corner:
    """A tile of outputs: its image, its first output row and column."""

    image: Value
    row: Value
    column: Value


class _WinogradWriter:
    """Writes the loops of one problem."""

    def __init__(self, problem: Winograd, plan: WinogradPlan, writer: PhaseWriter) -> None:
        self.t = problem.tiles
        self.plan = plan
        self.algorithm = plan.algorithm
        self.epilogue = problem.epilogue
        self.b: Builder = writer.b
        self.w = writer
        self.kind = Type(F32, plan.tile.lanes)
        first = 3 if self.t.bias else 2
        count = len(problem.epilogue.extras) if problem.epilogue else 0
        self.image, self.weights = writer.argument(0), writer.argument(1)
        self.bias = writer.argument(2) if self.t.bias else None
        self.extras = [writer.argument(first + index) for index in range(count)]
        self.y = writer.argument(first + count)
        starts = [0]
        for elements in plan.rooms[:-1]:
            starts.append(starts[-1] + aligned(elements * F32.size) // F32.size)
        self.v, self.u, self.m, self.packed = (self.b.offset(writer.scratch, start, F32) for start in starts)
        table = writer.b.module.table(f"{writer.b.name}_bases", self.t.weights.bases)
        self.bases = Value(table, ADDRESS, self.b)

    def write(self) -> None:
        """for item: v when the block is a new one; for panel: for channels: u, then the products; then y"""
        b, plan = self.b, self.plan
        current = b.variable(b.constant(-1))
        with b.loop(self.w.begin, self.w.end) as item:
            group, block = item % plan.groups, item // plan.groups
            first = block * plan.division.tiles
            count = b.least(self.t.count(self.algorithm.outputs) - first, plan.division.tiles)
            with b.when(b.compare("!=", block, current.get())):
                self._images(first, count)
                current.set(block)
            low = group * plan.group_panels
            with b.loop(low, b.least(low + plan.group_panels, plan.panels)) as panel:
                with b.loop(0, plan.depths) as part:
                    depth = b.least(self.t.channels - part * plan.depth, plan.depth)
                    self._kernels(panel, part * plan.depth, depth)
                    self._products(part, depth, count, self._following(panel, part) if plan.asks else None)
                self._results(panel, first, count)

    def _corner(self, index: Value) -> _Corner:
        rows, columns = self.t.counts(self.algorithm.outputs)
        count = self.t.count(self.algorithm.outputs)
        image, rest = self.b.divided(index, rows * columns, count)
        row, column = self.b.divided(rest, columns, count)
        return _Corner(image, self._first(row, 0), self._first(column, 1))

    def _first(self, number: Value, axis: int) -> Value:
        """The first output of a tile along an axis: neighbours are tiles of other residues by the dilation."""
        residues, apart = self.t.residues[axis], self.t.dilations[axis] * self.algorithm.outputs
        return number * apart if residues == 1 else number // residues * apart + number % residues

    # -- v

    def _images(self, first: Value, count: Value) -> None:
        """for tile: v = B^T d B, with zeros for what is outside the image"""
        b, t, extent = self.b, self.t, self.algorithm.inputs
        with b.loop(0, count) as index:
            corner = self._corner(first + index)
            top, left = corner.row - t.before[0], corner.column - t.before[1]
            down, right = ([step * dilation for step in range(extent)] for dilation in t.dilations)
            inside = b.both(
                b.both(b.compare(">=", top, 0), b.compare("<", top + down[-1], t.sizes[0])),
                b.both(b.compare(">=", left, 0), b.compare("<", left + right[-1], t.sizes[1])),
            )
            start = ((corner.image * t.sizes[0] + top) * t.sizes[1] + left) * t.channels
            source = b.offset(self.image, start, F32)
            with b.when(inside):
                self._image(source, index, None)
            with b.when(b.opposite(inside)):
                rows = [self._is_inside(top + step, t.sizes[0]) for step in down]
                columns = [self._is_inside(left + step, t.sizes[1]) for step in right]
                self._image(source, index, [[b.splat(b.both(i, j), self.kind.lanes) for j in columns] for i in rows])

    def _is_inside(self, position: Value, size: int) -> Value:
        return self.b.both(self.b.compare(">=", position, 0), self.b.compare("<", position, size))

    def _image(self, source: Value, index: Value, masks: Grid | None) -> None:
        """One tile, all channels; `masks` tell what is inside."""
        b, t, plan, extent = self.b, self.t, self.plan, self.algorithm.inputs
        with b.loop(0, plan.depths) as part:
            first = part * plan.depth
            with b.loop(0, b.least(t.channels - first, plan.depth), self.kind.lanes) as channel:
                begin = b.offset(source, first + channel, F32)
                lines = b.in_steps(begin, t.dilations[0] * t.sizes[1] * t.channels, F32, extent)
                grid = [
                    [
                        b.load(line, j * t.dilations[1] * t.channels, self.kind, None if masks is None else masks[i][j])
                        for j in range(extent)
                    ]
                    for i, line in enumerate(lines)
                ]
                place = (part * plan.rows + index) * plan.depth + channel
                self._spread(transform(b, self.algorithm.image, grid), self.v, place, plan.strides[0])

    def _spread(self, grid: Grid, target: Value, place: Value, stride: int) -> None:
        """target[p, place] = grid, for the products p of a tile"""
        values = [value for row in grid for value in row]
        first = self.b.offset(target, place, F32)
        for value, line in zip(values, self.b.in_steps(first, stride, F32, len(values)), strict=True):
            self.b.store(value, line, 0)

    # -- u

    def _kernels(self, panel: Value, first: Value, depth: Value) -> None:
        """u = G g G^T for the filters of a panel and `depth` channels from `first` on; zero for no filter"""
        b, t, plan, lanes = self.b, self.t, self.plan, self.kind.lanes
        columns = panel * plan.tile.columns
        start = first * t.weights.depth_stride + columns * t.weights.lane_stride
        packed = plan.packing.transposes
        if packed:
            with b.loop(0, TAPS * TAPS) as tap:
                base = b.load(self.bases, tap, INDEX)
                panel = b.offset(self.packed, tap * plan.packing.elements(plan.depth), F32)
                source = b.offset(self.weights, start + base, F32)
                plan.packing.pack(b, source, t.filters - columns, depth, panel)
        with b.loop(0, depth) as channel, b.loop(0, plan.tile.vectors) as vector:
            place = channel * plan.tile.columns + vector * lanes
            if packed:
                step = plan.packing.elements(plan.depth)
                taps = [b.load(self.packed, place + tap * step, self.kind) for tap in range(TAPS * TAPS)]
            else:
                mask = self._mask(columns + vector * lanes)
                begin = start + channel * t.weights.depth_stride + vector * lanes
                taps = [b.load(self.weights, begin + base, self.kind, mask) for base in t.weights.bases]
            grid = [taps[row * TAPS : (row + 1) * TAPS] for row in range(TAPS)]
            self._spread(transform(b, self.algorithm.kernel, grid), self.u, place, plan.strides[1])

    def _mask(self, filters: Value) -> Value | None:
        """Which filters from this one on exist; None where all panels are whole."""
        if self.t.filters % self.plan.tile.columns == 0:
            return None
        return self.b.mask(self.b.greatest(self.t.filters - filters, 0), self.kind.lanes)

    # -- m

    def _following(self, panel: Value, part: Value) -> Value:
        """Where the weights begin that are transformed after these: deeper ones of the panel, or the next panel's."""
        b, t, plan = self.b, self.t, self.plan
        last = b.compare(">=", part + 1, plan.depths)
        deeper = (part + 1) * (plan.depth * t.weights.depth_stride) + panel * plan.tile.columns
        start = b.choose(last, (panel + 1) * plan.tile.columns, deeper)
        return b.offset(self.weights, start, F32)

    def _ask(self, following: Value, number: Value, k: Value) -> None:
        """Ask for step k of the weights after these: each product for some cache lines of some tap."""
        b, t = self.b, self.t
        line = b.target.machine.line_bytes // F32.size
        lines = ceiling(self.plan.tile.columns, line)
        total = TAPS * TAPS * lines
        each = ceiling(total, self.algorithm.products)
        for index in range(each):
            wanted = b.least(number * each + index, total - 1)
            base = b.load(self.bases, wanted // lines, INDEX)
            b.prefetch(following, base + k * t.weights.depth_stride + wanted % lines * line, F32)

    def _products(self, part: Value, depth: Value, count: Value, following: Value | None) -> None:
        """m[p] += v[p] · u[p] over `depth` channels, for each product p; `following` is asked for meanwhile"""
        b, plan, tile = self.b, self.plan, self.plan.tile
        later = b.splat(b.compare(">", part, 0), tile.lanes) if plan.depths > 1 else None
        none: list[Value | None] = [None] * tile.vectors
        with b.loop(0, self.algorithm.products) as number:
            u = b.offset(self.u, number * plan.strides[1], F32)
            v = b.offset(self.v, number * plan.strides[0] + part * (plan.rows * plan.depth), F32)
            m = b.offset(self.m, number * plan.strides[2], F32)
            first = b.constant(0)
            for rows in (tile.rows, *tile.rests):
                last = first + (count - first) // rows * rows
                with b.loop(first, last, rows) as row:
                    acc = Accumulators.zeros(b, replace(tile, rows=rows), F32)
                    left = [b.offset(v, (row + i) * plan.depth, F32) for i in range(rows)]
                    with b.loop(0, depth) as k:
                        if following is not None:
                            self._ask(following, number, k)
                        vectors = load_row(b, u, k * tile.columns, tile, F32, none)
                        acc.multiply([b.load(place, k, Type(F32)) for place in left], vectors)
                    self._add(acc, b.offset(m, row * tile.columns, F32), later)
                first = last

    def _add(self, acc: Accumulators, place: Value, later: Value | None) -> None:
        """m = the sums, plus what earlier channels left there"""
        b, tile = self.b, self.plan.tile
        for i, slots in enumerate(acc.slots):
            for j, slot in enumerate(slots):
                value, index = slot.get(), i * tile.columns + j * tile.lanes
                if later is not None:
                    value = value + b.load(place, index, self.kind, later)
                b.store(value, place, index)

    # -- y

    def _results(self, panel: Value, first: Value, count: Value) -> None:
        """for tile: y = the epilogue of A^T m A + bias, where the outputs exist"""
        b, t, plan, extent = self.b, self.t, self.plan, self.algorithm.inputs
        with b.loop(0, count) as index:
            corner = self._corner(first + index)
            with b.loop(0, plan.tile.vectors) as vector:
                filters = panel * plan.tile.columns + vector * self.kind.lanes
                mask = self._mask(filters)
                place = index * plan.tile.columns + vector * self.kind.lanes
                lines = b.in_steps(b.offset(self.m, place, F32), plan.strides[2], F32, extent * extent)
                values = [b.load(line, 0, self.kind) for line in lines]
                grid = [values[i * extent : (i + 1) * extent] for i in range(extent)]
                start = (corner.image * t.outputs[0] + corner.row) * t.outputs[1] + corner.column
                y = b.offset(self.y, start * t.filters + filters, F32)
                self._store(transform(b, self.algorithm.result, grid), y, corner, filters, mask)

    def _store(self, grid: Grid, y: Value, corner: _Corner, filters: Value, mask: Value | None) -> None:
        b, t, (down, right) = self.b, self.t, self.t.dilations
        bias = None if self.bias is None else b.load(self.bias, filters, self.kind, mask)
        extras = self.epilogue.read(b, self.extras, filters, self.kind, mask) if self.epilogue else []
        lines = b.in_steps(y, down * t.outputs[1] * t.filters, F32, len(grid))
        for i, (row, line) in enumerate(zip(grid, lines, strict=True)):
            for j, value in enumerate(row):
                exists = self._exists(corner, i, j)
                with b.when(exists):
                    total = value if bias is None else value + bias
                    if self.epilogue is not None:
                        total = self.epilogue.apply(b, total, extras)
                    b.store(total, line, j * right * t.filters, mask)

    def _exists(self, corner: _Corner, i: int, j: int) -> Value | None:
        """Whether an output of the tile does; None where all tiles are whole."""
        b, (rows, columns), (down, right), size = self.b, self.t.outputs, self.t.dilations, self.algorithm.outputs
        if rows % (size * down) + columns % (size * right) == 0:
            return None
        return b.both(b.compare("<", corner.row + i * down, rows), b.compare("<", corner.column + j * right, columns))
