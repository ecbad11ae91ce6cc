"""Attention over what a generation keeps by groups of threads: k and v are read once, 16 bytes at a time.

First phase: an item is a part of the columns for all query rows of a key head. Neighbouring threads have one column of
k, and add what each has of its scores; a warp for each row turns these into powers; threads then have a piece of v's
features each, of some columns, and what they have summed is added up. Second phase, where there are several parts: an
item is a row of y, the sum of its parts. Operands, workspace and formulas are those of `kernels.sequence`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.shared_memory import (
    SharedArray,
    barrier,
    fold_distances,
    folded_in_step,
    is_aligned,
    load_words,
    thread_of,
)
from nnc.codegen.frame.kernel import PhaseWriter, phase
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import BF16, F16, F32, I8, I16, I32, Builder, LocalVariable, Module, Scalar, Type, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.sequence.cached_attention import PART, CachedAttention, Slots

WARP, THREADS = 32, 256
WARPS = THREADS // WARP
# Rows of an item: a warp each.
MOST_ROWS = WARPS
READ_BYTES = 16


@dataclass(frozen=True, slots=True)
class GroupCachedAttention:
    """The kernel of a problem."""

    problem: CachedAttention

    threads, paired = THREADS, False

    @classmethod
    def of(cls, problem: CachedAttention, target: TargetDescription) -> GroupCachedAttention | None:
        """The kernel of few rows, whose keys and values are 16 bytes of as many threads as share a column.

        None for sinks, and for columns that are wrapped or in pages.
        """
        p = problem
        if p.sinks or p.wrapped or p.places:
            return None
        if target.threads != WARP or p.scalar != F32 or p.held not in (F32, BF16, F16, I8) or p.together > MOST_ROWS:
            return None
        each = READ_BYTES // p.held.size
        shares = p.features // each, p.values // each
        fits = all(share in (1, 2, 4, 8, 16, 32) for share in shares) and p.features % each == p.values % each == 0
        return cls(p) if fits else None

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Parts, and their sums where there are several."""
        p = self.problem
        work = p.batch * p.rows * p.heads * p.columns * (p.features + p.values)
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as item:
            _PartWriter(p, w).write(item)
        phases = [Phase(name, p.batch * p.groups * p.parts, nanoseconds(module.target, F32, 2 * work))]
        if p.parts > 1:
            with phase(module, f"{name}_joined") as w, w.b.loop(w.begin, w.end) as row:
                _write_combined(p, w, row)
            rows = p.batch * p.rows * p.heads
            phases.append(Phase(f"{name}_joined", rows, float(rows * p.parts * p.values)))
        return tuple(phases)


class _PartWriter:
    """The first phase."""

    def __init__(self, problem: CachedAttention, w: PhaseWriter) -> None:
        self.p, self.w, self.b = problem, w, w.b
        self.thread = thread_of(self.b)
        self.warp, self.lane = self.thread // WARP, self.thread % WARP
        # Elements of a read.
        self.each = READ_BYTES // problem.held.size
        self.scores = SharedArray.reserve(self.b, "scores", F32, problem.together * PART)
        self.totals = SharedArray.reserve(self.b, "totals", F32, problem.together)
        self.sums = SharedArray.reserve(self.b, "sums", F32, WARPS * problem.together * problem.values)

    def write(self, item: Value) -> None:
        """Scores, powers, and weighted sums of a part."""
        b, p = self.b, self.p
        pair, part = item // p.parts, item % p.parts
        batch, group = pair // p.groups, pair % p.groups
        first = part * PART
        begin, end = self._seen(batch, first)
        self._score(batch, group, begin, end, first)
        barrier(b)
        self._power(batch, group, part, first)
        barrier(b)
        self._weigh(batch, group, part, (begin, end, first))
        barrier(b)

    def _position(self, batch: Value, row: Value | int) -> Value:
        """Where a row is."""
        b, p = self.b, self.p
        return b.cast(b.load(self.w.argument(3), batch * p.rows + row, Type(I32)), b.wrap(0).type.scalar)

    def _bounds(self, batch: Value, row: Value | int) -> tuple[Value, Value]:
        """The first column that a row sees, and behind the last one."""
        b, p = self.b, self.p
        position = self._position(batch, row)
        low = b.greatest(position + (1 - p.window), 0) if p.window else b.constant(0)
        return low, b.greatest(b.least(position + 1, p.columns), 0)

    def _seen(self, batch: Value, first: Value) -> tuple[Value, Value]:
        """Columns of the part that some row sees."""
        b, p = self.b, self.p
        bounds = [self._bounds(batch, row) for row in range(p.rows)]
        low, high = bounds[0]
        for each_low, each_high in bounds[1:]:
            low, high = b.least(low, each_low), b.greatest(high, each_high)
        begin = b.greatest(first, low)
        return begin, b.greatest(begin, b.least(high, first + PART))

    def _reader(self, operand: int, batch: Value, group: Value, width: int) -> Callable[[Value, Value], list[Value]]:
        """read(column, piece): the numbers of a read of one key head of k or v, in f32."""
        b, p = self.b, self.p
        pitch = p.groups * width
        source = b.offset(self.w.argument(operand), batch * (p.columns * pitch) + group * width, p.held)
        # Widths are whole reads, and so are rows of all heads.
        aligned = is_aligned(b, source)

        def read(column: Value, piece: Value) -> list[Value]:
            index = column * pitch + piece * self.each
            place = b.offset(source, index, p.held)
            numbers = [b.variable(b.zero(Type(F32))) for _ in range(self.each)]
            with b.when(aligned):
                _set(numbers, [number for word in load_words(b, place) for number in numbers_of(b, word, p.held)])
            with b.when(b.opposite(aligned)):
                _set(numbers, [b.cast(b.load(place, k, Type(p.held)), F32) for k in range(self.each)])
            return [number.get() for number in numbers]

        return read

    def _scale(self, operand: int, batch: Value, group: Value, column: Value) -> Value:
        p = self.p
        return self.b.load(self.w.argument(operand), (batch * p.columns + column) * p.groups + group, Type(F32))

    # -- scores

    def _score(self, batch: Value, group: Value, begin: Value, end: Value, first: Value) -> None:
        """scores[row, column - first] for columns that some row sees: neighbours have pieces of one column."""
        b, p = self.b, self.p
        shares = p.features // self.each
        piece, own = self.thread % shares, self.thread // shares
        read = self._reader(1, batch, group, p.features)
        queries = [self._query(batch, group, row, piece) for row in range(p.together)]
        # All threads of a warp go the same way, as they exchange: behind the last column stands the last one.
        with b.loop(begin, end, THREADS // shares) as start:
            column = b.least(start + own, end - 1)
            numbers = read(column, piece)
            factor = self._scale(4, batch, group, column) if p.scaled else None
            for row, query in enumerate(queries):
                total = b.zero(Type(F32))
                for number, held in zip(query, numbers, strict=True):
                    total = b.accumulate(number, held, total)
                total = folded_in_step(b, total, reversed(fold_distances(shares)), b.add)
                score = total if factor is None else total * factor
                if p.cap:
                    score = mathematics.tanh(b, score * (1.0 / p.cap)) * p.cap
                with b.when(b.both(b.compare("==", piece, 0), b.compare("<", start + own, end))):
                    self.scores.store(score, column - first + row * PART)

    def _query(self, batch: Value, group: Value, row: int, piece: Value) -> list[Value]:
        """A piece of a query times the factor of scores."""
        b, p = self.b, self.p
        start = self._slot(batch, group, row) * p.features
        place = b.offset(self.w.argument(0), start + piece * self.each, F32)
        return [b.load(place, number, Type(F32)) * p.scale for number in range(self.each)]

    # -- powers

    def _power(self, batch: Value, group: Value, part: Value, first: Value) -> None:
        """A warp turns the scores of a row into powers; the largest one and the sum of powers go to their places."""
        b, p = self.b, self.p
        repeats = p.heads // p.groups
        with b.when(b.compare("<", self.warp, p.together)):
            low, high = self._bounds(batch, self.warp // repeats if p.rows > 1 else 0)
            places, scores = [], []
            for number in range(PART // WARP):
                column = self.lane + number * WARP
                there = b.both(b.compare("<=", low, first + column), b.compare("<", first + column, high))
                places.append((column + self.warp * PART, there))
                score = b.variable(b.constant(-math.inf, Type(F32)))
                with b.when(there):
                    score.set(self.scores.load(places[-1][0]))
                scores.append(score.get())
            top = self._of_warp(scores, b.larger)
            shift = b.choose(b.compare("==", top, -math.inf), b.zero(top.type), top)
            powers = [
                b.choose(there, mathematics.decay(b, score - shift), 0.0)
                for score, (_, there) in zip(scores, places, strict=True)
            ]
            total = self._of_warp(powers, b.add)
            for power, (place, there) in zip(powers, places, strict=True):
                if p.scaled:
                    factor = b.variable(b.zero(power.type))
                    with b.when(there):
                        factor.set(self._scale(5, batch, group, first + (place - self.warp * PART)))
                    power = power * factor.get()
                self.scores.store(power, place)
            with b.when(b.compare("==", self.lane, 0)):
                self.totals.store(total, self.warp)
                if p.parts > 1:
                    slots = Slots.of(p, self.w)
                    place = self._slot(batch, group, self.warp) * p.parts + part
                    b.store(top, slots.tops, place)
                    b.store(total, slots.totals, place)

    def _of_warp(self, values: Sequence[Value], combine: Callable[[Value, Value], Value]) -> Value:
        """One number of all that threads of a warp have."""
        total = values[0]
        for value in values[1:]:
            total = combine(total, value)
        return folded_in_step(self.b, total, fold_distances(WARP), combine)

    def _slot(self, batch: Value, group: Value, row: Value | int) -> Value:
        """The number of a query row among all."""
        p = self.p
        repeats = p.heads // p.groups
        return (batch * p.rows + row // repeats) * p.heads + group * repeats + row % repeats

    # -- weighted sums

    def _weigh(self, batch: Value, group: Value, part: Value, span: tuple[Value, Value, Value]) -> None:
        """sum_j power[j] · v[j] of each row: of a thread's columns, of a warp's, of all."""
        b, p = self.b, self.p
        begin, end, first = span
        shares = p.values // self.each
        piece, own = self.thread % shares, self.thread // shares
        read = self._reader(2, batch, group, p.values)
        sums = [[b.variable(b.zero(Type(F32))) for _ in range(self.each)] for _ in range(p.together)]
        with b.loop(begin + own, end, THREADS // shares) as column:
            numbers = read(column, piece)
            for row, totals in enumerate(sums):
                power = self.scores.load(column - first + row * PART)
                for total, number in zip(totals, numbers, strict=True):
                    total.set(b.accumulate(power, number, total.get()))
        for row, totals in enumerate(sums):
            for place, total in enumerate(totals):
                value = folded_in_step(
                    b, total.get(), [shares * each for each in reversed(fold_distances(WARP // shares))], b.add
                )
                with b.when(b.compare("<", self.lane, shares)):
                    index = (self.warp * p.together + row) * p.values + piece * self.each + place
                    self.sums.store(value, index)
        barrier(b)
        with b.loop(self.thread, p.together * p.values, THREADS) as number:
            line, feature = number // p.values, number % p.values
            result = self.sums.load(number)
            for warp in range(1, WARPS):
                result = result + self.sums.load(number + warp * (p.together * p.values))
            self._write(result, self._slot(batch, group, line), part, feature, line)

    def _write(self, value: Value, slot: Value, part: Value, feature: Value, row: Value) -> None:
        """Into y, or the place of a part."""
        b, p = self.b, self.p
        if p.parts > 1:
            b.store(value, Slots.of(p, self.w).sums, (slot * p.parts + part) * p.values + feature)
            return
        total = self.totals.load(row)
        unit = b.constant(1.0, total.type)
        result = value * (unit / b.choose(b.compare("==", total, 0.0), unit, total))
        b.store(result, self.w.argument(4 + 2 * p.scaled), slot * p.values + feature)


def _set(variables: Sequence[LocalVariable], values: Sequence[Value]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.set(value)


def numbers_of(b: Builder, word: Value, held: Scalar) -> list[Value]:
    """The numbers of a word of 32 bits, in f32."""
    if held == F32:
        return [b.reinterpret(word, F32)]
    if held == I8:
        bits = (b.shift_right(b.shift_left(word, 24 - 8 * k), 24) for k in range(4))
        return [b.cast(each, F32) for each in bits]
    if held == BF16:
        upper = b.both(word, b.constant(-65536, word.type))
        return [b.reinterpret(each, F32) for each in (b.shift_left(word, 16), upper)]
    halves = (b.cast(word, I16), b.cast(b.shift_right(word, 16), I16))
    return [b.cast(b.reinterpret(half, F16), F32) for half in halves]


def _write_combined(p: CachedAttention, w: PhaseWriter, row: Value) -> None:
    """y[row] = sum of parts · e^(top - highest), over the sum of their totals · e^(top - highest); 0 of nothing"""
    b, kind = w.b, Type(F32)
    slots, thread = Slots.of(p, w), thread_of(b)
    top = b.variable(b.constant(-math.inf, kind))
    with b.loop(0, p.parts) as part:
        top.set(b.larger(top.get(), b.load(slots.tops, row * p.parts + part, kind)))
    with b.loop(thread, p.values, THREADS) as feature:
        total, value = b.variable(b.zero(kind)), b.variable(b.zero(kind))
        with b.loop(0, p.parts) as part:
            place = row * p.parts + part
            own = b.load(slots.tops, place, kind)
            # A part of which nothing is seen counts 0.
            weight = b.choose(b.compare("==", own, -math.inf), b.zero(kind), mathematics.decay(b, own - top.get()))
            total.set(b.accumulate(weight, b.load(slots.totals, place, kind), total.get()))
            value.set(b.accumulate(weight, b.load(slots.sums, place * p.values + feature, kind), value.get()))
        unit = b.constant(1.0, kind)
        inverse = unit / b.choose(b.compare("==", total.get(), 0.0), unit, total.get())
        b.store(value.get() * inverse, w.argument(4 + 2 * p.scaled), row * p.values + feature)
