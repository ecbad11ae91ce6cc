"""Integers on vectors: quotients and remainders rounded down, shifts by vectors, with NumPy's results at the edges."""

from __future__ import annotations

from nnc.codegen.ir.builder import Builder, Value


def floor_divide(b: Builder, left: Value, right: Value) -> Value:
    """floor(left / right); 0 where right is 0"""
    nothing = b.compare("==", right, 0)
    safe = _safe(b, right)
    quotient = left / safe
    if left.type.scalar.signed:
        rest = left - quotient * safe
        quotient = b.choose(_rounds_down(b, rest, safe), quotient - 1, quotient)
        # The processor traps at the least integer / -1.
        quotient = b.choose(b.compare("==", right, -1), b.negative(left), quotient)
    return b.choose(nothing, b.zero(left.type), quotient)


def remainder(b: Builder, left: Value, right: Value) -> Value:
    """left - right * floor(left / right); 0 where right is 0"""
    safe = _safe(b, right)
    rest = left - (left / safe) * safe
    if left.type.scalar.signed:
        rest = b.choose(_rounds_down(b, rest, safe), rest + safe, rest)
    return rest


def shift_left(b: Builder, left: Value, right: Value) -> Value:
    """left * 2^right; 0 where right is no number of bits"""
    known, count = _count(b, right)
    shifted = b.emit(left.type, f"shl {left.type} {left.text}, {count.text}")
    return b.choose(known, shifted, b.zero(left.type))


def shift_right(b: Builder, left: Value, right: Value) -> Value:
    """floor(left / 2^right); where right is no number of bits nothing but the sign is left"""
    known, count = _count(b, right)
    if not left.type.scalar.signed:
        return b.choose(known, b.emit(left.type, f"lshr {left.type} {left.text}, {count.text}"), b.zero(left.type))
    sign = b.shift_right(left, 8 * left.type.scalar.size - 1)
    return b.choose(known, b.emit(left.type, f"ashr {left.type} {left.text}, {count.text}"), sign)


def bitwise_not(b: Builder, x: Value) -> Value:
    """-1 - x"""
    return b.exclusive(x, b.constant(-1, x.type))


def _safe(b: Builder, divisor: Value) -> Value:
    """The divisor, 1 where dividing by it traps: the remainder is 0 then."""
    unit = b.constant(1, divisor.type)
    safe = b.choose(b.compare("==", divisor, 0), unit, divisor)
    return b.choose(b.compare("==", divisor, -1), unit, safe) if divisor.type.scalar.signed else safe


def _rounds_down(b: Builder, rest: Value, divisor: Value) -> Value:
    """The quotient towards zero is one too large: the rest has not the sign of the divisor."""
    differ = b.exclusive(b.compare("<", rest, 0), b.compare("<", divisor, 0))
    return b.both(b.compare("!=", rest, 0), differ)


def _count(b: Builder, count: Value) -> tuple[Value, Value]:
    """Where a count is a number of bits, and the count, 0 elsewhere."""
    known = b.compare("<", count, 8 * count.type.scalar.size)
    if count.type.scalar.signed:
        known = b.both(known, b.compare(">=", count, 0))
    return known, b.choose(known, count, b.zero(count.type))
