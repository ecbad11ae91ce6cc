"""Panels of integer weights: panel[t][p][lane] = a word of w[t, steps * p + e, lane] for e < steps, zero beyond the depth.

Behind the words lie the sums of each lane over all taps and steps, where somebody wants them. Words of two hold
w - zero[lane].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnc.backends.llvm.frame.kernel import ceiling
from nnc.backends.llvm.frame.tile import Tile, column_masks
from nnc.backends.llvm.ir.builder import I32, I64, Builder, LocalVariable, Type, Value
from nnc.backends.llvm.ir.dot_products import DotProduct


@dataclass(frozen=True, slots=True)
class IntegerPanels:
    """Panels of `tile.columns` lanes next to each other; steps of the depth lie `depth_stride` elements apart."""

    dot: DotProduct
    tile: Tile
    taps: int
    depth: int
    depth_stride: int
    ragged: bool
    summed: bool

    @property
    def tap_words(self) -> int:
        """Words of one tap."""
        return ceiling(self.depth, self.dot.steps) * self.tile.columns

    @property
    def sums(self) -> int:
        """The place of the sums."""
        return self.taps * self.tap_words

    @property
    def words(self) -> int:
        """Words of a panel."""
        return self.sums + (self.tile.columns if self.summed else 0)

    def pack(
        self, b: Builder, source: Value, bases: Value, count: Value, panel: Value, zeros: Sequence[Value] | None
    ) -> None:
        """Write the panel of `count` lanes from `source` on; taps begin at `bases`; `zeros` are vectors of i32."""
        if not self.ragged:
            self._pack(b, source, bases, [None] * self.tile.vectors, panel, zeros)
            return
        # Processors without masks read bytes one by one under them.
        whole = b.compare(">=", count, self.tile.columns)
        with b.when(whole):
            self._pack(b, source, bases, [None] * self.tile.vectors, panel, zeros)
        with b.when(b.opposite(whole)):
            self._pack(b, source, bases, column_masks(b, self.tile, count, ragged=True), panel, zeros)

    def _pack(
        self,
        b: Builder,
        source: Value,
        bases: Value,
        masks: Sequence[Value | None],
        panel: Value,
        zeros: Sequence[Value] | None,
    ) -> None:
        zero = b.zero(Type(I32, self.tile.lanes))
        sums = [b.variable(zero) for _ in masks] if self.summed else []
        whole, rest = divmod(self.depth, self.dot.steps)
        with b.loop(0, self.taps) as tap:
            first = b.offset(source, b.load(bases, tap, Type(I64)), self.dot.w)
            target = b.offset(panel, tap * self.tap_words, I32)
            with b.loop(0, whole) as word:
                self._word(b, first, word, self.dot.steps, masks, target, zeros, sums)
            if rest:
                self._word(b, first, b.constant(whole), rest, masks, target, zeros, sums)
        for j, total in enumerate(sums):
            b.store(total.get(), panel, self.sums + j * self.tile.lanes)

    def _word(
        self,
        b: Builder,
        source: Value,
        word: Value,
        steps: int,
        masks: Sequence[Value | None],
        target: Value,
        zeros: Sequence[Value] | None,
        sums: Sequence[LocalVariable],
    ) -> None:
        """The words of one place, of its first `steps` steps."""
        lanes = self.tile.lanes
        rows = [b.offset(source, (word * self.dot.steps + step) * self.depth_stride, self.dot.w) for step in range(steps)]
        for j, mask in enumerate(masks):
            parts = [b.load(row, j * lanes, Type(self.dot.w, lanes), mask) for row in rows]
            if self.dot.in_pairs:
                parts = [b.cast(part, I32) for part in parts]
            if zeros is not None:
                parts = [part - zeros[j] for part in parts]
            value = self.dot.words(b, parts)
            b.store(value, target, word * self.tile.columns + j * lanes)
            if sums:
                sums[j].set(self.dot.add(b, self.dot.ones(b, lanes), value, sums[j].get()))
