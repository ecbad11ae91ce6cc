"""Packing: panel[k][lane] = source[lane * lane_stride + k * depth_stride], zero beyond the last lane.

A panel is what a register tile reads in order: `width` lanes next to each other for every k. Where the source is
contiguous along k, blocks are transposed in registers. Elements of 16 bits become f32 on the way, or stay, two steps of
k in one word:

    panel[p][lane] = source[lane, 2p] | source[lane, 2p + 1] << 16, zero beyond the last step
"""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import ceiling
from nnc.codegen.ir.builder import I32, U16, Builder, Scalar, Type, Value
from nnc.codegen.ir.expression import computed

# How many steps before a block is transposed its lines are asked for.
AHEAD = 64


@dataclass(frozen=True, slots=True)
class Packing:
    """How panels of one operand are made; `ragged` tells that the last panel may have fewer lanes.

    With `pairs` a panel holds words of two steps each.
    """

    stored: Scalar
    lanes: int
    width: int
    lane_stride: int
    depth_stride: int
    ragged: bool
    pairs: bool = False

    @property
    def scalar(self) -> Scalar:
        """The element type of a panel."""
        return I32 if self.pairs else computed(self.stored)

    @property
    def groups(self) -> int:
        """Vectors that cover the width."""
        return ceiling(self.width, self.lanes)

    @property
    def kind(self) -> Type:
        """A vector of a panel."""
        return Type(self.scalar, self.lanes)

    @property
    def read(self) -> Type:
        """A vector of the source."""
        return Type(self.stored, self.lanes)

    @property
    def transposes(self) -> bool:
        """True when the source is contiguous along k and not along the lanes."""
        return self.lane_stride != 1 and self.depth_stride == 1

    @property
    def steps(self) -> int:
        """Steps of k in an element of a panel."""
        return 2 if self.pairs else 1

    @property
    def nanoseconds(self) -> float:
        """About what packing takes for each element."""
        return 0.5 if self.transposes else 0.15

    def extent(self, depth: int) -> int:
        """Elements that packing `depth` steps writes, but for what a partial last vector overlaps."""
        words = ceiling(depth, self.steps)
        return (ceiling(words, self.lanes) * self.lanes if self.transposes else words) * self.width

    def elements(self, depth: int) -> int:
        """Elements of a panel of `depth`, with room for stores that overlap its end."""
        return self.extent(depth) + self.lanes

    def pack(self, b: Builder, source: Value, count: Value, depth: Value, panel: Value) -> None:
        """Write one panel of `count` lanes (at most width) and `depth` steps."""
        write = self._transpose if self.transposes else self._copy
        write(b, source, count, depth, panel)

    def _copy(self, b: Builder, source: Value, count: Value, depth: Value, panel: Value) -> None:
        """Row by row; a store may overlap the next row, which is written after it."""
        sizes = [b.least(count - g * self.lanes, self.width - g * self.lanes) for g in range(self.groups)]
        partial = [self.ragged or (g + 1) * self.lanes > self.width for g in range(self.groups)]
        masks = [b.mask(size, self.lanes) if part else None for size, part in zip(sizes, partial, strict=True)]
        with b.loop(0, words_of(depth, self.steps)) as word:
            row = b.offset(source, word * (self.steps * self.depth_stride), self.stored)
            place = b.offset(panel, word * self.width, self.scalar)
            for group, mask in enumerate(masks):
                start = group * self.lanes
                value = self._lanes(b, row, start, mask)
                if self.pairs:
                    value = self._joined(b, value, row, start, mask, b.compare("<", word * 2 + 1, depth))
                b.store(b.cast(value, self.scalar), place, start)

    def _lanes(self, b: Builder, row: Value, start: int, mask: Value | None) -> Value:
        """A vector of lanes from `start` on at one step of k."""
        if self.lane_stride == 1:
            return b.load(row, start, self.read, mask)
        return b.gather(row, b.constant(start * self.lane_stride), self.lane_stride, self.read, mask)

    def _joined(self, b: Builder, low: Value, row: Value, start: int, mask: Value | None, exists: Value) -> Value:
        """Words of this step and, if it exists, of the next one."""
        existing = b.splat(exists, self.lanes)
        following = b.offset(row, self.depth_stride, self.stored)
        high = self._lanes(b, following, start, existing if mask is None else b.both(mask, existing))
        lower, upper = (b.cast(b.reinterpret(half, U16), I32) for half in (low, high))
        return b.either(lower, b.shift_left(upper, 16))

    def _transpose(self, b: Builder, source: Value, count: Value, depth: Value, panel: Value) -> None:
        """Square blocks of lanes x lanes."""
        with b.loop(0, words_of(depth, self.steps), self.lanes) as word:
            k = word * self.steps
            within = b.mask(depth - k, self.lanes * self.steps)
            with b.loop(0, self.groups) as group:
                first = group * self.lanes
                for lane in range(self.lanes):
                    b.prefetch(source, (first + lane) * self.lane_stride + k + AHEAD, self.stored)
                rows = [self._row(b, source, count, first + lane, k, within) for lane in range(self.lanes)]
                place = b.offset(panel, word * self.width + first, self.scalar)
                whole = self.groups == 1 or self.width % self.lanes == 0
                mask = None if whole else b.mask(self.width - first, self.lanes)
                for step, value in enumerate(transpose(b, rows)):
                    b.store(value, place, step * self.width, mask)

    def square(self, b: Builder, source: Value, count: Value, depth: Value, first: Value, word: Value) -> list[Value]:
        """rows[i][p] = word `word + p` of lane `first + i`; zero where there is none. In pairs."""
        k = word * self.steps
        if self.transposes:
            within = b.mask(depth - k, self.lanes * self.steps)
            return [self._row(b, source, count, first + lane, k, within) for lane in range(self.lanes)]
        present, columns = b.mask(b.least(count, self.width) - first, self.lanes), []
        for step in (k + self.steps * place for place in range(self.lanes)):
            row = b.offset(source, first * self.lane_stride + step * self.depth_stride, self.stored)
            mask = b.both(present, b.splat(b.compare("<", step, depth), self.lanes))
            low = self._lanes(b, row, 0, mask)
            columns.append(self._joined(b, low, row, 0, mask, b.compare("<", step + 1, depth)))
        return transpose(b, columns)

    def _row(self, b: Builder, source: Value, count: Value, lane: Value, k: Value, within: Value) -> Value:
        """words of one lane of the panel from step k on; zero when the lane does not exist."""
        if lane.constant is not None and lane.constant >= self.width:
            return b.zero(self.kind)
        exists = b.compare("<", lane, b.least(count, self.width))
        count_read = self.lanes * self.steps
        mask = b.both(within, b.splat(exists, count_read)) if self.ragged or self.width % self.lanes else within
        value = b.load(source, lane * self.lane_stride + k, Type(self.stored, count_read), mask)
        return b.words(value) if self.pairs else b.cast(value, self.scalar)


def words_of(depth: Value, steps: int) -> Value:
    """How many elements of a panel hold `depth` steps of k."""
    return (depth + (steps - 1)) // steps


def transpose(b: Builder, rows: list[Value]) -> list[Value]:
    """out[i][j] = rows[j][i] for a square block: log2(lanes) rounds that swap off-diagonal sub-blocks."""
    lanes = len(rows)
    distance = 1
    while distance < lanes:
        upper = [lanes + c - distance if c & distance else c for c in range(lanes)]
        lower = [lanes + c if c & distance else c + distance for c in range(lanes)]
        result = list(rows)
        for i in (i for i in range(lanes) if not i & distance):
            j = i | distance
            result[i] = b.shuffle(rows[i], rows[j], upper)
            result[j] = b.shuffle(rows[i], rows[j], lower)
        rows = result
        distance *= 2
    return rows
