"""Recurrent networks over whole sequences: for each step, sums = left[step before] · u, then the cell.

Rows of the batch do not meet, so an item is a block of rows with all its steps, and no worker waits for another
between steps. Where there is one block only, each long step is a phase whose items are panels of units. A first phase
packs u, or its transpose for a gradient, into panels of units, one for each gate, as wide as the register tile that
suits a block. The sums of a panel of each gate lie in the worker's scratch, and the cells of these units follow. What
they read and write is far from what the cells before them did, so its cache lines are asked for during the product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithSizes, ceiling, even_block, phase
from nnc.codegen.frame.packing import Packing
from nnc.codegen.frame.row import (
    Generate,
    KernelRow,
    Rows,
    Views,
    filled,
)
from nnc.codegen.frame.tile import FMA_LATENCY, Accumulators, Tile, candidates, load_row, nanoseconds
from nnc.codegen.ir.builder import F32, Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase, aligned
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.sequence.recurrent_cells import CELLS, Cell
from nnc.codegen.kernels.sequence.recurrent_place import CellMemory, CellStep, Place
from nnc.core.values.derived import Read
from nnc.ops.sequence.recurrent import (
    GRU,
    GRU_GRADIENT,
    LSTM,
    LSTM_GRADIENT,
    RNN,
    RNN_GRADIENT,
    RecurrentAttrs,
    RnnAttrs,
)

# The most rows of the batch that one worker takes through all steps: they use each panel a few times while it is near.
BLOCK_ROWS = 16
# A single block is cut into steps where one takes so long, and where they are not too many phases.
STEP_NANOSECONDS, MOST_STEPS = 4000.0, 4096
# Rows whose cells are computed side by side in f32; in f64 the C library is called lane by lane.
CELL_ROWS = 4

_Finish = Callable[[Place, Sequence[Value]], None]


@dataclass(frozen=True, slots=True)
class Recurrent(WithSizes):
    """Sequences [steps, batch, parts · units] through a cell of `CELLS`; operands are the cell's, contiguous.

    With `reverse` the steps go from the last to the first; gradients go the other way round. `tile` and the rows of a
    `block` take the place of what the batch and the units would choose.
    """

    cell: str
    scalar: Scalar
    steps: int
    batch: int
    units: int
    reverse: bool
    bias: bool = False
    tile: Tile | None = None
    block: int = 0

    def opened(self, read: Read, target: TargetDescription) -> Recurrent:
        """Steps, the batch, and the rows of an item are read; the register tile of these is part of the code."""
        tile = _Panels.of(self, target).tile
        return replace(self, steps=read(self.steps), batch=read(self.batch), block=read(self.block_rows), tile=tile)

    def workspace(self, target: TargetDescription) -> int:
        """The packed panels, and what is kept in f32 from step to step."""
        return self.panel_bytes(target) + sum(self.kept.values())

    def scratch(self, target: TargetDescription) -> int:
        """The sums of a block of rows and a panel of each gate."""
        return aligned(_Panels.of(self, target).sum_elements * self.work.size)

    def panel_bytes(self, target: TargetDescription) -> int:
        """The packed panels."""
        return aligned(_Panels.of(self, target).elements * self.work.size)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Packing, then all steps; an item is a block of rows, or a panel of one step."""
        panels = _Panels.of(self, module.target)
        pack, symbol = _pack(module, f"{name}_pack", self, panels), f"{name}_steps"
        blocks = ceiling(self.batch, self.block_rows)
        step = nanoseconds(module.target, self.work, 1.0 * self.batch * panels.inner * panels.groups * self.units)
        in_turn = blocks == 1 < panels.count and step >= STEP_NANOSECONDS and self.steps <= MOST_STEPS and not self.kept
        with phase(module, symbol) as writer:
            made = _RecurrentWriter(self, panels, writer)
            made.write_panels() if in_turn else made.write_blocks()
        if not in_turn:
            return (pack, Phase(symbol, blocks, self.steps * step))
        starts = range(0, (self.steps + self.row.backward) * panels.count, panels.count)
        return (pack, *(Phase(symbol, panels.count, step, start) for start in starts))

    @property
    def work(self) -> Scalar:
        """The element type of the computation."""
        return computed(self.scalar)

    @property
    def block_rows(self) -> int:
        """Rows of an item: whole groups of cells, in even shares."""
        return self.block or CELL_ROWS * even_block(ceiling(self.batch, CELL_ROWS), BLOCK_ROWS // CELL_ROWS, 1, 1)

    @property
    def kept(self) -> dict[str, int]:
        """Bytes of what is kept from step to step; nothing where operands are computed with as they are."""
        if self.work == self.scalar:
            return {}
        parts, size = self.row.parts, 2 * self.batch * self.units * self.work.size
        return {name: aligned(parts.get(name, 1) * size) for name in self.row.recurring}

    @property
    def row(self) -> Cell:
        """The row of the table of cells."""
        return CELLS[self.cell]

    @property
    def names(self) -> tuple[str, ...]:
        """The operands that are there, in order."""
        given = self.row.inputs if self.bias else tuple(name for name in self.row.inputs if name != "bias")
        return (*given, *self.row.outputs)


@dataclass(frozen=True, slots=True)
class _Panels:
    """panel[group][k][lane]: `inner` steps k of the sum; a group is a gate, or the only one of a gradient.

    The sums of a block of `rows` lie as sums[group][row][lane].
    """

    tile: Tile
    groups: int
    inner: int
    rows: int
    count: int
    packing: Packing
    group_stride: int

    @classmethod
    def of(cls, problem: Recurrent, target: TargetDescription) -> _Panels:
        """Panels as wide as the register tile for a block of rows and the units of a gate."""
        units, gates, backward = problem.units, problem.row.gates, problem.row.backward
        groups, rows = 1 if backward else gates, min(problem.batch, problem.block_rows)
        tile = problem.tile or min(
            candidates(target, problem.work), key=lambda tile: tile.covering(rows, units) * _waiting(tile)
        )
        lane_stride, depth_stride = (gates * units, 1) if backward else (1, gates * units)
        ragged = units % tile.columns != 0
        packing = Packing(problem.scalar, tile.lanes, tile.columns, lane_stride, depth_stride, ragged)
        inner = gates * units if backward else units
        block = ceiling(rows, tile.rows) * tile.rows
        return cls(tile, groups, inner, block, ceiling(units, tile.columns), packing, units)

    @property
    def width(self) -> int:
        """Units of a panel."""
        return self.tile.columns

    @property
    def group_elements(self) -> int:
        """Elements of one group of one panel."""
        return self.packing.extent(self.inner)

    @property
    def elements(self) -> int:
        """Elements of all panels."""
        return self.count * self.groups * self.group_elements + self.tile.lanes

    @property
    def sum_elements(self) -> int:
        """Elements of the sums of a block."""
        return self.groups * self.rows * self.width


def _waiting(tile: Tile) -> float:
    """What sums that only just cover the latency of a multiply-add take longer: at x86-64-v3 4x3 is faster than 4x2."""
    return 1.2 if tile.cycles <= FMA_LATENCY else 1.0


def _pack(module: Module, name: str, problem: Recurrent, panels: _Panels) -> Phase:
    """Items are (panel, group)."""
    packing, names = panels.packing, problem.names
    with phase(module, name) as w:
        b = w.b
        source, target = w.argument(names.index("u")), w.argument(len(names))
        with b.loop(w.begin, w.end) as item:
            group, panel = item % panels.groups, item // panels.groups
            first = panel * panels.width
            start = group * panels.group_stride + first * packing.lane_stride
            place = b.offset(target, item * panels.group_elements, problem.work)
            depth = b.constant(panels.inner)
            packing.pack(b, b.offset(source, start, problem.scalar), problem.units - first, depth, place)
    items = panels.count * panels.groups
    return Phase(name, items, float(items * panels.group_elements) * (0.5 if packing.transposes else 0.15))


class _RecurrentWriter:
    """Writes the loops over blocks of rows and steps, or over panels of a step, and over tiles."""

    def __init__(self, problem: Recurrent, panels: _Panels, writer: PhaseWriter) -> None:
        self.problem = problem
        self.panels = panels
        self.cell = problem.row
        self.b: Builder = writer.b
        self.w = writer
        operands = {name: writer.argument(index) for index, name in enumerate(problem.names)}
        self.packed = writer.argument(len(problem.names))
        place, kept = problem.panel_bytes(self.b.target), {}
        for name, size in problem.kept.items():
            kept[name] = self.b.offset(self.packed, place // problem.work.size, problem.work)
            place += size
        sizes = (problem.batch, problem.units)
        self.memory = CellMemory(self.b, problem.scalar, sizes, self.cell.parts, operands, kept)

    def write_panels(self) -> None:
        """The cells of some panels at one step, whose number the items tell; or the gradient of the first state"""
        b, p, count = self.b, self.problem, self.panels.count
        index = self.w.begin // count
        rows = b.constant(0), b.constant(p.batch)
        first, last = self.w.begin - index * count, self.w.end - index * count
        with b.when(b.compare("<", index, p.steps)):
            self._panels(self._step(index), first, last, *rows, self.cell.step)
        if self.cell.backward:
            with b.when(b.compare("==", index, p.steps)):
                self._panels(self._step(index), first, last, *rows, self._conclude)

    def write_blocks(self) -> None:
        """for block of rows: for step: the cell; then the gradient of the first state"""
        b, p = self.b, self.problem
        with b.loop(self.w.begin, self.w.end) as block:
            low = block * p.block_rows
            high = b.least(low + p.block_rows, p.batch)
            if self.memory.kept and not self.cell.backward:
                self._begin(low, high)
            with b.loop(0, p.steps) as index:
                self._tiles(self._step(index), low, high, self.cell.step)
            if self.cell.backward:
                self._tiles(self._step(b.constant(p.steps)), low, high, self._conclude)

    def _begin(self, low: Value, high: Value) -> None:
        """Keep the states that are given as those before the first step."""
        b, units, lanes = self.b, self.problem.units, self.panels.tile.lanes
        step = self._step(b.constant(0))
        with b.loop(low, high) as row, b.loop(0, units, lanes) as unit:
            mask = b.mask(units - unit, lanes) if units % lanes else None
            place = Place(self.memory, step, [row], unit, lanes, mask)
            for sequence, start in self.cell.starts.items():
                place.begin(sequence, start)

    def _step(self, index: Value) -> CellStep:
        b, last, backward = self.b, self.problem.steps - 1, self.cell.backward
        descends = self.problem.reverse != backward
        moment = last - index if descends else index
        way = -1 if descends else 1
        begins, ends = b.compare("==", index, 0), b.compare("==", index, last)
        earlier, first = (moment + way, ends) if backward else (moment - way, begins)
        return CellStep(index, moment, moment - way, begins, earlier, first)

    def _conclude(self, place: Place, sums: Sequence[Value]) -> None:
        """by_h = sums, added to what the cell left there"""
        carries = "by_h" in self.cell.states
        place.write(place.carried("by_h") + sums[0] if carries else sums[0], "by_h")

    def _tiles(self, step: CellStep, low: Value, high: Value, finish: _Finish) -> None:
        """for panel: the sums of all rows, then `finish` on them"""
        self._panels(step, self.b.constant(0), self.b.constant(self.panels.count), low, high, finish)

    def _panels(self, step: CellStep, begin: Value, end: Value, low: Value, high: Value, finish: _Finish) -> None:
        b, panels = self.b, self.panels
        with b.loop(begin, end) as panel:
            with b.loop(0, panels.groups) as group, b.loop(low, high, panels.tile.rows) as row:
                self._sum(step, panel, group, row, low, high)
            first = panel * panels.width
            last = b.least(first + panels.width, self.problem.units)
            with b.loop(low, high, self._cell_rows) as row, b.loop(first, last, panels.tile.lanes) as unit:
                self._cells(step, row, low, high, unit, unit - first, finish)

    @property
    def _cell_rows(self) -> int:
        if self.problem.work != F32:
            return 1
        enough = next((rows for rows in (1, 2) if self.problem.batch <= rows), CELL_ROWS)
        return min(self.b.target.side_by_side(CELL_ROWS), enough)

    def _cells(
        self, step: CellStep, row: Value, low: Value, high: Value, unit: Value, lane: Value, finish: _Finish
    ) -> None:
        """`finish` on a vector of units of some rows, the last of the block again and again up to their number"""
        b, lanes, panels = self.b, self.panels.tile.lanes, self.panels
        mask = b.mask(self.problem.units - unit, lanes) if self.problem.units % lanes else None
        rows = [b.least(row + index, high - 1) for index in range(self._cell_rows)]
        kind = Type(self.problem.work, lanes)
        places = [self._sums_of(b.constant(group), number - low) for group in range(panels.groups) for number in rows]
        sums = [b.load(place, lane, kind) for place in places]
        each = len(rows)
        finish(
            Place(self.memory, step, rows, unit, lanes, mask),
            [b.join(sums[group * each : group * each + each]) for group in range(panels.groups)],
        )

    def _sums_of(self, group: Value, row: Value) -> Value:
        """Where the sums of a row of the block begin."""
        panels = self.panels
        return self.b.offset(self.w.scratch, (group * panels.rows + row) * panels.width, self.problem.work)

    def _left(self, step: CellStep, row: Value) -> Value:
        """Where the row begins that is multiplied: what the step computed before left, or the first state."""
        b, memory, name, scalar = self.b, self.memory, self.cell.left, self.problem.scalar
        if name in memory.kept:
            return b.offset(memory.kept[name], memory.saved_start(name, step.index + 1, row), memory.scalar)
        place = b.offset(memory.operands[name], memory.start(name, step.done, row), scalar)
        if self.cell.backward:
            return place
        start = b.offset(memory.operands["h"], row * self.panels.inner, scalar)
        return b.choose(step.begins, start, place)

    def _sum(self, step: CellStep, panel: Value, group: Value, row: Value, low: Value, high: Value) -> None:
        """sums[group][i] = sum over k of left[row + i, k] * panel[group][k]; nothing to begin with

        Meanwhile the lines are asked for that the cells of the rows will read and write, those of one row at a time.
        """
        b, panels, scalar = self.b, self.panels, self.problem.work
        tile = panels.tile
        rows = [b.least(row + index, high - 1) for index in range(tile.rows)]
        left = [self._left(step, number) for number in rows]
        depth = b.constant(panels.inner)
        if self.cell.backward:
            depth = b.choose(step.begins, b.constant(0), depth)
        gate = b.offset(self.packed, (panel * panels.groups + group) * panels.group_elements, scalar)
        acc = Accumulators.zeros(b, tile, scalar)
        share = ceiling(panels.inner, tile.rows)
        with b.loop(0, tile.rows) as index:
            self.memory.ask(step, rows[0] + index, panel * panels.width, panels.width, group, panels.groups)
            with b.loop(index * share, b.least(index * share + share, depth)) as k:
                vectors = load_row(b, gate, k * panels.width, tile, scalar, [None] * tile.vectors)
                acc.multiply([b.load(place, k, Type(scalar)) for place in left], vectors)
        for offset, slots in enumerate(acc.slots):
            place = self._sums_of(group, row - low + offset)
            for vector, slot in enumerate(slots):
                b.store(slot.get(), place, vector * tile.lanes)


def _recurrent(kind: str, gradient: str = "") -> Generate:
    """The cell of this kind; the plain recurrence has one for each activation."""

    def generate(attrs: RecurrentAttrs | RnnAttrs, inputs: Views, outputs: Views) -> Generator:
        words = (kind, attrs.activation.value, gradient) if isinstance(attrs, RnnAttrs) else (kind, gradient)
        name = "_".join(filter(None, words))
        y, given = outputs[0], CELLS[name].inputs
        units = inputs[given.index("u")].shape[0]
        bias = "bias" in given and len(inputs) == len(given)
        return Recurrent(name, y.scalar, y.shape[0], y.shape[1], units, attrs.reverse, bias)

    return generate


ROWS: Rows = {
    LSTM: KernelRow(_recurrent("lstm"), filled),
    LSTM_GRADIENT: KernelRow(_recurrent("lstm", "gradient"), filled),
    GRU: KernelRow(_recurrent("gru"), filled),
    GRU_GRADIENT: KernelRow(_recurrent("gru", "gradient"), filled),
    RNN: KernelRow(_recurrent("rnn"), filled),
    RNN_GRADIENT: KernelRow(_recurrent("rnn", "gradient"), filled),
}
