"""Instructions on registers: lanes of vectors, arithmetic, comparisons and choices.

Index arithmetic on constants is folded here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from nnc.codegen.ir.function_text import FunctionText, Value
from nnc.codegen.ir.scalars import (
    BOOL,
    COMPARISONS,
    DOUBLE_INDEX,
    F32,
    INDEX,
    Number,
    Scalar,
    Type,
    integer_comparison,
)
from nnc.core.values.derived import RECIPROCAL_BITS, derived

# So that a product of two such numbers is below 2^63.
MOST_DIVIDED = 1 << 31


class Instructions(FunctionText):
    """A function's text, of which the operators of values write instructions."""

    # -- lanes

    def splat(self, value: Value, lanes: int) -> Value:
        """value in every one of `lanes` lanes."""
        kind = Type(value.type.scalar, lanes)
        first = self.emit(kind, f"insertelement {kind} poison, {value.type} {value.text}, i64 0")
        return self.emit(kind, f"shufflevector {kind} {first.text}, {kind} poison, <{lanes} x i32> zeroinitializer")

    def shuffle(self, left: Value, right: Value, lanes: Sequence[int]) -> Value:
        """out[i] = (left ++ right)[lanes[i]]"""
        kind = Type(left.type.scalar, len(lanes))
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.emit(
            kind, f"shufflevector {left.type} {left.text}, {right.type} {right.text}, <{len(lanes)} x i32> <{mask}>"
        )

    def join(self, values: Sequence[Value]) -> Value:
        """A power of two of vectors, one behind the other."""
        while len(values) > 1:
            lanes = range(2 * values[0].type.lanes)
            values = [self.shuffle(left, right, lanes) for left, right in zip(values[::2], values[1::2], strict=True)]
        return values[0]

    def extract(self, value: Value, lane: Value | int) -> Value:
        """value[lane]"""
        position = self.wrap(lane)
        return self.emit(Type(value.type.scalar), f"extractelement {value.type} {value.text}, i64 {position.text}")

    def insert(self, value: Value, element: Value, lane: int) -> Value:
        """value with value[lane] = element"""
        return self.emit(
            value.type, f"insertelement {value.type} {value.text}, {element.type} {element.text}, i64 {lane}"
        )

    def enumerate_lanes(self, kind: Type) -> Value:
        """[0, 1, ..., lanes - 1]"""
        return Value(f"<{', '.join(f'{kind.scalar.register} {i}' for i in range(kind.lanes))}>", kind, self)

    # -- arithmetic

    def binary(self, floating: str, integer: str, left: Value, right: Value | Number) -> Value:
        """One instruction of two operands, chosen by the kind of the left one."""
        other = self.wrap(right, left.type)
        kind = left.type
        assert other.type is kind or other.type == kind, (kind, other.type)
        name = floating if kind.scalar.floating else integer
        return self.emit(kind, f"{name} {kind._text} {left.text}, {other.text}")

    def add(self, left: Value, right: Value | Number) -> Value:
        """left + right"""
        other = self.wrap(right, left.type)
        if left.constant is not None and other.constant is not None:
            return self.constant(left.constant + other.constant)
        if other.constant == 0:
            return left
        if left.constant == 0:
            return other
        return self.binary("fadd", "add", left, other)

    def subtract(self, left: Value, right: Value | Number) -> Value:
        """left - right"""
        other = self.wrap(right, left.type)
        if left.constant is not None and other.constant is not None:
            return self.constant(left.constant - other.constant)
        if other.constant == 0:
            return left
        return self.binary("fsub", "sub", left, other)

    def multiply(self, left: Value, right: Value | Number) -> Value:
        """left * right"""
        other = self.wrap(right, left.type)
        if left.constant is not None and other.constant is not None:
            return self.constant(left.constant * other.constant)
        if left.constant == 0 or other.constant == 0:
            return self.constant(0)
        if other.constant == 1:
            return left
        if left.constant == 1:
            return other
        return self.binary("fmul", "mul", left, other)

    def divide(self, left: Value, right: Value | Number) -> Value:
        """left / right; integers round towards zero."""
        return self.binary("fdiv", "sdiv" if left.type.scalar.signed else "udiv", left, right)

    def quotient(self, left: Value, right: Value | Number) -> Value:
        """floor(left / right) of indices that are not negative."""
        other = self.wrap(right, left.type)
        if left.constant is not None and other.constant is not None:
            return self.constant(left.constant // other.constant)
        if other.constant == 1:
            return left
        return self.binary("fdiv", "udiv", left, other)

    def divided(self, index: Value, size: int, most: int) -> tuple[Value, Value]:
        """index // size and index mod size, where 0 ≤ index ≤ most; by a multiplication where the size is read."""
        divisor = derived(size)
        if divisor is None or most > MOST_DIVIDED:
            position = index % size
            return index // size, position
        factors = index, self.constant(divisor.reciprocal)
        wide = [self.emit(DOUBLE_INDEX, f"zext i64 {factor.text} to i128") for factor in factors]
        product = self.emit(DOUBLE_INDEX, f"mul i128 {wide[0].text}, {wide[1].text}")
        high = self.emit(DOUBLE_INDEX, f"lshr i128 {product.text}, {RECIPROCAL_BITS}")
        quotient = self.emit(INDEX, f"trunc i128 {high.text} to i64")
        return quotient, index - quotient * size

    def remainder(self, left: Value, right: Value | Number) -> Value:
        """left mod right of indices that are not negative."""
        other = self.wrap(right, left.type)
        if left.constant is not None and other.constant is not None:
            return self.constant(left.constant % other.constant)
        if other.constant == 1:
            return self.constant(0)
        return self.binary("frem", "urem", left, other)

    def fma(self, left: Value, right: Value | Number, addend: Value | Number) -> Value:
        """left * right + addend, rounded once where the target can; rounded twice elsewhere."""
        factor, term = self.wrap(right, left.type), self.wrap(addend, left.type)
        if not self.target.fused:
            return left * factor + term
        return self.intrinsic("llvm.fma", left, factor, term)

    def accumulate(self, left: Value, right: Value, total: Value) -> Value:
        """left * right + total of a long sum, in one instruction where there is one, however often it rounds."""
        return self.intrinsic("llvm.fma", left, right, total) if self.target.threads else self.fma(left, right, total)

    def intrinsic(self, name: str, *operands: Value) -> Value:
        """One of LLVM's intrinsics whose result and operands share one type."""
        kind = operands[0].type
        full = f"{name}.{kind.suffix}"
        self.module.declare(full, str(kind), [str(operand.type) for operand in operands])
        body = ", ".join(f"{operand.type} {operand.text}" for operand in operands)
        return self.emit(kind, f"call {kind} @{full}({body})")

    def negative(self, value: Value) -> Value:
        """-value"""
        if value.type.scalar.floating:
            return self.emit(value.type, f"fneg {value.type} {value.text}")
        return self.zero(value.type) - value

    def maximum(self, left: Value, right: Value | Number) -> Value:
        """max(left, right); a NaN on either side wins."""
        return self._extreme(left, right, ">")

    def minimum(self, left: Value, right: Value | Number) -> Value:
        """min(left, right); a NaN on either side wins."""
        return self._extreme(left, right, "<")

    def _extreme(self, left: Value, right: Value | Number, relation: str) -> Value:
        """left where left relation right, else right; a NaN on either side wins, and a number is none."""
        other = self.wrap(right, left.type)
        if left.type.scalar.floating and not isinstance(right, Value):
            return self.choose(self.compare(f"{relation}=", other, left), other, left)
        chosen = self.choose(self.compare(relation, left, other), left, other)
        return self.choose(self.unordered(left), left, chosen) if left.type.scalar.floating else chosen

    def larger(self, left: Value, right: Value) -> Value:
        """max(left, right) of numbers; of a number and a NaN it is either."""
        return self.choose(self.compare(">", left, right), left, right)

    def least(self, left: Value, right: Value | Number) -> Value:
        """min(left, right) of indices."""
        other = self.wrap(right, left.type)
        if left.constant is not None and other.constant is not None:
            return self.constant(min(left.constant, other.constant))
        return self.intrinsic("llvm.smin", left, other)

    def greatest(self, left: Value, right: Value | Number) -> Value:
        """max(left, right) of indices."""
        other = self.wrap(right, left.type)
        if left.constant is not None and other.constant is not None:
            return self.constant(max(left.constant, other.constant))
        return self.intrinsic("llvm.smax", left, other)

    def shift_left(self, value: Value, bits: int) -> Value:
        """value * 2^bits, of integers"""
        return self.emit(value.type, f"shl {value.type} {value.text}, {self.constant(bits, value.type).text}")

    def shift_right(self, value: Value, bits: int) -> Value:
        """floor(value / 2^bits), of integers"""
        word = "ashr" if value.type.scalar.signed else "lshr"
        return self.emit(value.type, f"{word} {value.type} {value.text}, {self.constant(bits, value.type).text}")

    def scales(self, kind: Type) -> bool:
        """Whether `kind` is multiplied by powers of two in one instruction: it fills registers of AVX-512."""
        return self.target.vector_bits == 512 and kind.lanes > 0 and kind.lanes * kind.scalar.size % 64 == 0

    def scale(self, value: Value, exponent: Value) -> Value:
        """value * 2^exponent for whole exponents of the type of value, rounded once; where `scales` holds."""
        scalar = value.type.scalar
        part = Type(scalar, 64 // scalar.size)
        suffix, word = ("ps", "i16") if scalar == F32 else ("pd", "i8")
        name = f"llvm.x86.avx512.mask.scalef.{suffix}.512"
        self.module.declare(name, str(part), [*[str(part)] * 3, word, "i32 immarg"])
        parts = []
        for first in range(0, value.type.lanes, part.lanes):
            lanes = range(first, first + part.lanes)
            left, right = self.shuffle(value, value, lanes), self.shuffle(exponent, exponent, lanes)
            operands = f"{part} {left.text}, {part} {right.text}, {part} {left.text}, {word} -1, i32 4"
            parts.append(self.emit(part, f"call {part} @{name}({operands})"))
        return self.join(parts)

    # -- logic

    def compare(self, relation: str, left: Value, right: Value | Number) -> Value:
        """left relation right, for < <= > >= == !=; false when a NaN is compared, except that != is true."""
        other = self.wrap(right, left.type)
        scalar = left.type.scalar
        if scalar.floating:
            word = "fcmp " + ("une" if relation == "!=" else "o" + COMPARISONS[relation])
        else:
            word = "icmp " + integer_comparison(relation, scalar.signed)
        return self.emit(left.type.of(BOOL), f"{word} {left.type} {left.text}, {other.text}")

    def unordered(self, value: Value) -> Value:
        """value is NaN"""
        return self.emit(value.type.of(BOOL), f"fcmp uno {value.type} {value.text}, {value.text}")

    def both(self, left: Value, right: Value) -> Value:
        """left and right, bit by bit"""
        return self.emit(left.type, f"and {left.type} {left.text}, {right.text}")

    def all_of(self, conditions: Iterable[Value | None]) -> Value | None:
        """All of these, of which None always holds; None where there are no others."""
        checked = [condition for condition in conditions if condition is not None]
        return reduce(self.both, checked) if checked else None

    def either(self, left: Value, right: Value) -> Value:
        """left or right, bit by bit"""
        return self.emit(left.type, f"or {left.type} {left.text}, {right.text}")

    def exclusive(self, left: Value, right: Value) -> Value:
        """left xor right, bit by bit"""
        return self.emit(left.type, f"xor {left.type} {left.text}, {right.text}")

    def opposite(self, value: Value) -> Value:
        """not value"""
        return self.exclusive(value, self.constant(1, value.type))

    def any_lane(self, condition: Value) -> Value:
        """True in one lane at least"""
        kind = Type(Scalar("lanes", f"i{condition.type.lanes}", "", 0, signed=False))
        return self.compare("!=", self.emit(kind, f"bitcast {condition.type} {condition.text} to {kind}"), 0)

    def choose(self, condition: Value, left: Value, right: Value | Number) -> Value:
        """left where condition else right"""
        other = self.wrap(right, left.type)
        return self.emit(
            left.type, f"select {condition.type} {condition.text}, {left.type} {left.text}, {other.type} {other.text}"
        )
