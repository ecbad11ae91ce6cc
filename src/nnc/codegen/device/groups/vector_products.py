"""Matrix times vector by groups of threads: y[j] = sum_k m[j, k] * v[k] + bias[j], each element of m read once.

Where m is contiguous along j, neighbouring threads have neighbouring outputs, and those of a column share its k. Where
it is contiguous along k, threads in step share the sum of an output, or all of a group where outputs are few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.columns import MOST_COLUMNS, THREADS, GroupColumns
from nnc.codegen.device.groups.shared_memory import barrier, fold_distances, folded_in_step, subgroup_of, thread_of
from nnc.codegen.frame.kernel import PhaseWriter, ceiling, phase
from nnc.codegen.frame.sums import FlushedSums, in_runs, is_long
from nnc.codegen.ir.builder import Module, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.products.gemv import Gemv, vector_product
from nnc.core.values.derived import known

# Groups that keep a device busy, and the fewest outputs of one that still reads whole sectors.
MANY_GROUPS, LEAST_COLUMNS = 132, 8
# Elements of m that a thread reads before it adds one; and where there are several vectors.
TOGETHER, TOGETHER_OF_ROWS = 8, 2
# Sums of at most this many outputs are shared by threads in step.
MANY_OUTPUTS, LONG = 1024, 1024
NANOSECONDS = 0.01


@dataclass(frozen=True, slots=True)
class GroupVectorProduct:
    """The kernel of a product; `columns` are the outputs of a group, 0 where m is contiguous along k."""

    product: Gemv
    columns: int

    threads, paired = THREADS, False

    @classmethod
    def of(cls, product: Gemv, target: TargetDescription) -> GroupVectorProduct | None:
        """The kernel; None where sizes are read, or there is nothing to do."""
        p = product
        if target.threads < 2 or not known(p.outputs) or not known(p.inner) or not p.outputs or not p.inner:
            return None
        if p.m_inner == 1 and p.weights is None:
            return cls(p, 0 if p.outputs >= MANY_OUTPUTS or p.inner < LONG else 1)
        columns = MOST_COLUMNS
        while columns > LEAST_COLUMNS and ceiling(p.outputs, columns) < MANY_GROUPS:
            columns //= 2
        return cls(p, columns)

    @classmethod
    def of_product(cls, product: Gemm, target: TargetDescription) -> GroupVectorProduct | None:
        """The kernel of 16 bits with one row or one column: sums are kept in registers here."""
        made = vector_product(product.problem) if product.epilogue is None else None
        return None if made is None else cls.of(made, target)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is some outputs."""
        each = self.columns or THREADS // module.target.threads
        with phase(module, name) as w:
            writer = _VectorWriter(w, self)
            with w.b.loop(w.begin, w.end) as item:
                if self.columns:
                    writer.columns(item)
                    barrier(w.b)
                else:
                    writer.subgroup(item * each)
        p = self.product
        return (Phase(name, ceiling(p.outputs, each), NANOSECONDS * p.outputs * p.inner),)


class _VectorWriter:
    """Writes what a group does with some outputs."""

    def __init__(self, w: PhaseWriter, kernel: GroupVectorProduct) -> None:
        p = kernel.product
        self.w, self.b, self.p, self.work = w, w.b, p, Type(computed(p.scalar))
        self.m, self.v = w.argument(p.matrix), w.argument(1 - p.matrix)
        places = iter(range(2, 5))
        self.scale = w.argument(next(places)) if p.weights else None
        self.bias = w.argument(next(places)) if p.bias else None
        self.y = w.argument(next(places))
        self.together = TOGETHER if p.rows == 1 else TOGETHER_OF_ROWS
        self.group = GroupColumns.of(w.b, kernel.columns, self.work.scalar) if kernel.columns else None

    def _terms(self, output: Value) -> Callable[[Value], Sequence[Value]]:
        """m[j, k] * v[r, k] of each vector."""
        b, p = self.b, self.p

        def terms(k: Value) -> list[Value]:
            weight = b.cast(b.load(self.m, output * p.m_outputs + k * p.m_inner, Type(p.stored)), self.work.scalar)
            vectors = (b.load(self.v, k * p.v_step + row * p.inner, Type(p.scalar)) for row in range(p.rows))
            return [weight * b.cast(value, self.work.scalar) for value in vectors]

        return terms

    def columns(self, item: Value) -> None:
        """The threads of a column share its sum."""
        b, p, group = self.b, self.p, self.group
        assert group is not None
        output = item * group.columns + group.column
        inside = b.compare("<", output, p.outputs)
        at = b.least(output, p.outputs - 1)
        flushed = is_long(self.work, p.inner // (group.rows * self.together))
        sums = group.combined(
            (b.constant(0), b.constant(p.inner)), b.zero(self.work), p.rows, self._terms(at), "add",
            together=self.together, flushed=flushed,
        )  # fmt: skip
        totals = [group.folded(mine, "add") for mine in sums]
        with b.when(b.both(inside, b.compare("==", group.row, 0))):
            self._write(output, totals)

    def subgroup(self, first: Value) -> None:
        """Threads in step share the sum of an output, which is one vector's alone."""
        b, p, threads = self.b, self.p, self.b.target.threads
        output, lane = first + subgroup_of(b), thread_of(b) % threads
        terms = self._terms(b.least(output, p.outputs - 1))
        flushed = is_long(self.work, p.inner // (threads * self.together))
        sums = FlushedSums.start(b, b.zero(self.work), self.together, flushed=flushed)
        step = threads * self.together
        whole = p.inner // step * step
        with in_runs(b, 0, whole, step, [sums]) as k:
            values = [terms(k + number * threads + lane)[0] for number in range(self.together)]
            for slot, value in zip(sums.sums, values, strict=True):
                slot.set(slot.get() + value)
        with b.loop(whole, p.inner, threads) as k:
            inside = b.compare("<", k + lane, p.inner)
            value = terms(b.choose(inside, k + lane, 0))[0]
            sums.sums[0].set(sums.sums[0].get() + b.choose(inside, value, 0.0))
        sums.flush()
        total = sums.totals[0].get()
        for slot in sums.totals[1:]:
            total = total + slot.get()
        total = folded_in_step(b, b.cast(total, self.work.scalar), fold_distances(threads), b.add)
        with b.when(b.both(b.compare("==", lane, 0), b.compare("<", output, p.outputs))):
            self._write(output, [total])

    def _write(self, output: Value, totals: Sequence[Value]) -> None:
        """y = total · scale + bias"""
        b, p = self.b, self.p
        bias = None
        if self.bias is not None:
            bias = b.cast(b.load(self.bias, output if p.bias > 1 else 0, Type(p.scalar)), self.work.scalar)
        for row, total in enumerate(totals):
            value = total
            if self.scale is not None:
                value = value * b.cast(b.load(self.scale, output, Type(p.scalar)), self.work.scalar)
            value = value if bias is None else value + bias
            b.store(b.cast(value, p.scalar), self.y, output + row * p.outputs)
