"""Correlation: y[n, r, q, f] = sum over taps t and k < depth of p[n, pixel(r, q) + tap(t) + k] * w[t, k, f] + bias[f].

p is the image with its zero border. This is the one inner kernel of a convolution and of its data gradient: a forward
convolution has one core, whose taps are the rows (or positions) of the kernel; a data gradient with strides has one
core per residue of the output position, each with the taps that meet it. A tile of output pixels against a panel of
channels stays in registers over all taps.

With weights that are packed once for all, items are (image, block of rows, group, panel), innermost last, so that a
worker fills each strip of an image once. With weights packed in pieces they are (group, panel, image, block of rows),
and each piece's part of the sum is added to y.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithSizes, ceiling, phase
from nnc.codegen.frame.packing import Packing, words_of
from nnc.codegen.frame.tile import Accumulators, Tile, alternatives, column_masks, load_row, nanoseconds, tiles_for
from nnc.codegen.ir.builder import ADDRESS, INDEX, Builder, Module, Type, Value
from nnc.codegen.ir.native_kernel import Phase, aligned
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.convolutions.correlation_pixels import Bordered, Corner, TilePixels, Unbordered, corner
from nnc.codegen.kernels.convolutions.correlation_plan import CorrelationPlan, CorrelationProblem, fold_pixels
from nnc.core.values.derived import Read

SHORT_DEPTH = 4
CORE_SLOTS = 5


@dataclass(frozen=True, slots=True)
class Correlation(WithSizes):
    """The generator of a problem. Operands: image, weights, bias when there is one, extras of the epilogue, y."""

    problem: CorrelationProblem
    epilogue: Epilogue | None = None

    def opened(self, read: Read, target: TargetDescription) -> Correlation:
        """What `CorrelationProblem.opened` says, with the tile and the pixels of these sizes."""
        plan = CorrelationPlan.of(self.problem, target)
        planned = replace(self.problem, tile=plan.tile, tile_rows=plan.tile_rows, block_rows=plan.block_rows)
        return replace(self, problem=planned.opened(read))

    def workspace(self, target: TargetDescription) -> int:
        """The packed weights."""
        plan = CorrelationPlan.of(self.problem, target)
        return aligned(plan.packed_elements * self.problem.work.size) if plan.shared else 0

    def scratch(self, target: TargetDescription) -> int:
        """A strip of one image or the zeros beside it, and a piece of packed weights."""
        plan = CorrelationPlan.of(self.problem, target)
        return plan.strip_bytes + plan.piece_bytes

    def packing(self, target: TargetDescription) -> tuple[Packing, float] | None:
        """How tiles read weights, and how many nanoseconds packing takes in each run; None where it is not done."""
        plan = CorrelationPlan.of(self.problem, target)
        return None if plan.packed else (plan.packing, self.problem.weight_elements * plan.packing.nanoseconds)

    def steps(self, target: TargetDescription) -> int:
        """Steps of k in an element of the blocks of weights that it reads."""
        return CorrelationPlan.of(self.problem, target).packing.steps

    def alternatives(self, target: TargetDescription) -> dict[str, Generator]:
        """direct-RxV: with another register tile of R pixels and V vectors, but those that seem much slower."""
        p, chosen = self.problem, CorrelationPlan.of(self.problem, target).tile
        tiles = alternatives(tiles_for(target, p.work, p.panel), lambda tile: fold_pixels(p, tile)[0], chosen)
        return {f"direct-{tile}": replace(self, problem=replace(p, tile=tile)) for tile in tiles}

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Packing, if the weights need it, and the correlation."""
        plan = CorrelationPlan.of(self.problem, module.target)
        work = nanoseconds(module.target, self.problem.work, self.problem.products)
        phases = [_pack(module, f"{name}_pack", plan, _output(plan.problem, self.epilogue) + 1)] if plan.shared else []
        with phase(module, f"{name}_correlate") as writer:
            _CorrelationWriter(plan, writer, self.epilogue).write()
        return (*phases, Phase(f"{name}_correlate", plan.items, work))


def _output(problem: CorrelationProblem, epilogue: Epilogue | None) -> int:
    """The position of y among the operands; the workspace is behind it."""
    return (3 if problem.bias else 2) + (len(epilogue.extras) if epilogue else 0)


def _pack(module: Module, name: str, plan: CorrelationPlan, workspace: int) -> Phase:
    """Items are (group, panel, tap): panel[tap][k][lane] = w."""
    p, taps = plan.problem, len(plan.problem.weights.bases)
    items = p.groups * plan.panels * taps
    table = module.table(f"{name}_bases", p.weights.bases)
    with phase(module, name) as w:
        b = w.b
        source, target = w.argument(1), w.argument(workspace)
        with b.loop(w.begin, w.end) as item:
            tap, rest = item % taps, item // taps
            panel, group = rest % plan.panels, rest // plan.panels
            first = panel * plan.tile.columns
            base = b.load(Value(table, ADDRESS, b), tap, INDEX)
            start = base + group * p.weights.group_stride + first * p.weights.lane_stride
            place = b.offset(target, item * plan.tap_elements, p.work)
            depth = b.constant(p.depth)
            plan.packing.pack(b, b.offset(source, start, p.scalar), p.filters - first, depth, place)
    elements = p.groups * p.filters * p.depth * taps
    return Phase(name, items, elements * plan.packing.nanoseconds)


@dataclass(frozen=True, slots=True)
class _Item:
    """What one item works on: its image rows, weights and outputs, its first row, and the filters from its first on."""

    image: Value
    weights: Value
    bias: Value | None
    y: Value
    row: Value
    filters: Value
    channel: Value


@dataclass(frozen=True, slots=True)
class _Core:
    """Taps [low, high), where its outputs begin in y, and how many there are."""

    low: Value
    high: Value
    start: Value
    rows: Value
    columns: Value


@dataclass(frozen=True, slots=True)
class _CorrelationPart:
    """A part of the sum: taps [low, high), k in [first, first + depth).

    `later` tells that y holds what earlier parts left; None when there is one part. `panel` holds the weights of this
    part alone; None when `tap_weights` tells where they are. `following` is where the weights of the next part begin,
    which are asked for while this part is computed. `whole` tells that this part is the last one of several.
    """

    low: Value
    high: Value
    first: Value
    depth: Value
    later: Value | None = None
    panel: Value | None = None
    following: Value | None = None
    whole: Value | None = None


class _CorrelationWriter:
    """Writes the loops of a correlation."""

    def __init__(self, plan: CorrelationPlan, writer: PhaseWriter, epilogue: Epilogue | None) -> None:
        self.plan = plan
        self.epilogue = epilogue
        self.p = plan.problem
        self.w = writer
        self.b: Builder = writer.b
        self.module = writer.b.module
        taps = [tap for core in self.p.cores for tap in core.taps]
        offsets = [(row * self.p.padded + column) * self.p.channels for row, column, _ in taps]
        self.tap_offsets = self._table("tap_offsets", offsets)
        self.tap_corners: tuple[Value, ...] = ()
        if plan.skips_border:
            rows, columns = ([tap[axis] for tap in taps] for axis in (0, 1))
            self.tap_corners = self._table("tap_rows", rows), self._table("tap_columns", columns)
        self.tap_weights = self._table("tap_weights", [tap[2] * plan.tap_elements for tap in taps])
        self.tap_bases = self._table("tap_bases", [self.p.weights.bases[tap[2]] for tap in taps])
        self.core_table = self._table("cores", self._core_rows())
        first, y = _output(self.p, None), _output(self.p, epilogue)
        self.position = {"image": 0, "weights": 1, "bias": 2, "y": y}
        self.extras = [writer.argument(place) for place in range(first, y)]
        self.current = self.b.variable(self.b.constant(-1))

    def _table(self, name: str, values: Sequence[int]) -> Value:
        """A table with one entry more, which is read and not used where a core has no taps."""
        return self.b.places(name, [*values, 0])

    def _core_rows(self) -> list[int]:
        rows: list[int] = []
        first = 0
        for core in self.p.cores:
            rows += [first, first + len(core.taps), core.start, core.rows, core.columns]
            first += len(core.taps)
        return rows

    def write(self) -> None:
        """All items, in the order that the plan wants."""
        if self.plan.skips_border:
            with self.b.loop(0, self.p.depth) as channel:
                self.b.store(self.b.zero(Type(self.plan.read)), self.w.scratch, channel)
        if self.plan.piece:
            self._write_pieces()
        else:
            self._write_items()

    def _write_items(self) -> None:
        """for item: fill its strip if it is a new one, then all cores"""
        b, p, plan, w = self.b, self.p, self.plan, self.w
        panels = w.argument(self.position["y"] + 1 if plan.shared else self.position["weights"])
        with b.loop(w.begin, w.end) as item:
            panel, rest = item % plan.panels, item // plan.panels
            group, place = rest % p.groups, rest // p.groups
            filled = (group * plan.panels + panel) * plan.panel_elements
            work = self._item(group, panel, place, b.offset(panels, filled, plan.stored))
            with b.loop(0, len(p.cores)) as number:
                core = self._core(number)
                self._tiles(work, core, _CorrelationPart(core.low, core.high, b.constant(0), b.constant(p.depth)))

    def _write_pieces(self) -> None:
        """for panel: for piece of its weights: pack it; for place: add its part of the sum"""
        b, p, plan, w = self.b, self.p, self.plan, self.w
        panel_room = b.offset(w.scratch, plan.strip_bytes // p.work.size, p.work)
        with b.loop(w.begin // plan.places, (w.end - 1) // plan.places + 1) as unit:
            panel, group = unit % plan.panels, unit // plan.panels
            low = b.greatest(w.begin - unit * plan.places, 0)
            high = b.least(w.end - unit * plan.places, plan.places)
            with b.loop(0, len(p.cores)) as number:
                core = self._core(number)
                with (
                    b.loop(core.low, b.greatest(core.high, core.low + 1)) as tap,
                    b.loop(0, p.depth, plan.piece) as first,
                ):
                    depth = b.least(p.depth - first, plan.piece)
                    if plan.packed:
                        packed = self._piece(group, panel, tap, first)
                        following = b.offset(packed, plan.tile.columns * plan.piece, plan.stored)
                    else:
                        source, packed = self._pack_piece(group, panel, tap, first, depth, panel_room), panel_room
                        following = b.offset(source, p.weights.depth_stride * plan.piece, p.scalar)
                    later = b.either(b.compare(">", tap, core.low), b.compare(">", first, 0))
                    whole = b.both(b.compare(">=", tap + 1, core.high), b.compare(">=", first + depth, p.depth))
                    part = _CorrelationPart(
                        tap, b.least(tap + 1, core.high), first, depth, later, packed, following, whole
                    )
                    with b.loop(low, high) as place:
                        self._tiles(self._item(group, panel, place, packed), core, part)

    def _piece(self, group: Value, panel: Value, tap: Value, first: Value) -> Value:
        """Where the weights of a piece lie that are panels already."""
        b, plan = self.b, self.plan
        start = (group * plan.panels + panel) * plan.panel_elements + b.load(self.tap_weights, tap, INDEX)
        return b.offset(self.w.argument(self.position["weights"]), start + first * plan.tile.columns, plan.stored)

    def _pack_piece(self, group: Value, panel: Value, tap: Value, first: Value, depth: Value, packed: Value) -> Value:
        """packed[k][lane] = w[tap, first + k, panel * columns + lane]; where these weights begin"""
        b, p, plan = self.b, self.p, self.plan
        filters = panel * plan.tile.columns
        start = b.load(self.tap_bases, tap, INDEX) + group * p.weights.group_stride
        start = start + filters * p.weights.lane_stride + first * p.weights.depth_stride
        source = b.offset(self.w.argument(self.position["weights"]), start, p.scalar)
        plan.packing.pack(b, source, p.filters - filters, depth, packed)
        return source

    def _item(self, group: Value, panel: Value, place: Value, weights: Value) -> _Item:
        """One panel of filters at one place, with the strip filled."""
        b, p, plan, w = self.b, self.p, self.plan, self.w
        block, number = place % plan.blocks, place // plan.blocks
        source = self._image(w.argument(self.position["image"]), number, block, place)
        first = panel * plan.tile.columns
        channel = group * p.filters + first
        return _Item(
            b.offset(source, group * p.group_channels, plan.read),
            weights,
            b.offset(w.argument(self.position["bias"]), channel, p.scalar) if p.bias else None,
            b.offset(w.argument(self.position["y"]), number * p.y_image + channel, p.scalar),
            block * plan.block_rows,
            p.filters - first,
            channel,
        )

    def _image(self, image: Value, number: Value, block: Value, place: Value) -> Value:
        """The image, or where the block's first row begins: there, or in the strip, filled when the place is new."""
        b, p, plan = self.b, self.p, self.plan
        picture = b.offset(image, number * (p.height * p.width * p.channels), p.scalar)
        if plan.skips_border:
            return picture
        first = block * (plan.block_rows * p.row_step)
        if plan.in_place:
            return b.offset(picture, first * (p.width * p.channels), p.scalar)
        with b.when(b.compare("!=", place, self.current.get())):
            plan.strip.fill(b, picture, first - p.top, self.w.scratch)
            self.current.set(place)
        return self.w.scratch

    def _core(self, number: Value) -> _Core:
        """A core by its number, which is known where there is one."""
        if number.constant is not None:
            return _Core(*(self.b.constant(value) for value in self._core_rows()[:CORE_SLOTS]))
        return _Core(*(self.b.load(self.core_table, number * CORE_SLOTS + slot, INDEX) for slot in range(CORE_SLOTS)))

    def _tiles(self, item: _Item, core: _Core, part: _CorrelationPart) -> None:
        """for tile of the block's rows: y = the part's sum, or that added to y"""
        b, p, plan = self.b, self.p, self.plan
        masks = column_masks(b, plan.tile, item.filters, plan.packing.ragged)
        bias = self._bias(item, part, masks)
        block = b.least(core.rows - item.row, plan.block_rows)
        number = b.variable(b.constant(0))
        with b.loop(0, block, plan.tile_rows) as row:
            first = b.constant(0)
            for tile in (plan.tile, *(replace(plan.tile, rows=count) for count in plan.rests)):
                across = tile.rows // plan.tile_rows
                last = first + (core.columns - first) // across * across if plan.rests else core.columns
                with b.loop(first, last, across) as column:
                    corners = self._corners(tile, row, column, (block, core.columns))
                    acc = Accumulators.zeros(b, tile, p.work)
                    self._sum(item, acc, corners, part, number.get())
                    number.set(number.get() + 1)
                    corner = core.start + (item.row + row) * p.y_row + column * p.y_column
                    inside = (block - row, core.columns - column)
                    self._store(item, acc, corner, inside, masks, bias, part)
                first = last

    def _bias(self, item: _Item, part: _CorrelationPart, masks: Sequence[Value | None]) -> list[Value]:
        """The bias; zero, not read, in later parts."""
        if item.bias is None:
            return []
        b, tile = self.b, self.plan.tile
        if part.later is not None:
            first = b.splat(b.opposite(part.later), tile.lanes)
            masks = [first if mask is None else b.both(mask, first) for mask in masks]
        return [b.cast(value, self.p.work) for value in load_row(b, item.bias, 0, tile, self.p.scalar, masks)]

    def _corners(self, tile: Tile, row: Value, column: Value, sizes: tuple[Value, Value]) -> list[Corner]:
        """Where the window of each output of a tile begins; outputs outside repeat the last one inside."""
        b, plan, (rows, columns) = self.b, self.plan, sizes
        result = []
        for index in range(tile.rows):
            down, right = row + index // plan.tile_columns, column + index % plan.tile_columns
            if plan.ragged_pixels:
                down, right = b.least(down, rows - 1), b.least(right, columns - 1)
            result.append(corner(plan, down, right))
        return result

    def _pixels(self, item: _Item, corners: Sequence[Corner]) -> TilePixels:
        """Where the windows that begin there are read."""
        b, plan = self.b, self.plan
        if plan.skips_border:
            return Unbordered(b, plan, item.image, item.row, corners, self.tap_corners, self.w.scratch)
        return Bordered(b, plan, [b.offset(item.image, first[0], plan.read) for first in corners], self.tap_offsets)

    def _sum(
        self, item: _Item, acc: Accumulators, corners: Sequence[Corner], part: _CorrelationPart, tile: Value
    ) -> None:
        """acc[i][j] += p[pixel(i) + tap + k] * w[tap, k, j] over the part"""
        b, plan = self.b, self.plan
        pixels, word = self._pixels(item, corners), plan.packing.scalar
        none: list[Value | None] = [None] * plan.tile.vectors
        with b.loop(part.low, part.high) as tap:
            moved = pixels.moved(tap, part.first)
            filled, following = part.panel, part.following
            if filled is None:
                filled = b.offset(item.weights, b.load(self.tap_weights, tap, INDEX), plan.stored)
                following = b.offset(filled, plan.panel_elements, plan.stored) if plan.asks else None
            left = pixels.at(moved)
            words = words_of(part.depth, plan.packing.steps)

            def step(k: Value) -> None:
                self._ask(following, tile, k)
                vectors = load_row(b, filled, k * plan.tile.columns, plan.tile, plan.stored, none)
                if plan.stored != word:
                    vectors = [b.cast(vector, word) for vector in vectors]
                acc.multiply([b.load(place, k, Type(word)) for place in left], vectors)

            if words.constant is not None and words.constant <= SHORT_DEPTH:
                for k in range(words.constant):
                    step(b.constant(k))
            else:
                with b.loop(0, words) as index:
                    step(index)

    def _ask(self, following: Value | None, tile: Value, k: Value) -> None:
        """Ask for step k of the weights that come next: each tile for some of the cache lines of all steps.

        Weights of other strides that are contiguous along k are found by the processor itself.
        """
        b, p, plan = self.b, self.p, self.plan
        if following is None or (plan.packing.transposes and not plan.packed):
            return
        scalar, stride = (plan.stored, plan.tile.columns) if plan.packed else (p.scalar, p.weights.depth_stride)
        line = self.b.target.machine.line_bytes // scalar.size
        tiles = ceiling(plan.block_rows, plan.tile_rows) * ceiling(p.cores[0].columns, plan.tile_columns)
        each = ceiling(ceiling(plan.tile.columns, line), tiles)
        start = k * stride + b.least(tile * (each * line), plan.tile.columns)
        for number in range(each):
            b.prefetch(following, start + number * line, scalar)

    def _store(
        self,
        item: _Item,
        acc: Accumulators,
        corner: Value,
        inside: tuple[Value, Value],
        masks: Sequence[Value | None],
        bias: Sequence[Value],
        part: _CorrelationPart,
    ) -> None:
        """y = the epilogue of acc + bias, plus what earlier parts left in y, for the pixels of the tile that exist"""
        b, p, plan = self.b, self.p, self.plan
        added = None if part.later is None else b.splat(part.later, plan.tile.lanes)
        kind, lanes = Type(p.work, plan.tile.lanes), plan.tile.lanes
        extras = [
            self.epilogue.read(b, self.extras, item.channel + j * lanes, kind, mask) if self.epilogue else []
            for j, mask in enumerate(masks)
        ]
        for index, slots in enumerate(acc.slots):
            down, right = index // plan.tile_columns, index % plan.tile_columns
            exists = b.both(b.compare(">", inside[0], down), b.compare(">", inside[1], right))
            with b.when(exists) if plan.ragged_pixels else b.always():
                place = b.offset(item.y, corner + (down * p.y_row + right * p.y_column), p.scalar)
                for j, (slot, mask) in enumerate(zip(slots, masks, strict=True)):
                    value = slot.get() + bias[j] if bias else slot.get()
                    if added is not None:
                        earlier = added if mask is None else b.both(mask, added)
                        value = value + b.load(place, j * plan.tile.lanes, value.type, earlier)
                    if self.epilogue is not None:
                        value = self.epilogue.apply(b, value, extras[j], part.whole)
                    b.store(b.cast(value, p.scalar), place, j * plan.tile.lanes, mask)
