"""Sums of a tile by instructions that multiply matrices of 16 bits: by warps, or by warpgroups, which are four.

A group is eight warps. Thread i of a warp has the sums of columns 8 j + 2 (i mod 4) and the next, of rows i // 4 and
i // 4 + 8 of each 16. They are added in f32, in the order of k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.matrices.slices import CHUNK, ROW_WORDS, STEPS, Slices, SliceSide
from nnc.codegen.device.groups.results import ResultWriter, write_chunk
from nnc.codegen.device.groups.shared_memory import (
    barrier,
    commit_products,
    fence_products,
    multiply_matrices,
    share_copies,
    thread_of,
    wait_for_copies,
    wait_for_products,
)
from nnc.codegen.device.warpgroups import ROWS, WarpgroupProduct
from nnc.codegen.frame.kernel import ceiling
from nnc.codegen.ir.builder import F32, I32, Builder, LocalVariable, Type, Value

WARP, THREADS = 32, 256
# Steps of one instruction, and its bytes in a row of a slice.
ONCE, ONCE_BYTES = 16, 32
# Words behind a row of results: rows one below the other meet other banks.
RESULT_PAD = 8
# Rows of results that a thread has at hand: it waits for their sums once.
ROWS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class TileForm:
    """How eight warps share a tile: `down` x `across` units of `high` x `wide` sums.

    A unit is a warp, or a warpgroup. `stages` slices are under way or at work; `paired` groups run on a processor at
    once.
    """

    warpgroups: bool
    down: int
    across: int
    high: int
    wide: int
    stages: int
    open: int
    paired: bool

    @property
    def height(self) -> int:
        """Rows of the tile."""
        return self.down * self.high

    @property
    def width(self) -> int:
        """Columns of the tile."""
        return self.across * self.wide

    @property
    def nbytes(self) -> int:
        """Of a group's memory."""
        slices = self.stages * (self.height + self.width) * ROW_WORDS
        return 4 * max(slices, self.height * (self.width + RESULT_PAD))


@dataclass(frozen=True, slots=True)
class TileTarget:
    """Where the results of a tile go: from `row` and `column` on, of so many `rows` and `columns`.

    `place` tells where in the results a row begins, and `first` what bias and extras a first column has.
    """

    row: Value
    column: Value
    rows: int
    columns: int
    place: Callable[[Value], Value]
    first: Value

    def inside(self, b: Builder, column: Value) -> list[Value]:
        """Eight columns from this one on; for those outside, the last one."""
        last = self.columns - 1
        return [b.least(column + number, last) if self.columns % CHUNK else column + number for number in range(CHUNK)]


class MatrixSums:
    """Writes one tile."""

    def __init__(self, results: ResultWriter, form: TileForm, inner: int) -> None:
        self.b = b = results.w.b
        self.form, self.results, self.inner = form, results, inner
        self.thread = thread_of(b)
        self.warp, self.lane = self.thread // WARP, self.thread % WARP
        unit = self.warp // 4 if form.warpgroups else self.warp
        self.row, self.column = unit // form.across * form.high, unit % form.across * form.wide

    def write(self, sides: tuple[SliceSide, SliceSide], target: TileTarget) -> None:
        """The sums of both sides, and what becomes of them."""
        b, form = self.b, self.form
        least = form.height * (form.width + RESULT_PAD)
        slices = Slices.reserve(b, self.thread, THREADS, form.stages, sides, least)
        blocks = form.high // (ROWS if form.warpgroups else 16)
        totals = [[b.variable(b.zero(Type(F32))) for _ in range(form.wide // 2)] for _ in range(blocks)]
        self._sum(slices, totals)
        self._keep(slices, totals)
        self._finish(slices, target)

    # -- sums

    def _sum(self, slices: Slices, totals: Sequence[Sequence[LocalVariable]]) -> None:
        """One slice after another; of warpgroups one is still at work while the next one begins."""
        b, count = self.b, ceiling(self.inner, STEPS)
        ahead = self.form.stages - 1 - self.form.open
        for early in range(ahead):
            slices.fetch(b.constant(early), count)
        with b.loop(0, count) as number:
            wait_for_copies(b, ahead - 1)
            if self.form.warpgroups:
                share_copies(b)
            barrier(b)
            if self.form.warpgroups:
                self._by_warpgroups(slices, number, totals)
                slices.fetch(number + ahead, count)
                wait_for_products(b, self.form.open)
            else:
                slices.fetch(number + ahead, count)
                self._by_warps(slices, number, totals)
        wait_for_copies(b, 0)
        if self.form.warpgroups:
            wait_for_products(b, 0)
        barrier(b)

    def _by_warpgroups(self, slices: Slices, number: Value, totals: Sequence[Sequence[LocalVariable]]) -> None:
        b, (left, right) = self.b, slices.sides
        product = WarpgroupProduct(self.results.scalar.name, self.form.wide, not left.along_k, not right.along_k)
        first, second = (begin * 4 for begin in slices.begin(number))
        first, second = first + self.row * (4 * ROW_WORDS), second + self.column * (4 * ROW_WORDS)
        fence_products(b)
        for k in range(STEPS // ONCE):
            steps = [k * (ONCE_BYTES if side.along_k else ONCE * 4 * ROW_WORDS) for side in slices.sides]
            for block, sums in enumerate(totals):
                at = first + (block * ROWS * 4 * ROW_WORDS + steps[0])
                slices.near.multiply(product, at, second + steps[1], sums)
        commit_products(b)

    def _by_warps(self, slices: Slices, number: Value, totals: Sequence[Sequence[LocalVariable]]) -> None:
        """Matrices of both sides are read once for each 16 steps."""
        b, (left, right), word = self.b, slices.sides, self.b.zero(Type(I32))
        first, second = slices.begin(number)
        for k in range(0, STEPS, ONCE):
            columns: list[list[LocalVariable]] = []
            for line in range(0, self.form.wide, 16):
                both = [b.variable(word) for _ in range(4)]
                place = self._matrices(right, self.column + line, k, lines_first=False)
                slices.near.matrices(second + place, both, turned=not right.along_k)
                columns += [both[:2], both[2:]]
            for block, sums in enumerate(totals):
                rows = [b.variable(word) for _ in range(4)]
                place = self._matrices(left, self.row + block * 16, k, lines_first=True)
                slices.near.matrices(first + place, rows, turned=not left.along_k)
                for place_of_pair, pair in enumerate(columns):
                    given = [each.get() for each in rows], [each.get() for each in pair]
                    multiply_matrices(b, self.results.scalar, *given, sums[4 * place_of_pair : 4 * place_of_pair + 4])

    def _matrices(self, side: SliceSide, line: Value, k: int, *, lines_first: bool) -> Value:
        """The word of this thread's row of 16 lines by 16 steps as four matrices, of other lines or steps next."""
        b = self.b
        number, within = self.lane // 8, self.lane % 8
        lower, upper = number % 2, number // 2
        lines, steps = (lower, upper) if lines_first else (upper, lower)
        if side.along_k:
            row, chunk = line + lines * 8 + within, steps + k // CHUNK
        else:
            row, chunk = line // ROWS * ROWS + steps * 8 + within + k, line % ROWS // CHUNK + lines
        return row * ROW_WORDS + b.exclusive(chunk, within) * (CHUNK // 2)

    # -- results

    def _keep(self, slices: Slices, totals: Sequence[Sequence[LocalVariable]]) -> None:
        """Sums go to the memory of the group, a row of the tile after another."""
        b, form = self.b, self.form
        pitch = form.width + RESULT_PAD
        row = self.row + self.lane // 4
        if form.warpgroups:
            row = row + self.warp % 4 * 16
        place = row * pitch + self.column + self.lane % 4 * 2
        for block, sums in enumerate(totals):
            below = block * (ROWS if form.warpgroups else 16)
            for number, total in enumerate(sums):
                offset = (below + number % 4 // 2 * 8) * pitch + number // 4 * 8 + number % 2
                slices.near.store(b.reinterpret(total.get(), I32), place + offset)
        barrier(b)

    def _finish(self, slices: Slices, target: TileTarget) -> None:
        """Each thread has eight columns of some rows; elements outside are not written."""
        b, form, results = self.b, self.form, self.results
        each, pitch = form.width // CHUNK, form.width + RESULT_PAD
        own_row, own_column = self.thread // each, self.thread % each * CHUNK
        column = target.column + own_column
        with b.when(b.compare("<", column, target.columns)):
            beside = [results.beside(target.first + place) for place in target.inside(b, column)]
            step = THREADS // each
            at_once = min(ROWS_AT_ONCE, form.height // step)
            with b.loop(0, form.height, step * at_once) as further:
                own = [own_row + further + step * number for number in range(at_once)]
                loaded = [[slices.near.load(row * pitch + own_column + k) for k in range(CHUNK)] for row in own]
                for row, words in zip(own, loaded, strict=True):
                    with b.when(b.compare("<", target.row + row, target.rows)):
                        sums = [b.reinterpret(word, F32) for word in words]
                        values = [results.value(*pair) for pair in zip(sums, beside, strict=True)]
                        place = b.offset(results.results, target.place(target.row + row) + column, results.scalar)
                        write_chunk(b, values, place, column, target.columns)
        barrier(b)
