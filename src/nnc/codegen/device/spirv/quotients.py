"""Indices divided by constants: shifts, or the high word of a product, which no driver has to write as a long routine.

    x // d = high word of x · ((2^64 - 1) // d), or one more:  what is left is below 2 d

On an H200 (driver 580) rows whose numbers were divided so were wrong as quotients of SPIR-V and right in CUDA, where
LLVM divides by products.
"""

from __future__ import annotations

from nnc.codegen.device.spirv.assembler import SpirvAssembler

ADD, SUBTRACT, MULTIPLY, SHIFT, AND, AT_LEAST, SELECT = 128, 130, 132, 194, 199, 174, 169
WORD, HALF = 1 << 64, 1 << 32


def divide(m: SpirvAssembler, x: int, divisor: int, result: int, *, quotient: bool) -> None:
    """The quotient, or the remainder, of a number of 64 bits without sign; `result` becomes its id."""
    word = m.type("i64")

    def made(opcode: int, left: int, right: int, name: int = 0) -> int:
        name = name or m.id()
        m.write(opcode, word, name, left, right)
        return name

    if divisor & (divisor - 1) == 0:
        bits = divisor.bit_length() - 1 if quotient else divisor - 1
        made(SHIFT if quotient else AND, x, m.number(bits, "i64"), result)
        return
    whole = m.number(divisor, "i64")
    low = _high_product(m, x, (WORD - 1) // divisor)
    rest = made(SUBTRACT, x, made(MULTIPLY, low, whole))
    more = m.id()
    m.write(AT_LEAST, m.type("i1"), more, rest, whole)
    if quotient:
        m.write(SELECT, word, result, more, made(ADD, low, m.number(1, "i64")), low)
    else:
        m.write(SELECT, word, result, more, made(SUBTRACT, rest, whole), rest)


def _high_product(m: SpirvAssembler, x: int, factor: int) -> int:
    """The high word of x · factor, by halves: (a 2^32 + b) (c 2^32 + d)"""
    word, bits, ones = m.type("i64"), m.number(32, "i64"), m.number(HALF - 1, "i64")

    def made(opcode: int, left: int, right: int) -> int:
        name = m.id()
        m.write(opcode, word, name, left, right)
        return name

    a, b = made(SHIFT, x, bits), made(AND, x, ones)
    c, d = (m.number(each, "i64") for each in divmod(factor, HALF))
    across, along = made(MULTIPLY, a, d), made(MULTIPLY, b, c)
    carried = made(ADD, made(SHIFT, made(MULTIPLY, b, d), bits), made(AND, across, ones))
    carry = made(SHIFT, made(ADD, carried, made(AND, along, ones)), bits)
    upper = made(ADD, made(SHIFT, across, bits), made(SHIFT, along, bits))
    return made(ADD, made(ADD, made(MULTIPLY, a, c), upper), carry)
