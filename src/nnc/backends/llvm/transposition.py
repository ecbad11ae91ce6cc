"""Transposition: y[..., i, j] = x[..., i, j], where x is contiguous along i and y along j.

Square blocks are read in vectors along i, transposed in registers, and written in vectors along j, so that every cache
line is read and written once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nnc.backends.llvm.access import Access, Shape, collapse, locate
from nnc.backends.llvm.builder import BOOL, U8, Builder, Module, Scalar, Type, Value
from nnc.backends.llvm.kernel import Phase, ceiling, phase
from nnc.backends.llvm.packing import transpose
from nnc.backends.llvm.target import TargetDescription

MOST_LANES = 16
LEAST = 8  # rows and columns
NANOSECONDS_PER_VECTOR = 2.0


@dataclass(frozen=True, slots=True)
class Transposition:
    """Blocks of `sizes` (i, j) at each position of `outer`; strides along (outer, i, j).

    `arguments` tells where x and y are in the array of addresses.
    """

    scalar: Scalar
    outer: Shape
    sizes: tuple[int, int]
    source: Access
    target: Access
    arguments: tuple[int, int]

    @classmethod
    def of(cls, shape: Shape, source: Access, target: Access, arguments: tuple[int, int]) -> Transposition | None:
        """The transposition that a movement is, if it is one with blocks to speak of."""
        sizes, (read, written) = collapse(shape, (source.strides, target.strides))
        i, j = (next((axis for axis, step in enumerate(steps) if step == 1), -1) for steps in (read, written))
        if -1 in (i, j) or i == j or min(sizes[i], sizes[j]) < LEAST:
            return None
        rest = [axis for axis in range(len(sizes)) if axis not in (i, j)]
        outer = tuple(sizes[axis] for axis in rest)
        x, y = (
            Access(one.scalar, tuple(steps[axis] for axis in (*rest, i, j)), one.offset)
            for one, steps in ((source, read), (target, written))
        )
        scalar = U8 if source.scalar == BOOL else source.scalar
        return cls(scalar, outer, (sizes[i], sizes[j]), x, y, arguments)

    def workspace(self, target: TargetDescription) -> int:
        """None."""
        return 0

    def scratch(self, target: TargetDescription) -> int:
        """None."""
        return 0

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a strip of blocks along i at one position of the outer axes."""
        lanes = min(MOST_LANES, module.target.lanes(8 * self.scalar.size))
        strips = ceiling(self.sizes[1], lanes)
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
                whole = self.sizes[0] // lanes * lanes
                for low, high, ragged in ((0, whole, False), (whole, self.sizes[0], True)):
                    with b.loop(low, high, lanes) as i:
                        self._block(b, *places, (i, item % strips * lanes), lanes, ragged)
        return (Phase(name, items, NANOSECONDS_PER_VECTOR * items * self.sizes[0]),)

    def _block(self, b: Builder, x: Value, y: Value, corner: tuple[Value, Value], lanes: int, ragged: bool) -> None:
        """lanes vectors of x become lanes vectors of y; fewer where the axes end"""
        (height, width), (i, j), kind = self.sizes, corner, Type(self.scalar, lanes)
        down = b.mask(height - i, lanes) if ragged else None
        across = b.mask(width - j, lanes) if width % lanes else None
        places = [b.least(j + lane, width - 1) * self.source.strides[-1] for lane in range(lanes)]
        target = b.offset(y, j, self.scalar)
        rows = transpose(b, [b.load(x, place + i, kind, down) for place in places])
        for step, row in enumerate(rows):
            with b.when(b.compare("<", i + step, height)) if ragged else b.always():
                b.store(row, target, (i + step) * self.target.strides[-2], across)
