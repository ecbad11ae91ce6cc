"""Tiles of the gradient of attention: products of rows with rows, and of a tile that the group keeps with rows.

    t[i, j] = sum_f left[i, f] · right[j, f]            `crossed`: a thread has `share` x `share` elements
    total[i, f] += sum_j kept[j, i] · rows[j, f]        `weigh`: a thread has `share` lines, and features of all panels

Rows are read in slices into the memory of the group; lines behind the last one and features that there are not are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.shared_memory import SharedArray, barrier, thread_of
from nnc.codegen.device.groups.tiles import PAD, SIDE, THREADS
from nnc.codegen.frame.kernel import ceiling
from nnc.codegen.ir.builder import F32, Builder, LocalVariable, Scalar, Type, Value

# Features, or rows, of a slice.
SLICE = 8

Totals = Sequence[Sequence[LocalVariable]]


@dataclass(frozen=True, slots=True)
class RowsOf:
    """Rows of `size` features from number `first` on, of `count` that begin at `place`, `pitch` elements apart."""

    place: Value
    scalar: Scalar
    pitch: int
    size: int
    first: Value
    count: int

    def load(self, b: Builder, line: Value, feature: Value) -> Value:
        """An element in f32; 0 where there is none."""
        row = self.first + line
        inside = b.both(b.compare("<", row, self.count), b.compare("<", feature, self.size))
        value = b.load(self.place, b.choose(inside, row * self.pitch + feature, 0), Type(self.scalar))
        return b.choose(inside, b.cast(value, F32), 0.0)


@dataclass(frozen=True, slots=True)
class GradientTiles:
    """The threads of a group on tiles of `side` x `side`, and the memory that they share."""

    b: Builder
    share: int
    thread: Value
    left: SharedArray
    right: SharedArray
    kept: SharedArray

    @classmethod
    def of(cls, b: Builder, share: int, features: int) -> GradientTiles:
        """For rows of so many features at most."""
        side = SIDE * share
        pitch, wide = side + PAD, ceiling(features, side) * side + PAD
        left, right, kept = (
            SharedArray.reserve(b, name, F32, count)
            for name, count in (("left", SLICE * pitch), ("right", SLICE * wide), ("kept", side * pitch))
        )
        return cls(b, share, thread_of(b), left, right, kept)

    @property
    def side(self) -> int:
        """Rows and columns of a tile."""
        return SIDE * self.share

    @property
    def pitch(self) -> int:
        """Elements from one line of a tile in memory to the next."""
        return self.side + PAD

    @property
    def places(self) -> tuple[Value, Value]:
        """The first of this thread's rows and columns."""
        return self.thread // SIDE * self.share, self.thread % SIDE * self.share

    def zeros(self, features: int) -> Totals:
        """Sums of this thread's lines, of all panels of so many features."""
        wide = self.share * ceiling(features, self.side)
        return [[self.b.variable(self.b.zero(Type(F32))) for _ in range(wide)] for _ in range(self.share)]

    def feature(self, number: int) -> Value:
        """The feature of a number of this thread's sums."""
        return self.places[1] + (number // self.share * self.side + number % self.share)

    def crossed(self, left: RowsOf, right: RowsOf) -> Totals:
        """Products of this thread's rows of both."""
        b = self.b
        totals = self.zeros(self.side)
        with b.loop(0, left.size, SLICE) as start:
            for rows, near in ((left, self.left), (right, self.right)):
                for first in range(0, self.side * SLICE, THREADS):
                    index = self.thread + first
                    line, feature = index // SLICE, index % SLICE
                    near.store(rows.load(b, line, start + feature), feature * self.pitch + line)
            barrier(b)
            for step in range(SLICE):
                lines, columns = (
                    [near.load(place + (step * self.pitch + number)) for number in range(self.share)]
                    for near, place in zip((self.left, self.right), self.places, strict=True)
                )
                self._accumulate(lines, columns, totals)
            barrier(b)
        return totals

    def keep(self, value: Callable[[int, int], Value], *, turned: bool) -> None:
        """kept[i, j], or [j, i] where it is `turned`, is the value of this thread's row and column; all wait."""
        row, column = self.places
        for down in range(self.share):
            for across in range(self.share):
                i, j = row + down, column + across
                self.kept.store(value(down, across), j * self.pitch + i if turned else i * self.pitch + j)
        barrier(self.b)

    def weigh(self, rows: RowsOf, totals: Totals) -> None:
        """Add what the tile that is kept gives with rows."""
        b, wide = self.b, ceiling(rows.size, self.side) * self.side
        with b.loop(0, self.side, SLICE) as start:
            for first in range(0, wide * SLICE, THREADS):
                index = self.thread + first
                row, feature = index // wide, index % wide
                self.right.store(rows.load(b, start + row, feature), row * wide + feature)
            barrier(b)
            for step in range(SLICE):
                place = (start + step) * self.pitch + self.places[0]
                lines = [self.kept.load(place + number) for number in range(self.share)]
                features = [self.right.load(self.feature(number) + step * wide) for number in range(len(totals[0]))]
                self._accumulate(lines, features, totals)
            barrier(b)

    def dots(self, left: RowsOf, right: RowsOf) -> list[Value]:
        """sum_f left[i, f] · right[i, f] of this thread's rows i."""
        b, parts = self.b, THREADS // self.side
        line, part = self.thread // parts, self.thread % parts
        total = b.variable(b.zero(Type(F32)))
        with b.loop(part, left.size, parts) as feature:
            total.set(b.accumulate(left.load(b, line, feature), right.load(b, line, feature), total.get()))
        self.left.store(total.get(), self.thread)
        barrier(b)
        sums = []
        for row in range(self.share):
            first = (self.places[0] + row) * parts
            value = self.left.load(first)
            for number in range(1, parts):
                value = value + self.left.load(first + number)
            sums.append(value)
        barrier(b)
        return sums

    def _accumulate(self, rows: Sequence[Value], columns: Sequence[Value], totals: Totals) -> None:
        for row, sums in zip(rows, totals, strict=True):
            for column, total in zip(columns, sums, strict=True):
                total.set(self.b.accumulate(row, column, total.get()))

    def write(self, totals: Totals, rows: RowsOf) -> None:
        """This thread's lines of a result."""
        b = self.b
        for number, sums in enumerate(totals):
            row = rows.first + self.places[0] + number
            with b.when(b.compare("<", row, rows.count)):
                for place, total in enumerate(sums):
                    feature = self.feature(place)
                    with b.when(b.compare("<", feature, rows.size)) if rows.size % self.side else b.always():
                        b.store(b.cast(total.get(), rows.scalar), rows.place, row * rows.pitch + feature)
