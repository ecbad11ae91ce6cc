"""The sizes of an attention kernel, what its tiles take, and what writers of its loops share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nnc.classes import dataclass
from nnc.codegen.frame.access import Shape
from nnc.codegen.frame.block_product import MOST_ROWS, Bounds, Matrix
from nnc.codegen.frame.kernel import PhaseWriter, WithSizes, ceiling
from nnc.codegen.frame.packing import Packing
from nnc.codegen.ir.builder import BOOL, Builder, Scalar, Type, Value
from nnc.codegen.ir.native_kernel import aligned
from nnc.codegen.ir.target import TargetDescription

BLOCK_ROWS, GRADIENT_ROWS = 32, 64
NANOSECONDS_PER_MOVE = 0.15
# Transposing a key takes as long as some 26 rows take longer without (0.5 ns an element; 70 cycles instead of 32 for 16
# keys of 64 features).
FEW_ROWS = 16
# Rows whose scores become powers side by side.
ROWS_TOGETHER = 4
# Registers of columns of a mask that are looked at together.
COLUMNS_TOGETHER = 4


@dataclass(frozen=True, slots=True)
class AttentionSizes(WithSizes):
    """Sizes as in the formulas; `mask` is the mask's type and `mask_strides` its steps along the scores' axes."""

    scalar: Scalar
    batch: int
    rows: int
    columns: int
    heads: int
    groups: int
    features: int
    values: int
    scale: float
    causal: bool
    mask: Scalar | None = None
    mask_strides: Shape = ()
    gradient: bool = False

    def lanes(self, target: TargetDescription) -> int:
        """Elements of a register."""
        return target.lanes(8 * self.scalar.size)

    def padded(self, target: TargetDescription) -> int:
        """Columns rounded up to an odd number of registers, so that rows begin on all sets of a cache."""
        lanes = self.lanes(target)
        return (ceiling(self.columns, lanes) // 2 * 2 + 1) * lanes

    @property
    def transposed(self) -> bool:
        """Whether enough rows are multiplied with a key."""
        return self.gradient or self.rows * (self.heads // self.groups) > FEW_ROWS

    @property
    def block(self) -> int:
        """Rows of one block of scores."""
        return min(GRADIENT_ROWS if self.gradient else BLOCK_ROWS, self.rows)

    def packing(self, target: TargetDescription, features: int) -> Packing:
        """How one head of k or v is transposed."""
        return Packing(self.scalar, self.lanes(target), self.padded(target), self.groups * features, 1, ragged=True)

    def head_elements(self, target: TargetDescription, features: int) -> int:
        """Elements of one transposed head."""
        return self.packing(target, features).extent(features)

    def workspace(self, target: TargetDescription) -> int:
        """None: every worker transposes for itself. On a device q' waits there until nothing reads q any more."""
        waits = self.gradient and target.threads
        return aligned(self.batch * self.rows * self.heads * self.features * self.scalar.size) if waits else 0

    def scratch(self, target: TargetDescription) -> int:
        """Transposed k, a block of scores, two numbers for each of its rows; for the gradient `attention_gradient`."""
        scores = self.block * self.padded(target)
        if not self.gradient:
            return aligned((self.key_elements(target) + scores + 2 * self.block) * self.scalar.size)
        turned = self.head_elements(target, self.features) + self.head_elements(target, self.values)
        return aligned((2 * scores + turned + self.columns * self.features) * self.scalar.size)

    def key_elements(self, target: TargetDescription) -> int:
        """Elements of transposed k of one head where there is need of it."""
        return self.head_elements(target, self.features) if self.transposed else 0


def turn(problem: AttentionSizes, b: Builder, x: Value, item: Value, features: int, place: Value) -> None:
    """kt[d, column] = x[batch, column, group, d] for one key head, and zeros behind the columns"""
    p = problem
    start = item // p.groups * (p.columns * p.groups * features) + item % p.groups * features
    source = b.offset(x, start, p.scalar)
    p.packing(b.target, features).pack(b, source, b.constant(p.columns), b.constant(features), place)


def sums_of_each(b: Builder, vectors: Sequence[Value]) -> Value:
    """out[i] = sum of the lanes of vectors[i], as many as they have lanes: halves of two vectors at once"""
    lanes = size = len(vectors)
    while len(vectors) > 1:
        size //= 2
        low = [lane for lane in range(2 * lanes) if lane // size % 2 == 0]
        high = [lane + size for lane in low]
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [b.shuffle(left, right, low) + b.shuffle(left, right, high) for left, right in pairs]
    return vectors[0]


class AttentionWriter:
    """Operands, and the scores of a block of rows."""

    def __init__(self, problem: AttentionSizes, writer: PhaseWriter) -> None:
        self.problem = problem
        self.w = writer
        self.b: Builder = writer.b
        self.scalar = problem.scalar
        self.lanes = problem.lanes(self.b.target)
        self.padded = problem.padded(self.b.target)
        self.vector = Type(self.scalar, self.lanes)
        # Columns that a mask lets no row of the block see begin here, where that was looked for.
        self.limit: Value | None = None

    def head(self, operand: int, batch: Value, position: Value, count: int, heads: int, features: int) -> Matrix:
        """Rows of one head of an operand [batch, count, heads, features]."""
        start = batch * (count * heads * features) + position * features
        return Matrix(self.b.offset(self.w.argument(operand), start, self.scalar), heads * features)

    def rows_of(self, matrix: Matrix, first: Value) -> Matrix:
        """The same matrix from row `first` on."""
        return Matrix(self.b.offset(matrix.base, first * matrix.row, self.scalar), matrix.row, matrix.column)

    def ask(self, matrix: Matrix, rows: Value, features: int) -> None:
        """Ask for the cache lines of some rows."""
        b, line = self.b, self.b.target.machine.line_bytes // self.scalar.size
        with b.loop(0, rows) as row, b.loop(0, features, line) as feature:
            b.prefetch(matrix.base, row * matrix.row + feature, self.scalar)

    def seen(self, rows_end: Value) -> Value:
        """How many columns the rows before `rows_end` see."""
        p = self.problem
        if self.limit is not None:
            return self.limit
        if not p.causal:
            return self.b.constant(p.columns)
        return self.b.greatest(self.b.least(rows_end + (p.columns - p.rows), p.columns), 0)

    def columns_of(self, first: Value, inner: int) -> Callable[[Value, Value], Bounds]:
        """Bounds of scores: the rows of the block that begins at `first` times the columns that they see."""
        b = self.b
        return lambda row, end: Bounds(self.seen(first + end), b.constant(0), b.constant(inner))

    def steps_of(self, first: Value, columns: int) -> Callable[[Value, Value], Bounds]:
        """Bounds of sums over the columns that the rows of the block that begins at `first` see."""
        b = self.b
        return lambda row, end: Bounds(b.constant(columns), b.constant(0), self.seen(first + end))

    def each(self, count: Value, body: Callable[[Value, Value], None]) -> None:
        """body(index, mask) for the vectors of `count` elements"""
        with self.b.loop(0, count, self.lanes) as index:
            body(index, self.b.mask(count - index, self.lanes))

    def rows_together(self) -> int:
        """How many rows of scores are computed side by side."""
        return self.b.target.side_by_side(ROWS_TOGETHER)


class ScoreRows:
    """Some rows of a block of scores side by side: the instructions of each fill the waiting times of the others.

    Values are the rows one behind the other. Of the last rows of a block the very last may be there several times.
    """

    def __init__(
        self, writer: AttentionWriter, batch: Value, head: Value, first: Value, row: Value, count: Value
    ) -> None:
        b, p = writer.b, writer.problem
        self.writer, self.b, self.lanes = writer, b, writer.lanes
        self.places = [b.least(row + index, count - 1) for index in range(writer.rows_together())]
        self.seen = [writer.seen(first + place + 1) for place in self.places]
        # Zeros behind what a row sees, as far as the other rows of its register tile see, or the columns of one reach.
        self.end = b.least(self.seen[-1] + MOST_ROWS, p.columns)
        self._masks = [self._mask(batch, head, first + place) for place in self.places]

    def each(self, body: Callable[[Value, Value | None], None]) -> None:
        """body(index, mask) for vectors of columns: what all rows see without a mask, and then the rest"""
        b, lanes = self.b, self.lanes
        whole = self.seen[0] // lanes * lanes
        with b.loop(0, whole, lanes) as index:
            body(index, None)
        with b.loop(whole, self.end, lanes) as index:
            body(index, b.join([b.mask(seen - index, lanes) for seen in self.seen]))

    def load(self, matrix: Matrix, index: Value) -> Value:
        """A vector of each row."""
        lines = [self.writer.rows_of(matrix, place).base for place in self.places]
        return self.b.join([self.b.load(line, index, self.writer.vector) for line in lines])

    def store(self, value: Value, matrix: Matrix, index: Value) -> None:
        """Write what `load` reads."""
        for place, part in zip(self.places, self._parts(value), strict=True):
            self.b.store(part, self.writer.rows_of(matrix, place).base, index)

    def splat(self, values: Sequence[Value]) -> Value:
        """A number for each row."""
        return self.b.join([self.b.splat(value, self.lanes) for value in values])

    def fold(self, value: Value, combine: str) -> list[Value]:
        """A number of each row."""
        return [self.b.fold(part, combine) for part in self._parts(value)]

    def masked(self, score: Value, index: Value, part: Value | None) -> Value:
        """The scores with the operand mask applied; those outside `part` are not looked at."""
        if self.writer.problem.mask is None:
            return score
        inside = [None] * len(self.places) if part is None else self._parts(part)
        parts = zip(self._parts(score), self._masks, inside, strict=True)
        return self.b.join([mask(score, index, vector) for score, mask, vector in parts])

    def _parts(self, value: Value) -> list[Value]:
        starts = range(0, value.type.lanes, self.lanes)
        return [self.b.shuffle(value, value, range(start, start + self.lanes)) for start in starts]

    def _mask(self, batch: Value, head: Value, row: Value) -> Callable[[Value, Value, Value | None], Value]:
        """score(s, column, mask) of one row"""
        b, p = self.b, self.writer.problem
        if p.mask is None:
            return lambda score, column, mask: score
        kind, steps = p.mask, p.mask_strides
        start = batch * steps[0] + head * steps[1] + row * steps[2]
        place = b.offset(self.writer.w.argument(6 if p.gradient else 3), start, kind)

        def apply(score: Value, column: Value, mask: Value | None) -> Value:
            if steps[3] == 1:
                read = b.load(place, column, Type(kind, self.lanes), mask)
            else:
                read = b.splat(b.load(place, 0, Type(kind)), self.lanes)
            return b.choose(read, score, -math.inf) if kind == BOOL else score + read

        return apply
