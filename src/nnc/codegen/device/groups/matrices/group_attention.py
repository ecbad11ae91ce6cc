"""Attention of 16 bits by warps that multiply matrices, without the matrix of scores in memory.

    s[i, j] = scale · sum_d q[i, d] · k[j, d],   y[i] = sum_j e^(s[i, j] - m) · v[j] / l,   lse[i] = m + ln l

An item is some rows of a head, 16 of each warp. Tiles of 64 columns follow each other: their scores are summed in f32,
the largest so far is m, powers are added to l in f32 and, rounded to 16 bits, weigh v; what was summed under another m
is multiplied by a power. The next tile of k and v is copied meanwhile. Operands: q, k, v, a mask if there
is one, y, lse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.attentions.head_rows import HeadRows, head_phase
from nnc.codegen.device.groups.attentions.score_masks import POSITION, ScoreMask
from nnc.codegen.device.groups.matrices.slices import CHUNK, ROW_WORDS, chunk_copier
from nnc.codegen.device.groups.results import write_chunk
from nnc.codegen.device.groups.shared_memory import (
    SharedArray,
    barrier,
    commit_copies,
    folded_in_step,
    multiply_matrices,
    pair_of,
    power_of_two,
    thread_of,
    wait_for_copies,
)
from nnc.codegen.device.preamble import has_async_copies
from nnc.codegen.device.warpgroups import ROWS
from nnc.codegen.frame.kernel import PhaseWriter, ceiling
from nnc.codegen.frame.widened import NARROW, Widened
from nnc.codegen.ir.builder import F32, I32, LocalVariable, Module, Scalar, Type, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.sequence.attention import Attention

WARP, WARP_ROWS, COLUMNS = 32, 16, 64
# Features of a head that fit the registers.
MOST_FEATURES = 128
# Groups of eight warps share tiles of k and v among more rows; four fill a device with fewer rows.
WARPS, FEW_WARPS, MANY_ITEMS = 8, 4, 132
# Words behind a row of results.
RESULT_PAD = 8


@dataclass(frozen=True, slots=True)
class GroupAttention:
    """The kernel of a problem, whose operands have elements of `scalar`, and its mask, if there is one, of `mask`."""

    problem: Attention
    scalar: Scalar
    mask: Scalar | None
    warps: int

    @property
    def threads(self) -> int:
        """Of all warps."""
        return self.warps * WARP

    @property
    def paired(self) -> bool:
        """Where registers hold a head twice."""
        return self.warps == WARPS and self.problem.features <= ROWS and self.problem.values <= ROWS

    @classmethod
    def of(cls, widened: Widened, target: TargetDescription) -> GroupAttention | None:
        """The kernel of features in whole chunks, on devices with matrices of 16 bits."""
        p = widened.inner
        if not isinstance(p, Attention) or p.gradient:
            return None
        q, k, v, *masks = (operand.stored for operand in widened.inputs)
        if {q, k, v, widened.results[0].stored} != {q}:
            return None
        able = has_async_copies(target) and q in NARROW
        if not able or any(size % CHUNK or size > MOST_FEATURES for size in (p.features, p.values)):
            return None
        many = p.batch * p.heads * ceiling(p.rows, WARPS * WARP_ROWS) >= MANY_ITEMS
        return cls(p, q, masks[0] if masks else None, WARPS if many else FEW_WARPS)

    @property
    def height(self) -> int:
        """Rows of an item."""
        return self.warps * WARP_ROWS

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is some rows of a head."""
        return (head_phase(module, name, self.problem, self.height, self._write),)

    def _write(self, w: PhaseWriter, block: Value, head: Value) -> None:
        _RowsWriter(self, w).write(HeadRows.of(w, self.problem, self.height, block, head))


class _RowsWriter:
    """Writes one item."""

    def __init__(self, kernel: GroupAttention, w: PhaseWriter) -> None:
        self.kernel, self.p, self.w, self.b = kernel, kernel.problem, w, w.b
        self.thread = thread_of(self.b)
        self.result = POSITION + (kernel.mask is not None)
        self.warp, self.lane = self.thread // WARP, self.thread % WARP
        # Panels of 64 features, of 128 bytes a row.
        self.panels = ceiling(self.p.features, ROWS), ceiling(self.p.values, ROWS)
        q, k, v = (
            rows * panels * ROW_WORDS
            for rows, panels in zip((kernel.height, COLUMNS, COLUMNS), (self.panels[0], *self.panels), strict=True)
        )
        # q, and two stages of k and v; results at the end.
        self.keys, self.values, self.stage = q, q + k, k + v
        results = kernel.height * (self.p.values + RESULT_PAD)
        self.near = SharedArray.reserve(self.b, "heads", I32, max(q + 2 * self.stage, results))

    def write(self, rows: HeadRows) -> None:
        """All tiles of columns, then y and lse."""
        b, p = self.b, self.p
        q, k, v = rows.operands(self.kernel.scalar)
        tiles = (rows.end() + (COLUMNS - 1)) // COLUMNS
        copy_q = self._copier(q, p.heads * p.features, p.features, self.kernel.height, p.rows)
        copiers = (
            (self._copier(k, p.groups * p.features, p.features, COLUMNS, p.columns), self.keys),
            (self._copier(v, p.groups * p.values, p.values, COLUMNS, p.columns), self.values),
        )

        def fetch(tile: Value) -> None:
            with b.when(b.compare("<", tile, tiles)):
                for copy, place in copiers:
                    copy(tile % 2 * self.stage + place, tile * COLUMNS)
            commit_copies(b)

        copy_q(b.constant(0), rows.first)
        fetch(b.constant(0))
        mask = ScoreMask.of(self.w, p, self.kernel.mask, rows.batch, rows.head)
        state = _State(self, rows.first, mask)
        with b.loop(0, tiles) as tile:
            wait_for_copies(b, 0)
            barrier(b)
            fetch(tile + 1)
            state.add(tile)
        wait_for_copies(b, 0)
        barrier(b)
        self._finish(state, rows)

    def _copier(
        self, source: Value, pitch: int, features: int, rows: int, count: int
    ) -> Callable[[Value, Value], None]:
        """copy(word, row): `rows` rows from `row` on of `count`, a panel after another."""
        b, each = self.b, self.kernel.threads // CHUNK
        copy = chunk_copier(b, self.near, source, self.kernel.scalar)
        within, chunk = self.thread // CHUNK, self.thread % CHUNK
        turned = b.exclusive(chunk, within % 8) * (CHUNK // 2)

        def write(word: Value, first: Value) -> None:
            for panel in range(ceiling(features, ROWS)):
                left = features - panel * ROWS
                for start in range(0, rows, each):
                    row = within + start
                    inside = b.compare("<", first + row, count)
                    if left < ROWS:
                        inside = b.both(inside, b.compare("<", chunk * CHUNK, left))
                    index = b.choose(inside, (first + row) * pitch + chunk * CHUNK + panel * ROWS, 0)
                    place = word + turned + (row + panel * rows) * ROW_WORDS
                    copy(place, index, b.choose(inside, b.constant(CHUNK), 0))

        return write

    def matrices(
        self, word: Value, row: Value | int, feature: int, rows: int, *, lines_first: bool, turned: bool = False
    ) -> list[Value]:
        """16 rows by 16 features as four matrices, those of other rows first or those of other features."""
        b = self.b
        number, within = self.lane // 8, self.lane % 8
        lower, upper = number % 2, number // 2
        down, right = (lower, upper) if lines_first else (upper, lower)
        panel, chunk = feature // ROWS, right + feature % ROWS // CHUNK
        place = word + (down * 8 + within + row + panel * rows) * ROW_WORDS + b.exclusive(chunk, within) * (CHUNK // 2)
        words = [b.variable(b.zero(Type(I32))) for _ in range(4)]
        self.near.matrices(place, words, turned=turned)
        return [each.get() for each in words]

    def _finish(self, state: _State, rows: HeadRows) -> None:
        """y and lse of rows that there are; 0 and +inf of those that see nothing."""
        b, p, pitch = self.b, self.p, self.p.values + RESULT_PAD
        row = self.warp * WARP_ROWS + self.lane // 4
        for half in range(2):
            total = state.total(half)
            nothing = b.compare("==", total, 0.0)
            unit = b.constant(1.0, total.type)
            inverse = unit / b.choose(nothing, unit, total)
            place = (row + 8 * half) * pitch + self.lane % 4 * 2
            for number, sums in enumerate(state.sums):
                for pair in range(2):
                    value = sums[2 * half + pair].get() * inverse
                    self.near.store(b.reinterpret(value, I32), place + (8 * number + pair))
            line = rows.first + row + 8 * half
            with b.when(b.both(b.compare("==", self.lane % 4, 0), b.compare("<", line, p.rows))):
                rows.write_lse(self.result + 1, line, state.tops[half].get(), total, nothing)
        barrier(b)
        each = p.values // CHUNK
        start = (rows.batch * p.rows * p.heads + rows.head) * p.values
        with b.loop(self.thread, self.kernel.height * each, self.kernel.threads) as piece:
            own, column = piece // each, piece % each * CHUNK
            with b.when(b.compare("<", rows.first + own, p.rows)):
                words = [self.near.load(own * pitch + column + place) for place in range(CHUNK)]
                values = [b.cast(b.reinterpret(word, F32), self.kernel.scalar) for word in words]
                y = b.offset(
                    self.w.argument(self.result),
                    start + (rows.first + own) * (p.heads * p.values) + column,
                    self.kernel.scalar,
                )
                write_chunk(b, values, y, b.constant(0), CHUNK)
        barrier(b)


class _State:
    """What is known of rows i // 4 and i // 4 + 8 of a warp's: m in powers of two, l, and sums of v."""

    def __init__(self, writer: _RowsWriter, first: Value, mask: ScoreMask | None) -> None:
        self.writer, self.b, self.p, self.mask = writer, writer.b, writer.p, mask
        b, kind = self.b, Type(F32)
        self.rows = first + writer.warp * WARP_ROWS + writer.lane // 4
        self.tops = [b.variable(b.constant(-math.inf, kind)) for _ in range(2)]
        self.totals = [b.variable(b.zero(kind)) for _ in range(2)]
        self.sums = [[b.variable(b.zero(kind)) for _ in range(4)] for _ in range(ceiling(self.p.values, 16) * 2)]

    def total(self, half: int) -> Value:
        """l of a row: those of the four threads that have its columns."""
        return folded_in_step(self.b, self.totals[half].get(), (1, 2), self.b.add)

    def add(self, tile: Value) -> None:
        """A tile of columns."""
        b, w = self.b, self.writer
        stage = tile % 2 * w.stage
        scores = [[b.variable(b.zero(Type(F32))) for _ in range(4)] for _ in range(COLUMNS // 8)]
        for feature in range(0, self.p.features, 16):
            q = w.matrices(b.constant(0), w.warp * WARP_ROWS, feature, w.kernel.height, lines_first=True)
            for column in range(0, COLUMNS, 16):
                k = w.matrices(stage + w.keys, column, feature, COLUMNS, lines_first=False)
                for pair in range(2):
                    total = scores[column // 8 + pair]
                    multiply_matrices(b, w.kernel.scalar, q, k[2 * pair : 2 * pair + 2], total)
        self._scale(scores, tile * COLUMNS)
        self._hide(scores, tile * COLUMNS)
        powers = self._powers(scores)
        for column in range(0, COLUMNS, 16):
            p = powers[column // 4 : column // 4 + 4]
            for feature in range(0, self.p.values, 16):
                # Rows are columns of scores, which is what is summed over: they are what comes first.
                v = w.matrices(stage + w.values, column, feature, COLUMNS, lines_first=True, turned=True)
                for pair in range(2):
                    multiply_matrices(b, w.kernel.scalar, p, v[2 * pair : 2 * pair + 2], self.sums[feature // 8 + pair])

    def _scale(self, scores: Sequence[Sequence[LocalVariable]], start: Value) -> None:
        """Scores in powers of two, with the mask."""
        factor, first = self.p.scale / math.log(2.0), start + self.writer.lane % 4 * 2
        for number, sums in enumerate(scores):
            for place, total in enumerate(sums):
                score = total.get() * factor
                if self.mask is not None:
                    row, column = self.rows + place // 2 * 8, first + (number * 8 + place % 2)
                    score = self.mask.applied(self.b, score, row, column)
                total.set(score)

    def _hide(self, scores: Sequence[Sequence[LocalVariable]], start: Value) -> None:
        """-inf for columns that a row does not see."""
        b, p = self.b, self.p
        # Columns of the tile that the first row of the warp sees, behind which something is to be hidden.
        seen = b.constant(p.columns) - start
        last = seen
        if p.causal:
            last = b.least(self.rows - self.writer.lane // 4 + (1 + p.columns - p.rows) - start, seen)
        with b.when(b.compare("<", last, COLUMNS)):
            for half in range(2):
                bound = seen
                if p.causal:
                    bound = b.least(self.rows + (8 * half + 1 + p.columns - p.rows) - start, seen)
                own = b.cast(b.least(b.greatest(bound, 0), COLUMNS) - self.writer.lane % 4 * 2, I32)
                for number, sums in enumerate(scores):
                    for pair in range(2):
                        score = sums[2 * half + pair]
                        there = b.compare("<", b.constant(8 * number + pair, Type(I32)), own)
                        score.set(b.choose(there, score.get(), -math.inf))

    def _powers(self, scores: Sequence[Sequence[LocalVariable]]) -> list[Value]:
        """The powers of a tile in 16 bits, as words of matrices: of 16 columns each rows i // 4 and + 8, twice."""
        b = self.b
        powers: list[list[Value]] = [[], []]
        for half in range(2):
            mine = [sums[2 * half + pair].get() for sums in scores for pair in range(2)]
            top = self.tops[half].get()
            before = top
            for score in mine:
                top = b.larger(top, score)
            top = folded_in_step(b, top, (1, 2), b.larger)
            shift = b.choose(b.compare("==", top, -math.inf), b.zero(top.type), top)
            factor_before = power_of_two(b, before - shift)
            self.tops[half].set(top)
            powers[half] = [power_of_two(b, score - shift) for score in mine]
            total = self.totals[half].get() * factor_before
            for power in powers[half]:
                total = total + power
            self.totals[half].set(total)
            for sums in self.sums:
                for pair in range(2):
                    each = sums[2 * half + pair]
                    each.set(each.get() * factor_before)
        words = []
        for first in range(0, COLUMNS // 4, 2):
            words += [pair_of(b, mine[first], mine[first + 1], self.writer.kernel.scalar) for mine in powers]
        return words
