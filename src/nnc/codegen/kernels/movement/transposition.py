"""Transposition: y[..., i, j] = x[..., i, j], where x is contiguous along i and y along j.

Square blocks are read in vectors along i, transposed in registers, and written in vectors along j, so that every cache
line is read and written once.
"""

from __future__ import annotations

import math

from nnc.classes import dataclass
from nnc.codegen.frame.access import Shape, StridedAccess, collapse, locate
from nnc.codegen.frame.kernel import ALIGNMENT, Phase, WithoutMemory, ceiling, phase
from nnc.codegen.frame.packing import transpose
from nnc.codegen.ir.builder import BOOL, U8, Builder, Module, Scalar, Type, Value

MOST_LANES = 16
LEAST = 8  # rows and columns
NANOSECONDS_PER_VECTOR = 2.0


@dataclass(frozen=True, slots=True)
class Order:
    """How arrays of at least `least_bytes` are walked: tiles of `wide` blocks along j and `tall` blocks along i.

    Lines of x are asked for `ahead` elements before they are read; 0 stands for all of an axis, and for never. `lines`:
    only where the rows of x and of y are whole cache lines.
    """

    least_bytes: int
    wide: int
    tall: int
    ahead: int
    lines: bool = False


# Largest first. What no cache holds is written in runs of some lines; what a near cache holds needs no asking.
ORDERS = (Order(1 << 26, 16, 4, 64, lines=True), Order(1 << 22, 1, 0, 64), Order(0, 1, 0, 0))


@dataclass(frozen=True, slots=True)
class Transposition(WithoutMemory):
    """Blocks of `sizes` (i, j) at each position of `outer`; strides along (outer, i, j).

    `arguments` tells where x and y are in the array of addresses.
    """

    scalar: Scalar
    outer: Shape
    sizes: tuple[int, int]
    source: StridedAccess
    target: StridedAccess
    arguments: tuple[int, int]
    order: Order

    @classmethod
    def of(
        cls, shape: Shape, source: StridedAccess, target: StridedAccess, arguments: tuple[int, int]
    ) -> Transposition | None:
        """The transposition that a movement is, if it is one with blocks to speak of."""
        sizes, (read, written) = collapse(shape, (source.strides, target.strides))
        i, j = (next((axis for axis, step in enumerate(steps) if step == 1), -1) for steps in (read, written))
        if -1 in (i, j) or i == j or min(sizes[i], sizes[j]) < LEAST:
            return None
        rest = [axis for axis in range(len(sizes)) if axis not in (i, j)]
        outer = tuple(sizes[axis] for axis in rest)
        x, y = (
            StridedAccess(one.scalar, tuple(steps[axis] for axis in (*rest, i, j)), one.offset)
            for one, steps in ((source, read), (target, written))
        )
        scalar = U8 if source.scalar == BOOL else source.scalar
        size = math.prod(sizes) * scalar.size
        lines = all(step * scalar.size % ALIGNMENT == 0 for step in (read[j], written[i]))
        order = next(order for order in ORDERS if size >= order.least_bytes and (lines or not order.lines))
        return cls(scalar, outer, (sizes[i], sizes[j]), x, y, arguments, order)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a strip of tiles along i at one position of the outer axes."""
        lanes, order = min(MOST_LANES, module.target.lanes(8 * self.scalar.size)), self.order
        strips = ceiling(self.sizes[1], order.wide * lanes)
        items = math.prod(self.outer) * strips
        with phase(module, name) as w:
            b = w.b
            x, y = (
                b.offset(w.argument(place), one.offset, self.scalar)
                for place, one in zip(self.arguments, (self.source, self.target), strict=True)
            )
            with b.loop(w.begin, w.end) as item:
                steps = self.source.strides[:-2], self.target.strides[:-2]
                starts = locate(b, item // strips, self.outer, steps) if self.outer else [b.constant(0)] * 2
                places = b.offset(x, starts[0], self.scalar), b.offset(y, starts[1], self.scalar)
                self._strip(b, places, item % strips * order.wide, lanes)
        return (Phase(name, items, NANOSECONDS_PER_VECTOR * items * order.wide * self.sizes[0]),)

    def _strip(self, b: Builder, places: tuple[Value, Value], start: Value, lanes: int) -> None:
        """Whole blocks of `wide` columns of blocks from number `start`, tile by tile, then the ragged ones."""
        order, height, columns = self.order, self.sizes[0], ceiling(self.sizes[1], lanes)
        wide = b.least(columns - start, order.wide) if columns % order.wide else order.wide
        whole = height // lanes * lanes
        tall = order.tall * lanes or height
        for low, high, ragged in ((0, whole, False), (whole, height, True)):
            with b.loop(low, high, tall) as tile, b.loop(0, wide) as column:
                j = (start + column) * lanes
                with b.loop(tile, b.least(tile + tall, high), lanes) as i:
                    self._block(b, *places, (i, j), lanes, ragged)

    def _block(self, b: Builder, x: Value, y: Value, corner: tuple[Value, Value], lanes: int, ragged: bool) -> None:
        """lanes vectors of x become lanes vectors of y; fewer where the axes end"""
        (height, width), (i, j), kind = self.sizes, corner, Type(self.scalar, lanes)
        down = b.mask(height - i, lanes) if ragged else None
        across = b.mask(width - j, lanes) if width % lanes else None
        places = [b.least(j + lane, width - 1) * self.source.strides[-1] for lane in range(lanes)]
        target = b.offset(y, j, self.scalar)
        for place in places if self.order.ahead else ():
            b.prefetch(x, place + i + self.order.ahead, self.scalar)
        rows = transpose(b, [b.load(x, place + i, kind, down) for place in places])
        for step, row in enumerate(rows):
            with b.when(b.compare("<", i + step, height)) if ragged else b.always():
                b.store(row, target, (i + step) * self.target.strides[-2], across)
