"""Products of a few rows with weights in blocks of a few bits, by groups of threads.

    y[r, j] = sum over blocks of sum_i x[r, i] * w[j, i] + bias[j]

Threads in step share the sum of an output, a block each: its bytes become numbers in registers. Rows of x lie in the
memory of the group, one word apart for each block so that threads meet other banks, where they fit it.
"""

from __future__ import annotations

from collections.abc import Callable

from nnc.classes import dataclass
from nnc.codegen.device.groups.shared_memory import (
    SharedArray,
    barrier,
    fold_distances,
    shuffled,
    subgroup_of,
    thread_of,
)
from nnc.codegen.frame.block_values import WIDTH, block_vectors
from nnc.codegen.frame.kernel import PhaseWriter, ceiling, phase
from nnc.codegen.ir.builder import F32, U8, Module, Type, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.quantization.blocks import BlockRows

THREADS = 256
# Of the group's memory, for x.
MOST_BYTES = 12 * 1024
NANOSECONDS = 0.01


@dataclass(frozen=True, slots=True)
class GroupBlockRows:
    """The kernel of a product."""

    product: BlockRows

    threads, paired = THREADS, False

    @classmethod
    def of(cls, product: BlockRows, target: TargetDescription) -> GroupBlockRows | None:
        """The kernel; None of nothing."""
        return cls(product) if 1 < target.threads <= THREADS and product.outputs and product.inner else None

    @property
    def pitch(self) -> int:
        """Words of a row of x in the memory of the group."""
        return self.product.inner // self.product.form.size * (self.product.form.size + 1)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is an output of each subgroup."""
        p, each = self.product, THREADS // module.target.threads
        with phase(module, name) as w:
            b, read = w.b, self._rows(w)
            with b.loop(w.begin, w.end) as item:
                output = item * each + subgroup_of(b)
                self._output(w, output, read)
        return (Phase(name, ceiling(p.outputs, each), NANOSECONDS * p.outputs * p.inner * p.rows),)

    def _rows(self, w: PhaseWriter) -> Callable[[int, Value, int], Value]:
        """What reads x: (row, number of a block, place in it)."""
        b, p, size = w.b, self.product, self.product.form.size
        x = w.argument(0)
        if p.rows * self.pitch * F32.size > MOST_BYTES:
            return lambda row, number, place: b.load(x, number * size + (row * p.inner + place), Type(F32))
        near, thread = SharedArray.reserve(b, "x", F32, p.rows * self.pitch), thread_of(b)
        with b.loop(0, p.rows * p.inner, THREADS) as first:
            index = first + thread
            with b.when(b.compare("<", index, p.rows * p.inner)):
                near.store(b.load(x, index, Type(F32)), index + index // size)
        barrier(b)
        return lambda row, number, place: near.load(number * (size + 1) + (row * self.pitch + place))

    def _output(self, w: PhaseWriter, output: Value, read: Callable[[int, Value, int], Value]) -> None:
        """The sums of an output with all rows."""
        b, p, threads = w.b, self.product, w.b.target.threads
        form, lane = p.form, thread_of(b) % threads
        start = b.offset(w.argument(1), b.least(output, p.outputs - 1) * form.row_bytes(p.inner), U8)
        totals = [b.variable(b.zero(Type(F32))) for _ in range(p.rows)]
        blocks = p.inner // form.size
        with b.loop(0, blocks, threads) as first:
            number = first + lane
            with b.when(b.compare("<", number, blocks)):
                for place, values in block_vectors(b, p.format, b.offset(start, number * form.bytes, U8)):
                    weights = [b.extract(values, i) for i in range(WIDTH)]
                    for row, total in enumerate(totals):
                        whole = total.get()
                        for i, weight in enumerate(weights):
                            whole = b.fma(weight, read(row, number, place + i), whole)
                        total.set(whole)
        sums = [total.get() for total in totals]
        for distance in fold_distances(threads):
            sums = [each + shuffled(b, each, distance) for each in sums]
        with b.when(b.both(b.compare("==", lane, 0), b.compare("<", output, p.outputs))):
            for row, whole in enumerate(sums):
                bias = b.load(w.argument(2), output, Type(F32)) if p.bias else None
                b.store(whole if bias is None else whole + bias, w.argument(2 + p.bias), output + row * p.outputs)
