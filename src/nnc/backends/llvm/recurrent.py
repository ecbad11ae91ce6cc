"""Recurrent networks over whole sequences: for each step, sums = left[step before] · u, then the cell.

Rows of the batch do not meet, so an item is a block of rows with all its steps, and no worker waits for another
between steps. A first phase packs u, or its transpose for a gradient, into panels of units; a tile of rows against a
panel stays in registers, and its cell follows while it is there. A panel of a cell with several gates holds the same
units of each gate, one behind the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnc.backends.llvm.builder import Builder, Module, Scalar, Type, Value
from nnc.backends.llvm.kernel import Phase, PhaseWriter, aligned, ceiling, phase
from nnc.backends.llvm.packing import Packing
from nnc.backends.llvm.recurrent_cells import CELLS, Cell, Place
from nnc.backends.llvm.target import TargetDescription
from nnc.backends.llvm.tile import Accumulators, Tile, candidates, choose_tile, column_masks, load_row, nanoseconds

# Rows of the batch that one worker takes through all steps: enough to use each panel a few times while it is near.
BLOCK_ROWS = 16

_Finish = Callable[[Place, Sequence[Value]], None]


@dataclass(frozen=True, slots=True)
class Recurrent:
    """Sequences [steps, batch, parts · units] through a cell of `CELLS`; operands are the cell's, contiguous.

    With `reverse` the steps go from the last to the first; gradients go the other way round.
    """

    cell: str
    scalar: Scalar
    steps: int
    batch: int
    units: int
    reverse: bool
    bias: bool = False

    def workspace(self, target: TargetDescription) -> int:
        """The packed panels."""
        return aligned(_Panels.of(self, target).elements * self.scalar.size)

    def scratch(self, target: TargetDescription) -> int:
        """None."""
        return 0

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Packing, then all steps; an item is a block of rows."""
        panels = _Panels.of(self, module.target)
        pack = _pack(module, f"{name}_pack", self, panels)
        with phase(module, f"{name}_steps") as writer:
            _Writer(self, panels, writer).write()
        products = float(self.steps * self.batch * panels.inner * panels.groups * self.units)
        work = nanoseconds(module.target, self.scalar, products)
        return (pack, Phase(f"{name}_steps", ceiling(self.batch, BLOCK_ROWS), work))

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
    """panel[group][k][lane]: `inner` steps k of the sum; a group is a gate, or the only one of a gradient."""

    tile: Tile
    groups: int
    inner: int
    count: int
    packing: Packing
    group_stride: int

    @classmethod
    def of(cls, problem: Recurrent, target: TargetDescription) -> _Panels:
        """Panels of one vector per gate, or of as many vectors as the best tile has where there is one group."""
        units, gates, backward = problem.units, problem.row.gates, problem.row.backward
        groups, rows = 1 if backward else gates, min(problem.batch, BLOCK_ROWS)
        if groups == 1:
            tile = choose_tile(target, problem.scalar, rows, units)
        else:
            fitting = [tile for tile in candidates(target, problem.scalar) if tile.vectors == groups]
            tile = min(fitting, key=lambda tile: ceiling(rows, tile.rows) * tile.cycles)
        width = tile.columns // groups
        lane_stride, depth_stride = (gates * units, 1) if backward else (1, gates * units)
        packing = Packing(problem.scalar, tile.lanes, width, lane_stride, depth_stride, units % width != 0)
        inner = gates * units if backward else units
        return cls(tile, groups, inner, ceiling(units, width), packing, units)

    @property
    def width(self) -> int:
        """Units of a panel."""
        return self.packing.width

    @property
    def group_elements(self) -> int:
        """Elements of one group of one panel."""
        return self.packing.extent(self.inner)

    @property
    def elements(self) -> int:
        """Elements of all panels."""
        return self.count * self.groups * self.group_elements + self.tile.lanes


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
            place = b.offset(target, item * panels.group_elements, problem.scalar)
            depth = b.constant(panels.inner)
            packing.pack(b, b.offset(source, start, problem.scalar), problem.units - first, depth, place)
    items = panels.count * panels.groups
    return Phase(name, items, float(items * panels.group_elements) * (0.5 if packing.transposes else 0.15))


@dataclass(frozen=True, slots=True)
class _Step:
    """The step that is computed, those before and after it in this order, and whether it begins or ends the order."""

    moment: Value
    before: Value
    after: Value
    begins: Value
    ends: Value


class _Writer:
    """Writes the loops over blocks of rows, steps, panels and tiles."""

    def __init__(self, problem: Recurrent, panels: _Panels, writer: PhaseWriter) -> None:
        self.problem = problem
        self.panels = panels
        self.cell = problem.row
        self.b: Builder = writer.b
        self.w = writer
        self.operands = {name: writer.argument(index) for index, name in enumerate(problem.names)}
        self.packed = writer.argument(len(problem.names))

    def write(self) -> None:
        """for block of rows: for step: the cell; then the gradient of the first state"""
        b, p = self.b, self.problem
        with b.loop(self.w.begin, self.w.end) as block:
            low = block * BLOCK_ROWS
            high = b.least(low + BLOCK_ROWS, p.batch)
            with b.loop(0, p.steps) as index:
                self._tiles(self._step(index), low, high, self.cell.step)
            if self.cell.backward:
                self._tiles(self._step(b.constant(p.steps)), low, high, self._conclude)

    def _step(self, index: Value) -> _Step:
        b, last = self.b, self.problem.steps - 1
        descends = self.problem.reverse != self.cell.backward
        moment = last - index if descends else index
        way = -1 if descends else 1
        begins, ends = b.compare("==", index, 0), b.compare("==", index, last)
        return _Step(moment, moment - way, moment + way, begins, ends)

    def _conclude(self, place: Place, sums: Sequence[Value]) -> None:
        """by_h = sums, added to what the cell carried there"""
        place.keep(place.state("by_h") + sums[0] if self.cell.carries else sums[0], "by_h")

    def _tiles(self, step: _Step, low: Value, high: Value, finish: _Finish) -> None:
        """for panel, for tile of rows: the sums, then `finish` on every vector of units"""
        b, tile, panels = self.b, self.panels.tile, self.panels
        with b.loop(0, panels.count) as panel, b.loop(low, high, tile.rows) as row:
            acc = Accumulators.zeros(b, tile, self.problem.scalar)
            self._sum(acc, step, panel, [b.least(row + index, high - 1) for index in range(tile.rows)])
            vectors = Tile(tile.rows, tile.vectors // panels.groups, tile.lanes)
            masks = column_masks(b, vectors, self.problem.units - panel * panels.width, panels.packing.ragged)
            for index, slots in enumerate(acc.slots):
                with b.when(b.compare("<", row + index, high)):
                    for vector, mask in enumerate(masks):
                        unit = panel * panels.width + vector * tile.lanes
                        place = self._place(step, row + index, unit, mask)
                        finish(place, [slot.get() for slot in slots[vector :: vectors.vectors]])

    def _place(self, step: _Step, row: Value, unit: Value, mask: Value | None) -> Place:
        p, backward = self.problem, self.cell.backward
        earlier, first = (step.after, step.ends) if backward else (step.before, step.begins)
        kind = Type(p.scalar, self.panels.tile.lanes)
        return Place(
            self.b, self.operands, kind, (p.batch, p.units), step.moment, earlier, first, step.begins, row, unit, mask
        )

    def _sum(self, acc: Accumulators, step: _Step, panel: Value, rows: Sequence[Value]) -> None:
        """acc[i][group · vectors + j] = sum over k of left[rows[i], k] * panel[group][k][j]; nothing to begin with"""
        b, panels, scalar = self.b, self.panels, self.problem.scalar
        tile, inner, groups = panels.tile, panels.inner, panels.groups
        sequence = [(step.before * self.problem.batch + row) * inner for row in rows]
        left = [b.offset(self.operands[self.cell.left], start, scalar) for start in sequence]
        depth = b.constant(inner)
        if self.cell.backward:
            depth = b.choose(step.begins, b.constant(0), depth)
        else:
            starts = [b.offset(self.operands["h"], row * inner, scalar) for row in rows]
            left = [b.choose(step.begins, start, place) for start, place in zip(starts, left, strict=True)]
        part = Tile(tile.rows, tile.vectors // groups, tile.lanes)
        gates = [
            b.offset(self.packed, (panel * groups + group) * panels.group_elements, scalar) for group in range(groups)
        ]
        none: list[Value | None] = [None] * part.vectors
        with b.loop(0, depth) as k:
            vectors = [vector for gate in gates for vector in load_row(b, gate, k * panels.width, part, scalar, none)]
            acc.multiply([b.load(place, k, Type(scalar)) for place in left], vectors)
