"""Panels of integer weights: panel[t][p][lane] = a word of w[t, steps * p + e, lane] for e < steps.

Beyond the depth, up to a multiple of `whole` words, it is zero. Behind the words lie the sums of each lane over all
taps and steps, where somebody wants them. Words of two hold w - zero[lane].
"""

from __future__ import annotations

from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import ceiling
from nnc.codegen.frame.tile import Tile, column_masks
from nnc.codegen.ir.builder import I32, I64, Builder, LocalVariable, Type, Value
from nnc.codegen.ir.dot_products import DotProduct

# Steps of the depth that lie side by side in weights that are in quads.
QUAD = 4
Masks = Sequence[Value | None]


@dataclass(frozen=True, slots=True)
class WeightOrder:
    """How far apart steps of the depth lie, and filters.

    In quads, four steps lie side by side, `depth_stride` is from quad to quad, and filters are neighbours.
    """

    depth_stride: int
    filter_stride: int = 1
    quads: bool = False

    @property
    def filter_elements(self) -> int:
        """Elements from filter to filter."""
        return QUAD if self.quads else self.filter_stride


@dataclass(frozen=True, slots=True)
class IntegerPanels:
    """Panels of `tile.columns` lanes next to each other."""

    dot: DotProduct
    tile: Tile
    taps: int
    depth: int
    order: WeightOrder
    ragged: bool
    summed: bool
    whole: int = 1

    @property
    def rows(self) -> int:
        """Words of one lane of one tap."""
        return ceiling(ceiling(self.depth, self.dot.steps), self.whole) * self.whole

    @property
    def tap_words(self) -> int:
        """Words of one tap."""
        return self.rows * self.tile.columns

    @property
    def sums(self) -> int:
        """The place of the sums."""
        return self.taps * self.tap_words

    @property
    def words(self) -> int:
        """Words of a panel."""
        return self.sums + (self.tile.columns if self.summed else 0)

    @property
    def reads_directly(self) -> bool:
        """Whether rows of words can be made in registers, without a panel."""
        return self.depth % self.read == 0 and self.order.filter_stride == 1 and self._made == 1

    @property
    def read(self) -> int:
        """Steps that are read at a time."""
        return QUAD if self.order.quads else self.dot.steps

    @property
    def _made(self) -> int:
        """Rows of words that are made of them."""
        return self.read // self.dot.steps

    def pack(
        self, b: Builder, source: Value, bases: Value, count: Value, panel: Value, zeros: Sequence[Value] | None
    ) -> None:
        """Write the panel of `count` lanes from `source` on; taps begin at `bases`; `zeros` are vectors of i32."""
        whole = b.compare(">=", count, self.tile.columns) if self.ragged else None
        # Processors without masks read bytes one by one under them.
        with b.when(whole) if whole else b.always():
            self._pack(b, source, bases, [None] * self.tile.vectors, panel, zeros)
        if whole:
            with b.when(b.opposite(whole)):
                self._pack(b, source, bases, column_masks(b, self.tile, count, ragged=True), panel, zeros)

    def _pack(
        self, b: Builder, source: Value, bases: Value, masks: Masks, panel: Value, zeros: Sequence[Value] | None
    ) -> None:
        zero = b.zero(Type(I32, self.tile.lanes))
        sums = [b.variable(zero) for _ in masks] if self.summed else []
        whole, rest = divmod(self.depth, self.read)
        with b.loop(0, self.taps) as tap:
            first = b.offset(source, b.load(bases, tap, Type(I64)), self.dot.w)
            target = b.offset(panel, tap * self.tap_words, I32)
            with b.loop(0, whole) as place:
                self._put(b, self.made(b, first, place, self.read, masks, zeros), target, place, sums)
            if rest:
                last = b.constant(whole)
                self._put(b, self.made(b, first, last, rest, masks, zeros), target, last, sums)
            if self.whole > 1:
                filled = ceiling(self.depth, self.dot.steps) * self.tile.columns
                for index in range(filled, self.tap_words, self.tile.lanes):
                    b.store(zero, target, index)
        for j, total in enumerate(sums):
            b.store(total.get(), panel, self.sums + j * self.tile.lanes)

    def _put(
        self, b: Builder, rows: Sequence[Sequence[Value]], target: Value, place: Value, sums: Sequence[LocalVariable]
    ) -> None:
        """Store rows of words, and add them up."""
        for number, row in enumerate(rows):
            for j, value in enumerate(row):
                b.store(value, target, (place * self._made + number) * self.tile.columns + j * self.tile.lanes)
            self.add_up(b, row, sums)

    def add_up(self, b: Builder, row: Sequence[Value], sums: Sequence[LocalVariable]) -> None:
        """Add the weights in a row of words to their sums, where there are ones."""
        for value, total in zip(row, sums, strict=False):
            total.set(self.dot.sum_w(b, value, total.get()))

    def made(
        self, b: Builder, source: Value, place: Value, steps: int, masks: Masks, zeros: Sequence[Value] | None
    ) -> list[list[Value]]:
        """The rows of words that are made of what is read at one place, of its first `steps` steps."""
        columns = [self._words(b, source, place, steps, j, mask, zeros) for j, mask in enumerate(masks)]
        return [list(row) for row in zip(*columns, strict=True)]

    def _words(
        self,
        b: Builder,
        source: Value,
        place: Value,
        steps: int,
        j: int,
        mask: Value | None,
        zeros: Sequence[Value] | None,
    ) -> list[Value]:
        """Vector j of each row."""
        dot, lanes = self.dot, self.tile.lanes
        if self.order.quads:
            row = b.offset(source, place * self.order.depth_stride, dot.w)
            quad = b.load(row, j * lanes, Type(I32, lanes), mask)
            if not dot.in_pairs:
                return [quad if steps == QUAD else b.both(quad, b.constant((1 << 8 * steps) - 1, quad.type))]
            parts = [dot.byte(b, quad, step) for step in range(steps)]
        else:
            starts = [(place * self.read + step) * self.order.depth_stride for step in range(steps)]
            parts = [self._lanes(b, b.offset(source, start, dot.w), j, mask) for start in starts]
        if dot.in_pairs:
            parts = [b.cast(part, I32) if zeros is None else b.cast(part, I32) - zeros[j] for part in parts]
        return [dot.words(b, parts[first : first + dot.steps]) for first in range(0, steps, dot.steps)]

    def _lanes(self, b: Builder, row: Value, j: int, mask: Value | None) -> Value:
        first, kind, stride = j * self.tile.lanes, Type(self.dot.w, self.tile.lanes), self.order.filter_stride
        if stride == 1:
            return b.load(row, first, kind, mask)
        return b.gather(row, b.constant(first * stride), stride, kind, mask)
