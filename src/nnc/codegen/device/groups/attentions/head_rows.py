"""Some rows of a head of attention, which are an item: their operands, the columns that they see, and their lse."""

from __future__ import annotations

import math
from collections.abc import Callable

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import PhaseWriter, ceiling, phase
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import F32, Module, Scalar, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.kernels.sequence.attention import Attention


@dataclass(frozen=True, slots=True)
class HeadRows:
    """`height` rows of a head of an example, from `first` on."""

    w: PhaseWriter
    problem: Attention
    height: int
    batch: Value
    head: Value
    first: Value

    @classmethod
    def of(cls, w: PhaseWriter, p: Attention, height: int, block: Value, head: Value) -> HeadRows:
        """The rows of a block of a head among those of all examples."""
        return cls(w, p, height, head // p.heads, head % p.heads, block * height)

    def operands(self, scalar: Scalar) -> tuple[Value, Value, Value]:
        """Where q, k and v of the head begin."""
        b, p, batch = self.w.b, self.problem, self.batch
        group = self.head // (p.heads // p.groups)
        q = b.offset(self.w.argument(0), (batch * p.rows * p.heads + self.head) * p.features, scalar)
        k, v = (
            b.offset(self.w.argument(place), (batch * p.columns * p.groups + group) * size, scalar)
            for place, size in ((1, p.features), (2, p.values))
        )
        return q, k, v

    def end(self) -> Value:
        """Behind the last column that some row sees."""
        b, p = self.w.b, self.problem
        if not p.causal:
            return b.constant(p.columns)
        return b.greatest(b.least(self.first + (self.height + p.columns - p.rows), p.columns), 0)

    def write_lse(self, operand: int, line: Value, top: Value, total: Value, nothing: Value) -> None:
        """lse of a row, whose powers of two below 2^top add up to `total`; +inf of one that sees `nothing`."""
        b, p = self.w.b, self.problem
        lse = top * math.log(2.0) + mathematics.logarithm(b, total)
        index = (self.batch * p.heads + self.head) * p.rows + line
        b.store(b.choose(nothing, b.constant(math.inf, total.type), lse), self.w.argument(operand), index)


def head_phase(
    module: Module, name: str, p: Attention, height: int, write: Callable[[PhaseWriter, Value, Value], None]
) -> Phase:
    """The phase whose items are so many rows of a head; `write` is given the number of a block and of a head."""
    blocks = ceiling(p.rows, height)
    with phase(module, name) as w, w.b.loop(w.begin, w.end) as item:
        # The last rows see most where attention is causal: they come first.
        write(w, blocks - 1 - item % blocks, item // blocks)
    work = p.batch * p.heads * p.rows * p.columns / (1 + p.causal) * (p.features + p.values)
    return Phase(name, p.batch * p.heads * blocks, nanoseconds(module.target, F32, work))
