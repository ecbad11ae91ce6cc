"""Sorting, the largest elements, and places in a sorted row, by unsigned keys that are in order as the elements are.

    key(x) = its bits, so that key(a) < key(b) where a < b; both zeros have one key, all nan the largest

A row is sorted stably by the bytes of its keys, from the least: count the bytes of each value, then move each element
behind those before it; a byte that all keys share moves nothing. Short rows are sorted by insertion. Few of many
elements are kept in a sorted list, which the rest of the row is compared with, a register at a time.
An item is a row, so that threads do not change bits.
"""

from __future__ import annotations

import math

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithoutMemory, ceiling, phase
from nnc.codegen.frame.row import KernelRow, Rows, Specs, View, Views
from nnc.codegen.ir.builder import (
    BOOL,
    F32,
    F64,
    I8,
    I32,
    I64,
    INDEX,
    U8,
    Builder,
    Module,
    Scalar,
    Type,
    Value,
)
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase, aligned
from nnc.codegen.ir.target import TargetDescription
from nnc.ops.indexing.order import SEARCHSORTED, SORT, TOP_K, SearchAttrs, SortAttrs, TopAttrs

U32 = Scalar("u32", "i32", "i32", 4, signed=False)
U64 = Scalar("u64", "i64", "i64", 8, signed=False)
BYTE, DIGITS = 8, 256
# Rows up to this many elements are sorted by insertion, and of rows this many times as long at most so many are kept:
# 0.5 ns · length per element against 12 ns and 256 counters for each byte.
INSERTED, KEPT, SHARE = 24, 64, 4
LARGEST_ROW = 2**31 - 1
NANOSECONDS_PER_MOVE, NANOSECONDS_PER_STEP, NANOSECONDS_PER_KEY = 1.5, 4.0, 0.3
VALUES = 256  # of an item of a search


def key_bits(scalar: Scalar) -> int:
    """Bits of a key that may differ; those of halves are the keys of f32."""
    return 8 * computed(scalar).size


def key_of(b: Builder, x: Value, *, descending: bool = False) -> Value:
    """The key of an element or of each lane; `descending` keys are in order where elements fall."""
    scalar = computed(x.type.scalar)
    kept = U64 if scalar.size == F64.size else U32
    bits = key_bits(scalar)
    if scalar.floating:
        value = b.cast(x, scalar)
        # -0 + 0 is +0.
        raw = b.reinterpret(value + 0.0, I64 if kept == U64 else I32)
        negative = b.shift_right(raw, bits - 1)
        turned = b.exclusive(raw, b.either(negative, b.constant(-(2 ** (bits - 1)), raw.type)))
        key = b.choose(b.unordered(value), b.constant(-1, raw.type), turned)
    else:
        key = b.cast(x, I64 if kept == U64 else I32)
        key = key + (2 ** (bits - 1) if scalar.signed else 0)
    if descending:
        key = b.exclusive(key, b.constant(2**bits - 1, key.type))
    return b.reinterpret(key, kept)


@dataclass(frozen=True, slots=True)
class RankedRows:
    """The first `count` of the sorted elements along an axis of `size`, and where they were.

    Operands: x [outer, size, inner]; values and index [outer, count, inner].
    """

    scalar: Scalar
    outer: int
    size: int
    inner: int
    count: int
    descending: bool

    @property
    def keeps(self) -> bool:
        """Few of many are kept in a list; otherwise the whole row is sorted."""
        return self.count <= KEPT and self.count * SHARE <= self.size

    @property
    def passes(self) -> int:
        """Bytes of a key."""
        return key_bits(self.scalar) // BYTE

    def workspace(self, target: TargetDescription) -> int:
        """None."""
        return 0

    def scratch(self, target: TargetDescription) -> int:
        """Keys and places, twice, and how often each byte is there."""
        return 2 * sum(self.room(target)) + self.passes * DIGITS * I32.size

    def room(self, target: TargetDescription) -> tuple[int, int]:
        """Bytes of the keys of a row, and of its places."""
        lanes = target.lanes(32)
        whole = ceiling(self.size, lanes) * lanes
        return aligned(whole * (F64 if self.passes > U32.size else F32).size), aligned(whole * I32.size)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a row."""
        rows = self.outer * self.inner if self.count else 0
        with phase(module, name) as w:
            if rows:
                _RankWriter(self, w).write()
        moves = NANOSECONDS_PER_KEY if self.keeps else self.passes * NANOSECONDS_PER_MOVE
        return (Phase(name, rows, rows * (self.size * moves + self.count)),)


class _RankWriter:
    """The rows of one kernel."""

    def __init__(self, problem: RankedRows, w: PhaseWriter) -> None:
        self.problem, self.w, self.b = problem, w, w.b
        self.key = U64 if problem.passes > U32.size else U32
        self.lanes = self.b.target.lanes(32)
        keys, places = problem.room(self.b.target)
        starts = (0, keys, 2 * keys, 2 * keys + places, 2 * (keys + places))
        first, second, here, there, self.counts = (self.b.offset(w.scratch, start, I8) for start in starts)
        self.keys, self.places = (first, second), (here, there)

    def write(self) -> None:
        """for row: keys, their order, the elements in it"""
        b, problem = self.b, self.problem
        with b.loop(self.w.begin, self.w.end) as item:
            outer, column = item // problem.inner, item % problem.inner
            x = b.offset(self.w.argument(0), outer * (problem.size * problem.inner) + column, self._moved)
            self._fill(x)
            target = outer * (problem.count * problem.inner) + column
            if problem.keeps:
                self._insert_all(problem.count)
                self._keep()
                self._put(x, self.places[0], target)
            elif problem.size <= INSERTED:
                self._insert_all(problem.size)
                self._put(x, self.places[0], target)
            else:
                self._put(x, self._by_bytes(), target)

    @property
    def _moved(self) -> Scalar:
        """Truth values are moved as the bytes that they are."""
        return U8 if self.problem.scalar == BOOL else self.problem.scalar

    def _fill(self, x: Value) -> None:
        """Keys and places of the row; behind its end stand keys that come last."""
        b, problem, kind = self.b, self.problem, Type(self._moved, self.lanes)
        with b.loop(0, problem.size, self.lanes) as index:
            mask = b.mask(problem.size - index, self.lanes) if problem.size % self.lanes else None
            if problem.inner == 1:
                read = b.load(x, index, kind, mask)
            else:
                read = b.gather(x, index * problem.inner, problem.inner, kind, mask)
            key = key_of(b, read, descending=problem.descending)
            if mask is not None:
                key = b.choose(mask, key, b.constant(-1, key.type))
            b.store(key, self.keys[0], index)
            place = b.splat(b.cast(index, I32), self.lanes) + b.enumerate_lanes(Type(I32, self.lanes))
            b.store(place, self.places[0], index)

    def _insert_all(self, count: int) -> None:
        """The first `count` keys in order, with their places."""
        b = self.b
        with b.loop(1, count) as index:
            self._insert(b.load(self.keys[0], index, Type(self.key)), index, index)

    def _insert(self, key: Value, place: Value, end: Value) -> None:
        """Put a key behind those in [0, end) that are not larger; these go up by one."""
        b, (keys, _), (places, _) = self.b, self.keys, self.places
        at = b.variable(end)
        with b.repeat() as search:
            here = at.get()
            search.until(b.compare("<=", here, 0))
            before = b.load(keys, here - 1, Type(self.key))
            search.until(b.compare("<=", before, key))
            b.store(before, keys, here)
            b.store(b.load(places, here - 1, Type(I32)), places, here)
            at.set(here - 1)
        b.store(key, keys, at.get())
        b.store(b.cast(place, I32), places, at.get())

    def _keep(self) -> None:
        """for register of the rest: insert what is less than the last of the list"""
        b, count, keys = self.b, self.problem.count, self.keys[0]
        # The list itself is looked at again where it ends within a register: none of it is less than its last.
        worst = b.variable(b.load(keys, count - 1, Type(self.key)))
        with b.loop(count, self.problem.size, self.lanes) as index:
            loaded = b.load(keys, index, Type(self.key, self.lanes))
            fits = b.any_lane(b.compare("<", loaded, b.splat(worst.get(), self.lanes)))
            last = b.least(index + self.lanes, self.problem.size)
            with b.when(fits), b.loop(index, last) as place:
                key = b.load(keys, place, Type(self.key))
                with b.when(b.compare("<", key, worst.get())):
                    self._insert(key, place, b.constant(count - 1))
                    worst.set(b.load(keys, count - 1, Type(self.key)))

    def _by_bytes(self) -> Value:
        """Where the places of the sorted row are."""
        b = self.b
        self._count()
        keys, places = [b.variable(start) for start in self.keys], [b.variable(start) for start in self.places]
        for number in range(self.problem.passes):
            counts = b.offset(self.counts, number * DIGITS, I32)
            shared = b.load(counts, self._digit(b.load(keys[0].get(), 0, Type(self.key)), number), Type(I32))
            with b.when(b.compare("!=", shared, self.problem.size)):
                self._sum(counts)
                self._move(
                    counts, number, [variable.get() for variable in keys], [variable.get() for variable in places]
                )
                for pair in (keys, places):
                    before, after = (variable.get() for variable in pair)
                    pair[0].set(after)
                    pair[1].set(before)
        return places[0].get()

    def _digit(self, key: Value, number: int) -> Value:
        """A byte of a key, as an index."""
        b = self.b
        return b.cast(b.both(b.shift_right(key, BYTE * number), b.constant(DIGITS - 1, key.type)), I64)

    def _count(self) -> None:
        """counts[number, digit] = how many keys have this byte"""
        b, passes = self.b, self.problem.passes
        with b.loop(0, passes * DIGITS, self.lanes) as index:
            b.store(b.zero(Type(I32, self.lanes)), self.counts, index)
        with b.loop(0, self.problem.size) as index:
            key = b.load(self.keys[0], index, Type(self.key))
            for number in range(passes):
                place = self._digit(key, number) + number * DIGITS
                b.store(b.load(self.counts, place, Type(I32)) + 1, self.counts, place)

    def _sum(self, counts: Value) -> None:
        """counts[digit] = where the keys with this byte begin"""
        b = self.b
        begin = b.variable(b.constant(0, Type(I32)))
        with b.loop(0, DIGITS) as digit:
            count = b.load(counts, digit, Type(I32))
            b.store(begin.get(), counts, digit)
            begin.set(begin.get() + count)

    def _move(self, counts: Value, number: int, keys: list[Value], places: list[Value]) -> None:
        b = self.b
        with b.loop(0, self.problem.size) as index:
            key, place = b.load(keys[0], index, Type(self.key)), b.load(places[0], index, Type(I32))
            digit = self._digit(key, number)
            target = b.load(counts, digit, Type(I32))
            b.store(target + 1, counts, digit)
            wide = b.cast(target, I64)
            b.store(key, keys[1], wide)
            b.store(place, places[1], wide)

    def _put(self, x: Value, places: Value, target: Value) -> None:
        """The elements at the first places, and the places."""
        b, problem, moved = self.b, self.problem, self._moved
        values, index = b.offset(self.w.argument(1), target, moved), b.offset(self.w.argument(2), target, I64)
        with b.loop(0, problem.count) as k:
            place = b.cast(b.load(places, k, Type(I32)), I64)
            b.store(b.load(x, place * problem.inner, Type(moved)), values, k * problem.inner)
            b.store(place, index, k * problem.inner)


@dataclass(frozen=True, slots=True)
class SearchedRow(WithoutMemory):
    """y[k] = how many of the `size` sorted elements x[k // each] are less than values[k]; with `right`, not larger.

    All values search in one row where `each` is 0.
    """

    scalar: Scalar
    size: int
    count: int
    right: bool
    each: int = 0

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is VALUES values."""
        each = module.target.share(VALUES)
        with phase(module, name) as w:
            b, kind = w.b, Type(self.scalar)
            x, values, y = (w.argument(place) for place in range(3))
            with b.loop(w.begin * each, b.least(w.end * each, self.count)) as index:
                wanted = key_of(b, b.load(values, index, kind))
                row = b.offset(x, index // self.each * self.size, self.scalar) if self.each else x
                low, high = b.variable(b.constant(0, INDEX)), b.variable(b.constant(self.size, INDEX))
                with b.repeat() as search:
                    search.until(b.compare(">=", low.get(), high.get()))
                    middle = (low.get() + high.get()) // 2
                    before = b.compare("<=" if self.right else "<", key_of(b, b.load(row, middle, kind)), wanted)
                    low.set(b.choose(before, middle + 1, low.get()))
                    high.set(b.choose(before, high.get(), middle))
                b.store(low.get(), y, index)
        cost = self.count * math.log2(self.size + 2) * NANOSECONDS_PER_STEP
        return (Phase(name, ceiling(self.count, each), cost),)


def _ranked(x: View, axis: int, count: int, *, descending: bool) -> Generator:
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    return RankedRows(x.scalar, outer, x.shape[axis], inner, count, descending)


def _sort(attrs: SortAttrs, inputs: Views, outputs: Views) -> Generator:
    return _ranked(inputs[0], attrs.axis, inputs[0].shape[attrs.axis], descending=attrs.descending)


def _top(attrs: TopAttrs, inputs: Views, outputs: Views) -> Generator:
    return _ranked(inputs[0], attrs.axis, attrs.count, descending=attrs.largest)


def _search(attrs: SearchAttrs, inputs: Views, outputs: Views) -> Generator:
    x, values = inputs
    each = values.shape[-1] if len(x.shape) > 1 else 0
    return SearchedRow(x.scalar, x.shape[-1], values.elements, attrs.right, each)


def _short(attrs: object, inputs: Specs, outputs: Specs) -> str:
    """Places in a row are counted in 32 bits."""
    return "too many elements in a row" if any(size > LARGEST_ROW for size in inputs[0].shape) else ""


ROWS: Rows = {
    SORT: KernelRow(_sort, _short),
    TOP_K: KernelRow(_top, _short),
    SEARCHSORTED: KernelRow(_search, _short),
}
