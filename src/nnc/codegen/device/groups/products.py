"""Matrix product of groups of threads: c[m, n] = sum_k a[m, k] * b[k, n] + bias[n], then the epilogue.

An item is a tile of c, which 16 x 16 threads sum in registers, `height` x `width` elements each. Steps of k come in
slices: each thread reads some elements of the next slice of a and b, wherever they are, while all compute with the last
one in the memory of the group. Elements of 16 bits are summed in f32, in the order of k.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.near import NearArray, thread_of, wait
from nnc.codegen.frame.access import locate
from nnc.codegen.frame.kernel import Phase, PhaseWriter, ceiling, phase
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.ir.builder import F64, LocalVariable, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.kernels.products.gemm import Gemm

# Threads along each side of a tile; steps of k in a slice; elements behind each line of a slice, so that threads that
# write down a column of it meet other banks.
SIDE, STEPS, PAD = 16, 16, 4
THREADS = SIDE * SIDE
# Tiles that keep a device busy: with fewer, smaller ones are taken.
MANY_TILES = 132
# What a thread sums along each axis, largest first; and in f64, of which fewer fit the registers.
SHARES, WIDE_SHARES = (8, 4), (4,)
# Elements of a thread that lie side by side in a tile, as many as one load of the group's memory reads.
TOGETHER = 4


@dataclass(frozen=True, slots=True)
class GroupProduct:
    """The kernel of a product whose threads sum `height` x `width` elements each."""

    product: Gemm
    height: int
    width: int

    threads = THREADS

    @classmethod
    def of(cls, product: Gemm) -> GroupProduct | None:
        """The kernel of a product; None where b is in blocks, or where it is of a row or a column."""
        p = product.problem
        if p.width or p.blocks is not None or min(p.rows, p.columns) < TOGETHER or not p.inner:
            return None
        shares = WIDE_SHARES if computed(p.scalar) == F64 else SHARES
        # A share that reaches twice as far as the matrix would leave half of the threads idle.
        heights, widths = ([each for each in shares if SIDE * each < 2 * size] for size in (p.rows, p.columns))
        for height in heights:
            for width in widths:
                tiles = math.prod(p.batch) * ceiling(p.rows, SIDE * height) * ceiling(p.columns, SIDE * width)
                if tiles >= MANY_TILES:
                    return cls(product, height, width)
        return cls(product, shares[-1], shares[-1])

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a tile."""
        p = self.product.problem
        items = math.prod(p.batch) * ceiling(p.rows, SIDE * self.height) * ceiling(p.columns, SIDE * self.width)
        with phase(module, name) as writer, writer.b.loop(writer.begin, writer.end) as item:
            _TileWriter(self, writer).write(item)
        work = math.prod(p.batch) * p.rows * p.columns * p.inner
        return (Phase(name, items, nanoseconds(module.target, p.work, work)),)


@dataclass(frozen=True, slots=True)
class _Side:
    """One operand of a tile: where it begins, its strides along the tile and along k, how far it goes along the tile.

    `first` is the tile's first line, `lines` how many it has, `near` the slices in the memory of the group.
    """

    source: Value
    along: int
    step: int
    first: Value
    size: int
    lines: int
    near: NearArray

    @property
    def pitch(self) -> int:
        """Elements of the group's memory from one step of k to the next."""
        return self.lines + PAD

    @property
    def each(self) -> int:
        """Elements that a thread reads of a slice."""
        return self.lines * STEPS // THREADS


class _TileWriter:
    """Writes one tile."""

    def __init__(self, kernel: GroupProduct, writer: PhaseWriter) -> None:
        self.kernel, self.w, self.b = kernel, writer, writer.b
        self.p, self.epilogue = kernel.product.problem, kernel.product.epilogue
        self.thread = thread_of(self.b)
        self.work: Scalar = self.p.work

    def write(self, item: Value) -> None:
        """The sums over all slices, then c."""
        b, p, k = self.b, self.p, self.kernel
        down, across = ceiling(p.rows, SIDE * k.height), ceiling(p.columns, SIDE * k.width)
        tile, matrix = item % (down * across), item // (down * across)
        row, column = tile // across * (SIDE * k.height), tile % across * (SIDE * k.width)
        starts = locate(b, matrix, p.batch, (p.a_batch, p.b_batch, p.c_batch)) if p.batch else [b.constant(0)] * 3
        last = 2 + p.bias + (len(self.epilogue.extras) if self.epilogue else 0)
        left, right, c = (
            b.offset(self.w.argument(place), start, p.scalar) for place, start in zip((0, 1, last), starts, strict=True)
        )
        sides = (
            self._side("a", left, p.a_rows, p.a_inner, row, p.rows, SIDE * k.height),
            self._side("b", right, p.b_columns, p.b_inner, column, p.columns, SIDE * k.width),
        )
        totals = [[b.variable(b.zero(Type(self.work))) for _ in range(k.width)] for _ in range(k.height)]
        self._sum(sides, totals)
        self._finish(c, row, column, totals)

    def _side(self, name: str, source: Value, along: int, step: int, first: Value, size: int, lines: int) -> _Side:
        near = NearArray.reserve(self.b, name, self.work, 2 * STEPS * (lines + PAD))
        return _Side(source, along, step, first, size, lines, near)

    # -- slices

    def _sum(self, sides: Sequence[_Side], totals: Sequence[Sequence[LocalVariable]]) -> None:
        """Two slices in turn: one is read while the other is summed."""
        b, slices = self.b, ceiling(self.p.inner, STEPS)
        held = [[b.variable(value) for value in self._read(side, b.constant(0))] for side in sides]
        for side, values in zip(sides, held, strict=True):
            self._keep(side, values, b.constant(0))
        wait(b)
        with b.loop(0, slices) as number:
            further = b.compare("<", number + 1, slices)
            with b.when(further):
                for side, values in zip(sides, held, strict=True):
                    for variable, value in zip(values, self._read(side, (number + 1) * STEPS), strict=True):
                        variable.set(value)
            self._multiply(sides, totals, number % 2)
            with b.when(further):
                for side, values in zip(sides, held, strict=True):
                    self._keep(side, values, (number + 1) % 2)
            wait(b)

    def _places(self, side: _Side) -> Iterator[tuple[Value, Value]]:
        """The line and the step of each element that this thread reads: neighbours read what lies side by side."""
        down_k = side.step == 1 and side.along != 1
        for number in range(side.each):
            if down_k:
                yield self.thread // STEPS + number * (THREADS // STEPS), self.thread % STEPS
            else:
                apart = max(THREADS // side.lines, 1)
                line, step = self.thread % side.lines, self.thread // side.lines
                yield (line, step + number * apart)

    def _read(self, side: _Side, start: Value) -> list[Value]:
        """This thread's elements of the slice from step `start` on; 0 outside."""
        b, p = self.b, self.p
        values = []
        for line, step in self._places(side):
            place, k = side.first + line, start + step
            inside = []
            if side.size % side.lines:
                inside.append(b.compare("<", place, side.size))
            if p.inner % STEPS:
                inside.append(b.compare("<", k, p.inner))
            index = place * side.along + k * side.step
            condition = inside[0] if len(inside) == 1 else b.both(*inside) if inside else None
            if condition is not None:
                index = b.choose(condition, index, 0)
            value = b.cast(b.load(side.source, index, Type(p.scalar)), self.work)
            values.append(value if condition is None else b.choose(condition, value, b.zero(value.type)))
        return values

    def _keep(self, side: _Side, values: Sequence[LocalVariable], half: Value) -> None:
        for (line, step), value in zip(self._places(side), values, strict=True):
            side.near.store(value.get(), (half * STEPS + step) * side.pitch + line)

    def _multiply(self, sides: Sequence[_Side], totals: Sequence[Sequence[LocalVariable]], half: Value) -> None:
        """All steps of a slice."""
        b, shares = self.b, (self.kernel.height, self.kernel.width)
        threads = self.thread // SIDE, self.thread % SIDE
        bases = [half * (STEPS * side.pitch) + thread * TOGETHER for side, thread in zip(sides, threads, strict=True)]
        for step in range(STEPS):
            rows, columns = (
                [side.near.load(base + (step * side.pitch + line)) for line in _shifts(share)]
                for side, base, share in zip(sides, bases, shares, strict=True)
            )
            for row, sums in zip(rows, totals, strict=True):
                for column, total in zip(columns, sums, strict=True):
                    total.set(b.accumulate(row, column, total.get()))

    # -- results

    def _finish(self, c: Value, row: Value, column: Value, totals: Sequence[Sequence[LocalVariable]]) -> None:
        """Bias, epilogue, and c, rounded once; elements outside are not written."""
        b, p = self.b, self.p
        rows = [row + self.thread // SIDE * TOGETHER + line for line in _shifts(self.kernel.height)]
        columns = [column + self.thread % SIDE * TOGETHER + line for line in _shifts(self.kernel.width)]
        for place, here in enumerate(columns):
            ragged = p.columns % (SIDE * self.kernel.width) != 0
            with b.when(b.compare("<", here, p.columns)) if ragged else b.always():
                bias, extras = self._beside(here)
                for line, sums in zip(rows, totals, strict=True):
                    value = sums[place].get()
                    value = value if bias is None else value + bias
                    if self.epilogue is not None:
                        value = self.epilogue.apply(b, value, extras)
                    low = p.rows % (SIDE * self.kernel.height) != 0
                    with b.when(b.compare("<", line, p.rows)) if low else b.always():
                        b.store(b.cast(value, p.scalar), c, line * p.c_rows + here)

    def _beside(self, column: Value) -> tuple[Value | None, list[Value]]:
        """The bias of a column, and what the epilogue reads for it."""
        b, p = self.b, self.p
        bias = b.cast(b.load(self.w.argument(2), column, Type(p.scalar)), self.work) if p.bias else None
        values = []
        for place, wide in enumerate(self.epilogue.extras if self.epilogue else (), 2 + p.bias):
            element = b.load(self.w.argument(place), column if wide else 0, Type(p.scalar))
            values.append(b.cast(element, self.work))
        return bias, values


def _shifts(share: int) -> list[int]:
    """How far the lines of a tile that a thread sums lie behind its first: some side by side, some half a tile on."""
    return [number // TOGETHER * SIDE * TOGETHER + number % TOGETHER for number in range(share)]
