"""What a worker can do at most: a loop of nothing but fused multiply-adds on registers, measured."""

from __future__ import annotations

from nnc.backends.llvm.run.engine import Engine
from nnc.backends.llvm.run.rates import LARGE_COST, Stopwatch, best
from nnc.classes import dataclass
from nnc.codegen.frame.kernel import WithoutMemory, phase
from nnc.codegen.ir.builder import F32, Module, Scalar, Type
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription

# Two a cycle, of four or five cycles each, and some to spare.
MOST_CHAINS = 16


@dataclass(frozen=True, slots=True)
class MultiplyAdds(WithoutMemory):
    """Nothing but fused multiply-adds on registers of `bits` bits, all by default: what products are compared with.

    Each of the `workers` has as many.
    """

    chains: int
    steps: int = 100_000
    scalar: Scalar = F32
    bits: int = 0
    workers: int = 1

    def operations(self, target: TargetDescription) -> float:
        """Floating-point operations of a run."""
        return 2.0 * self.lanes(target) * self.chains * self.steps * self.workers

    def lanes(self, target: TargetDescription) -> int:
        """Elements of a register."""
        return (self.bits or target.vector_bits) // (8 * self.scalar.size)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One chain a register, and an item a worker."""
        with phase(module, name) as w, w.b.loop(w.begin, w.end):
            kind = Type(self.scalar, self.lanes(module.target))
            factor = w.b.load(w.argument(0), 0, kind)
            starts = [w.b.load(w.argument(0), index * kind.lanes, kind) for index in range(self.chains)]
            slots = [w.b.variable(start) for start in starts]
            with w.b.loop(0, self.steps):
                for slot in slots:
                    slot.set(w.b.fma(slot.get(), factor, factor))
            # All workers write the same.
            for index, slot in enumerate(slots):
                w.b.store(slot.get(), w.argument(1), index * kind.lanes)
        return (Phase(name, self.workers, LARGE_COST if self.workers > 1 else 0.0),)


def chains(target: TargetDescription) -> int:
    """As many as hide the latency of an addition, and as few as fit the registers beside the factor."""
    return min(MOST_CHAINS, target.vector_registers - 2)


def peak(engine: Engine, repeats: int = 60, scalar: Scalar = F32, bits: int = 0, workers: int = 1) -> float:
    """Operations per second of workers that do nothing but fused multiply-adds, all at once.

    The best of many runs of a third of a millisecond: other work on the machine takes a worker away for longer.
    """
    generator = MultiplyAdds(chains(engine.target), scalar=scalar, bits=bits, workers=workers)
    watch = Stopwatch(engine, 1 << 14)  # whose memory the program works on
    return generator.operations(engine.target) / (best(watch.program([generator], workers), repeats) * 1e-9)
