"""Interleaving of a few rows, y[..., i * rows + j] = x[..., j, i], and what undoes it.

A picture's channels become its pixels' channels; so do shuffles of channels in a few groups and of pixels. Vectors are
read, their lanes go to where they belong in registers, and vectors are written: gathers of one number at a time took
five times as long.
"""

from __future__ import annotations

import math
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.access import Shape, StridedAccess, collapse, locate
from nnc.codegen.frame.kernel import WithoutMemory, WithSizes, ceiling, phase
from nnc.codegen.ir.builder import BOOL, U8, Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.movement.transposition import LEAST, MOST_LANES
from nnc.core.values.derived import Read

MOST_ROWS = LEAST - 1
BLOCKS = 16  # of an item: vectors of each row
NANOSECONDS_PER_VECTOR = 2.0


@dataclass(frozen=True, slots=True)
class Interleaving(WithoutMemory, WithSizes):
    """At each position of `outer`: `rows` rows of `length`, `step` elements apart, and one without gaps.

    `weaves`: the rows are read, else they are written; `source` and `target` have strides along `outer`.
    """

    scalar: Scalar
    outer: Shape
    rows: int
    length: int
    step: int
    weaves: bool
    source: StridedAccess
    target: StridedAccess
    arguments: tuple[int, int]

    @classmethod
    def of(
        cls, shape: Shape, source: StridedAccess, target: StridedAccess, arguments: tuple[int, int]
    ) -> Interleaving | None:
        """The interleaving that a movement is, if it is one of a few rows of some length."""
        sizes, (read, written) = collapse(shape, (source.strides, target.strides))
        for weaves, apart, woven in ((True, read, written), (False, written, read)):
            i, j = (next((axis for axis, step in enumerate(steps) if step == 1), -1) for steps in (apart, woven))
            if -1 in (i, j) or i == j or woven[i] != sizes[j] or not 0 < sizes[j] <= MOST_ROWS or sizes[i] < LEAST:
                continue
            rest = [axis for axis in range(len(sizes)) if axis not in (i, j)]
            x, y = (
                StridedAccess(operand.scalar, tuple(steps[axis] for axis in rest), operand.offset)
                for operand, steps in ((source, read), (target, written))
            )
            scalar = U8 if source.scalar == BOOL else source.scalar
            outer = tuple(sizes[axis] for axis in rest)
            return cls(scalar, outer, sizes[j], sizes[i], apart[j], weaves, x, y, arguments)
        return None

    def opened(self, read: Read, target: TargetDescription) -> Interleaving:
        """All sizes are read but the number of rows."""
        return replace(
            self, outer=tuple(map(read, self.outer)), length=read(self.length), step=read(self.step),
            source=self.source.opened(read), target=self.target.opened(read),
        )  # fmt: skip

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is some blocks at one position of the outer axes."""
        lanes = min(MOST_LANES, module.target.lanes(8 * self.scalar.size))
        run = BLOCKS * lanes
        strips = ceiling(self.length, run)
        items = math.prod(self.outer) * strips
        with phase(module, name) as w:
            b = w.b
            with b.loop(w.begin, w.end) as item:
                starts, (place, strip) = [b.constant(0)] * 2, b.divided(item, strips, items)
                if self.outer:
                    starts = locate(b, place, self.outer, (self.source.strides, self.target.strides))
                x, y = (
                    b.offset(b.offset(w.argument(place), operand.offset, self.scalar), start, self.scalar)
                    for place, operand, start in zip(self.arguments, (self.source, self.target), starts, strict=True)
                )
                begin = strip * run
                with b.loop(begin, b.least(begin + run, self.length), lanes) as i:
                    self._block(b, x, y, i, lanes)
        vectors = math.prod(self.outer) * ceiling(self.length, lanes) * self.rows
        return (Phase(name, items, NANOSECONDS_PER_VECTOR * vectors),)

    def _block(self, b: Builder, x: Value, y: Value, i: Value, lanes: int) -> None:
        """`lanes` numbers of each row, fewer at its end."""
        ragged, rows, kind = self.length % lanes != 0, range(self.rows), Type(self.scalar, lanes)
        down = b.mask(self.length - i, lanes) if ragged else None
        left = [b.mask((self.length - i) * self.rows - row * lanes, lanes) if ragged else None for row in rows]
        apart = [(i + row * self.step, down) for row in rows]
        dense = [(i * self.rows + row * lanes, mask) for row, mask in zip(rows, left, strict=True)]
        read, written = (apart, dense) if self.weaves else (dense, apart)
        values = [b.load(x, place, kind, mask) for place, mask in read]
        moved = woven(b, values) if self.weaves else parted(b, values)
        for value, (place, mask) in zip(moved, written, strict=True):
            b.store(value, y, place, mask)


def woven(b: Builder, rows: list[Value]) -> list[Value]:
    """out.flat[i * len(rows) + j] = rows[j][i]; an even number by halves, which are woven in turn"""
    lanes, count = rows[0].type.lanes, len(rows)
    if count == 1:
        return rows
    if count % 2:
        return [
            _picked(b, rows, [divmod(p, count)[::-1] for p in range(k * lanes, (k + 1) * lanes)]) for k in range(count)
        ]
    pairs = zip(woven(b, rows[0::2]), woven(b, rows[1::2]), strict=True)
    places = [lane // 2 + lane % 2 * lanes for lane in range(2 * lanes)]
    return [b.shuffle(first, second, places[k : k + lanes]) for first, second in pairs for k in (0, lanes)]


def parted(b: Builder, vectors: list[Value]) -> list[Value]:
    """out[j][i] = vectors.flat[i * len(vectors) + j]; an even number by the halves that were woven in turn"""
    lanes, count = vectors[0].type.lanes, len(vectors)
    if count == 1:
        return vectors
    if count % 2:
        return [_picked(b, vectors, [divmod(i * count + j, lanes) for i in range(lanes)]) for j in range(count)]
    pairs = list(zip(vectors[0::2], vectors[1::2], strict=True))
    halves = [
        parted(b, [b.shuffle(left, right, range(first, 2 * lanes, 2)) for left, right in pairs]) for first in (0, 1)
    ]
    return [row for pair in zip(*halves, strict=True) for row in pair]


def _picked(b: Builder, vectors: list[Value], places: list[tuple[int, int]]) -> Value:
    """out[i] = vectors[places[i][0]][places[i][1]], a vector after the other"""
    lanes = len(places)
    made = vectors[0]
    for index, vector in enumerate(vectors[1:], 1):
        # Lanes of the first vector are put in their places with those of the second.
        before = [place if index == 1 and source == 0 else lane for lane, (source, place) in enumerate(places)]
        own = [lanes + place if source == index else kept for kept, (source, place) in zip(before, places, strict=True)]
        made = b.shuffle(made, vector, own)
    return made
