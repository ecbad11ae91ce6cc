"""Sums of a tile by a group of 16 x 16 threads: total[m, n] = sum_k left[m, k] * right[k, n], in slices of k.

Each thread reads some elements of the next slice of both sides, wherever these are, while all compute with the last one
in the memory of the group, and sums `height` x `width` elements in registers, in the order of k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from nnc.classes import dataclass
from nnc.codegen.device.groups.near import NearArray, wait
from nnc.codegen.device.preamble import PTX_TRIPLE
from nnc.codegen.frame.kernel import Phase, PhaseWriter, ceiling, phase
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.ir.builder import F64, Builder, LocalVariable, Module, Scalar, Type, Value
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.products.gemm_plan import MatrixProduct

WriteTile = Callable[[PhaseWriter, Value], None]

# Threads along each side of a tile; elements behind each line of a slice, so that threads that write a column of it
# meet other banks.
SIDE, PAD = 16, 4
THREADS = SIDE * SIDE
# Steps of k in a slice, and bytes of a group's memory: each device of Vulkan's has 16 KiB, each of CUDA's 48.
STEPS, FEW_STEPS, NEAR_BYTES, FEW_BYTES = 16, 8, 48 * 1024, 16 * 1024
# Elements of a thread that lie side by side in a tile, as many as one load of the group's memory reads.
TOGETHER = 4


class TileSide(Protocol):
    """One side of a tile, of `lines` lines."""

    @property
    def lines(self) -> int:
        """Along the tile."""

    def read(self, start: Value) -> list[Value]:
        """This thread's elements of the slice from step `start` on; 0 outside."""

    def places(self) -> Iterator[tuple[Value, Value]]:
        """The line and the step in the slice of each element that this thread reads."""


def steps_of(target: TargetDescription) -> int:
    """Steps of k in a slice."""
    return STEPS if target.triple == PTX_TRIPLE else FEW_STEPS


def places_of(thread: Value, lines: int, *, along_k: bool) -> Iterator[tuple[Value, Value]]:
    """As many as a thread reads of so many lines: neighbours read one line `along_k`, or neighbouring lines."""
    steps = steps_of(thread.builder.target)
    for number in range(lines * steps // THREADS):
        if along_k:
            yield thread // steps + number * (THREADS // steps), thread % steps
        else:
            yield thread % lines, thread // lines + number * max(THREADS // lines, 1)


def element(b: Builder, source: Value, index: Value, kinds: tuple[Scalar, Scalar], inside: Value | None) -> Value:
    """source[index], 0 where it is not inside; None is always inside. `kinds` are the types in memory and here."""
    place = index if inside is None else b.choose(inside, index, 0)
    value = b.cast(b.load(source, place, Type(kinds[0])), kinds[1])
    return value if inside is None else b.choose(inside, value, b.zero(value.type))


def tiled(module: Module, name: str, p: MatrixProduct, sides: tuple[int, int], work: Scalar, write: WriteTile) -> Phase:
    """The one phase of a product; an item is a tile of such sides, which `write` writes."""
    items = math.prod(p.batch) * ceiling(p.rows, sides[0]) * ceiling(p.columns, sides[1])
    with phase(module, name) as writer, writer.b.loop(writer.begin, writer.end) as item:
        write(writer, item)
    products = math.prod(p.batch) * p.rows * p.columns * p.inner
    return Phase(name, items, nanoseconds(module.target, work, products))


def shifts(share: int) -> list[int]:
    """How far the lines of a tile that a thread sums lie behind its first: some side by side, some half a tile on."""
    return [number // TOGETHER * SIDE * TOGETHER + number % TOGETHER for number in range(share)]


@dataclass(frozen=True, slots=True)
class TileSums:
    """The sums of one tile in the registers of `thread`, of `inner` steps, in the type `work`."""

    b: Builder
    thread: Value
    work: Scalar
    inner: int
    height: int
    width: int

    @property
    def steps(self) -> int:
        """Of a slice."""
        return steps_of(self.b.target)

    @property
    def rows(self) -> list[Value]:
        """The lines of the left side that this thread sums, in the tile."""
        return [self.thread // SIDE * TOGETHER + line for line in shifts(self.height)]

    @property
    def columns(self) -> list[Value]:
        """Those of the right side."""
        return [self.thread % SIDE * TOGETHER + line for line in shifts(self.width)]

    def of(self, left: TileSide, right: TileSide) -> list[list[LocalVariable]]:
        """Two slices in turn: one is read while the other is summed."""
        b, slices, sides = self.b, ceiling(self.inner, self.steps), (left, right)
        totals = [[b.variable(b.zero(Type(self.work))) for _ in range(self.width)] for _ in range(self.height)]
        near = [
            NearArray.reserve(b, name, self.work, 2 * self.steps * (side.lines + PAD))
            for name, side in zip("ab", sides, strict=True)
        ]
        held = [[b.variable(value) for value in side.read(b.constant(0))] for side in sides]
        self._keep(sides, near, held, b.constant(0))
        wait(b)
        with b.loop(0, slices) as number:
            further = b.compare("<", number + 1, slices)
            with b.when(further):
                for side, values in zip(sides, held, strict=True):
                    for variable, value in zip(values, side.read((number + 1) * self.steps), strict=True):
                        variable.set(value)
            self._multiply(sides, near, totals, number % 2)
            with b.when(further):
                self._keep(sides, near, held, (number + 1) % 2)
            wait(b)
        return totals

    def _keep(
        self, sides: Sequence[TileSide], near: Sequence[NearArray], held: Sequence[Sequence[LocalVariable]], half: Value
    ) -> None:
        """What was read goes to one of two halves of the group's memory."""
        for side, array, values in zip(sides, near, held, strict=True):
            for (line, step), value in zip(side.places(), values, strict=True):
                array.store(value.get(), (half * self.steps + step) * (side.lines + PAD) + line)

    def _multiply(
        self,
        sides: Sequence[TileSide],
        near: Sequence[NearArray],
        totals: Sequence[Sequence[LocalVariable]],
        half: Value,
    ) -> None:
        """All steps of a slice."""
        b, shares = self.b, (self.height, self.width)
        threads = self.thread // SIDE, self.thread % SIDE
        pitches = [side.lines + PAD for side in sides]
        bases = [
            half * (self.steps * pitch) + thread * TOGETHER for pitch, thread in zip(pitches, threads, strict=True)
        ]
        for step in range(self.steps):
            rows, columns = (
                [array.load(base + (step * pitch + line)) for line in shifts(share)]
                for array, base, pitch, share in zip(near, bases, pitches, shares, strict=True)
            )
            for row, sums in zip(rows, totals, strict=True):
                for column, total in zip(columns, sums, strict=True):
                    total.set(b.accumulate(row, column, total.get()))


# What a thread sums along each axis, largest first; and in f64, of which fewer fit the registers.
SHARES, WIDE_SHARES = (8, 4), (4,)
# Tiles that keep a device busy: with fewer, smaller ones are taken.
MANY_TILES = 132


def shares_of(target: TargetDescription, work: Scalar, matrices: int, rows: int, columns: int) -> tuple[int, int]:
    """What a thread sums along each axis: the most for which there are tiles enough, and memory of the group."""
    shares, most = WIDE_SHARES if work == F64 else SHARES, NEAR_BYTES if target.triple == PTX_TRIPLE else FEW_BYTES
    # A share that reaches twice as far as the matrix would leave half of the threads idle.
    heights, widths = ([each for each in shares if SIDE * each < 2 * size] for size in (rows, columns))
    for height in heights:
        for width in widths:
            nbytes = 2 * steps_of(target) * (SIDE * (height + width) + 2 * PAD) * work.size
            tiles = matrices * ceiling(rows, SIDE * height) * ceiling(columns, SIDE * width)
            if tiles >= MANY_TILES and nbytes <= most:
                return height, width
    return shares[-1], shares[-1]
