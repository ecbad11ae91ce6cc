"""Rows at positions that a tensor names, over arrays seen as [outer, axis, inner].

    select:         y[o, k, i] = x[o, index[k], i]
    add:            y[o, index[k], i] += x[o, k, i], y zero before
    gather:         y[o, k, i] = x[o, index[o, k, i], i]
    scatter_along:  y[o, index[o, k, i], i] += x[o, k, i], y zero before
    scatter:        y[o, index[o, k, i], i] = updates[o, k, i], y = x before
    one_hot:        y[k, c] = [c == index[k]]; label_distribution is one that is smoothed

An index outside its axis is never followed: it sets the first word of the workspace. Sums run in the order of k within
a column, so threads do not change bits.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from typing import Self

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithoutMemory, WithoutScratch, WithSizes, ceiling, phase
from nnc.codegen.frame.row import (
    KernelRow,
    Refuse,
    Rows,
    Specs,
    Views,
    only,
)
from nnc.codegen.ir.builder import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    SCALARS,
    U8,
    Builder,
    Module,
    Scalar,
    Type,
    Value,
)
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import ALIGNMENT, Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Read, known_multiple
from nnc.ops.indexing.indexing import (
    GATHER,
    INDEX_SELECT,
    ONE_HOT,
    SCATTER,
    SCATTER_ADD,
    SCATTER_ALONG,
    AxisAttrs,
    OneHotAttrs,
    ScatterAttrs,
)
from nnc.ops.loss.loss import LABEL_DISTRIBUTION, LabelDistributionAttrs

BLOCK_VECTORS = 4
ELEMENTS = 1024  # of an item of gather
COLUMNS = 64  # of an item that scatters elements
# One-hot rows count their classes in 32 bits.
LARGEST_CLASS = 2**31 - 1
NANOSECONDS_PER_VECTOR = 1.0


@dataclass(frozen=True, slots=True)
class IndexedKernel(WithoutScratch, WithSizes):
    """Positions along an axis of `size`, `count` of them, named by a tensor of `index`."""

    scalar: Scalar
    index: Scalar
    outer: int
    size: int
    count: int
    inner: int

    def opened(self, read: Read, target: TargetDescription) -> Self:
        """All sizes are read."""
        outer, size, count = read(self.outer), read(self.size), read(self.count)
        return replace(
            self, outer=outer, size=size, count=count, inner=read(self.inner) if self.inner > 1 else self.inner
        )

    def workspace(self, target: TargetDescription) -> int:
        """The word that tells of a wrong index."""
        return ALIGNMENT


@dataclass(frozen=True, slots=True)
class Selection(IndexedKernel):
    """`count` positions along an axis of `size`; with `adding`, the rows of x are added at these positions of y."""

    adding: bool = False

    @property
    def sums(self) -> Scalar:
        """The type that rows are added in: halves in f32, in the worker's own memory."""
        return computed(self.scalar) if self.adding else self.scalar

    def scratch(self, target: TargetDescription) -> int:
        """A block of columns of y in f32."""
        width = BLOCK_VECTORS * target.lanes(8 * self.sums.size)
        return 0 if self.sums == self.scalar else self.size * width * self.sums.size

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a copied row, or a block of columns that takes all rows."""
        writer = _AddWriter if self.adding else _SelectWriter
        with phase(module, name) as w:
            items = writer(self, w).write()
        rows = self.outer * (self.count + (self.size if self.adding else 0))
        vectors = rows * ceiling(self.inner, module.target.lanes(8 * self.scalar.size))
        return (Phase(name, items, vectors * NANOSECONDS_PER_VECTOR),)


class _IndexingWriter:
    """What both directions share: the checked index, vectors of a row."""

    def __init__(self, problem: Selection, writer: PhaseWriter) -> None:
        self.problem = problem
        self.w = writer
        self.b: Builder = writer.b
        # Truth values are moved as the bytes that they are.
        self.scalar = U8 if problem.scalar == BOOL else problem.scalar
        self.sums = U8 if problem.sums == BOOL else problem.sums
        self.lanes = self.b.target.lanes(8 * self.sums.size)
        self.vector = Type(self.scalar, self.lanes)
        self.x, self.y = writer.argument(0), writer.argument(2)

    def position(self, k: Value) -> tuple[Value, Value]:
        """index[k], and whether it is inside the axis."""
        return position(self.w, self.problem.index, self.problem.size, k)


class _SelectWriter(_IndexingWriter):
    """Copies one row per item."""

    def write(self) -> int:
        """for row: copy it from where its index says"""
        b, problem = self.b, self.problem
        with b.loop(self.w.begin, self.w.end) as item:
            outer, k = item // problem.count, item % problem.count
            place, _ = self.position(k)
            source = b.offset(self.x, (outer * problem.size + place) * problem.inner, self.scalar)
            target = b.offset(self.y, item * problem.inner, self.scalar)
            self._copy(source, target)
        return problem.outer * problem.count if problem.inner else 0

    def _copy(self, source: Value, target: Value) -> None:
        b, inner = self.b, self.problem.inner
        if inner == 1:
            b.store(b.load(source, 0, Type(self.scalar)), target, 0)
            return
        with b.loop(0, inner, self.lanes) as index:
            mask = None if known_multiple(inner, self.lanes) else b.mask(inner - index, self.lanes)
            b.store(b.load(source, index, self.vector, mask), target, index, mask)


class _AddWriter(_IndexingWriter):
    """Adds all rows within one block of columns per item."""

    def write(self) -> int:
        """for block: zero its columns, then add the rows in order"""
        b, problem = self.b, self.problem
        width = BLOCK_VECTORS * self.lanes
        blocks = ceiling(problem.inner, width)
        with b.loop(self.w.begin, self.w.end) as item:
            outer, column = item // max(blocks, 1), item % max(blocks, 1) * width
            rest = problem.inner - column
            ragged = not known_multiple(problem.inner, width)
            masks = [b.mask(rest - j * self.lanes, self.lanes) if ragged else None for j in range(BLOCK_VECTORS)]
            y = b.offset(self.y, outer * (problem.size * problem.inner) + column, self.scalar)
            x = b.offset(self.x, outer * (problem.count * problem.inner) + column, self.scalar)
            apart = self.sums != self.scalar
            sums, stride = (self.w.scratch, width) if apart else (y, problem.inner)
            self._clear(sums, stride, masks)
            with b.loop(0, problem.count) as k:
                self._add(x, (sums, stride), k, masks)
            if apart:
                self._round(sums, y, masks)
        return problem.outer * blocks

    def _clear(self, sums: Value, stride: int, masks: list[Value | None]) -> None:
        b, zero = self.b, self.b.zero(Type(self.sums, self.lanes))
        with b.loop(0, self.problem.size) as row:
            place = b.offset(sums, row * stride, self.sums)
            for j, mask in enumerate(masks):
                b.store(zero, place, j * self.lanes, mask)

    def _add(self, x: Value, sums: tuple[Value, int], k: Value, masks: list[Value | None]) -> None:
        b, (whole, stride), kind = self.b, sums, Type(self.sums, self.lanes)
        place, inside = self.position(k)
        with b.when(inside):
            source = b.offset(x, k * self.problem.inner, self.scalar)
            target = b.offset(whole, place * stride, self.sums)
            for j, mask in enumerate(masks):
                term = b.cast(b.load(source, j * self.lanes, self.vector, mask), self.sums)
                b.store(b.load(target, j * self.lanes, kind, mask) + term, target, j * self.lanes, mask)

    def _round(self, sums: Value, y: Value, masks: list[Value | None]) -> None:
        """The block of columns in the type of y."""
        b, width = self.b, BLOCK_VECTORS * self.lanes
        with b.loop(0, self.problem.size) as row:
            source = b.offset(sums, row * width, self.sums)
            target = b.offset(y, row * self.problem.inner, self.scalar)
            for j, mask in enumerate(masks):
                total = b.load(source, j * self.lanes, Type(self.sums, self.lanes), mask)
                b.store(b.cast(total, self.scalar), target, j * self.lanes, mask)


@dataclass(frozen=True, slots=True)
class Gather(IndexedKernel):
    """Elements at the positions, along an axis of `size`, that an index of `count` by `inner` has for each of them."""

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a run of rows."""
        rows = self.outer * self.count
        chunk = module.target.share(ceiling(ELEMENTS, self.inner))
        with phase(module, name) as w:
            b, moved = w.b, U8 if self.scalar == BOOL else self.scalar
            x, y = w.argument(0), w.argument(2)
            with b.loop(w.begin * chunk, b.least(w.end * chunk, rows)) as row, b.loop(0, self.inner) as column:
                place, inside = position(w, self.index, self.size, row * self.inner + column)
                source = (row // self.count * self.size + place) * self.inner + column
                with b.when(inside):
                    b.store(b.load(x, source, Type(moved)), y, row * self.inner + column)
        return (Phase(name, ceiling(rows, chunk), rows * self.inner * NANOSECONDS_PER_VECTOR),)


@dataclass(frozen=True, slots=True)
class ElementScatter(IndexedKernel):
    """The way back: elements are added, or with `written` put in the place of those of a first operand x."""

    written: bool

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a block of columns, which takes its elements in the order of k."""
        kind, blocks = Type(U8 if self.scalar == BOOL else self.scalar), ceiling(self.inner, COLUMNS)
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as item:
            b, outer, first = w.b, item // max(blocks, 1), item % max(blocks, 1) * COLUMNS
            x, source, y, last = (
                w.argument(0),
                w.argument(2 * self.written),
                w.argument(2 + self.written),
                3 + self.written,
            )
            columns, begin = b.least(self.inner - first, COLUMNS), outer * self.size
            # In the place of x, as caches of keys and values are, all but the written elements stand where they should.
            elsewhere = b.when(b.compare("!=", x, y)) if self.written else nullcontext()
            with elsewhere, b.loop(begin, begin + self.size) as row, b.loop(first, first + columns) as column:
                here = row * self.inner + column
                b.store(b.load(x, here, kind) if self.written else b.zero(kind), y, here)
            lanes = b.target.lanes(8 * self.scalar.size)
            together = lanes if self.written and self.inner >= lanes else 1
            with (
                b.loop(outer * self.count, (outer + 1) * self.count) as row,
                b.loop(first, first + columns, together) as column,
            ):
                here, count = row * self.inner + column, b.least(first + columns - column, together)
                alone = nullcontext() if together == 1 else b.when(b.opposite(self._as_one(w, here, count, together)))
                with alone, b.loop(0, count) as lane:
                    place, inside = position(w, self.index, self.size, here + lane, last)
                    there, value = (begin + place) * self.inner + column + lane, b.load(source, here + lane, kind)
                    with b.when(inside):
                        b.store(value if self.written else b.load(y, there, kind) + value, y, there)
        touched = self.outer * self.inner * (self.count + self.size)
        return (Phase(name, self.outer * blocks, touched * NANOSECONDS_PER_VECTOR),)

    def _as_one(self, w: PhaseWriter, here: Value, count: Value, lanes: int) -> Value:
        """Write `count` elements from `here` on as one vector where all go to the same row; whether they do."""
        b, mask, last = w.b, w.b.mask(count, lanes), 4
        named = b.load(w.argument(1), here, Type(self.index, lanes), mask)
        first = b.splat(b.load(w.argument(1), here, Type(self.index)), lanes)
        same = b.opposite(b.any_lane(b.both(mask, b.compare("!=", named, first))))
        with b.when(same):
            place, inside = position(w, self.index, self.size, here, last)
            with b.when(inside):
                kind = Type(U8 if self.scalar == BOOL else self.scalar, lanes)
                start = (here // (self.count * self.inner) * self.size + place) * self.inner + here % self.inner
                b.store(b.load(w.argument(2), here, kind, mask), w.argument(3), start, mask)
        return same


def position(w: PhaseWriter, index: Scalar, size: int, k: Value, word: int = 3) -> tuple[Value, Value]:
    """index[k] (operand 1), or 0 when it is outside an axis of `size`, and whether it is inside; `word` is set else."""
    b = w.b
    named = b.cast(b.load(w.argument(1), k, Type(index)), I64)
    inside = b.both(b.compare(">=", named, 0), b.compare("<", named, size))
    with b.when(b.opposite(inside)):
        b.store(b.constant(1), w.argument(word), 0)
    return b.choose(inside, named, b.constant(0)), inside


@dataclass(frozen=True, slots=True)
class OneHot(WithoutMemory, WithSizes):
    """y[k, c] = 1 where c == index[k], else 0; zeros alone for an index that names no class.

    With a share of `smoothing` for all classes y = (1 - s) · [c == index[k]] + s / classes; nan for no class.
    """

    scalar: Scalar
    index: Scalar
    count: int
    classes: int
    smoothing: float | None = None

    def opened(self, read: Read, target: TargetDescription) -> OneHot:
        """How many there are is read; classes are not."""
        return replace(self, count=read(self.count))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a row."""
        lanes = module.target.lanes(32)
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as row:
            b = w.b
            named = b.cast(b.load(w.argument(0), row, Type(self.index)), I64)
            inside = b.both(b.compare(">=", named, 0), b.compare("<", named, self.classes))
            label = b.cast(b.choose(inside, named, b.constant(-1)), I32)
            y = b.offset(w.argument(1), row * self.classes, self.scalar)
            with b.loop(0, self.classes, lanes) as index:
                wanted = b.splat(label - b.cast(index, I32), lanes)
                equal = b.compare("==", b.enumerate_lanes(Type(I32, lanes)), wanted)
                # Before the first class and for no class the difference is negative: it meets no lane.
                mask = b.mask(self.classes - index, lanes) if self.classes % lanes else None
                b.store(b.cast(self._value(b, equal, inside), self.scalar), y, index, mask)
        return (Phase(name, self.count, self.count * ceiling(self.classes, lanes) * NANOSECONDS_PER_VECTOR),)

    def _value(self, b: Builder, equal: Value, inside: Value) -> Value:
        if self.smoothing is None:
            return equal
        kind, share = Type(computed(self.scalar), equal.type.lanes), self.smoothing / self.classes
        low, high = (b.constant(number, kind) for number in (share, 1.0 - self.smoothing + share))
        return b.choose(inside, b.choose(equal, high, low), b.constant(math.nan, kind))


def _selected(*scalars: Scalar) -> Refuse:
    """Refuse x without elements, whose indices may be wrong all the same, and x of other types than `scalars`."""

    def refuse(attrs: AxisAttrs | ScatterAttrs, inputs: Specs, outputs: Specs) -> str:
        x, size = inputs[0], attrs.size if isinstance(attrs, ScatterAttrs) else 1
        return "nothing at its places" if 0 in (x.elements, size) else only(*scalars)(attrs, (x,), outputs)

    return refuse


def _select(attrs: AxisAttrs, inputs: Views, outputs: Views) -> Generator:
    (x, index), axis = inputs, attrs.axis
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    return Selection(x.scalar, index.scalar, outer, x.shape[axis], index.elements, inner)


def _scatter(attrs: ScatterAttrs, inputs: Views, outputs: Views) -> Generator:
    (x, index), axis = inputs, attrs.axis
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + len(index.shape) :])
    return Selection(x.scalar, index.scalar, outer, attrs.size, index.elements, inner, adding=True)


def _gather(attrs: AxisAttrs, inputs: Views, outputs: Views) -> Generator:
    (x, index), axis = inputs, attrs.axis
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    return Gather(x.scalar, index.scalar, outer, x.shape[axis], index.shape[axis], inner)


def _scatter_elements(attrs: AxisAttrs | ScatterAttrs, inputs: Views, outputs: Views) -> Generator:
    index, shape, axis = inputs[1], outputs[0].shape, attrs.axis
    outer, inner, written = math.prod(shape[:axis]), math.prod(shape[axis + 1 :]), isinstance(attrs, AxisAttrs)
    return ElementScatter(outputs[0].scalar, index.scalar, outer, shape[axis], index.shape[axis], inner, written)


def _one_hot(attrs: OneHotAttrs, inputs: Views, outputs: Views) -> Generator:
    return OneHot(outputs[0].scalar, inputs[0].scalar, inputs[0].elements, attrs.classes)


def _distribution(attrs: LabelDistributionAttrs, inputs: Views, outputs: Views) -> Generator:
    (labels,), (y,) = inputs, outputs
    return OneHot(y.scalar, labels.scalar, labels.elements, attrs.classes, attrs.smoothing)


def _few_classes(attrs: OneHotAttrs | LabelDistributionAttrs, inputs: Specs, outputs: Specs) -> str:
    return "too many classes" if attrs.classes > LARGEST_CLASS else ""


ROWS: Rows = {
    INDEX_SELECT: KernelRow(_select, _selected(*SCALARS.values()), checked=True),
    GATHER: KernelRow(_gather, _selected(*SCALARS.values()), checked=True),
    SCATTER_ADD: KernelRow(_scatter, _selected(F64, F32, F16, BF16, I64, I32, I16, I8, U8), checked=True),
    SCATTER_ALONG: KernelRow(_scatter_elements, _selected(F64, F32, I64, I32, I16, I8, U8), checked=True),
    SCATTER: KernelRow(_scatter_elements, _selected(*SCALARS.values()), checked=True),
    ONE_HOT: KernelRow(_one_hot, _few_classes),
    LABEL_DISTRIBUTION: KernelRow(_distribution, _few_classes),
}
