"""Transposition: y[..., i, j] = x[..., i, j], where x is contiguous along i and y along j.

Square blocks are read in vectors along i, transposed in registers, and written in vectors along j, so that every cache
line is read and written once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.access import Shape, StridedAccess, collapse, locate
from nnc.codegen.frame.kernel import WithoutMemory, WithSizes, ceiling, phase
from nnc.codegen.frame.packing import transpose
from nnc.codegen.ir.builder import BOOL, U8, Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.native_kernel import ALIGNMENT, Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Read

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
class Transposition(WithoutMemory, WithSizes):
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
            StridedAccess(operand.scalar, tuple(steps[axis] for axis in (*rest, i, j)), operand.offset)
            for operand, steps in ((source, read), (target, written))
        )
        scalar = U8 if source.scalar == BOOL else source.scalar
        size = math.prod(sizes) * scalar.size
        lines = all(step * scalar.size % ALIGNMENT == 0 for step in (read[j], written[i]))
        order = next(order for order in ORDERS if size >= order.least_bytes and (lines or not order.lines))
        return cls(scalar, outer, (sizes[i], sizes[j]), x, y, arguments, order)

    def opened(self, read: Read, target: TargetDescription) -> Transposition:
        """All sizes are read but those of axes that one block holds; the order of blocks is part of the code.

        64 times 9 x 10 elements took 2.9 of the time with sizes that are read.
        """
        lanes = self.lanes(target)
        i, j = (read(size) if size > lanes else size for size in self.sizes)
        return replace(
            self, outer=tuple(map(read, self.outer)), sizes=(i, j),
            source=self.source.opened(read), target=self.target.opened(read),
        )  # fmt: skip

    def lanes(self, target: TargetDescription) -> int:
        """Rows and columns of a block."""
        return min(MOST_LANES, target.lanes(8 * self.scalar.size))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a strip of tiles along i at one position of the outer axes."""
        lanes, order = self.lanes(module.target), self.order
        strips = ceiling(self.sizes[1], order.wide * lanes)
        items = math.prod(self.outer) * strips
        with phase(module, name) as w:
            b = w.b
            x, y = (
                b.offset(w.argument(place), operand.offset, self.scalar)
                for place, operand in zip(self.arguments, (self.source, self.target), strict=True)
            )
            with b.loop(w.begin, w.end) as item:
                steps = self.source.strides[:-2], self.target.strides[:-2]
                place, strip = b.divided(item, strips, items)
                starts = locate(b, place, self.outer, steps) if self.outer else [b.constant(0)] * 2
                places = b.offset(x, starts[0], self.scalar), b.offset(y, starts[1], self.scalar)
                self._strip(b, places, strip * order.wide, lanes)
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
                edge = self._offsets(b, j, lanes) if self.sizes[1] % lanes else []
                with b.loop(tile, b.least(tile + tall, high), lanes) as i:
                    self._block(b, places, edge, (i, j), ragged)

    def _offsets(self, b: Builder, j: Value, lanes: int) -> list[Value]:
        """How far the vectors of x are that blocks at column j read; beyond the last column it is read again."""
        return [b.least(j + lane, self.sizes[1] - 1) * self.source.strides[-1] for lane in range(lanes)]

    def _lines(self, b: Builder, source: Value, j: Value, lanes: int) -> list[Value]:
        """The same where all columns are there."""
        stride = self.source.strides[-1]
        return b.in_steps(b.offset(source, j * stride, self.scalar), stride, self.scalar, lanes)

    def _block(
        self, b: Builder, places: tuple[Value, Value], edge: Sequence[Value], corner: tuple[Value, Value], ragged: bool
    ) -> None:
        """lanes vectors of x become lanes vectors of y; fewer where the axes end"""
        (height, width), (i, j), (x, y), lanes = self.sizes, corner, places, self.lanes(b.target)
        kind, stride = Type(self.scalar, lanes), self.target.strides[-2]
        down = b.mask(height - i, lanes) if ragged else None
        across = b.mask(width - j, lanes) if width % lanes else None
        source = b.offset(x, i, self.scalar)
        lines = [b.offset(source, value, self.scalar) for value in edge] or self._lines(b, source, j, lanes)
        for line in lines if self.order.ahead else ():
            b.prefetch(line, self.order.ahead, self.scalar)
        rows = transpose(b, [b.load(line, 0, kind, down) for line in lines])
        results = b.in_steps(b.offset(y, j + i * stride, self.scalar), stride, self.scalar, lanes)
        for step, (row, place) in enumerate(zip(rows, results, strict=True)):
            with b.when(b.compare("<", i + step, height)) if ragged else b.always():
                b.store(row, place, 0, across)
