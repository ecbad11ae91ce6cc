"""Weights in blocks as vectors of f32: w[i] of a block's bytes, each exactly what `nnc.core.values.blocks` says.

A block is read as vectors of `WIDTH` elements in any order, each with the place of its first element, so that what is
unpacked of the same bytes stands together. d · s · q is exact in f32 (but for q6_k, where it is one product), so that a
multiply-add with the minimum rounds once, as the reference does. Where registers have 512 bits, four bits are places in
a table of sixteen values, made once for each scale: one instruction instead of three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nnc.codegen.ir.builder import F16, F32, I8, I32, U8, U16, Builder, Type, Value

WIDTH = 16
WIDE_BITS = 512
# Bits of f16 without the sign; the first of what is not finite; where they are in f32; 2^112, between the exponents.
HALF_BITS, HALF_ENDLESS, HALF_SHIFT, HALF_FACTOR, SIGN_SHIFT, ENDLESS = 0x7FFF, 0x7C00, 13, 2.0**112, 16, 0x7F800000

Vectors = Iterator[tuple[int, Value]]
_FLOATS, _WORDS, _BYTES = Type(F32, WIDTH), Type(I32, WIDTH), Type(U8, WIDTH)


def block_vectors(b: Builder, format: str, block: Value) -> Vectors:
    """(place, values of WIDTH elements) of the block at an address, whose bytes may lie anywhere."""
    return _READERS[format](b, block)


def raw_load(b: Builder, place: Value, offset: int, kind: Type) -> Value:
    """kind at a byte offset; blocks are aligned to nothing."""
    return b.emit(kind, f"load {kind.memory}, ptr {b.offset(place, offset, U8).text}, align 1")


def half_number(b: Builder, block: Value, offset: int) -> Value:
    """An f16 as f32; in integers where the processor has no conversion."""
    if b.target.half:
        return b.cast(raw_load(b, block, offset, Type(F16)), F32)
    kind = Type(I32)
    bits = b.cast(raw_load(b, block, offset, Type(U16)), I32)
    magnitude = b.both(bits, b.constant(HALF_BITS, kind))
    value = b.reinterpret(b.shift_left(magnitude, HALF_SHIFT), F32) * b.constant(HALF_FACTOR, Type(F32))
    raised = b.either(b.reinterpret(value, I32), b.constant(ENDLESS, kind))
    bits_of_it = b.choose(b.compare(">=", magnitude, HALF_ENDLESS), raised, b.reinterpret(value, I32))
    sign = b.shift_left(b.both(bits, b.constant(HALF_BITS + 1, kind)), SIGN_SHIFT)
    return b.reinterpret(b.either(bits_of_it, sign), F32)


def _splat(b: Builder, value: Value, lane: int = -1) -> Value:
    """A number, or a lane of a vector, in all lanes."""
    return b.splat(value, WIDTH) if lane < 0 else b.shuffle(value, value, (lane,) * WIDTH)


def _words(b: Builder, block: Value, offset: int) -> Value:
    """WIDTH bytes as words."""
    return b.cast(raw_load(b, block, offset, _BYTES), I32)


def bit_field(b: Builder, words: Value, shift: int, bits: int) -> Value:
    """Some bits of words, as the lowest of words."""
    if shift:
        words = b.emit(words.type, f"lshr {words.type} {words.text}, {b.constant(shift, words.type).text}")
    return b.both(words, b.constant((1 << bits) - 1, words.type))


def _joined(b: Builder, low: Value, high: Value, shift: int) -> Value:
    return b.either(low, b.shift_left(high, shift))


def _affine(b: Builder, q: Value, scale: Value, minimum: Value | None) -> Value:
    """q · scale + minimum"""
    floats = b.cast(q, F32)
    return floats * scale if minimum is None else b.fma(floats, scale, minimum)


_Nibbles = Callable[[Value, int], Value]


def _quarters(b: Builder, scale: Value, minimum: Value | None, offset: int = 0) -> _Nibbles:
    """What makes values of the four bits of words at a shift: (q - offset) · scale + minimum."""
    if b.target.vector_bits < WIDE_BITS:
        return lambda words, shift: _affine(b, _less(b, bit_field(b, words, shift, 4), offset), scale, minimum)
    steps = Value(f"<{', '.join(f'float {i - offset}.0' for i in range(WIDTH))}>", _FLOATS, b)
    table = steps * scale if minimum is None else b.fma(steps, scale, minimum)
    name = "llvm.x86.avx512.permvar.sf.512"
    b.module.declare(name, str(_FLOATS), [str(_FLOATS), str(_WORDS)])

    def looked_up(words: Value, shift: int) -> Value:
        """The instruction takes the lowest four bits of each word."""
        if shift:
            words = b.emit(words.type, f"lshr {words.type} {words.text}, {b.constant(shift, words.type).text}")
        return b.emit(_FLOATS, f"call {_FLOATS} @{name}({_FLOATS} {table.text}, {_WORDS} {words.text})")

    return looked_up


def _less(b: Builder, q: Value, offset: int) -> Value:
    return q - b.constant(offset, q.type) if offset else q


def _quarter(b: Builder, block: Value) -> Vectors:
    value = _quarters(b, _splat(b, half_number(b, block, 0)), None, 8)
    words = _words(b, block, 2)
    for part in range(2):
        yield part * WIDTH, value(words, 4 * part)


def _quarter_minimum(b: Builder, block: Value) -> Vectors:
    value = _quarters(b, _splat(b, half_number(b, block, 0)), _splat(b, half_number(b, block, 2)))
    words = _words(b, block, 4)
    for part in range(2):
        yield part * WIDTH, value(words, 4 * part)


def _five(b: Builder, block: Value, high: int) -> Iterator[tuple[int, Value]]:
    """Numbers of five bits, the fifth of which are one word at `high`, in front of the others."""
    bits = _splat(b, raw_load(b, block, high, Type(I32)))
    words = _words(b, block, high + 4)
    for part in range(2):
        shifts = Value(f"<{', '.join(f'i32 {part * WIDTH + i}' for i in range(WIDTH))}>", _WORDS, b)
        fifth = bit_field(b, b.emit(_WORDS, f"lshr {_WORDS} {bits.text}, {shifts.text}"), 0, 1)
        yield part * WIDTH, _joined(b, bit_field(b, words, 4 * part, 4), fifth, 4)


def _fives(b: Builder, block: Value) -> Vectors:
    scale = _splat(b, half_number(b, block, 0))
    for place, q in _five(b, block, 2):
        yield place, _affine(b, _less(b, q, 16), scale, None)


def _fives_minimum(b: Builder, block: Value) -> Vectors:
    scale, minimum = _splat(b, half_number(b, block, 0)), _splat(b, half_number(b, block, 2))
    for place, q in _five(b, block, 4):
        yield place, _affine(b, q, scale, minimum)


def _eights(b: Builder, block: Value) -> Vectors:
    scale = _splat(b, half_number(b, block, 0))
    for place in range(0, 32, WIDTH):
        q = b.cast(raw_load(b, block, 2 + place, Type(I8, WIDTH)), I32)
        yield place, _affine(b, q, scale, None)


def six_bits(b: Builder, block: Value, offset: int) -> tuple[Value, Value]:
    """Eight scales and eight minima of six bits from twelve bytes, as floats."""
    first, second, third = (b.cast(raw_load(b, block, offset + 4 * part, Type(U8, 4)), I32) for part in range(3))
    high = [b.shift_left(bit_field(b, each, 6, 2), 4) for each in (first, second)]
    scales = [bit_field(b, first, 0, 6), b.either(bit_field(b, third, 0, 4), high[0])]
    minima = [bit_field(b, second, 0, 6), b.either(bit_field(b, third, 4, 4), high[1])]
    return b.cast(b.join(scales), F32), b.cast(b.join(minima), F32)


def group_factors(
    b: Builder, block: Value, scale: int, minimum: int, scales: Value, minima: Value
) -> tuple[Value, Value]:
    """d · s and -e · m of all groups."""
    lanes = scales.type.lanes
    d, e = (b.splat(half_number(b, block, offset), lanes) for offset in (scale, minimum))
    return scales * d, minima * b.negative(e)


def _k4(b: Builder, block: Value) -> Vectors:
    scales, minima = group_factors(b, block, 0, 2, *six_bits(b, block, 4))
    for pair in range(4):
        groups = (2 * pair, 2 * pair + 1)
        values = [_quarters(b, _splat(b, scales, group), _splat(b, minima, group)) for group in groups]
        for start in range(0, 32, WIDTH):
            words = _words(b, block, 16 + 32 * pair + start)
            for half, value in enumerate(values):
                yield 64 * pair + 32 * half + start, value(words, 4 * half)


def _k5(b: Builder, block: Value) -> Vectors:
    scales, minima = group_factors(b, block, 0, 2, *six_bits(b, block, 4))
    fifths = [_words(b, block, 16 + start) for start in range(0, 32, WIDTH)]
    for pair in range(4):
        factors = [[_splat(b, x, 2 * pair + half) for x in (scales, minima)] for half in range(2)]
        for number, start in enumerate(range(0, 32, WIDTH)):
            words = _words(b, block, 48 + 32 * pair + start)
            for half, (scale, minimum) in enumerate(factors):
                fifth = bit_field(b, fifths[number], 2 * pair + half, 1)
                q = _joined(b, bit_field(b, words, 4 * half, 4), fifth, 4)
                yield 64 * pair + 32 * half + start, _affine(b, q, scale, minimum)


def _k6(b: Builder, block: Value) -> Vectors:
    scales = b.cast(b.cast(raw_load(b, block, 192, Type(I8, WIDTH)), I32), F32) * _splat(b, half_number(b, block, 208))
    for side in range(2):
        for start in range(0, 32, WIDTH):
            high = _words(b, block, 128 + 32 * side + start)
            for column in range(2):
                words = _words(b, block, 64 * side + 32 * column + start)
                for half in range(2):
                    plane = 2 * half + column
                    q = _joined(b, bit_field(b, words, 4 * half, 4), bit_field(b, high, 2 * plane, 2), 4)
                    place = 128 * side + 32 * plane + start
                    yield place, _affine(b, _less(b, q, 32), _splat(b, scales, place // WIDTH), None)


def _k2(b: Builder, block: Value) -> Vectors:
    packed = _words(b, block, 0)
    scales, minima = (b.cast(bit_field(b, packed, shift, 4), F32) for shift in (0, 4))
    scales, minima = group_factors(b, block, 80, 82, scales, minima)
    for side in range(2):
        for start in range(0, 32, WIDTH):
            words = _words(b, block, 16 + 32 * side + start)
            for plane in range(4):
                place = 128 * side + 32 * plane + start
                factors = [_splat(b, x, place // WIDTH) for x in (scales, minima)]
                yield place, _affine(b, bit_field(b, words, 2 * plane, 2), *factors)


def third_scales(b: Builder, block: Value) -> Value:
    """The sixteen scales of a block of q3_k."""
    low = b.cast(raw_load(b, block, 96, Type(U8, 8)), I32)
    high = b.cast(raw_load(b, block, 104, Type(U8, 4)), I32)
    lower = b.join([bit_field(b, low, shift, 4) for shift in (0, 4)])
    upper = b.join([bit_field(b, high, shift, 2) for shift in (0, 2, 4, 6)])
    return b.cast(_less(b, _joined(b, lower, upper, 4), 32), F32) * _splat(b, half_number(b, block, 108))


def _k3(b: Builder, block: Value) -> Vectors:
    scales = third_scales(b, block)
    for start in range(0, 32, WIDTH):
        bits = _words(b, block, start)
        for side in range(2):
            words = _words(b, block, 32 + 32 * side + start)
            for plane in range(4):
                place = 128 * side + 32 * plane + start
                q = _joined(b, bit_field(b, words, 2 * plane, 2), bit_field(b, bits, 4 * side + plane, 1), 2)
                yield place, _affine(b, _less(b, q, 4), _splat(b, scales, place // WIDTH), None)


_READERS: dict[str, Callable[[Builder, Value], Vectors]] = {
    "q8_0": _eights,
    "q4_0": _quarter,
    "q4_1": _quarter_minimum,
    "q5_0": _fives,
    "q5_1": _fives_minimum,
    "q2_k": _k2,
    "q3_k": _k3,
    "q4_k": _k4,
    "q5_k": _k5,
    "q6_k": _k6,
}
