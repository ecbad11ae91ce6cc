"""Dot products of small integers: total[j] += sum over the elements of a word of x[e] * w[j, e], modulo 2^32.

A word of 32 bits holds four bytes, where the processor sums their products in one instruction, else two numbers of 16
bits. Neither saturates: `pmaddubsw`, which does, is not used.
"""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.codegen.ir.builder import I8, I16, I32, U8, Builder, Scalar, Type, Value
from nnc.codegen.ir.target import ByteDots, TargetDescription

WORD_BYTES = I32.size
# What turns a byte of one kind into that of the other, 128 more or less.
OTHER_SIGN = 128


@dataclass(frozen=True, slots=True)
class DotProduct:
    """How products of bytes `x` and `w` are summed: words of x are made of `packed_x`.

    Bytes of x whose sign the instruction does not take are held with 128 added or subtracted, by which `shift` is how
    much larger what is held is. Words of two hold numbers without their zero points.
    """

    x: Scalar
    w: Scalar
    dots: ByteDots

    @property
    def packed_x(self) -> Scalar:
        """Elements of x in words."""
        match self.dots:
            case ByteDots.NONE:
                return I16
            case ByteDots.MIXED:
                return U8 if self.w.signed else I8
            case ByteDots.ALIKE:
                return self.w
            case ByteDots.ANY:
                return self.x

    @property
    def in_pairs(self) -> bool:
        """Words hold two numbers."""
        return self.dots is ByteDots.NONE

    @property
    def steps(self) -> int:
        """Elements of a word."""
        return WORD_BYTES // self.packed_x.size

    @property
    def shift(self) -> int:
        """held x - x"""
        if self.in_pairs or self.packed_x.signed == self.x.signed:
            return 0
        return -OTHER_SIGN if self.packed_x.signed else OTHER_SIGN

    def sum_x(self, b: Builder, words: Value, total: Value) -> Value:
        """total + the sums of words of x."""
        if self.dots is ByteDots.ANY:
            return self._of_kind(self.packed_x).add(b, self.ones(b, total.type.lanes), words, total)
        return self.add(b, words, self.ones(b, total.type.lanes), total)

    def sum_w(self, b: Builder, words: Value, total: Value) -> Value:
        """total + the sums of words of w."""
        return self._of_kind(self.w).add(b, self.ones(b, total.type.lanes), words, total)

    def _of_kind(self, scalar: Scalar) -> DotProduct:
        """How vectors multiply words of ones with words of `scalar`, where matrices are multiplied by tiles."""
        return DotProduct(self.x, scalar, ByteDots.MIXED) if self.dots is ByteDots.ANY else self

    def add(self, b: Builder, left: Value, right: Value, total: Value) -> Value:
        """total + the dot products of words of x and of w."""
        match self.dots:
            case ByteDots.ANY:
                raise AssertionError("vectors do not multiply bytes of any kind")
            case ByteDots.NONE:
                return total + sum_pairs(b, left, right)
            case ByteDots.MIXED:
                unsigned, signed = (left, right) if self.w.signed else (right, left)
                return _called(b, f"llvm.x86.avx512.vpdpbusd.{32 * total.type.lanes}", total, unsigned, signed)
            case ByteDots.ALIKE:
                lanes, kind = total.type.lanes, "s" if self.w.signed else "u"
                bytes_of = [_bytes(b, side) for side in (left, right)]
                return _called(b, f"llvm.aarch64.neon.{kind}dot.v{lanes}i32.v{4 * lanes}i8", total, *bytes_of)

    def ones(self, b: Builder, lanes: int) -> Value:
        """Words of ones."""
        number = 0x00010001 if self.in_pairs else 0x01010101
        return b.constant(number, Type(I32, lanes))

    def words(self, b: Builder, elements: list[Value]) -> Value:
        """Words of vectors of bytes, the first in the lowest bits; in words of two, of numbers of 32 bits."""
        bits = 8 * self.packed_x.size
        parts = elements if self.in_pairs else [b.cast(b.cast(element, U8), I32) for element in elements]
        if self.in_pairs:
            parts = [b.both(elements[0], b.constant((1 << bits) - 1, elements[0].type)), *elements[1:]]
        word = parts[0]
        for place, part in enumerate(parts[1:], 1):
            word = b.either(word, b.shift_left(part, place * bits))
        return word

    def byte(self, b: Builder, words: Value, place: int) -> Value:
        """Byte `place` of words of four of w, as numbers of 32 bits."""
        up = b.shift_left(words, 24 - 8 * place) if place < 3 else words
        down = "ashr" if self.w.signed else "lshr"
        return b.emit(up.type, f"{down} {up.type} {up.text}, {b.constant(24, up.type).text}")


def dot_product(target: TargetDescription, x: Scalar, w: Scalar) -> DotProduct:
    """How the target sums products of x and w."""
    return DotProduct(x, w, target.byte_dots)


def sum_pairs(b: Builder, left: Value, right: Value) -> Value:
    """left[0] * right[0] + left[1] * right[1] of words of two numbers of 16 bits: what LLVM makes `pmaddwd` of."""
    lanes = left.type.lanes
    wide = [b.cast(_halves(b, side), I32) for side in (left, right)]
    products = wide[0] * wide[1]
    even, odd = (b.shuffle(products, products, range(first, 2 * lanes, 2)) for first in (0, 1))
    return even + odd


def _halves(b: Builder, words: Value) -> Value:
    kind = Type(I16, 2 * words.type.lanes)
    return b.emit(kind, f"bitcast {words.type} {words.text} to {kind}")


def _bytes(b: Builder, words: Value) -> Value:
    kind = Type(U8, 4 * words.type.lanes)
    return b.emit(kind, f"bitcast {words.type} {words.text} to {kind}")


def _called(b: Builder, name: str, total: Value, left: Value, right: Value) -> Value:
    """A call of a processor's intrinsic: total + left · right."""
    operands = (total, left, right)
    b.module.declare(name, str(total.type), [str(operand.type) for operand in operands])
    written = ", ".join(f"{operand.type} {operand.text}" for operand in operands)
    return b.emit(total.type, f"call {total.type} @{name}({written})")
