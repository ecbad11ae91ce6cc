"""Matrix times vector: y[j] = sum_k m[j, k] * v[k] + bias[j], where each element of m is read once.

    of bytes, a few vectors:  y[r, j] = (sum_k m[j, k] * v[r, k]) * scale[j] + bias[j]

Nothing is packed. Where m is contiguous along k, the lanes of a row share its sum, and a few rows are read side by
side. Where m is contiguous along j, a worker reads some k of all its outputs at a time and keeps the sums in y.
Elements of 16 bits are computed in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import PhaseWriter, WithoutMemory, WithSizes, ceiling, phase
from nnc.codegen.ir.builder import Builder, LocalVariable, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.products.gemm_plan import MatrixProduct
from nnc.core.values.derived import Read, known, known_multiple

ROWS, ACCUMULATORS = 4, 2
COLUMN_VECTORS, COLUMN_STEPS = 8, 8

_Vector = Callable[[Value, Value | None], None]


@dataclass(frozen=True, slots=True)
class Gemv(WithoutMemory, WithSizes):
    """Sizes, and strides in elements; `m_outputs` or `m_inner` is 1.

    Operands: m and v at the positions `matrix` and 1 - `matrix`, then a bias of `bias` elements (none, one, or one per
    output), then y, contiguous. Where m is of `weights`, bytes contiguous along its outputs, scales stand in front of
    the bias, and `rows` vectors and results lie behind each other.
    """

    scalar: Scalar
    outputs: int
    inner: int
    m_outputs: int
    m_inner: int
    v_step: int
    matrix: int
    bias: int = 0
    rows: int = 1
    weights: Scalar | None = None

    def opened(self, read: Read, target: TargetDescription) -> Gemv:
        """Outputs are read where they are rows of activations, which the vector of weights is multiplied with."""
        return self if self.matrix else replace(self, outputs=read(self.outputs))

    @property
    def stored(self) -> Scalar:
        """What m is of."""
        return self.weights or self.scalar

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a few outputs."""
        # Of bytes, a single output is a column too.
        along_inner = self.m_inner == 1 and self.weights is None
        block = ROWS if along_inner else COLUMN_VECTORS * module.target.lanes(8 * self.scalar.size)
        with phase(module, name) as writer:
            if not known(self.outputs) or self.outputs:
                made = _GemvWriter(self, writer)
                made.write_rows() if along_inner else made.write_columns(block)
        cost = module.target.machine.reading(self.outputs * self.inner * self.stored.size)
        return (Phase(name, ceiling(self.outputs, block), cost),)


def matrix_times_vector(product: MatrixProduct) -> Gemv | None:
    """The product with one row or one column as a Gemv; None for products that are none, or that round on the way."""
    made = vector_product(product)
    # Columns keep their sums in y, where 16 bits would round them.
    return None if made is None or (made.scalar.size == 2 and made.m_inner != 1) else made


def vector_product(product: MatrixProduct) -> Gemv | None:
    """The same, wherever sums are kept."""
    if product.batch or product.width or product.blocks is not None:
        return None
    if product.rows == 1:
        made = Gemv(
            product.scalar, product.columns, product.inner, product.b_columns, product.b_inner, product.a_inner, 1,
            product.columns if product.bias else 0,
        )  # fmt: skip
    elif product.columns == 1 and product.c_rows == 1:
        made = Gemv(
            product.scalar, product.rows, product.inner, product.a_rows, product.a_inner, product.b_inner, 0,
            int(product.bias),
        )  # fmt: skip
    else:
        return None
    return made if 1 in (made.m_outputs, made.m_inner) else None


class _GemvWriter:
    """Writes the loops of a product."""

    def __init__(self, problem: Gemv, writer: PhaseWriter) -> None:
        self.problem = problem
        self.b: Builder = writer.b
        self.w = writer
        self.work = computed(problem.scalar)
        self.kind = writer.b.vector(self.work)
        self.read = self.kind.of(problem.scalar)
        self.m = writer.argument(problem.matrix)
        self.v = writer.argument(1 - problem.matrix)
        places = iter(range(2, 5))
        self.scale = writer.argument(next(places)) if problem.weights else None
        self.bias = writer.argument(next(places)) if problem.bias else None
        self.y = writer.argument(next(places))

    def write_rows(self) -> None:
        """for a few outputs: the lanes walk k"""
        b, p, lanes = self.b, self.problem, self.kind.lanes
        step = ACCUMULATORS * lanes
        whole = p.inner // step * step
        with b.loop(self.w.begin, self.w.end) as item:
            first = item * ROWS
            outputs = [b.least(first + row, p.outputs - 1) for row in range(ROWS)]
            rows = [b.offset(self.m, output * p.m_outputs, p.scalar) for output in outputs]
            sums = [[b.variable(b.zero(self.kind)) for _ in range(ACCUMULATORS)] for _ in rows]
            with b.loop(0, whole, step) as k:
                for number in range(ACCUMULATORS):
                    self._add(rows, [group[number] for group in sums], k + number * lanes, None)
            with b.loop(whole, p.inner, lanes) as k:
                self._add(rows, [group[0] for group in sums], k, b.mask(p.inner - k, lanes))
            for row, (output, group) in enumerate(zip(outputs, sums, strict=True)):
                total = group[0].get()
                for slot in group[1:]:
                    total = total + slot.get()
                with b.when(b.compare("<", first + row, p.outputs)):
                    whole_sum = self._biased(b.fold(total, "add"), output)
                    b.store(b.cast(whole_sum, p.scalar), self.y, output)

    def _add(self, rows: Sequence[Value], sums: Sequence[LocalVariable], k: Value, mask: Value | None) -> None:
        """sums[row][lane] += m[row, k + lane] * v[k + lane]"""
        b, p = self.b, self.problem
        if p.v_step == 1:
            factor = b.load(self.v, k, self.read, mask)
        else:
            factor = b.gather(self.v, k * p.v_step, p.v_step, self.read, mask)
        factor = b.cast(factor, self.work)
        for row, total in zip(rows, sums, strict=True):
            total.set(b.fma(b.cast(b.load(row, k, self.read, mask), self.work), factor, total.get()))

    def _biased(self, total: Value, output: Value) -> Value:
        if self.bias is None:
            return total
        index = output if self.problem.bias > 1 else 0
        return total + self.b.cast(self.b.load(self.bias, index, Type(self.problem.scalar)), self.work)

    def write_columns(self, block: int) -> None:
        """y = bias; for some k: y += m[:, k] * v[k], for all outputs of the worker"""
        b, p = self.b, self.problem
        low, high = self.w.begin * block, b.least(self.w.end * block, p.outputs)
        vectors = self._rows(self.v, p.inner)
        results = self._rows(self.y, p.outputs)
        self._vectors(low, high, partial(self._start, results))
        whole = p.inner // COLUMN_STEPS * COLUMN_STEPS
        for first, last, count in ((0, whole, COLUMN_STEPS), (whole, p.inner, 1)):
            with b.loop(first, last, count) as k:
                factors = [
                    [
                        b.splat(b.load(v, (k + step) * p.v_step, Type(p.scalar)), self.kind.lanes)
                        for step in range(count)
                    ]
                    for v in vectors
                ]
                sources = [b.offset(self.m, (k + step) * p.m_inner, p.stored) for step in range(count)]
                self._vectors(low, high, _Step(self, results, factors, sources))
        if self.scale is not None:
            self._vectors(low, high, partial(self._scaled, results, self.scale))

    def _rows(self, operand: Value, length: int) -> list[Value]:
        """Where each of the rows begins."""
        rest = (self.b.offset(operand, row * length, self.problem.scalar) for row in range(1, self.problem.rows))
        return [operand, *rest]

    def _start(self, results: Sequence[Value], output: Value, mask: Value | None) -> None:
        b, p = self.b, self.problem
        if self.bias is None or self.scale is not None:
            value = b.zero(self.kind)
        elif p.bias == 1:
            value = b.splat(b.load(self.bias, 0, Type(p.scalar)), self.kind.lanes)
        else:
            value = b.load(self.bias, output, self.kind, mask)
        for y in results:
            b.store(value, y, output, mask)

    def _scaled(self, results: Sequence[Value], scales: Value, output: Value, mask: Value | None) -> None:
        """y = y * scale + bias"""
        b = self.b
        scale = b.load(scales, output, self.kind, mask)
        bias = b.zero(self.kind) if self.bias is None else b.load(self.bias, output, self.kind, mask)
        for y in results:
            b.store(b.fma(b.load(y, output, self.kind, mask), scale, bias), y, output, mask)

    def _vectors(self, low: Value, high: Value, write: _Vector) -> None:
        """for vector of outputs in [low, high): write it; the last one may be masked"""
        b, lanes = self.b, self.kind.lanes
        whole = high // lanes * lanes
        with b.loop(low, whole, lanes) as output:
            write(output, None)
        if not known_multiple(self.problem.outputs, lanes):
            with b.loop(whole, high, lanes) as output:
                write(output, b.mask(high - output, lanes))


@dataclass(frozen=True, slots=True)
class _Step:
    """y[output] += sum over a few k of factors[k] * sources[k][output], for each y"""

    writer: _GemvWriter
    results: Sequence[Value]
    factors: Sequence[Sequence[Value]]
    sources: Sequence[Value]

    def __call__(self, output: Value, mask: Value | None) -> None:
        b, kind = self.writer.b, self.writer.kind
        stored = kind.of(self.writer.problem.stored)
        # Of one row, a load stands before its use, and what is read does not fill registers.
        values: dict[int, Value] = {}
        for y, factors in zip(self.results, self.factors, strict=True):
            total = b.load(y, output, kind, mask)
            for place, (factor, source) in enumerate(zip(factors, self.sources, strict=True)):
                if place not in values:
                    values[place] = b.cast(b.load(source, output, stored, mask), kind.scalar)
                total = b.fma(values[place], factor, total)
            b.store(total, y, output, mask)
