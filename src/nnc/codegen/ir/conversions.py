"""Conversions of values between types, and lanes of a vector folded to one value."""

from __future__ import annotations

from nnc.codegen.ir.function_text import Value
from nnc.codegen.ir.instructions import Instructions
from nnc.codegen.ir.scalars import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I16,
    I32,
    NARROW,
    Number,
    Scalar,
    Type,
    conversion,
)

COMBINATIONS = {"add": "add", "multiply": "multiply", "maximum": "maximum", "minimum": "minimum", "larger": "larger"}


class Conversions(Instructions):
    """Instructions that change the type of a value, or how many lanes it has."""

    def cast(self, value: Value, scalar: Scalar) -> Value:
        """value as another scalar type, by value; to bool it is value != 0; to integers it saturates, NaN is 0."""
        source = value.type.scalar
        both_integers = not (source.floating or scalar.floating)
        if source == scalar or (source.register == scalar.register and both_integers):
            return Value(value.text, value.type.of(scalar), self, value.constant)
        if source == BF16:
            return self.cast(self._wide(value), scalar)
        if scalar == BF16:
            return self._narrow(self.cast(value, F32))
        if scalar == BOOL:
            return self.compare("!=", value, self.zero(value.type))
        if source == F64 and scalar == F16:  # no processor has it in one step
            return self.cast(self.cast(value, F32), F16)
        kind = value.type.of(scalar)
        if source.floating and scalar in NARROW:
            return self._saturated(self.cast(value, F32) if source == F16 else value, scalar)
        if source.floating and not scalar.floating:
            name = f"llvm.fpto{'s' if scalar.signed else 'u'}i.sat.{kind.suffix}.{value.type.suffix}"
            self.module.declare(name, str(kind), [str(value.type)])
            return self.emit(kind, f"call {kind} @{name}({value.type} {value.text})")
        return self.emit(kind, f"{conversion(source, scalar)} {value.type} {value.text} to {kind}")

    def _saturated(self, value: Value, scalar: Scalar) -> Value:
        """The bounds taken in floats, then the low bits of an i32: LLVM's saturating conversion goes lane by lane."""
        bits = 8 * scalar.size
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if scalar.signed else (0, (1 << bits) - 1)
        above = self.choose(self.compare(">", value, low), value, self.constant(low, value.type))
        inside = self.choose(self.compare("<", above, high), above, self.constant(high, value.type))
        saturated = self.cast(
            self.emit(value.type.of(I32), f"fptosi {value.type} {inside.text} to {value.type.of(I32)}"), scalar
        )
        return self.choose(self.unordered(value), self.zero(saturated.type), saturated) if scalar.signed else saturated

    def _wide(self, value: Value) -> Value:
        """bf16 as f32: its bits are the upper half."""
        bits = self.emit(value.type.of(I32), f"zext {value.type} {value.text} to {value.type.of(I32)}")
        return self.reinterpret(self.shift_left(bits, 16), F32)

    def _narrow(self, value: Value) -> Value:
        """f32 as bf16, rounded to nearest, ties to even; in bits, because hardware and LLVM differ on denormals."""
        if self.target.short_forms:
            return self._short("bf16", value.type.of(BF16), value)
        bits = self.reinterpret(value, I32)
        odd = self.both(self.shift_right(bits, 16), self.constant(1, bits.type))
        rounded = self.shift_right(bits + odd + 0x7FFF, 16)
        kept = self.choose(self.unordered(value), self.constant(0x7FC0, bits.type), rounded)
        narrow = self.cast(kept, I16)
        return Value(narrow.text, narrow.type.of(BF16), self)

    def _short(self, name: str, kind: Type, *operands: Value) -> Value:
        """What the target has an instruction for."""
        full, (first, *_) = f"nnc.{name}.{operands[0].type.suffix}", operands
        self.module.declare(full, str(kind), [str(first.type)] * len(operands))
        given = ", ".join(f"{each.type} {each.text}" for each in operands)
        return self.emit(kind, f"call {kind} @{full}({given})")

    def ratio(self, left: Value, right: Value | Number) -> Value:
        """left / right, within 2 ulp where that takes less."""
        if not self.target.short_forms or left.type.scalar != F32:
            return left / right
        return self._short("ratio", left.type, left, self.wrap(right, left.type))

    def reinterpret(self, value: Value, scalar: Scalar) -> Value:
        """The same bits as another scalar type of the same size."""
        kind = value.type.of(scalar)
        return self.emit(kind, f"bitcast {value.type} {value.text} to {kind}")

    def words(self, value: Value) -> Value:
        """Neighbouring lanes of 8 or 16 bits as words of 32; what fills one word, as a number."""
        lanes = value.type.lanes * value.type.scalar.size // I32.size
        kind = Type(I32, lanes if lanes > 1 else 0)
        return self.emit(kind, f"bitcast {value.type} {value.text} to {kind}")

    def sum_pairs(self, left: Value, right: Value, addend: Value) -> Value:
        """addend + left[0] * right[0] + left[1] * right[1], of words of two bf16 and f32; denormals count as 0."""
        lanes = addend.type.lanes
        pairs = f"<{2 * lanes} x bfloat>"
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        self.module.declare(name, str(addend.type), [str(addend.type), pairs, pairs])
        halves = [self.emit(side.type, f"bitcast {side.type} {side.text} to {pairs}") for side in (left, right)]
        operands = ", ".join(f"{pairs} {half.text}" for half in halves)
        return self.emit(addend.type, f"call {addend.type} @{name}({addend.type} {addend.text}, {operands})")

    def fold(self, value: Value, combine: str) -> Value:
        """All lanes combined in halves: lane i with lane i + lanes / 2, again and again; a fixed order."""
        lanes = value.type.lanes
        while lanes > 1:
            lanes //= 2
            low = self.shuffle(value, value, list(range(lanes)))
            high = self.shuffle(value, value, list(range(lanes, 2 * lanes)))
            value = self.combine(combine, low, high)
        return self.extract(value, 0)

    def combine(self, name: str, left: Value, right: Value) -> Value:
        """The named combination of two values: a row of `COMBINATIONS`."""
        operation: Value = getattr(self, COMBINATIONS[name])(left, right)
        return operation
