"""Strips: strip[i, j, c] = image[first + i, j - left, c], zero outside the image: some padded rows of one image.

Convolutions read a strip instead of the image where a window may reach outside it. A strip lies in a worker's own
scratch and is small enough to stay in its cache. Elements of 16 bits become f32 on the way.
"""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.codegen.ir.builder import Builder, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.core.values.derived import known_multiple


@dataclass(frozen=True, slots=True)
class Strip:
    """Images of height x width x channels; strips of `rows` rows of `padded` columns, the image's first at `left`."""

    stored: Scalar
    lanes: int
    height: int
    width: int
    channels: int
    left: int
    padded: int
    rows: int

    @property
    def scalar(self) -> Scalar:
        """The element type of a strip."""
        return computed(self.stored)

    @property
    def row_elements(self) -> int:
        """Elements of one row of the strip."""
        return self.padded * self.channels

    @property
    def bytes(self) -> int:
        """Bytes of the strip."""
        return self.rows * self.row_elements * self.scalar.size

    def fill(self, b: Builder, image: Value, first: Value, strip: Value) -> None:
        """Write the strip whose row 0 is the image's row `first`, which may be outside."""
        length = self.width * self.channels
        with b.loop(0, self.rows) as row:
            source = first + row
            place = b.offset(strip, row * self.row_elements, self.scalar)
            inside = b.both(b.compare(">=", source, 0), b.compare("<", source, self.height))
            with b.when(inside):
                start = self.left * self.channels
                self._clear(b, place, 0, start)
                self._copy(b, b.offset(image, source * length, self.stored), b.offset(place, start, self.scalar))
                self._clear(b, place, start + length, self.row_elements - start - length)
            with b.when(b.opposite(inside)):
                self._clear(b, place, 0, self.row_elements)

    def _clear(self, b: Builder, place: Value, start: int, count: int) -> None:
        if count == 0:
            return
        zero = b.zero(Type(self.scalar, self.lanes))
        with b.loop(0, count, self.lanes) as index:
            b.store(zero, place, index + start, self._mask(b, count, index))

    def _copy(self, b: Builder, source: Value, target: Value) -> None:
        count, kind = self.width * self.channels, Type(self.stored, self.lanes)
        with b.loop(0, count, self.lanes) as index:
            mask = self._mask(b, count, index)
            b.store(b.cast(b.load(source, index, kind, mask), self.scalar), target, index, mask)

    def _mask(self, b: Builder, count: int, index: Value) -> Value | None:
        """Which lanes from an element on are there; None where all are at all sizes."""
        return None if known_multiple(count, self.lanes) else b.mask(count - index, self.lanes)
