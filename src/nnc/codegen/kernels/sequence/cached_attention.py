"""Attention over what a generation keeps, in parts of its columns; the formulas are in `nnc/ops/sequence`.

First phase: an item is a part of the columns for all query heads of a key head. Keys of a register of columns are
widened once for all rows, scores become powers, which weigh v as it lies (of 4 bits, widened before); each part has its
largest score, the sum of its powers, and its weighted sum of v. Second phase, where there are several parts: a row of y
is their sum, each times e^(its largest score - the largest of all). How long parts are follows neither workers nor the
other rows of a batch, so bits do not either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate

from nnc.classes import dataclass
from nnc.codegen.frame.block_product import BlockProduct, Bounds, Matrix
from nnc.codegen.frame.kernel import Generator, PhaseWriter, ceiling, phase
from nnc.codegen.frame.row import KernelRow, Rows, Specs, Views
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import I32, U8, Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.native_kernel import Phase, aligned
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.sequence.attention_sizes import sums_of_each
from nnc.core.values import dtype
from nnc.ops.sequence.cached_attention import CACHED_ATTENTION, PAGE, CachedAttentionAttrs

# Columns of a part, which lie in one page.
PART = PAGE


@dataclass(frozen=True, slots=True)
class CachedAttention:
    """Sizes as in the formulas. `held` is the type of k and v, `places` how many columns all pages have (0: no pages).

    Operands: q, k, v, positions, scales if `scaled`, starts if there are pages, y.
    """

    scalar: Scalar
    held: Scalar
    batch: int
    rows: int
    columns: int
    heads: int
    groups: int
    features: int
    values: int
    scale: float
    window: int
    cap: float
    scaled: bool
    sinks: int
    wrapped: bool
    places: int

    @property
    def result(self) -> int:
        """The operand that y is."""
        return 4 + 2 * self.scaled + (self.places > 0)

    @property
    def together(self) -> int:
        """Rows of an item: those of all query heads of a key head, heads of a row side by side."""
        return self.rows * (self.heads // self.groups)

    @property
    def halved(self) -> bool:
        """Whether a byte of k and v has two numbers: of the first half of the features, and of the other one."""
        return self.held == U8

    @property
    def parts(self) -> int:
        """Parts of the columns."""
        return ceiling(self.columns, PART)

    def workspace(self, target: TargetDescription) -> int:
        """Of each part and row: its largest score, the sum of its powers, its weighted sum; none of a single part."""
        rows = self.batch * self.rows * self.heads * self.parts
        return 0 if self.parts == 1 else aligned(rows * (2 + self.values) * self.scalar.size)

    def scratch(self, target: TargetDescription) -> int:
        """A part's scores, two numbers for each row, keys of a register of columns; v of a part of 4 bits."""
        lanes = target.lanes(8 * self.scalar.size)
        numbers = self.together * (PART + 2) + lanes * self.features + self.halved * PART * self.values
        return aligned(numbers * self.scalar.size)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Parts, and their sums where there are several."""
        work = self.batch * self.rows * self.heads * self.columns * (self.features + self.values)
        with phase(module, name) as w:
            _PartWriter(self, w).write()
        phases = [Phase(name, self.batch * self.groups * self.parts, nanoseconds(module.target, self.scalar, 2 * work))]
        if self.parts > 1:
            with phase(module, f"{name}_joined") as w:
                _write_combined(self, w)
            rows = self.batch * self.rows * self.heads
            phases.append(Phase(f"{name}_joined", rows, float(rows * self.parts * self.values)))
        return tuple(phases)


@dataclass(frozen=True, slots=True)
class Slots:
    """Where parts lie in the workspace: numbers [rows, parts] twice, sums [rows, parts, values]."""

    tops: Value
    totals: Value
    sums: Value

    @classmethod
    def of(cls, problem: CachedAttention, w: PhaseWriter) -> Slots:
        count = problem.batch * problem.rows * problem.heads * problem.parts
        place = w.argument(problem.result + 1)
        return cls(*(w.b.offset(place, start, problem.scalar) for start in (0, count, 2 * count)))


class _PartWriter:
    """The first phase."""

    def __init__(self, problem: CachedAttention, w: PhaseWriter) -> None:
        self.problem, self.w, self.b = problem, w, w.b
        self.lanes = w.b.target.lanes(8 * problem.scalar.size)
        self.vector = Type(problem.scalar, self.lanes)
        sizes = problem.together * PART, problem.together, problem.together
        places = [w.b.offset(w.scratch, start, problem.scalar) for start in accumulate((0, *sizes))]
        self.scores, self.tops, self.totals, self.keys = places
        # Of the part at hand.
        self.origin = w.b.wrap(0)

    def write(self) -> None:
        """for part of the columns of a key head: scores, powers, weighted sum of v"""
        b, p = self.b, self.problem
        with b.loop(self.w.begin, self.w.end) as item:
            pair, part = item // p.parts, item % p.parts
            batch, group = pair // p.groups, pair % p.groups
            first = part * PART
            self.origin = self._origin(batch, part, first)
            begin, end = self._seen(batch, first)
            self._score(batch, group, begin, end, first)
            if p.halved:
                v = self._held(2, group, p.values)
                with b.loop(begin, end) as column:
                    self._split(b.offset(v.base, column * v.row, U8), self._line(column - first), p.values)
            with b.loop(0, p.together) as row:
                self._power(batch, group, row, begin, end, first)
            with b.loop(0, p.rows) as row:
                self._weigh(batch, group, row, part, (begin, end, first))

    def _origin(self, batch: Value, part: Value, first: Value) -> Value:
        """Where the first column of an example is, as a part sees it."""
        b, p = self.b, self.problem
        if not p.places:
            return batch * p.columns
        start = b.load(self.w.argument(4 + 2 * p.scaled), batch * p.parts + part, Type(I32))
        start = b.cast(start, b.wrap(0).type.scalar)
        return b.greatest(b.least(start, p.places - PART), 0) - first

    def _position(self, batch: Value, row: Value) -> Value:
        """Behind the last column that a row sees."""
        b, p = self.b, self.problem
        return b.greatest(b.least(self._own(batch, row) + 1, p.columns), 0)

    def _lowest(self, batch: Value, row: Value) -> Value:
        """The first column that a row sees, behind the sinks where there are any."""
        b, p = self.b, self.problem
        if not p.window:
            return b.wrap(0)
        return b.greatest(self._own(batch, row) + (1 - p.window), p.sinks)

    def _own(self, batch: Value, row: Value) -> Value:
        """The column of a row's own position."""
        place = self._place(batch, row)
        return self._column(place) if self.problem.wrapped else place

    def _late(self, batch: Value, row: Value) -> Value:
        """Columns from here on are before a row's own by way of the end: none before all were written once."""
        b, p = self.b, self.problem
        around, place = p.columns - p.sinks, self._place(batch, row)
        begun = b.greatest(self._column(place) + (1 - p.window + around), p.sinks)
        return b.choose(b.compare("<", place, b.wrap(p.columns)), b.wrap(p.columns), b.least(begun, p.columns))

    def _place(self, batch: Value, row: Value) -> Value:
        b = self.b
        place = b.load(self.w.argument(3), batch * self.problem.rows + row, Type(I32))
        return b.cast(place, b.wrap(0).type.scalar)

    def _column(self, place: Value) -> Value:
        """Where a position lies in columns that are wrapped."""
        b, p = self.b, self.problem
        around = (place - p.sinks) % (p.columns - p.sinks) + p.sinks
        return b.choose(b.compare("<", place, b.wrap(p.columns)), place, around)

    def _seen(self, batch: Value, first: Value) -> tuple[Value, Value]:
        """Columns of the part that some row sees, from a whole register on."""
        b, p = self.b, self.problem
        last, low = b.variable(b.wrap(0)), b.variable(b.wrap(p.columns))
        late = b.variable(b.wrap(p.columns))
        with b.loop(0, p.rows) as row:
            last.set(b.greatest(last.get(), self._position(batch, row)))
            low.set(b.least(low.get(), self._lowest(batch, row)))
            if p.wrapped:
                late.set(b.least(late.get(), self._late(batch, row)))
        begin = b.greatest(first, low.get() // self.lanes * self.lanes)
        end = b.greatest(begin, b.least(last.get(), first + PART))
        if p.wrapped:
            stop = b.least(first + PART, p.columns)
            around = b.compare("<", late.get(), stop)
            begin, end = b.choose(around, first, begin), b.choose(around, stop, end)
        if p.sinks:
            stop = b.least(b.least(last.get(), p.sinks), first + PART)
            sinking = b.compare("<", first, stop)
            whole = b.choose(b.compare("<", begin, end), b.greatest(end, stop), stop)
            begin, end = b.choose(sinking, first, begin), b.choose(sinking, whole, end)
        return begin, end

    def _held(self, operand: int, group: Value, width: int) -> Matrix:
        """Rows of one key head of k or v."""
        p = self.problem
        width //= 1 + p.halved
        start = self.origin * (p.groups * width) + group * width
        return Matrix(self.b.offset(self.w.argument(operand), start, p.held), p.groups * width)

    def _scales(self, operand: int, group: Value, column: Value, mask: Value) -> Value:
        """Those of a register of columns."""
        b, p = self.b, self.problem
        place = b.offset(self.w.argument(operand), (self.origin + column) * p.groups + group, p.scalar)
        return b.gather(place, b.wrap(0), p.groups, self.vector, mask)

    def _query(self, batch: Value, group: Value, row: Value) -> Value:
        b, p = self.b, self.problem
        repeats = p.heads // p.groups
        place = ((batch * p.rows + row // repeats) * p.heads + group * repeats + row % repeats) * p.features
        return b.offset(self.w.argument(0), place, p.scalar)

    def _score(self, batch: Value, group: Value, begin: Value, end: Value, first: Value) -> None:
        """scores[row, column - first] = scale · sum_d q[row, d] · k[column, d]"""
        b, p, lanes = self.b, self.problem, self.lanes
        k = self._held(1, group, p.features)
        with b.loop(begin, end, lanes) as column:
            starts = [b.offset(k.base, b.least(column + lane, p.columns - 1) * k.row, p.held) for lane in range(lanes)]
            if p.held != p.scalar:
                starts = self._widened(starts)
            factor = b.constant(p.scale, self.vector)
            if p.scaled:
                factor = self._scales(4, group, column, b.mask(p.columns - column, lanes)) * factor
            with b.loop(0, p.together) as row:
                query = self._query(batch, group, row)
                sums = [b.variable(b.zero(self.vector)) for _ in starts]
                with b.loop(0, p.features, lanes) as index:
                    mask = b.mask(p.features - index, lanes) if p.features % lanes else None
                    vector = b.load(query, index, self.vector, mask)
                    for start, total in zip(starts, sums, strict=True):
                        total.set(b.fma(vector, b.load(start, index, self.vector, mask), total.get()))
                score = sums_of_each(b, [total.get() for total in sums]) * factor
                if p.cap:
                    score = mathematics.tanh(b, score * (1.0 / p.cap)) * p.cap
                b.store(score, self.scores, row * PART + (column - first))

    def _widened(self, starts: Sequence[Value]) -> list[Value]:
        """Keys of a register of columns in the scratch."""
        b, p, lanes = self.b, self.problem, self.lanes
        places = [b.offset(self.keys, lane * p.features, p.scalar) for lane in range(lanes)]
        if p.halved:
            for start, place in zip(starts, places, strict=True):
                self._split(start, place, p.features)
            return places
        with b.loop(0, p.features, lanes) as index:
            mask = b.mask(p.features - index, lanes) if p.features % lanes else None
            for start, place in zip(starts, places, strict=True):
                b.store(b.cast(b.load(start, index, Type(p.held, lanes), mask), p.scalar), place, index, mask)
        return places

    def _split(self, source: Value, place: Value, width: int) -> None:
        """place[d] = byte[d] mod 16 - 8, place[width / 2 + d] = floor(byte[d] / 16) - 8 of width / 2 bytes"""
        b, p, lanes, half = self.b, self.problem, self.lanes, width // 2
        with b.loop(0, half, lanes) as index:
            mask = b.mask(half - index, lanes) if half % lanes else None
            words = b.cast(b.load(source, index, Type(U8, lanes), mask), I32)
            low, high = b.both(words, b.constant(15, words.type)), b.shift_right(words, 4)
            b.store(b.cast(low, p.scalar) - 8.0, place, index, mask)
            b.store(b.cast(high, p.scalar) - 8.0, place, index + half, mask)

    def _line(self, column: Value) -> Value:
        """v of a column of the part, widened: behind keys of a register of columns."""
        p = self.problem
        return self.b.offset(self.keys, column * p.values + self.lanes * p.features, p.scalar)

    def _mask(self, batch: Value, row: Value) -> Callable[[Value], Value]:
        """Which of a register of columns a row sees, by the first of them."""
        b, p, lanes = self.b, self.problem, self.lanes
        high, low = self._position(batch, row), self._lowest(batch, row)
        late = self._late(batch, row) if p.wrapped else None
        columns = b.enumerate_lanes(Type(b.wrap(0).type.scalar, lanes))

        def seen(column: Value) -> Value:
            mask = b.mask(high - column, lanes)
            if not p.window:
                return mask
            places = b.splat(column, lanes) + columns
            mask = b.both(mask, b.compare(">=", places, b.splat(low, lanes)))
            if late is not None:
                around = b.both(b.compare(">=", places, b.splat(late, lanes)), b.mask(p.columns - column, lanes))
                mask = b.either(mask, around)
            return b.either(mask, b.mask(b.least(high, p.sinks) - column, lanes)) if p.sinks else mask

        return seen

    def _power(self, batch: Value, group: Value, row: Value, begin: Value, end: Value, first: Value) -> None:
        """Scores to powers of e, times the scales of v; columns that the row does not see get 0"""
        b, p, lanes = self.b, self.problem, self.lanes
        repeats = p.heads // p.groups
        scores = b.offset(self.scores, row * PART, p.scalar)
        seen = self._mask(batch, row // repeats)
        top, numberless = b.variable(b.constant(-math.inf, self.vector)), b.variable(b.zero(self.vector))
        with b.loop(begin, end, lanes) as column:
            score, mask = b.load(scores, column - first, self.vector), seen(column)
            top.set(b.larger(top.get(), b.choose(mask, score, -math.inf)))
            # A comparison loses a NaN, a sum does not.
            wrong = b.both(mask, b.opposite(b.compare("==", score, score)))
            numberless.set(numberless.get() + b.choose(wrong, score, 0.0))
        spoiled = b.fold(numberless.get(), "add")
        highest = b.fold(top.get(), "larger") + spoiled
        shift = b.splat(b.choose(b.compare("==", highest, -math.inf), b.zero(highest.type), highest), lanes)
        total = b.variable(b.zero(self.vector))
        with b.loop(begin, end, lanes) as column:
            mask = seen(column)
            power = mathematics.decay(b, b.load(scores, column - first, self.vector) - shift)
            power = b.choose(mask, power, 0.0)
            total.set(total.get() + power)
            if p.scaled:
                power = power * self._scales(5, group, column, mask)
            b.store(power, scores, column - first)
        b.store(highest, self.tops, row)
        b.store(b.fold(total.get(), "add") + spoiled, self.totals, row)

    def _weigh(self, batch: Value, group: Value, row: Value, part: Value, span: tuple[Value, Value, Value]) -> None:
        """sum_j power[j] · v[j] of the query heads of a row: into y, or a part's place"""
        b, p = self.b, self.problem
        begin, end, first = span
        repeats = p.heads // p.groups
        if p.halved:
            right = Matrix(self._line(b.wrap(0)), p.values)
        else:
            v = self._held(2, group, p.values)
            right = Matrix(b.offset(v.base, first * v.row, p.held), v.row, held=p.held)
        left = Matrix(b.offset(self.scores, row * repeats * PART, p.scalar), PART)
        start = (batch * p.rows + row) * p.heads + group * repeats
        sums = b.constant(p.values), begin - first, end - first
        if p.parts == 1:
            factors = b.offset(self.totals, row * repeats, p.scalar)
            with b.loop(0, repeats) as head:
                total = b.load(factors, head, Type(p.scalar))
                unit = b.constant(1.0, total.type)
                b.store(unit / b.choose(b.compare("==", total, 0.0), unit, total), factors, head)
            result = Matrix(b.offset(self.w.argument(p.result), start * p.values, p.scalar), p.values)
        else:
            slots, factors = Slots.of(p, self.w), None
            with b.loop(0, repeats) as head:
                for place, held in ((slots.tops, self.tops), (slots.totals, self.totals)):
                    b.store(b.load(held, row * repeats + head, Type(p.scalar)), place, (start + head) * p.parts + part)
            place = b.offset(slots.sums, (start * p.parts + part) * p.values, p.scalar)
            result = Matrix(place, p.parts * p.values)
        BlockProduct(
            p.scalar, left, right, result, lambda low, high: Bounds(*sums), (repeats, p.values), factors=factors
        ).write(b, b.constant(repeats))


def _write_combined(problem: CachedAttention, w: PhaseWriter) -> None:
    """y[row] = sum of parts · e^(top - highest), over the sum of their totals · e^(top - highest); 0 of nothing"""
    b, p = w.b, problem
    slots, y = Slots.of(p, w), w.argument(p.result)
    kind, lanes = Type(p.scalar), b.target.lanes(8 * p.scalar.size)
    with b.loop(w.begin, w.end) as row:
        top = b.variable(b.constant(-math.inf, kind))
        with b.loop(0, p.parts) as part:
            top.set(b.larger(top.get(), b.load(slots.tops, row * p.parts + part, kind)))
        total = b.variable(b.zero(kind))
        line = b.offset(y, row * p.values, p.scalar)
        _fill(b, line, p.values, lanes, p.scalar)
        with b.loop(0, p.parts) as part:
            place = row * p.parts + part
            own = b.load(slots.tops, place, kind)
            # A part of which nothing is seen has no sums; of a NaN, comparisons say that it is there.
            with b.when(b.opposite(b.compare("==", own, -math.inf))):
                weight = mathematics.decay(b, own - top.get())
                total.set(total.get() + weight * b.load(slots.totals, place, kind))
                source = b.offset(slots.sums, place * p.values, p.scalar)
                _add(b, line, source, weight, p.values, lanes)
        unit = b.constant(1.0, kind)
        inverse = unit / b.choose(b.compare("==", total.get(), 0.0), unit, total.get())
        with b.loop(0, p.values, lanes) as index:
            mask = b.mask(p.values - index, lanes)
            value = b.load(line, index, Type(p.scalar, lanes), mask) * b.splat(inverse, lanes)
            b.store(value, line, index, mask)


def _fill(b: Builder, line: Value, count: int, lanes: int, scalar: Scalar) -> None:
    with b.loop(0, count, lanes) as index:
        b.store(b.zero(Type(scalar, lanes)), line, index, b.mask(count - index, lanes))


def _add(b: Builder, line: Value, source: Value, weight: Value, count: int, lanes: int) -> None:
    """line += weight · source"""
    kind = Type(weight.type.scalar, lanes)
    with b.loop(0, count, lanes) as index:
        mask = b.mask(count - index, lanes)
        value = b.fma(b.load(source, index, kind, mask), b.splat(weight, lanes), b.load(line, index, kind, mask))
        b.store(value, line, index, mask)


def _generator(attrs: CachedAttentionAttrs, inputs: Views, outputs: Views) -> Generator:
    q, k, _, _, *others = inputs
    scaled, paged = len(others) > 1, len(others) % 2 == 1
    columns, places = (PAGE * others[-1].shape[1], k.shape[1]) if paged else (k.shape[1], 0)
    return CachedAttention(
        q.scalar, k.scalar, q.shape[0], q.shape[1], columns, q.shape[2], k.shape[2], q.shape[3],
        outputs[0].shape[3], attrs.scale, attrs.window, attrs.cap, scaled,
        attrs.sinks, attrs.wrapped, places,
    )  # fmt: skip


def _filled(attrs: CachedAttentionAttrs, inputs: Specs, outputs: Specs) -> str:
    if inputs[0].dtype not in (dtype.F32, dtype.F64):
        return f"element type {inputs[0].dtype} of q"
    return "an empty operand" if any(spec.elements == 0 for spec in (*inputs, *outputs)) else ""


ROWS: Rows = {CACHED_ATTENTION: KernelRow(_generator, _filled)}
