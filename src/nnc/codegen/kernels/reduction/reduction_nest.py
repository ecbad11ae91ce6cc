"""How a reduction is computed: the rule, and the loops over merged axes, which may be cut into parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.access import Shape
from nnc.codegen.frame.kernel import ceiling
from nnc.codegen.ir.builder import Builder, Scalar, Type, Value
from nnc.codegen.ir.expression import Instruction
from nnc.core.values.derived import smallest

ACCUMULATORS = 4
AHEAD = 16  # rows, in blocks that are narrower than a row
MOST_SWEPT_BYTES = 1 << 17
SWEPT = 8  # rows at once, where a part takes whole rows
PARTS = 32
PART_ELEMENTS = 4096
FEW_ITEMS = 16
# Of a device: fewer items are cut into parts, so many in all; blocks along a kept axis are one register wide there.
DEVICE_FEW, DEVICE_ITEMS = 1024, 2048
NANOSECONDS_PER_VECTOR, NANOSECONDS_PER_UNIT = 0.5, 0.3

Step = Callable[[Builder, Value], Value]
# Where each operand of the chain is read, in elements.
Places = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class ReductionRule:
    """One row: how values are combined, from where, what is done before and after, and whether in f64."""

    combine: str
    neutral: float
    prepare: Step
    finish: Callable[[Builder, Value, int], Value]
    wide: bool = False


def same(b: Builder, x: Value) -> Value:
    """x"""
    return x


def _result(b: Builder, x: Value, count: int) -> Value:
    return x


RULES: dict[str, ReductionRule] = {
    "sum": ReductionRule("add", 0.0, same, _result),
    "mean": ReductionRule("add", 0.0, same, lambda b, x, count: x / count),
    "maximum": ReductionRule("maximum", -math.inf, same, _result),
    "minimum": ReductionRule("minimum", math.inf, same, _result),
    "norm2": ReductionRule("add", 0.0, lambda b, x: x * x, lambda b, x, count: b.intrinsic("llvm.sqrt", x), wide=True),
}


def neutral(b: Builder, rule: ReductionRule, kind: Type) -> Value:
    """The value that changes nothing when combined."""
    scalar = kind.scalar
    if scalar.floating or rule.neutral == 0.0:
        return b.constant(rule.neutral, kind)
    low = -(2 ** (8 * scalar.size - 1)) if scalar.signed else 0
    high = 2 ** (8 * scalar.size - (1 if scalar.signed else 0)) - 1
    return b.constant(low if rule.neutral < 0 else high, kind)


@dataclass(frozen=True, slots=True)
class ReducedOperand:
    """One operand of the chain: its strides along the merged kept and reduced axes."""

    scalar: Scalar
    offset: int
    kept: Shape
    reduced: Shape


@dataclass(frozen=True, slots=True)
class ReductionNest:
    """The loops: kept axes outside, reduced axes inside, the first reduced axis cut into parts."""

    rule: ReductionRule
    operands: tuple[ReducedOperand, ...]
    instructions: tuple[Instruction, ...]
    chosen: int
    scalar: Scalar
    written: Scalar
    kept: Shape
    reduced: Shape
    lanes: int
    widest: int
    along_kept: bool
    count: int
    parts: int
    held: Scalar

    def in_parts(self, most: int, few: int) -> ReductionNest:
        """The same nest in parts, `most` of them, when it has fewer items than `few` and much work."""
        work = self.count * self.outputs
        if (math.prod(self.kept[:-1]) if self.wide else self.items) >= few or work < 2 * PART_ELEMENTS:
            return self
        whole = self.reduced[0] if len(self.reduced) > 1 else ceiling(self.reduced[0], 8 * self.lanes)
        length = ceiling(self.reduced[0], smallest(smallest(most, ceiling(work, PART_ELEMENTS)), whole))
        return replace(self, parts=ceiling(self.reduced[0], length))

    def combining(self) -> ReductionNest:
        """The nest of the second phase: the parts' results, one row per part."""
        return replace(
            self, rule=replace(self.rule, prepare=same),
            operands=(ReducedOperand(self.held, 0, (1,), (self.outputs,)),), instructions=(), chosen=0,
            scalar=self.held, kept=(self.outputs,), reduced=(self.parts,), parts=1,
            along_kept=self.widest > 1 or self.outputs > 1,
        )  # fmt: skip

    @property
    def outputs(self) -> int:
        return math.prod(self.kept)

    @property
    def block(self) -> int:
        """Outputs of one item: at most `widest` vectors along a kept axis, as many in each item as can be, else one."""
        if not self.along_kept:
            return 1
        vectors = max(1, ceiling(self.kept[-1], self.lanes))
        return self.lanes * ceiling(vectors, ceiling(vectors, self.widest))

    @property
    def blocks(self) -> int:
        """Blocks along the last kept axis."""
        return ceiling(self.kept[-1], self.block) if self.along_kept else 1

    @property
    def wide(self) -> bool:
        """The reduced rows are longer than a few blocks, and not so long that a cache could not hold one."""
        return (
            self.widest > 1
            and self.blocks > 2
            and len(self.reduced) == 1
            and self.kept[-1] * self.scalar.size <= MOST_SWEPT_BYTES
        )

    @property
    def swept(self) -> bool:
        """A part takes whole rows, in the order of memory, and its results lie in the workspace all the time."""
        return self.parts > 1 and self.wide

    @property
    def sparse(self) -> bool:
        """A block's rows lie apart, so that processors do not see which one follows; and there are many of them."""
        return self.blocks > 1 and ceiling(self.reduced[-1], self.parts) >= 4 * AHEAD

    @property
    def chain(self) -> int:
        """Additions in a row to one lane of an accumulator."""
        if self.along_kept:
            rows = 1 if self.swept else max(1, ACCUMULATORS // (self.block // self.lanes))
            return ceiling(self.count, self.parts * rows)
        along = self.lanes * self.unroll
        return ceiling(math.prod(self.reduced[:-1]) * ceiling(self.reduced[-1], along), self.parts)

    @property
    def unroll(self) -> int:
        """FlushedSums of one output along a contiguous reduced axis."""
        return ACCUMULATORS if self.reduced[-1] >= ACCUMULATORS * self.lanes else 1

    @property
    def items(self) -> int:
        """Items of one part."""
        if self.swept:
            return math.prod(self.kept[:-1])
        return math.prod(self.kept[:-1]) * self.blocks if self.along_kept else self.outputs
