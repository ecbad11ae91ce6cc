"""What happens to a sum before it is a result: the bias of its column, the epilogue, and rounding once."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.shared_memory import is_aligned, store_words
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.frame.kernel import PhaseWriter
from nnc.codegen.ir.builder import BF16, I32, U16, Builder, Scalar, Type, Value


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

    def value(self, total: Value, beside: ColumnOperands) -> Value:
        """epilogue(total + bias), rounded"""
        b = self.w.b
        value = total if beside.bias is None else total + beside.bias
        if self.epilogue is not None:
            value = self.epilogue.apply(b, value, beside.extras)
        return b.cast(value, self.scalar)

    def write(self, total: Value, index: Value, beside: ColumnOperands) -> None:
        """results[index] = epilogue(total + bias)"""
        self.w.b.store(self.value(total, beside), self.results, index)


def words_of_halves(b: Builder, values: Sequence[Value]) -> list[Value]:
    """Numbers of 16 bits in pairs, as words of 32, the first in the low half."""
    halves = [
        Value(value.text, Type(U16), b) if value.type.scalar == BF16 else b.reinterpret(value, U16) for value in values
    ]
    bits = [b.cast(half, I32) for half in halves]
    return [b.either(low, b.shift_left(high, 16)) for low, high in zip(bits[::2], bits[1::2], strict=True)]


def write_chunk(b: Builder, values: Sequence[Value], place: Value, column: Value, columns: int) -> None:
    """Eight numbers of 16 bits go to a place, which is `column` of so many; those outside are not written.

    All at once, where the place is a multiple of 16 bytes and none is outside.
    """
    whole = is_aligned(b, place)
    if columns % len(values):
        whole = b.both(whole, b.compare("<=", column, columns - len(values)))
    with b.when(whole):
        store_words(b, words_of_halves(b, values), place)
    with b.when(b.opposite(whole)):
        for at, value in enumerate(values):
            with b.when(b.compare("<", column + at, columns)) if columns % len(values) else b.always():
                b.store(value, place, at)
