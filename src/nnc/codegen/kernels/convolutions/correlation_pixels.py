"""Where a correlation reads the pixels of a tile at a tap: in images or strips with a border, or zeros beside images.

    moved = pixels.moved(tap, first)        what all pixels of the tile have to do with a tap
    left = pixels.at(moved)                 of each pixel where p[pixel + tap + first] is, and the channels behind it

A pixel outside of an image that is read where it is becomes the same few zeros each time: the sum has the bits of one
over a strip with a border, without the strip's memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from nnc.classes import dataclass
from nnc.codegen.ir.builder import INDEX, Builder, Value
from nnc.codegen.kernels.convolutions.correlation_plan import CorrelationPlan

# Where the window of an output begins: elements from the first one of image or strip on, or its row and its column.
Corner: TypeAlias = tuple[Value, ...]


def corner(plan: CorrelationPlan, down: Value, right: Value) -> Corner:
    """That of the output in this row and column of a block; rows are counted from the block's first one on."""
    p = plan.problem
    if plan.skips_border:
        return down * p.row_step - p.top, right * p.column_step - p.left
    return ((down * (p.row_step * p.padded) + right * p.column_step) * p.channels,)


class TilePixels(Protocol):
    """The pixels of one tile."""

    def moved(self, tap: Value, first: Value) -> tuple[Value, ...]:
        """How far a tap is from the corners, and the first channel."""

    def at(self, moved: tuple[Value, ...]) -> list[Value]:
        """Where each is read."""


@dataclass(frozen=True, slots=True, eq=False)
class Bordered:
    """Pixels that are all there; `offsets` is the table of taps."""

    b: Builder
    plan: CorrelationPlan
    places: Sequence[Value]
    offsets: Value

    def moved(self, tap: Value, first: Value) -> tuple[Value, ...]:
        """In elements."""
        return (self.b.load(self.offsets, tap, INDEX) + first,)

    def at(self, moved: tuple[Value, ...]) -> list[Value]:
        """As `TilePixels` says."""
        return [self.b.offset(place, moved[0], self.plan.read) for place in self.places]


@dataclass(frozen=True, slots=True, eq=False)
class Unbordered:
    """Pixels of an image that has no border, for a block of outputs whose first row is `row`.

    `taps` are tables of the rows and columns of taps; `zeros` has as many as a pixel has channels of a group.
    """

    b: Builder
    plan: CorrelationPlan
    image: Value
    row: Value
    corners: Sequence[Corner]
    taps: Sequence[Value]
    zeros: Value

    def moved(self, tap: Value, first: Value) -> tuple[Value, ...]:
        """In rows and columns."""
        down, right = (self.b.load(table, tap, INDEX) for table in self.taps)
        return self.row * self.plan.problem.row_step + down, right, first

    def at(self, moved: tuple[Value, ...]) -> list[Value]:
        """As `TilePixels` says."""
        down, right, first = moved
        return [self._pixel(row + down, column + right, first) for row, column in self.corners]

    def _pixel(self, row: Value, column: Value, first: Value) -> Value:
        b, p = self.b, self.plan.problem
        high = b.both(b.compare(">=", row, 0), b.compare("<", row, p.height))
        wide = b.both(b.compare(">=", column, 0), b.compare("<", column, p.width))
        place = (row * p.width + column) * p.channels + first
        return b.choose(b.both(high, wide), b.offset(self.image, place, self.plan.read), self.zeros)
