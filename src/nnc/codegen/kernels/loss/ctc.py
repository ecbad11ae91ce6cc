"""Connectionist temporal classification: an example is an item, its extended labels i are the lanes, sums are in f64.

    alpha[t, i] = x[t, e[i]] + ln (e^alpha[t-1, i] + e^alpha[t-1, i-1] + e^(alpha[t-1, i-2] + skip[i]))
    beta[t, i]  = x[t, e[i]] + ln (e^beta[t+1, i] + e^beta[t+1, i+1] + e^(beta[t+1, i+2] + skip[i+2]))
    slope[t, e[i]] -= e^(alpha[t, i] + beta[t, i] - x[t, e[i]] - ln total)

Rows of scratch memory have two places in front and some behind, which hold what cannot be. Only the gradient keeps all
rows of alpha. A length or a label outside its range sets the first word of the workspace, and the example is left out.
"""

from __future__ import annotations

from collections.abc import Callable

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, PhaseWriter, phase
from nnc.codegen.frame.row import KernelRow, Rows, Specs, Views, only
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import F32, F64, I64, Module, Scalar, Type, Value
from nnc.codegen.ir.native_kernel import ALIGNMENT, Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.ops.loss import ctc as ops
from nnc.ops.loss.ctc import LEAST, NOTHING, CtcAttrs

FRONT = 2
NANOSECONDS_PER_PLACE = 12.0
# Rows of scratch memory: extended labels, skips, costs of a step, beta in turns; then alpha.
EXTENDED, SKIP, COST, BETA, ALPHA = 0, 1, 2, 3, 5
WORD = 8


@dataclass(frozen=True, slots=True)
class Ctc:
    """loss[n], or with `slope` its derivative by x[n, t, c]; labels[n, s] and lengths are integers of these types."""

    scalar: Scalar
    integers: tuple[Scalar, Scalar, Scalar]
    batch: int
    steps: int
    classes: int
    labels: int
    attrs: CtcAttrs
    slope: bool

    def workspace(self, target: TargetDescription) -> int:
        """The word that tells of a wrong label or length."""
        return ALIGNMENT

    def width(self, target: TargetDescription) -> int:
        """Words of a row."""
        return FRONT + 2 * self.labels + 1 + FRONT + target.lanes(64)

    def scratch(self, target: TargetDescription) -> int:
        """The rows of one example."""
        return WORD * self.width(target) * (ALPHA + (self.steps if self.slope else 2))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is an example."""
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as item:
            _Example(self, w, item).write()
        places = self.batch * self.steps * (2 * self.labels + 1) * (3 if self.slope else 1)
        return (Phase(name, self.batch, places * NANOSECONDS_PER_PLACE),)


class _Example:
    """The steps of one example."""

    def __init__(self, problem: Ctc, writer: PhaseWriter, item: Value) -> None:
        self.p, self.w, self.b, self.item = problem, writer, writer.b, item
        self.lanes = self.b.target.lanes(64)
        self.vector = Type(F64, self.lanes)
        self.row_words = problem.width(self.b.target)
        self.x = self.b.offset(writer.argument(0), item * (problem.steps * problem.classes), problem.scalar)
        self.length, self.count = (self._integer(place, item) for place in (2, 3))
        self.last = self.count * 2

    def _integer(self, place: int, index: Value) -> Value:
        return self.b.cast(self.b.load(self.w.argument(place), index, Type(self.p.integers[place - 1])), I64)

    def _row(self, number: Value | int) -> Value:
        """The address of place 0 of a row."""
        words = self.b.wrap(number) * self.row_words + FRONT
        return self.b.offset(self.w.scratch, words, I64)

    def _alpha(self, step: Value) -> Value:
        return self._row((step if self.p.slope else step % 2) + ALPHA)

    def _number(self, value: float) -> Value:
        return self.b.constant(value, Type(F64))

    def write(self) -> None:
        b, p = self.b, self.p
        fits = b.both(self._between(self.length, p.steps), self._between(self.count, p.labels))
        with b.when(b.opposite(fits)):
            b.store(b.constant(1), self.w.argument(5), 0)
        if p.slope:
            with b.loop(0, p.steps * p.classes) as place:
                b.store(b.zero(Type(p.scalar)), self._output(), place)
        with b.when(fits):
            self._extend()
            total = self._forward()
            if p.slope:
                with b.when(b.both(b.compare(">=", total, LEAST), b.compare(">", self.length, 0))):
                    self._backward(total)
            else:
                impossible = self._number(0.0 if p.attrs.zero_infinity else float("inf"))
                loss = b.choose(b.compare("<", total, LEAST), impossible, b.negative(total))
                b.store(b.cast(loss, p.scalar), self.w.argument(4), self.item)

    def _between(self, value: Value, last: int) -> Value:
        return self.b.both(self.b.compare(">=", value, 0), self.b.compare("<=", value, last))

    def _output(self) -> Value:
        return self.b.offset(self.w.argument(4), self.item * (self.p.steps * self.p.classes), self.p.scalar)

    def _fill(self, row: Value) -> None:
        with self.b.loop(0, self.row_words) as place:
            self.b.store(self._number(NOTHING), row, place - FRONT)

    def _extend(self) -> None:
        """e and skip; both are defined behind the last place too."""
        b, p = self.b, self.p
        extended, skip = self._row(EXTENDED), self._row(SKIP)
        self._fill(skip)
        with b.loop(0, self.last + 1) as place:
            label = b.variable(b.constant(p.attrs.blank))
            with b.when(b.compare("==", place % 2, 1)):
                label.set(self._integer(1, self.item * p.labels + place // 2))
            wrong = b.opposite(self._between(label.get(), p.classes - 1))
            with b.when(wrong):
                b.store(b.constant(1), self.w.argument(5), 0)
                label.set(b.constant(p.attrs.blank))
            b.store(label.get(), extended, place)
            with b.when(b.compare(">=", place, 2)):
                other = b.compare("!=", label.get(), b.load(extended, place - 2, Type(I64)))
                apart = b.both(other, b.compare("!=", label.get(), p.attrs.blank))
                b.store(b.choose(apart, self._number(0.0), NOTHING), skip, place)

    def _costs(self, step: Value) -> Value:
        """x[t, e[i]] of a step, no less than NOTHING."""
        b, cost, extended = self.b, self._row(COST), self._row(EXTENDED)
        with b.loop(0, self.last + 1) as place:
            index = step * self.p.classes + b.load(extended, place, Type(I64))
            value = b.cast(b.load(self.x, index, Type(self.p.scalar)), F64)
            b.store(b.maximum(value, NOTHING), cost, place)
        return cost

    def _sum(self, ways: list[Value]) -> Value:
        """ln sum e^way"""
        b, largest = self.b, ways[0]
        for way in ways[1:]:
            largest = b.maximum(largest, way)
        parts = [mathematics.exponential(b, way - largest) for way in ways]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return largest + mathematics.logarithm(b, total)

    def _forward(self) -> Value:
        """alpha of all steps; ln of the sum over alignments."""
        b, vector = self.b, self.vector
        for number in range(1 if self.p.slope else 2):
            self._fill(self._row(ALPHA + number))
        skip, first, cost = self._row(SKIP), self._alpha(b.constant(0)), self._costs(b.constant(0))
        with b.loop(0, b.least(self.last + 1, 2)) as place:
            b.store(b.load(cost, place, Type(F64)), first, place)
        with b.loop(1, self.length) as step:
            cost, past, row = self._costs(step), self._alpha(step - 1), self._alpha(step)
            with b.loop(0, FRONT) as place:
                b.store(self._number(NOTHING), row, place - FRONT)
            with b.loop(0, self.last + 1, self.lanes) as place:
                here, before, apart = (b.load(past, place - back, vector) for back in range(3))
                ways = [here, before, apart + b.load(skip, place, vector)]
                b.store(self._sum(ways) + b.load(cost, place, vector), row, place)
        end = self._alpha(b.greatest(self.length - 1, 0))
        ends = [b.load(end, self.last - back, Type(F64)) for back in range(2)]
        total = b.extract(self._sum([b.splat(last_sum, self.lanes) for last_sum in ends]), 0)
        at_once = b.choose(b.compare("==", self.count, 0), self._number(0.0), NOTHING)
        return b.choose(b.compare("==", self.length, 0), at_once, total)

    def _backward(self, total: Value) -> None:
        """beta from the last step on, and the slopes of each step."""
        b, vector, skip = self.b, self.vector, self._row(SKIP)
        for number in range(2):
            self._fill(self._row(BETA + number))
        with b.loop(0, self.length) as back:
            step = self.length - 1 - back
            cost, later, row = self._costs(step), self._row((back + 1) % 2 + BETA), self._row(back % 2 + BETA)
            begins = b.compare("==", back, 0)
            with b.when(begins), b.loop(b.greatest(self.last - 1, 0), self.last + 1) as place:
                b.store(b.load(cost, place, Type(F64)), row, place)
            with b.when(b.opposite(begins)), b.loop(0, self.last + 1, self.lanes) as place:
                here, after, apart = (b.load(later, place + ahead, vector) for ahead in range(3))
                ways = [here, after, apart + b.load(skip, place + 2, vector)]
                b.store(self._sum(ways) + b.load(cost, place, vector), row, place)
            with b.loop(self.last + 1, self.last + 1 + FRONT) as place:
                b.store(self._number(NOTHING), row, place)
            self._slopes(step, cost, row, total)

    def _slopes(self, step: Value, cost: Value, beta: Value, total: Value) -> None:
        b, vector, alpha, extended = self.b, self.vector, self._alpha(step), self._row(EXTENDED)
        with b.loop(0, self.last + 1, self.lanes) as place:
            here, after, spent = (b.load(row, place, vector) for row in (alpha, beta, cost))
            part = b.minimum(here + after - spent - b.splat(total, self.lanes), 0.0)
            b.store(mathematics.exponential(b, part), cost, place)
        with b.loop(0, self.last + 1) as place:
            index, kind = step * self.p.classes + b.load(extended, place, Type(I64)), Type(self.p.scalar)
            taken = b.cast(b.load(cost, place, Type(F64)), self.p.scalar)
            b.store(b.load(self._output(), index, kind) - taken, self._output(), index)


def _ctc(*, slope: bool) -> Callable[[CtcAttrs, Views, Views], Generator]:
    def generate(attrs: CtcAttrs, inputs: Views, outputs: Views) -> Generator:
        x, labels, lengths, label_lengths = inputs
        integers = (labels.scalar, lengths.scalar, label_lengths.scalar)
        batch, steps, classes = x.shape
        return Ctc(x.scalar, integers, batch, steps, classes, labels.shape[1], attrs, slope)

    return generate


def _refuse(attrs: CtcAttrs, inputs: Specs, outputs: Specs) -> str:
    return only(F64, F32)(attrs, inputs[:1], outputs)


ROWS: Rows = {
    ops.CTC_LOSS: KernelRow(_ctc(slope=False), _refuse, checked=True),
    ops.CTC_GRADIENT: KernelRow(_ctc(slope=True), _refuse, checked=True),
}
