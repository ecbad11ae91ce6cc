"""Rows that are added where an index says, as in the gradient of an embedding, by groups of threads.

    y[o, index[k], i] = sum over all k' with index[k'] = index[k] of x[o, k', i], in the order of k'; 0 elsewhere

An item is one k: the first that names a row adds up all of them, each thread some columns; the others are done.
"""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.codegen.device.groups.shared_memory import SharedArray, barrier, thread_of
from nnc.codegen.frame.kernel import PhaseWriter, ceiling, phase
from nnc.codegen.ir.builder import I32, Module, Type, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.indexing.indexing import Selection, position
from nnc.core.values.derived import known

THREADS = 256
# Each k looks at all others: of more the blocks of columns take the rows one after another.
MOST_ROWS = 1 << 16
# Elements of y that an item clears.
CLEARED = THREADS * 16
NANOSECONDS = 1.0


@dataclass(frozen=True, slots=True)
class GroupRowSums:
    """The kernel of a selection the way back."""

    rows: Selection

    threads, paired = THREADS, False

    @classmethod
    def of(cls, rows: Selection, target: TargetDescription) -> GroupRowSums | None:
        """The kernel; None of copies, of very many rows, and where a size is read."""
        sizes = (rows.outer, rows.size, rows.count, rows.inner)
        fits = rows.adding and all(map(known, sizes)) and 0 < rows.count <= MOST_ROWS and rows.inner
        return cls(rows) if target.threads > 1 and fits else None

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """Clear, then add."""
        r = self.rows
        whole, items = r.outer * r.size * r.inner, r.outer * r.count
        with phase(module, f"{name}_clear") as w:
            self._clear(w, whole)
        with phase(module, f"{name}_sums") as w:
            self._sums(w)
        return (
            Phase(f"{name}_clear", ceiling(whole, CLEARED), NANOSECONDS * whole),
            Phase(f"{name}_sums", items, NANOSECONDS * items * (r.inner + r.count)),
        )

    def _clear(self, w: PhaseWriter, whole: int) -> None:
        b, y = w.b, w.argument(2)
        zero, thread = b.cast(b.zero(Type(self.rows.sums)), self.rows.scalar), thread_of(b)
        with b.loop(w.begin, w.end) as item, b.loop(0, CLEARED, THREADS) as step:
            place = item * CLEARED + step + thread
            with b.when(b.compare("<", place, whole)):
                b.store(zero, y, place)

    def _sums(self, w: PhaseWriter) -> None:
        b, r = w.b, self.rows
        thread, near = thread_of(b), SharedArray.reserve(b, "earlier", I32, 1)
        with b.loop(w.begin, w.end) as item:
            outer, k = b.divided(item, r.count, r.outer * r.count)
            place, inside = position(w, r.index, r.size, k)
            with b.when(b.compare("==", thread, 0)):
                near.store(b.constant(0, Type(I32)), b.constant(0))
            barrier(b)
            with b.loop(0, k, THREADS) as step:
                before = step + thread
                same = b.both(b.compare("<", before, k), self._is_named(w, b.least(before, k), k))
                with b.when(same):
                    near.store(b.constant(1, Type(I32)), b.constant(0))
            barrier(b)
            is_first = b.compare("==", near.load(b.constant(0)), 0)
            with b.when(b.both(inside, is_first)):
                self._add(w, (outer, k, place), thread)
            barrier(b)

    def _is_named(self, w: PhaseWriter, other: Value, k: Value) -> Value:
        """Whether both name one row."""
        kind = Type(self.rows.index)
        return w.b.compare("==", *(w.b.load(w.argument(1), each, kind) for each in (other, k)))

    def _add(self, w: PhaseWriter, at: tuple[Value, Value, Value], thread: Value) -> None:
        """All rows of a name, from the first on."""
        b, r, (outer, k, place) = w.b, self.rows, at
        x = b.offset(w.argument(0), outer * (r.count * r.inner), r.scalar)
        y = b.offset(w.argument(2), (outer * r.size + place) * r.inner, r.scalar)
        with b.loop(0, r.inner, THREADS) as step:
            column = step + thread
            ragged = r.inner % THREADS != 0
            read = b.least(column, r.inner - 1) if ragged else column
            total = b.variable(b.zero(Type(r.sums)))
            with b.loop(k, r.count) as following, b.when(self._is_named(w, following, k)):
                term = b.cast(b.load(x, following * r.inner + read, Type(r.scalar)), r.sums)
                total.set(total.get() + term)
            with b.when(b.compare("<", column, r.inner)) if ragged else b.always():
                b.store(b.cast(total.get(), r.scalar), y, column)
