"""Matrix product of elements of 16 bits by groups of warps, whose instructions multiply matrices: c = a b + bias.

An item is a tile of c, 2 x 4 warps of `high` x 16 by `wide` x 8 sums in f32. Steps of k come in slices of 32. A slice
of an operand lies in the memory of the group as it does elsewhere: along k, or along the tile, when matrices are turned
when they are read. Threads read 16 bytes at a time, which is why strides are multiples of 8 elements; where an address
is none of 16 bytes, they read elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.near import NearArray, load_words, multiply_matrices, thread_of, wait
from nnc.codegen.device.groups.results import ResultWriter
from nnc.codegen.device.groups.tiles import tiled
from nnc.codegen.device.preamble import PTX_TRIPLE
from nnc.codegen.frame.access import locate
from nnc.codegen.frame.kernel import Phase, PhaseWriter, ceiling
from nnc.codegen.ir.builder import BF16, F16, F32, I32, I64, U16, LocalVariable, Module, Type, Value
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.products.gemm_plan import MatrixProduct

# Warps along each side of a tile, their threads, steps of k in a slice, elements of 16 bytes.
DOWN, ACROSS, WARP, STEPS, CHUNK = 2, 4, 32, 32, 8
THREADS = DOWN * ACROSS * WARP
# Elements behind each line of a slice: eight lines begin in banks that do not meet.
PAD = 8
# Matrices of 16 rows and of 8 columns of a warp, largest first, and how many tiles keep a device busy.
SHARES, MANY_TILES = ((4, 4), (2, 4), (2, 2)), 100
# Before this capability warps multiply other matrices.
OLDEST = 80


@dataclass(frozen=True, slots=True)
class MatrixGroupProduct:
    """The kernel of a product whose warps sum `high` x `wide` matrices each."""

    product: Gemm
    high: int
    wide: int

    # While one waits for memory the other multiplies: 24 bytes are spilled, of 192 registers that one alone would take.
    threads, paired = THREADS, True

    @classmethod
    def of(cls, product: Gemm, target: TargetDescription) -> MatrixGroupProduct | None:
        """The kernel of a product of 16 bits whose lines begin at multiples of 16 bytes, on CUDA."""
        p = product.problem
        able = target.triple == PTX_TRIPLE and int(target.processor.removeprefix("sm_")) >= OLDEST
        if not able or p.scalar not in (BF16, F16) or p.width or p.blocks is not None or not p.inner:
            return None
        if not (_in_chunks(p, p.a_rows, p.a_inner, p.rows) and _in_chunks(p, p.b_columns, p.b_inner, p.columns)):
            return None
        if any(step % CHUNK for step in (*p.a_batch, *p.b_batch)) or min(p.rows, p.columns) < CHUNK:
            return None
        for high, wide in SHARES:
            if (
                math.prod(p.batch) * ceiling(p.rows, high * DOWN * 16) * ceiling(p.columns, wide * ACROSS * 8)
                >= MANY_TILES
            ):
                return cls(product, high, wide)
        return cls(product, *SHARES[-1])

    @property
    def height(self) -> int:
        """Rows of a tile."""
        return self.high * DOWN * 16

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.wide * ACROSS * 8

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a tile."""
        return (tiled(module, name, self.product.problem, (self.height, self.width), F32, self._write),)

    def _write(self, writer: PhaseWriter, item: Value) -> None:
        _MatrixTileWriter(self, writer).write(item)


def _in_chunks(p: MatrixProduct, along: int, step: int, lines: int) -> bool:
    """Whether an operand is contiguous along its lines or along k, in whole chunks."""
    if step == 1:
        return p.inner % CHUNK == 0 and along % CHUNK == 0
    return along == 1 and lines % CHUNK == 0 and step % CHUNK == 0


@dataclass(frozen=True, slots=True)
class _Operand:
    """One operand of a tile: where it begins, whether it is contiguous along k, from one contiguous run to the next.

    `first` is its first line in the tile, `lines` how many it has there, `size` how many there are.
    """

    source: Value
    aligned: Value
    along_k: bool
    apart: int
    first: Value
    lines: int
    size: int
    near: NearArray

    @property
    def run(self) -> int:
        """Elements of a run of the slice that is contiguous."""
        return STEPS if self.along_k else self.lines

    @property
    def pitch(self) -> int:
        """Words of near memory from one run to the next."""
        return (self.run + PAD) // 2

    @property
    def words(self) -> int:
        """Words of a slice."""
        return (self.lines if self.along_k else STEPS) * self.pitch

    @property
    def chunks(self) -> int:
        """Chunks that each thread reads."""
        return self.lines * STEPS // CHUNK // THREADS


class _MatrixTileWriter:
    """Writes one tile."""

    def __init__(self, kernel: MatrixGroupProduct, writer: PhaseWriter) -> None:
        self.kernel, self.w, self.b = kernel, writer, writer.b
        self.p = kernel.product.problem
        self.thread = thread_of(self.b)
        self.warp, self.lane = self.thread // WARP, self.thread % WARP

    def write(self, item: Value) -> None:
        """The sums over all slices, then c."""
        b, p, k = self.b, self.p, self.kernel
        across = ceiling(p.columns, k.width)
        tiles = ceiling(p.rows, k.height) * across
        tile, matrix = item % tiles, item // tiles
        row, column = tile // across * k.height, tile % across * k.width
        starts = locate(b, matrix, p.batch, (p.a_batch, p.b_batch, p.c_batch)) if p.batch else [b.constant(0)] * 3
        left, right, c = (
            b.offset(self.w.argument(place), start, p.scalar)
            for place, start in zip((0, 1, ResultWriter.position(p.bias, k.product.epilogue)), starts, strict=True)
        )
        sides = (
            self._operand("a", left, p.a_rows, p.a_inner, row, k.height, p.rows),
            self._operand("b", right, p.b_columns, p.b_inner, column, k.width, p.columns),
        )
        totals = [[[b.variable(b.zero(Type(F32))) for _ in range(4)] for _ in range(k.wide)] for _ in range(k.high)]
        self._sum(sides, totals)
        self._finish(c, row, column, totals)

    def _operand(
        self, name: str, source: Value, along: int, step: int, first: Value, lines: int, size: int
    ) -> _Operand:
        b = self.b
        address = b.emit(Type(I64), f"ptrtoint ptr {source.text} to i64")
        aligned = b.compare("==", b.both(address, b.constant(15)), 0)
        most = max(lines * (STEPS + PAD), STEPS * (lines + PAD)) // 2
        near = NearArray.reserve(b, name, I32, 2 * most)
        along_k = step == 1
        return _Operand(source, aligned, along_k, along if along_k else step, first, lines, size, near)

    # -- slices

    def _sum(self, sides: Sequence[_Operand], totals: Sequence[Sequence[Sequence[LocalVariable]]]) -> None:
        """Two slices in turn: one is read while the other is summed."""
        b, slices = self.b, ceiling(self.p.inner, STEPS)
        word = b.zero(Type(I32))
        held = [[[b.variable(word) for _ in range(4)] for _ in range(side.chunks)] for side in sides]
        for side, chunks in zip(sides, held, strict=True):
            self._read(side, b.constant(0), chunks)
            self._keep(side, chunks, b.constant(0))
        wait(b)
        with b.loop(0, slices) as number:
            further = b.compare("<", number + 1, slices)
            with b.when(further):
                for side, chunks in zip(sides, held, strict=True):
                    self._read(side, (number + 1) * STEPS, chunks)
            self._multiply(sides, totals, number % 2)
            with b.when(further):
                for side, chunks in zip(sides, held, strict=True):
                    self._keep(side, chunks, (number + 1) % 2)
            wait(b)

    def _place(self, side: _Operand, number: int) -> tuple[Value, Value]:
        """The run of a chunk of this thread in the slice, and the chunk's first element in it."""
        each = side.run // CHUNK
        chunk = self.thread + number * THREADS
        return chunk // each, chunk % each * CHUNK

    def _read(self, side: _Operand, start: Value, chunks: Sequence[Sequence[LocalVariable]]) -> None:
        """This thread's chunks of the slice from step `start` on; 0 outside."""
        b, p = self.b, self.p
        for number, words in enumerate(chunks):
            run, begin = self._place(side, number)
            line, k = (side.first + run, start + begin) if side.along_k else (side.first + begin, start + run)
            inside = b.both(b.compare("<", line, side.size), b.compare("<", k, p.inner))
            index = line * side.apart + k if side.along_k else k * side.apart + line
            place = b.offset(side.source, index, p.scalar)
            for word in words:
                word.set(b.zero(Type(I32)))
            with b.when(b.both(inside, side.aligned)):
                for word, value in zip(words, load_words(b, place), strict=True):
                    word.set(value)
            with b.when(b.both(inside, b.opposite(side.aligned))):
                for pair, word in enumerate(words):
                    halves = [b.cast(b.load(place, 2 * pair + half, Type(U16)), I32) for half in range(2)]
                    word.set(b.either(halves[0], b.shift_left(halves[1], 16)))

    def _keep(self, side: _Operand, chunks: Sequence[Sequence[LocalVariable]], half: Value) -> None:
        for number, words in enumerate(chunks):
            run, begin = self._place(side, number)
            place = half * side.words + run * side.pitch + begin // 2
            for offset, word in enumerate(words):
                side.near.store(word.get(), place + offset)

    def _multiply(
        self, sides: Sequence[_Operand], totals: Sequence[Sequence[Sequence[LocalVariable]]], half: Value
    ) -> None:
        """All steps of a slice: matrices of a and of b are read once for each 16 steps."""
        b, (left, right), word = self.b, sides, self.b.zero(Type(I32))
        row, column = self.warp // ACROSS * (self.kernel.high * 16), self.warp % ACROSS * (self.kernel.wide * 8)
        for k in range(0, STEPS, 16):
            rows = []
            for number in range(self.kernel.high):
                rows.append([b.variable(word) for _ in range(4)])
                self._matrices(left, half, row + number * 16, k, rows[-1], lines_first=True)
            columns: list[list[LocalVariable]] = []
            for number in range(0, self.kernel.wide, 2):
                both = [b.variable(word) for _ in range(4)]
                self._matrices(right, half, column + number * 8, k, both, lines_first=False)
                columns += [both[:2], both[2:]]
            for words, sums in zip(rows, totals, strict=True):
                for pair, total in zip(columns, sums, strict=True):
                    given = [word.get() for word in words], [word.get() for word in pair]
                    multiply_matrices(b, self.p.scalar, *given, total)

    def _matrices(
        self, side: _Operand, half: Value, line: Value, k: int, into: Sequence[LocalVariable], *, lines_first: bool
    ) -> None:
        """16 lines by 16 steps as four matrices, those of other lines first or those of other steps."""
        number, within = self.lane // 8, self.lane % 8
        lower, upper = number % 2 * 8, number // 2 * 8
        lines, steps = (lower, upper) if lines_first else (upper, lower)
        run, begin = (line + lines + within, steps + k) if side.along_k else (steps + k + within, line + lines)
        place = half * side.words + run * side.pitch + begin // 2
        side.near.matrices(place, into, turned=not side.along_k)

    # -- results

    def _finish(self, c: Value, row: Value, column: Value, totals: Sequence[Sequence[Sequence[LocalVariable]]]) -> None:
        """Elements outside are not written."""
        b, p = self.b, self.p
        results = ResultWriter(p.bias, self.kernel.product.epilogue, p.scalar, p.work, self.w, c)
        row = row + self.warp // ACROSS * (self.kernel.high * 16) + self.lane // 4
        column = column + self.warp % ACROSS * (self.kernel.wide * 8) + self.lane % 4 * 2
        for number in range(self.kernel.wide):
            for pair in range(2):
                here = column + (number * 8 + pair)
                with b.when(b.compare("<", here, p.columns)):
                    beside = results.beside(here)
                    for line, sums in enumerate(totals):
                        for below in range(2):
                            place = row + (line * 16 + below * 8)
                            with b.when(b.compare("<", place, p.rows)):
                                results.write(sums[number][2 * below + pair].get(), place * p.c_rows + here, beside)
