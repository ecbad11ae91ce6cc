"""Epilogues: y = chain(extras, product), applied to each vector of a product before it is stored.

An extra operand has one value per column of y, or one value. The chain's values are the extras in order, the product,
then one per instruction.

An operand as large as y is no extra: tiles of a product walk down columns, where reading it costs more than a second
pass over y saves. Nor is a chain of much work: its instructions would wait for each other in every tile.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.codegen.ir.builder import Builder, Scalar, Type, Value
from nnc.codegen.ir.expression import Instruction, computed, evaluate

MOST_WORK = 40.0


@dataclass(frozen=True, slots=True)
class Epilogue:
    """For each extra whether it has a value per column; the chain, and the number of the value that is stored.

    Extras have the element type of y; the chain is computed in that of the product. Where the product is a sum of
    bytes, each extra has its own type, one of `kinds`, in which it is computed with.
    """

    scalar: Scalar
    extras: tuple[bool, ...]
    instructions: tuple[Instruction, ...]
    result: int
    kinds: tuple[Scalar, ...] = ()

    def read(self, b: Builder, extras: Sequence[Value], column: Value, kind: Type, mask: Value | None) -> list[Value]:
        """The vectors of the extras for vectors of a product of type `kind` whose first column is `column`."""
        values = []
        for place, (wide, source) in enumerate(zip(self.extras, extras, strict=True)):
            stored = self.kinds[place] if self.kinds else self.scalar
            scalar, row = Type(stored), kind.of(stored)
            value = b.load(source, column, row, mask) if wide else b.splat(b.load(source, 0, scalar), kind.lanes)
            values.append(b.cast(value, computed(stored) if self.kinds else kind.scalar))
        return values

    def apply(self, b: Builder, product: Value, extras: Sequence[Value], whole: Value | None = None) -> Value:
        """The vector to store for the vector `product`, with the extras that `read` gave for its columns.

        With `whole`, only where that is true: before it, the product is a part of a sum.
        """
        if whole is None:
            return self._chain(b, product, extras)
        stored = b.variable(product)
        with b.when(whole):
            stored.set(self._chain(b, product, extras))
        return stored.get()

    def _chain(self, b: Builder, product: Value, extras: Sequence[Value]) -> Value:
        values = [*extras, product]
        for instruction in self.instructions:
            values.append(evaluate(b, instruction, values, product.type.lanes))
        return values[self.result]
