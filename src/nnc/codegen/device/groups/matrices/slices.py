"""Slices of both sides of a tile in the memory of a group, laid out as instructions that multiply matrices read them.

A slice is 64 steps of k. A side lies in rows of 128 bytes, of which chunk c of row r is at place c xor r mod 8, so that
eight rows one below the other meet different banks: a row is a line with its 64 steps, or, where lines are what is
contiguous, a step with 64 lines, 64 of which are followed by the next 64 lines. Copies go on while earlier slices are
multiplied; each thread copies 16 bytes at a time, and elements where an address is not a multiple of 16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from nnc.classes import dataclass
from nnc.codegen.device.groups.shared_memory import SharedArray, commit_copies, is_aligned
from nnc.codegen.device.warpgroups import ROW_BYTES, ROWS
from nnc.codegen.ir.builder import I32, U16, Builder, Scalar, Type, Value

# Steps of k in a slice, elements of 16 bytes, and words of a row.
STEPS, CHUNK, ROW_WORDS = ROWS, 8, ROW_BYTES // 4
CHUNK_BYTES = 16
# A row of a slice, and a chunk in it.
Place = tuple[Value, Value]


def chunk_copier(b: Builder, near: SharedArray, source: Value, scalar: Scalar) -> Callable[[Value, Value, Value], None]:
    """copy(word, index, count): `count` of eight elements from an index on go to four words, which are 0 behind them.

    Indices are multiples of eight elements, which is 16 bytes from `source`.
    """
    aligned = is_aligned(b, source)

    def copy(word: Value, index: Value, count: Value) -> None:
        place = b.offset(source, index, scalar)
        with b.when(aligned):
            near.fetch(word, place, b.cast(count * scalar.size, I32))
        with b.when(b.opposite(aligned)):
            elements = [(index + number, b.compare(">", count, number)) for number in range(CHUNK)]
            write_elements(b, near, source, elements, word)

    return copy


def write_elements(
    b: Builder, near: SharedArray, source: Value, elements: Sequence[tuple[Value, Value]], word: Value
) -> None:
    """Eight elements of 16 bits at indices of `source`, 0 for those that are not inside, go to four words."""
    bits = []
    for index, inside in elements:
        value = b.cast(b.load(source, b.choose(inside, index, 0), Type(U16)), I32)
        bits.append(b.choose(inside, value, 0))
    for pair, (low, high) in enumerate(zip(bits[::2], bits[1::2], strict=True)):
        near.store(b.either(low, b.shift_left(high, 16)), word + pair)


class SliceSide(Protocol):
    """One side of a tile: `lines` lines, a multiple of 64, of elements of 16 bits at `source`.

    Rows are lines if `along_k`, else steps. Chunks are copied whole where `in_chunks` holds: they are contiguous and
    begin 16 bytes from each other.
    """

    @property
    def scalar(self) -> Scalar:
        """Of the elements."""

    @property
    def source(self) -> Value:
        """Where indices count from."""

    @property
    def lines(self) -> int:
        """Along the tile."""

    @property
    def along_k(self) -> bool:
        """Whether rows are lines."""

    @property
    def in_chunks(self) -> bool:
        """Whether chunks are contiguous, and begin where 16 bytes may be copied if the source does."""

    def chunks(self, start: Value, places: Sequence[Place]) -> Iterator[tuple[Value, Value]]:
        """The index of each chunk's first element in the slice from step `start` on, and how many are inside.

        Of a chunk with nothing inside the index is that of some element.
        """

    def elements(self, start: Value, places: Sequence[Place]) -> Iterator[Sequence[tuple[Value, Value]]]:
        """The index of each element, and whether it is inside, of the same chunks."""


@dataclass(frozen=True, slots=True)
class Slices:
    """`stages` slices of both sides in `near`, which `threads` threads fill in turn."""

    b: Builder
    thread: Value
    threads: int
    stages: int
    sides: tuple[SliceSide, SliceSide]
    near: SharedArray
    aligned: tuple[Value, ...]

    @classmethod
    def reserve(
        cls, b: Builder, thread: Value, threads: int, stages: int, sides: tuple[SliceSide, SliceSide], least_words: int
    ) -> Slices:
        """Slices in new memory, which has `least_words` words at least."""
        words = stages * sum(side.lines for side in sides) * ROW_WORDS
        near = SharedArray.reserve(b, "slices", I32, max(words, least_words))
        return cls(b, thread, threads, stages, sides, near, tuple([is_aligned(b, side.source) for side in sides]))

    @property
    def words(self) -> int:
        """Of one slice of both sides."""
        return sum(side.lines for side in self.sides) * ROW_WORDS

    def begin(self, number: Value) -> tuple[Value, Value]:
        """The words at which the sides of a slice begin."""
        first = number % self.stages * self.words
        return first, first + self.sides[0].lines * ROW_WORDS

    def fetch(self, number: Value, slices: int) -> None:
        """This thread's chunks of a slice are under way; of one behind the last none are."""
        b = self.b
        with b.when(b.compare("<", number, slices)):
            for side, aligned, first in zip(self.sides, self.aligned, self.begin(number), strict=True):
                if side.in_chunks:
                    with b.when(aligned):
                        self._copy(side, first, number * STEPS)
                    with b.when(b.opposite(aligned)):
                        self._write(side, first, number * STEPS)
                else:
                    self._write(side, first, number * STEPS)
        commit_copies(b)

    def _places(self, side: SliceSide) -> list[Place]:
        """The row and the chunk of all that this thread copies."""
        each = ROW_BYTES // CHUNK_BYTES
        row, chunk = self.thread // each, self.thread % each
        return [(row + first, chunk) for first in range(0, side.lines, self.threads // each)]

    def _words_of(self, side: SliceSide, first: Value) -> list[Value]:
        """Where these go."""
        row, chunk = self._places(side)[0]
        place = first + row * ROW_WORDS + self.b.exclusive(chunk, row % 8) * (CHUNK_BYTES // 4)
        step = self.threads // (ROW_BYTES // CHUNK_BYTES) * ROW_WORDS
        return [place + number * step for number in range(len(self._places(side)))]

    def _copy(self, side: SliceSide, first: Value, start: Value) -> None:
        b = self.b
        for place, (index, count) in zip(
            self._words_of(side, first), side.chunks(start, self._places(side)), strict=True
        ):
            nbytes = b.cast(count * side.scalar.size, I32)
            self.near.fetch(place, b.offset(side.source, index, side.scalar), nbytes)

    def _write(self, side: SliceSide, first: Value, start: Value) -> None:
        """Element by element, a chunk after another: addresses of all at once would not fit the registers."""
        b, (row, chunk) = self.b, self._places(side)[0]
        each = self.threads // (ROW_BYTES // CHUNK_BYTES)
        with b.loop(0, side.lines // each) as number:
            (elements,) = side.elements(start, [(row + number * each, chunk)])
            place = self._words_of(side, first)[0] + number * (each * ROW_WORDS)
            write_elements(b, self.near, side.source, elements, place)


@dataclass(frozen=True, slots=True)
class MatrixSide:
    """A matrix with strides `along` the tile, of `size` lines from `first` on, and for each `step`."""

    b: Builder
    scalar: Scalar
    source: Value
    along: int
    step: int
    first: Value
    size: int
    lines: int
    inner: int

    @property
    def along_k(self) -> bool:
        """Lines are rows but where they are side by side."""
        return self.step == 1 or self.along != 1

    @property
    def in_chunks(self) -> bool:
        """Whether one stride is 1 and the other one of chunks."""
        within, apart = (self.step, self.along) if self.along_k else (self.along, self.step)
        return within == 1 and apart % CHUNK == 0

    def elements(self, start: Value, places: Sequence[Place]) -> Iterator[Sequence[tuple[Value, Value]]]:
        """Those of the chunks."""
        b, apart = self.b, self.step if self.along_k else self.along
        for index, count in self.chunks(start, places):
            inside = [b.compare(">", count, number) for number in range(CHUNK)]
            yield [(index + number * apart, each) for number, each in enumerate(inside)]

    def chunks(self, start: Value, places: Sequence[Place]) -> Iterator[tuple[Value, Value]]:
        """Where they are."""
        b = self.b
        for row, chunk in places:
            if self.along_k:
                line, k = self.first + row, start + chunk * CHUNK
                there = b.compare("<", line, self.size) if self.size % self.lines else None
                position, end = k, self.inner
            else:
                line, k = self.first + row // ROWS * ROWS + chunk * CHUNK, start + row % ROWS
                there = b.compare("<", k, self.inner) if self.inner % STEPS else None
                position, end = line, self.size
            yield self._chunk(line * self.along + k * self.step, there, position, end)

    def _chunk(self, index: Value, there: Value | None, position: Value, end: int) -> tuple[Value, Value]:
        """The chunk at an index, if it is `there`, of the elements from a position to the end."""
        b, multiple = self.b, STEPS if self.along_k else self.lines
        count = b.constant(CHUNK)
        if end % CHUNK:
            count = b.greatest(b.least(b.constant(end) - position, CHUNK), 0)
        elif end % multiple:
            count = b.choose(b.compare("<", position, end), count, 0)
        if there is not None:
            count = b.choose(there, count, 0)
        if there is None and end % multiple == 0:
            return index, count
        return b.choose(b.compare(">", count, 0), index, 0), count
