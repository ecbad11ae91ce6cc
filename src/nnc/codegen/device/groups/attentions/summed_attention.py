"""Attention in f32 by groups of threads, without the matrix of scores in memory; formulas as in `group_attention`.

An item is 64 rows of a head by 8 x 16 threads. Tiles of 64 columns follow each other: a thread sums the scores of 8
rows and 4 columns, turns them into powers under the largest so far, and sums 8 rows and some features of y. q and k lie
in the memory of the group a feature after another, powers a column after another. The next k is copied while v is
summed, the next v while k is. Operands: q, k, v, a mask if there is one,
y, lse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.attentions.head_rows import HeadRows, head_phase
from nnc.codegen.device.groups.attentions.score_masks import POSITION, ScoreMask
from nnc.codegen.device.groups.shared_memory import (
    SharedArray,
    barrier,
    commit_copies,
    fold_distances,
    folded_in_step,
    power_of_two,
    thread_of,
    wait_for_copies,
)
from nnc.codegen.device.groups.tiles import copies_elements
from nnc.codegen.device.preamble import shared_bytes_of
from nnc.codegen.frame.kernel import PhaseWriter, ceiling
from nnc.codegen.ir.builder import F32, I32, LocalVariable, Module, Type, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.sequence.attention import Attention

# Rows and columns of a tile; threads, 16 of which have some rows; a thread's rows, columns and features at once.
SIDE, THREADS, ACROSS, HIGH, WIDE = 64, 128, 16, 8, 4
# Elements from one line of the group's memory to the next: 16 bytes more than a side.
PITCH = SIDE + 4
MOST_FEATURES = 128
# Steps of a sum that are written out.
AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class SummedAttention:
    """The kernel of a problem."""

    problem: Attention

    threads, paired = THREADS, False

    @classmethod
    def of(cls, problem: Attention, target: TargetDescription) -> SummedAttention | None:
        """The kernel of attention in f32 of several rows, where a group has the memory."""
        p = problem
        if p.gradient or not p.transposed or not copies_elements(target, p.scalar):
            return None
        kernel = cls(p)
        fits = max(p.features, p.values) <= MOST_FEATURES and kernel.sizes[-1] * F32.size <= shared_bytes_of(target)
        return kernel if fits else None

    @property
    def panels(self) -> int:
        """Of 64 features of v."""
        return ceiling(self.problem.values, SIDE)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Where k, v and powers begin in the memory of a group, behind q, and its end."""
        keys = self.problem.features * PITCH
        values = 2 * keys
        powers = values + SIDE * SIDE * self.panels
        return keys, values, powers, powers + SIDE * PITCH

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is some rows of a head."""
        return (head_phase(module, name, self.problem, SIDE, self._write),)

    def _write(self, w: PhaseWriter, block: Value, head: Value) -> None:
        _TileWriter(self, w, HeadRows.of(w, self.problem, SIDE, block, head)).write()


class _TileWriter:
    """Writes one item: of each of a thread's rows m in powers of two, a part of l, and sums of v."""

    def __init__(self, kernel: SummedAttention, w: PhaseWriter, rows: HeadRows) -> None:
        self.kernel, self.p, self.w, self.b = kernel, kernel.problem, w, w.b
        self.rows, self.first = rows, rows.first
        self.mask = ScoreMask.of(w, self.p, self.p.mask, rows.batch, rows.head)
        self.result = POSITION + (self.mask is not None)
        b, kind = self.b, Type(F32)
        self.keys, self.values, self.powers, end = kernel.sizes
        self.near = SharedArray.reserve(b, "heads", F32, end)
        self.thread = thread_of(b)
        self.row, self.column = self.thread // ACROSS * HIGH, self.thread % ACROSS * WIDE
        self.tops = [b.variable(b.constant(-math.inf, kind)) for _ in range(HIGH)]
        self.totals = [b.variable(b.zero(kind)) for _ in range(HIGH)]
        self.sums = [[b.variable(b.zero(kind)) for _ in range(WIDE * kernel.panels)] for _ in range(HIGH)]

    def write(self) -> None:
        """All tiles of columns, then y and lse."""
        b, p = self.b, self.p
        q, k, v = self.rows.operands(F32)
        tiles = (self.rows.end() + (SIDE - 1)) // SIDE
        turn_q = self._copier(q, p.heads * p.features, p.features, p.rows, turned=True)
        turn_k = self._copier(k, p.groups * p.features, p.features, p.columns, turned=True)
        copy_v = self._copier(v, p.groups * p.values, p.values, p.columns, turned=False)
        turn_q(0, self.first)
        turn_k(self.keys, b.constant(0))
        commit_copies(b)
        copy_v(self.values, b.constant(0))
        commit_copies(b)
        with b.loop(0, tiles) as tile:
            self._await()
            scores = self._scores()
            barrier(b)
            turn_k(self.keys, (tile + 1) * SIDE)
            commit_copies(b)
            self._power(scores, tile * SIDE)
            self._await()
            self._weigh()
            barrier(b)
            copy_v(self.values, (tile + 1) * SIDE)
            commit_copies(b)
        wait_for_copies(b, 0)
        barrier(b)
        self._finish()

    def _await(self) -> None:
        """All have what was asked for but the last copies."""
        wait_for_copies(self.b, 1)
        barrier(self.b)

    def _copier(
        self, source: Value, pitch: int, features: int, count: int, *, turned: bool
    ) -> Callable[[int, Value], None]:
        """copy(place, first): 64 rows from `first` on of `count`, features side by side or, `turned`, rows."""
        b = self.b
        wide = features if turned else self.kernel.panels * SIDE

        def fetch(place: int, row: Value, feature: Value, index: Value, nbytes: Value | int) -> None:
            at = feature * PITCH + row if turned else row * wide + feature
            self.near.fetch_element(at + place, b.offset(source, index, F32), nbytes)

        def copy_some(place: int, first: Value) -> None:
            with b.loop(self.thread, SIDE * wide, THREADS) as number:
                row, feature = number // wide, number % wide
                inside = b.compare("<", first + row, count)
                if features < wide:
                    inside = b.both(inside, b.compare("<", feature, features))
                index = b.choose(inside, (first + row) * pitch + feature, 0)
                fetch(place, row, feature, index, b.choose(inside, b.constant(F32.size, Type(I32)), 0))

        def copy(place: int, first: Value) -> None:
            if THREADS % wide or features < wide:
                copy_some(place, first)
                return
            # Of rows that are all there a thread's are some rows apart.
            whole = b.compare("<=", first, count - SIDE)
            with b.when(whole):
                row, feature = self.thread // wide, self.thread % wide
                index = (first + row) * pitch + feature
                for start in range(0, SIDE, THREADS // wide):
                    fetch(place, row + start, feature, index + start * pitch, F32.size)
            with b.when(b.opposite(whole)):
                copy_some(place, first)

        return copy

    def _scores(self) -> list[list[LocalVariable]]:
        """q k of a thread's rows and columns."""
        b = self.b
        scores = [[b.variable(b.zero(Type(F32))) for _ in range(WIDE)] for _ in range(HIGH)]
        at_once = math.gcd(self.p.features, AT_ONCE)
        with b.loop(0, self.p.features, at_once) as feature:
            row, column = feature * PITCH + self.row, feature * PITCH + self.column
            for line in range(0, at_once * PITCH, PITCH):
                rows = [self.near.load(row + (line + number)) for number in range(HIGH)]
                columns = [self.near.load(column + (line + self.keys + number)) for number in range(WIDE)]
                self._accumulate(rows, columns, scores)
        return scores

    def _accumulate(
        self, rows: Sequence[Value], columns: Sequence[Value], sums: Sequence[Sequence[LocalVariable]]
    ) -> None:
        for row, totals in zip(rows, sums, strict=True):
            for column, total in zip(columns, totals, strict=True):
                total.set(self.b.accumulate(row, column, total.get()))

    def _power(self, scores: Sequence[Sequence[LocalVariable]], start: Value) -> None:
        """Powers of a thread's scores go to the memory of the group; what was summed before is weighed anew."""
        b = self.b
        self._scale(scores, start)
        self._hide(scores, start)
        for number, (totals, sums) in enumerate(zip(scores, self.sums, strict=True)):
            mine = [total.get() for total in totals]
            before = top = self.tops[number].get()
            for score in mine:
                top = b.larger(top, score)
            top = folded_in_step(b, top, reversed(fold_distances(ACROSS)), b.larger)
            shift = b.choose(b.compare("==", top, -math.inf), b.zero(top.type), top)
            again = power_of_two(b, before - shift)
            self.tops[number].set(top)
            total = self.totals[number].get() * again
            for place, score in enumerate(mine):
                power = power_of_two(b, score - shift)
                total = total + power
                self.near.store(power, (self.column + place) * PITCH + self.row + (self.powers + number))
            self.totals[number].set(total)
            for each in sums:
                each.set(each.get() * again)

    def _scale(self, scores: Sequence[Sequence[LocalVariable]], start: Value) -> None:
        """Scores in powers of two, with the mask."""
        factor = self.p.scale / math.log(2.0)
        for number, totals in enumerate(scores):
            for place, total in enumerate(totals):
                score = total.get() * factor
                if self.mask is not None:
                    score = self.mask.applied(
                        self.b, score, self.first + self.row + number, start + self.column + place
                    )
                total.set(score)

    def _hide(self, scores: Sequence[Sequence[LocalVariable]], start: Value) -> None:
        """-inf for columns that a row does not see."""
        b, p = self.b, self.p
        seen = b.constant(p.columns) - start
        first = self.first + self.row + (1 + p.columns - p.rows) - start
        with b.when(b.compare("<", b.least(first, seen) if p.causal else seen, SIDE)):
            for number, totals in enumerate(scores):
                bound = b.least(first + number, seen) if p.causal else seen
                own = b.cast(b.least(b.greatest(bound, 0), SIDE) - self.column, I32)
                for place, score in enumerate(totals):
                    there = b.compare("<", b.constant(place, Type(I32)), own)
                    score.set(b.choose(there, score.get(), -math.inf))

    def _weigh(self) -> None:
        """Powers times v: a thread has four features of each panel."""
        b, wide, panels = self.b, self.kernel.panels * SIDE, range(self.kernel.panels)
        with b.loop(0, SIDE, AT_ONCE) as first:
            powers, values = first * PITCH + self.row, first * wide + self.column
            for column in range(AT_ONCE):
                rows = [self.near.load(powers + (column * PITCH + self.powers + number)) for number in range(HIGH)]
                features = [
                    self.near.load(values + (column * wide + self.values + panel * SIDE + number))
                    for panel in panels
                    for number in range(WIDE)
                ]
                self._accumulate(rows, features, self.sums)

    def _finish(self) -> None:
        """y and lse of rows that there are; 0 and +inf of those that see nothing."""
        b, p = self.b, self.p
        for number, sums in enumerate(self.sums):
            total = folded_in_step(b, self.totals[number].get(), reversed(fold_distances(ACROSS)), b.add)
            nothing = b.compare("==", total, 0.0)
            unit = b.constant(1.0, total.type)
            inverse = unit / b.choose(nothing, unit, total)
            line = self.first + self.row + number
            with b.when(b.compare("<", line, p.rows)):
                with b.when(b.compare("==", self.column, 0)):
                    self.rows.write_lse(self.result + 1, line, self.tops[number].get(), total, nothing)
                start = ((self.rows.batch * p.rows + line) * p.heads + self.rows.head) * p.values
                for place, each in enumerate(sums):
                    feature = self.column + (place // WIDE * SIDE + place % WIDE)
                    with b.when(b.compare("<", feature, p.values)) if p.values % SIDE else b.always():
                        b.store(each.get() * inverse, self.w.argument(self.result), start + feature)
