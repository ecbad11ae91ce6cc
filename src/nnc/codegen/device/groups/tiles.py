"""Sums of a tile by a group of 16 x 16 threads: total[m, n] = sum_k left[m, k] * right[k, n], in slices of k.

Each thread reads some elements of the next slice of both sides, wherever these are, while all compute with the last one
in the memory of the group, and sums `height` x `width` elements in registers, in the order of k. What is read waits in
registers, or goes to that memory by itself where a device copies so (CUDA from 8.0 on, elements of 32 bits).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from nnc.classes import dataclass
from nnc.codegen.device.groups.shared_memory import SharedArray, barrier, commit_copies, wait_for_copies
from nnc.codegen.device.preamble import PTX_TRIPLE, has_async_copies
from nnc.codegen.frame.kernel import PhaseWriter, ceiling, phase
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.ir.builder import F32, F64, I32, Builder, LocalVariable, Module, Scalar, Type, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.products.gemm_plan import MatrixProduct

WriteTile = Callable[[PhaseWriter, Value], None]

# Threads along each side of a tile; elements behind each line of a slice, so that threads that write a column of it
# meet other banks.
SIDE, PAD = 16, 4
THREADS = SIDE * SIDE
# Steps of k in a slice, and bytes of a group's memory: each device of Vulkan's has 16 KiB, each of CUDA's 48.
STEPS, FEW_STEPS, NEAR_BYTES, FEW_BYTES = 16, 8, 48 * 1024, 16 * 1024
# A thread that sums more along an axis has slices of few steps: they fit the memory of a group.
MOST_SHARE = 8
# Elements of a thread that lie side by side in a tile, as many as one load of the group's memory reads.
TOGETHER = 4


# The index of an element, and whether it is inside; None is always.
Element = tuple[Value, Value | None]


class TileSide(Protocol):
    """One side of a tile, of `lines` lines."""

    @property
    def lines(self) -> int:
        """Along the tile."""

    @property
    def source(self) -> Value:
        """Where indices count from."""

    @property
    def kinds(self) -> tuple[Scalar, Scalar]:
        """The types of elements in memory and of the sums."""

    def elements(self, start: Value) -> list[Element]:
        """This thread's elements of the slice from step `start` on."""

    def places(self) -> Iterator[tuple[Value, Value]]:
        """The line and the step in the slice of each element that this thread reads."""


def steps_of(target: TargetDescription, shares: tuple[int, int] = (8, 8)) -> int:
    """Steps of k in a slice of tiles of which a thread sums so much along each axis."""
    return STEPS if target.triple == PTX_TRIPLE and max(shares) <= MOST_SHARE else FEW_STEPS


def places_of(thread: Value, lines: int, *, along_k: bool, steps: int = 0) -> Iterator[tuple[Value, Value]]:
    """As many as a thread reads of so many lines: neighbours read one line `along_k`, or neighbouring lines.

    A slice has as many steps as tiles of the usual sides, or `steps`.
    """
    steps = steps or steps_of(thread.builder.target)
    for number in range(lines * steps // THREADS):
        if along_k:
            yield thread // steps + number * (THREADS // steps), thread % steps
        else:
            yield thread % lines, thread // lines + number * max(THREADS // lines, 1)


def element(b: Builder, side: TileSide, place: Element) -> Value:
    """The element at a place, 0 where that is not inside."""
    (index, inside), (held, work) = place, side.kinds
    value = b.cast(b.load(side.source, index if inside is None else b.choose(inside, index, 0), Type(held)), work)
    return value if inside is None else b.choose(inside, value, b.zero(value.type))


def copies_elements(target: TargetDescription, scalar: Scalar) -> bool:
    """Whether elements of a type go to a group's memory by themselves."""
    return has_async_copies(target) and scalar == F32


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
    # Whether elements go to the group's memory by themselves.
    copied: bool = False

    @property
    def steps(self) -> int:
        """Of a slice."""
        return steps_of(self.b.target, (self.height, self.width))

    @property
    def rows(self) -> list[Value]:
        """The lines of the left side that this thread sums, in the tile."""
        return [self.places[0] * TOGETHER + line for line in shifts(self.height)]

    @property
    def columns(self) -> list[Value]:
        """Those of the right side."""
        return [self.places[1] * TOGETHER + line for line in shifts(self.width)]

    @property
    def places(self) -> tuple[Value, Value]:
        """Of this thread among 16 x 16: those of a warp are 4 x 8, which read fewer different elements than 2 x 16."""
        warp, lane = self.thread // 32, self.thread % 32
        return warp // 2 * 4 + lane // 8, warp % 2 * 8 + lane % 8

    def of(self, left: TileSide, right: TileSide) -> list[list[LocalVariable]]:
        """Two slices in turn: one is read while the other is summed."""
        b, slices, sides = self.b, ceiling(self.inner, self.steps), (left, right)
        totals = [[b.variable(b.zero(Type(self.work))) for _ in range(self.width)] for _ in range(self.height)]
        near = [
            SharedArray.reserve(b, name, self.work, 2 * self.steps * (side.lines + PAD))
            for name, side in zip("ab", sides, strict=True)
        ]
        if self.copied:
            self._sum_copied(slices, sides, near, totals)
        else:
            self._sum_held(slices, sides, near, totals)
        return totals

    def _sum_copied(
        self,
        slices: int,
        sides: Sequence[TileSide],
        near: Sequence[SharedArray],
        totals: Sequence[Sequence[LocalVariable]],
    ) -> None:
        b = self.b
        self._copy(sides, near, b.constant(0))
        with b.loop(0, slices) as number:
            wait_for_copies(b, 0)
            barrier(b)
            with b.when(b.compare("<", number + 1, slices)):
                self._copy(sides, near, number + 1)
            self._multiply(sides, near, totals, number % 2)
        # What is in the memory is of use until all have multiplied.
        barrier(b)

    def _copy(self, sides: Sequence[TileSide], near: Sequence[SharedArray], number: Value) -> None:
        """A slice goes to its half of the group's memory."""
        b = self.b
        for side, array in zip(sides, near, strict=True):
            elements = zip(self._places(side, number % 2), side.elements(number * self.steps), strict=True)
            for place, (index, inside) in elements:
                nbytes = F32.size if inside is None else b.choose(inside, b.constant(F32.size, Type(I32)), 0)
                at = index if inside is None else b.choose(inside, index, 0)
                array.fetch_element(place, b.offset(side.source, at, F32), nbytes)
        commit_copies(b)

    def _places(self, side: TileSide, half: Value) -> list[Value]:
        """Where this thread's elements go."""
        pitch = side.lines + PAD
        return [(half * self.steps + step) * pitch + line for line, step in side.places()]

    def _sum_held(
        self,
        slices: int,
        sides: Sequence[TileSide],
        near: Sequence[SharedArray],
        totals: Sequence[Sequence[LocalVariable]],
    ) -> None:
        b = self.b
        held = [[b.variable(value) for value in self._read(side, b.constant(0))] for side in sides]
        self._keep(sides, near, held, b.constant(0))
        barrier(b)
        with b.loop(0, slices) as number:
            further = b.compare("<", number + 1, slices)
            with b.when(further):
                for side, values in zip(sides, held, strict=True):
                    for variable, value in zip(values, self._read(side, (number + 1) * self.steps), strict=True):
                        variable.set(value)
            self._multiply(sides, near, totals, number % 2)
            with b.when(further):
                self._keep(sides, near, held, (number + 1) % 2)
            barrier(b)

    def _read(self, side: TileSide, start: Value) -> list[Value]:
        return [element(self.b, side, place) for place in side.elements(start)]

    def _keep(
        self,
        sides: Sequence[TileSide],
        near: Sequence[SharedArray],
        held: Sequence[Sequence[LocalVariable]],
        half: Value,
    ) -> None:
        """What was read goes to one of two halves of the group's memory."""
        for side, array, values in zip(sides, near, held, strict=True):
            for place, value in zip(self._places(side, half), values, strict=True):
                array.store(value.get(), place)

    def _multiply(
        self,
        sides: Sequence[TileSide],
        near: Sequence[SharedArray],
        totals: Sequence[Sequence[LocalVariable]],
        half: Value,
    ) -> None:
        """All steps of a slice."""
        b, shares = self.b, (self.height, self.width)
        threads = self.places
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


# What a thread sums along each axis, with the time of a step of a tile and of all else beside that of a step of 4 x 4,
# 36 ns on an H200: 4096³, 1024³, 96 of 512 x 64 x 512; where neighbours of the right side lie along k; convolutions of
# 32 x 14 x 14 x 256 and 32 x 56 x 56 x 64. In f64 fewer fit the registers.
Costs = Mapping[tuple[int, int], tuple[float, float]]
SMALL_COSTS: Costs = {(8, 4): (1.75, 66.0), (4, 8): (1.75, 66.0), (4, 4): (1.0, 28.0)}
PRODUCT_COSTS: Costs = {(8, 16): (5.1, 450.0), (8, 8): (2.7, 220.0), **SMALL_COSTS}
TURNED_COSTS: Costs = {(16, 8): (5.0, 450.0), (8, 8): (3.4, 220.0), **SMALL_COSTS}
CORRELATION_COSTS: Costs = {(8, 8): (3.4, 220.0), (8, 4): (1.7, 66.0), (4, 8): (1.6, 66.0), (4, 4): (1.0, 28.0)}
LEAST_SHARES = (4, 4)
# Processors of a device, for which tiles are chosen.
PROCESSORS = 132


def shares_of(
    target: TargetDescription, work: Scalar, matrices: int, rows: int, columns: int, inner: int, costs: Costs
) -> tuple[int, int]:
    """What a thread sums along each axis: what takes the least time, of that for which a group has memory."""

    def time(shares: tuple[int, int]) -> float:
        height, width = shares
        tiles = matrices * ceiling(rows, SIDE * height) * ceiling(columns, SIDE * width)
        step, rest = costs[shares]
        return ceiling(tiles, PROCESSORS) * (step * inner + rest)

    return min(fitting_shares(target, work, rows, columns, costs), key=time)


def fitting_shares(
    target: TargetDescription, work: Scalar, rows: int, columns: int, costs: Costs
) -> list[tuple[int, int]]:
    """What a thread may sum along each axis: that for which a group has memory."""
    most = NEAR_BYTES if target.triple == PTX_TRIPLE else FEW_BYTES

    def fits(shares: tuple[int, int]) -> bool:
        nbytes = 2 * steps_of(target, shares) * (SIDE * sum(shares) + 2 * PAD) * work.size
        # A share that reaches twice as far as the matrix would leave half of the threads idle.
        reaches = any(SIDE * share >= 2 * size for share, size in zip(shares, (rows, columns), strict=True))
        return shares == LEAST_SHARES or (work != F64 and nbytes <= most and not reaches)

    return list(filter(fits, costs))
