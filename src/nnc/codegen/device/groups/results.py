"""What happens to a sum before it is a result: the bias of its column, the epilogue, and rounding once."""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.frame.kernel import PhaseWriter
from nnc.codegen.ir.builder import Scalar, Type, Value


@dataclass(frozen=True, slots=True)
class ColumnOperands:
    """What the sums of a column are computed with."""

    bias: Value | None
    extras: list[Value]


@dataclass(frozen=True, slots=True)
class ResultWriter:
    """Writes elements of `results`, of type `scalar`, from sums of type `work`.

    Operands are two, a bias when there is one, extras of the epilogue, the results.
    """

    bias: bool
    epilogue: Epilogue | None
    scalar: Scalar
    work: Scalar
    w: PhaseWriter
    results: Value

    @staticmethod
    def position(bias: bool, epilogue: Epilogue | None) -> int:
        """The place of the results among the operands."""
        return 2 + bias + (len(epilogue.extras) if epilogue else 0)

    def beside(self, column: Value) -> ColumnOperands:
        """The bias of a column, and what the epilogue reads for it."""
        b = self.w.b
        bias = b.cast(b.load(self.w.argument(2), column, Type(self.scalar)), self.work) if self.bias else None
        extras = []
        for place, wide in enumerate(self.epilogue.extras if self.epilogue else (), 2 + self.bias):
            element = b.load(self.w.argument(place), column if wide else 0, Type(self.scalar))
            extras.append(b.cast(element, self.work))
        return ColumnOperands(bias, extras)

    def write(self, total: Value, index: Value, beside: ColumnOperands) -> None:
        """results[index] = epilogue(total + bias)"""
        b = self.w.b
        value = total if beside.bias is None else total + beside.bias
        if self.epilogue is not None:
            value = self.epilogue.apply(b, value, beside.extras)
        b.store(b.cast(value, self.scalar), self.results, index)
