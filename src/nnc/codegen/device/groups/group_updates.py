"""Updates of optimizers by groups of threads: what steers a step is computed once by each thread, not for each run.

An item is as many neighbouring elements as a group has vectors; where these cannot be read whole, elements one by one.
"""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.codegen.device.groups.group_elements import (
    THREADS,
    are_aligned,
    lanes_of,
    load_vector,
    store_vector,
    write_block,
)
from nnc.codegen.device.groups.shared_memory import thread_of
from nnc.codegen.frame.kernel import PhaseWriter, ceiling, phase
from nnc.codegen.ir.builder import F64, Module, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.optimizer.optimizer import OptimizerUpdate
from nnc.core.values.derived import known

NANOSECONDS = 2.0


@dataclass(frozen=True, slots=True)
class GroupUpdate:
    """The kernel of an update, of vectors of `lanes`."""

    update: OptimizerUpdate
    lanes: int

    threads, paired = THREADS, False

    @classmethod
    def of(cls, update: OptimizerUpdate, target: TargetDescription) -> GroupUpdate | None:
        """The kernel; None where the size is read."""
        if target.threads < 2 or not known(update.elements) or not update.elements:
            return None
        return cls(update, lanes_of([update.scalar], (update.elements,), [(1,)], target))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a block of neighbouring elements."""
        u, block = self.update, THREADS * self.lanes
        with phase(module, name) as w:
            b, writer = w.b, _UpdateWriter(w, u)
            aligned = are_aligned(b, [*writer.sources, *writer.results], u.scalar, self.lanes)
            for lanes in sorted({self.lanes, 1}):
                writer.prepare(lanes)
            thread = thread_of(b)

            def vector(start: Value) -> None:
                writer.write(start + thread * self.lanes, self.lanes)

            with b.loop(w.begin, w.end) as item:
                write_block(
                    b, item * block, block, u.elements, aligned, thread, vector, lambda place: writer.write(place, 1)
                )
        return (Phase(name, ceiling(u.elements, block), NANOSECONDS * u.elements),)


class _UpdateWriter:
    """Writes elements of an update."""

    def __init__(self, w: PhaseWriter, update: OptimizerUpdate) -> None:
        self.b, self.update = w.b, update
        reads = 2 + update.rule.states
        self.numbers = [
            self.b.cast(self.b.load(w.argument(reads + place), 0, Type(scalar)), F64)
            for place, scalar in enumerate(update.scalars)
        ]
        self.sources = [w.argument(place) for place in range(reads)]
        self.results = [w.argument(reads + len(update.scalars) + place) for place in range(reads - 1)]
        self.steering: dict[int, list[Value]] = {}

    def prepare(self, lanes: int) -> None:
        """What steers vectors of so many lanes, for all that follow."""
        kind = Type(computed(self.update.scalar), lanes)
        self.steering[lanes] = self.update.rule.prepare(self.b, self.numbers, kind)

    def write(self, place: Value, lanes: int) -> None:
        """A vector: all that it needs is read before it is written."""
        b, u, kind = self.b, self.update, Type(self.update.scalar, lanes)
        read = [load_vector(b, b.offset(source, place, u.scalar), kind) for source in self.sources]
        values = [b.cast(value, computed(u.scalar)) for value in read]
        for result, value in zip(self.results, u.rule.update(b, self.steering[lanes], values), strict=True):
            store_vector(b, b.cast(value, u.scalar), b.offset(result, place, u.scalar))
