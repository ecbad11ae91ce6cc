"""Packing: panel[k][lane] = source[lane * lane_stride + k * depth_stride], zero beyond the last lane.

A panel is what a register tile reads in order: `width` lanes next to each other for every k. Where the source is
contiguous along k, blocks are transposed in registers. Elements of 16 bits become f32 on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnc.backends.llvm.builder import Builder, Scalar, Type, Value
from nnc.backends.llvm.kernel import ceiling
from nnc.backends.llvm.pointwise import computed


@dataclass(frozen=True, slots=True)
class Packing:
    """How panels of one operand are made; `ragged` tells that the last panel may have fewer lanes."""

    stored: Scalar
    lanes: int
    width: int
    lane_stride: int
    depth_stride: int
    ragged: bool

    @property
    def scalar(self) -> Scalar:
        """The element type of a panel."""
        return computed(self.stored)

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

    def extent(self, depth: int) -> int:
        """Elements that packing `depth` steps writes, but for what a partial last vector overlaps."""
        return (ceiling(depth, self.lanes) * self.lanes if self.transposes else depth) * self.width

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
        with b.loop(0, depth) as k:
            row = b.offset(source, k * self.depth_stride, self.stored)
            place = b.offset(panel, k * self.width, self.scalar)
            for group, mask in enumerate(masks):
                start = group * self.lanes
                if self.lane_stride == 1:
                    value = b.load(row, start, self.read, mask)
                else:
                    value = b.gather(row, b.constant(start * self.lane_stride), self.lane_stride, self.read, mask)
                b.store(b.cast(value, self.scalar), place, start)

    def _transpose(self, b: Builder, source: Value, count: Value, depth: Value, panel: Value) -> None:
        """Square blocks of lanes x lanes."""
        with b.loop(0, depth, self.lanes) as k:
            within = b.mask(depth - k, self.lanes)
            with b.loop(0, self.groups) as group:
                first = group * self.lanes
                rows = [self._row(b, source, count, first + lane, k, within) for lane in range(self.lanes)]
                place = b.offset(panel, k * self.width + first, self.scalar)
                whole = self.groups == 1 or self.width % self.lanes == 0
                mask = None if whole else b.mask(self.width - first, self.lanes)
                for step, value in enumerate(transpose(b, rows)):
                    b.store(value, place, step * self.width, mask)

    def _row(self, b: Builder, source: Value, count: Value, lane: Value, k: Value, within: Value) -> Value:
        """lanes steps of k of one lane of the panel; zero when the lane does not exist."""
        if lane.constant is not None and lane.constant >= self.width:
            return b.zero(self.kind)
        exists = b.compare("<", lane, b.least(count, self.width))
        mask = b.both(within, b.splat(exists, self.lanes)) if self.ragged or self.width % self.lanes else within
        return b.cast(b.load(source, lane * self.lane_stride + k, self.read, mask), self.scalar)


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
