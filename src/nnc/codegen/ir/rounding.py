"""Rounding of floats to whole numbers, halves to even ones."""

from __future__ import annotations

from nnc.codegen.ir.builder import F32, Builder, Value
from nnc.codegen.ir.mathematics import absolute, copy_sign

# From 2^23 (2^52 for f64) on all numbers are whole; below, a sum with it has no digits behind the point.
WHOLE_32, WHOLE_64 = 2.0**23, 2.0**52


def round_half_even(b: Builder, x: Value) -> Value:
    """The nearest whole number, the even one of two; -0.3 is -0.

    (|x| + 2^23) - 2^23 where that is no instruction, and LLVM would call a function that not every C library has.
    """
    if b.target.rounding:
        return b.intrinsic("llvm.roundeven", x)
    whole, size = WHOLE_32 if x.type.scalar == F32 else WHOLE_64, absolute(b, x)
    return b.choose(b.compare("<", size, whole), copy_sign(b, (size + whole) - whole, x), x)
