"""Transposition by groups of threads: a tile is read along i into the memory of the group, and written along j from it.

    near[j, i] = x[i, j]        y[i, j] = near[j, i]

Rows of the tile are one word longer than they hold elements, so threads that read a column of it meet other banks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from nnc.classes import dataclass
from nnc.codegen.device.groups.shared_memory import SharedArray, barrier, thread_of
from nnc.codegen.frame.access import locate
from nnc.codegen.frame.kernel import ceiling, phase
from nnc.codegen.ir.builder import I32, I64, U8, U16, Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.movement.transposition import Transposition
from nnc.core.values.derived import known

THREADS = 256
# Elements of a tile along i and j: of 4 bytes or more, and of fewer.
SIDES, NARROW_SIDES = (32, 32), (64, 32)
# Shorter axes leave most of a tile empty.
LEAST_SIDE = 16
NANOSECONDS = 0.5
# What moves the bits of elements of so many bytes.
BITS = {1: U8, 2: U16, 4: I32, 8: I64}


@dataclass(frozen=True, slots=True)
class GroupTransposition:
    """The kernel of a transposition whose items are tiles."""

    movement: Transposition

    threads, paired = THREADS, False

    @classmethod
    def of(cls, movement: Transposition, target: TargetDescription) -> GroupTransposition | None:
        """The kernel; None where an axis is short or a size is read."""
        sizes = (*movement.outer, *movement.sizes)
        fits = all(map(known, sizes)) and min(movement.sizes) >= LEAST_SIDE
        return cls(movement) if target.threads > 1 and fits else None

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a tile at one position of the outer axes."""
        m, bits = self.movement, BITS[self.movement.scalar.size]
        width, height = SIDES if bits.size >= I32.size else NARROW_SIDES
        across, tiles = ceiling(m.sizes[0], width), ceiling(m.sizes[0], width) * ceiling(m.sizes[1], height)
        items = math.prod(m.outer) * tiles
        with phase(module, name) as w:
            b = w.b
            x, y = (
                b.offset(w.argument(place), operand.offset, bits)
                for place, operand in zip(m.arguments, (m.source, m.target), strict=True)
            )
            writer = _TileWriter(b, bits, (width, height), m.sizes)
            with b.loop(w.begin, w.end) as item:
                place, tile = b.divided(item, tiles, items)
                line, column = b.divided(tile, across, tiles)
                starts = locate(b, place, m.outer, (m.source.strides[:-2], m.target.strides[:-2]))
                corner = column * width, line * height
                writer.read(b.offset(x, starts[0], bits), corner, m.source.strides[-1])
                barrier(b)
                writer.write(b.offset(y, starts[1], bits), corner, m.target.strides[-2])
                barrier(b)
        return (Phase(name, items, NANOSECONDS * math.prod(m.outer) * math.prod(m.sizes)),)


class _TileWriter:
    """Moves a tile of `width` x `height` elements along i and j, where the axes have them."""

    def __init__(self, b: Builder, bits: Scalar, sides: tuple[int, int], sizes: tuple[int, int]) -> None:
        self.b, self.bits, self.sizes = b, bits, sizes
        self.width, self.height = sides
        self.word = bits if bits.size >= I32.size else I32
        self.near = SharedArray.reserve(b, "tile", self.word, self.height * (self.width + 1))
        self.thread = thread_of(b)

    def _places(self, side: int, other: int) -> Iterator[tuple[Value, Value]]:
        """The places along a side and along the other one of each element of this thread."""
        along, across = self.thread % side, self.thread // side
        for number in range(side * other // THREADS):
            yield along, across + number * (THREADS // side)

    def _inside(self, i: Value, j: Value) -> Value | None:
        """Whether the axes are so long; None where they are everywhere."""
        ragged = [(i, self.sizes[0], self.width), (j, self.sizes[1], self.height)]
        return self.b.all_of(self.b.compare("<", place, size) for place, size, side in ragged if size % side)

    def read(self, source: Value, corner: tuple[Value, Value], stride: int) -> None:
        """near[j, i] = x[i, j]; for what lies outside the first element is read."""
        b, values = self.b, list[tuple[Value, Value]]()
        for column, line in self._places(self.width, self.height):
            i, j = corner[0] + column, corner[1] + line
            inside, index = self._inside(i, j), j * stride + i
            place = index if inside is None else b.choose(inside, index, 0)
            values.append((b.load(source, place, Type(self.bits)), line * (self.width + 1) + column))
        for value, place in values:
            self.near.store(b.cast(value, self.word), place)

    def write(self, target: Value, corner: tuple[Value, Value], stride: int) -> None:
        """y[i, j] = near[j, i]"""
        b = self.b
        for line, column in self._places(self.height, self.width):
            i, j = corner[0] + column, corner[1] + line
            inside = self._inside(i, j)
            value = b.cast(self.near.load(line * (self.width + 1) + column), self.bits)
            with b.when(inside):
                b.store(value, target, i * stride + j)
