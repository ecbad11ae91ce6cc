"""Sums of products of blocks with rows of integers: what products of a few rows are made of.

A weight is s · (q - o) + m with q an unsigned byte. A row of x becomes, in groups of 32, integers i of 23 bits times a
power of two e: half of the last bit of f32 of the largest one. Then

    sum_k x[k] · w[k] = sum over groups of  s · e · sum_k (q - o) · i + m · e · sum_k i

whose inner sums are exact, whatever the processor multiplies bytes by. A register holds 16 bytes of each of some
outputs, and 4 sums of each, so that results have the same bits on all processors. i is held in digits of signed bytes
for instructions that sum products of bytes in fours, else in two numbers of 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nnc.classes import dataclass
from nnc.codegen.frame.block_values import bit_field, group_factors, half_number, raw_load, six_bits, third_scales
from nnc.codegen.ir.builder import F16, F32, I8, I16, I32, U8, Builder, Type, Value
from nnc.codegen.ir.dot_products import OTHER_SIGN, DotProduct, sum_pairs
from nnc.codegen.ir.mathematics import absolute
from nnc.codegen.ir.native_kernel import aligned
from nnc.codegen.ir.target import ByteDots, TargetDescription
from nnc.core.values.blocks import FORMATS, BlockFormat

# Bytes of an output in a register, sums of it, elements that share a power of two.
PIECE, SUMS, GROUP = 16, 4, 32
# Bits of a digit and how many there are: of bytes, and of numbers of 16 bits.
BYTE_DIGITS, WORD_DIGITS = (8, 3), (12, 2)
# Exponents of f32: their place, what they are above the true ones, the least one that is told from nothing.
MANTISSA, EXPONENT_BIAS, LEAST_EXPONENT = 23, 127, 27
# A sum with it has no digits behind the point, and the whole number in its lowest bits.
MAGIC = 1.5 * 2.0**23


@dataclass(frozen=True, slots=True, eq=False)
class BlockGroup:
    """Weights from `start` of a block on: bytes q of PIECE elements each, for all outputs; s and m by their sums."""

    start: int
    pieces: tuple[Value, ...]
    scale: Value
    minimum: Value | None = None


@dataclass(frozen=True, slots=True)
class SummedFormat:
    """How blocks are read as integers: what is taken from q, elements of a group, the bits that are left for i."""

    groups: Callable[[Builder, Sequence[Value]], Iterator[BlockGroup]]
    offset: int = 0
    group: int = GROUP
    bits: int = 22
    minima: bool = False


def outputs_together(target: TargetDescription) -> int:
    """Outputs of a register."""
    return max(target.vector_bits // (8 * PIECE), 1)


@dataclass(frozen=True, slots=True)
class IntegerRow:
    """A row of `elements` of x as integers in the scratch of a worker, for products with a format.

    Behind the digits are, for each group, 4 numbers each: the power of two, the sums of i times it where the format has
    minima, and those times the offset where it has one.
    """

    format: str
    elements: int

    @property
    def form(self) -> BlockFormat:
        """The format."""
        return FORMATS[self.format]

    @property
    def summed(self) -> SummedFormat:
        """How it is read."""
        return SUMMED[self.format]

    def digits(self, target: TargetDescription) -> tuple[int, int]:
        """Bits of a digit, and how many digits there are."""
        return WORD_DIGITS if target.byte_dots is ByteDots.NONE else BYTE_DIGITS

    def piece_bytes(self, target: TargetDescription) -> int:
        """Bytes of the digits of PIECE elements."""
        return PIECE * (4 if target.byte_dots is ByteDots.NONE else BYTE_DIGITS[1])

    def offset(self, target: TargetDescription) -> int:
        """What is taken from q: nothing from signed bytes."""
        return 0 if self.summed.offset == OTHER_SIGN and _signed(target) else self.summed.offset

    def places(self, target: TargetDescription) -> tuple[int, int, int, int]:
        """Where powers, sums and offsets begin, and how many bytes there are."""
        powers = self.elements // PIECE * self.piece_bytes(target)
        size = self.elements // self.summed.group * SUMS * F32.size
        sums = powers + self.elements // GROUP * SUMS * F32.size
        offsets = sums + size * self.summed.minima
        return powers, sums, offsets, aligned(offsets + size * bool(self.offset(target)))

    # ---- made of x

    def write(self, b: Builder, x: Value, place: Value) -> None:
        """Put the integers of x at a place."""
        powers, sums, offsets, _ = self.places(b.target)
        kind, summed, offset = Type(F32, PIECE), self.summed, self.offset(b.target)
        with b.loop(0, self.elements // GROUP) as number:
            parts = [b.load(x, number * GROUP + start, kind) for start in range(0, GROUP, PIECE)]
            power, inverse = self._powers(b, parts)
            b.store(b.splat(power, SUMS), b.offset(place, powers, U8), number * SUMS)
            integers = [self._rounded(b, part * b.splat(inverse, PIECE)) for part in parts]
            for piece, whole in enumerate(integers):
                target = b.offset(place, (number * (GROUP // PIECE) + piece) * self.piece_bytes(b.target), U8)
                self._write_digits(b, whole, target)
            totals = [_fours(b, whole) for whole in integers]
            if summed.group == GROUP:
                totals = [totals[0] + totals[1]]
            for index, total in enumerate(totals):
                slot = (number * len(totals) + index) * SUMS
                if summed.minima:
                    b.store(b.cast(total, F32) * b.splat(power, SUMS), b.offset(place, sums, U8), slot)
                if offset:
                    b.store(total * offset, b.offset(place, offsets, U8), slot)

    def _powers(self, b: Builder, parts: Sequence[Value]) -> tuple[Value, Value]:
        """2^e and 2^-e, with |x| < 2^(e + bits); not-a-number where some x is not finite."""
        largest = b.larger(absolute(b, parts[0]), absolute(b, parts[1]))
        # Of a NaN, which comparisons lose, the sum is one.
        nothing = b.fold((parts[0] - parts[0]) + (parts[1] - parts[1]), "add")
        bits = b.shift_right(b.reinterpret(b.fold(largest, "larger"), I32), MANTISSA)
        exponent = b.greatest(bits, b.constant(LEAST_EXPONENT, bits.type)) + (1 - self.summed.bits)
        inverse = b.constant(2 * EXPONENT_BIAS, bits.type) - exponent
        power, inverse = (b.reinterpret(b.shift_left(each, MANTISSA), F32) for each in (exponent, inverse))
        return power + nothing, inverse

    def _rounded(self, b: Builder, value: Value) -> Value:
        """The nearest integers below 2^bits: eight of them times bytes of eight bits are below 2^31."""
        bits = b.reinterpret(value + MAGIC, I32)
        whole = bits - b.reinterpret(b.constant(MAGIC, Type(F32, PIECE)), I32)
        most = (1 << self.summed.bits) - 1
        return b.greatest(b.least(whole, b.constant(most, whole.type)), b.constant(-most, whole.type))

    def _write_digits(self, b: Builder, whole: Value, place: Value) -> None:
        """The highest digit first: i = sum of digit · 2^(bits · (count - 1 - place)), each as near to 0 as it gets."""
        bits, count = self.digits(b.target)
        digits: list[Value] = []
        for _ in range(count - 1):
            digits.append(b.shift_right(b.shift_left(whole, 32 - bits), 32 - bits))
            whole = b.shift_right(whole - digits[-1], bits)
        for number, digit in enumerate((whole, *reversed(digits))):
            if b.target.byte_dots is not ByteDots.NONE:
                b.store(b.cast(digit, I8), b.offset(place, number * PIECE, U8), 0)
                continue
            narrow = b.cast(digit, I16)
            for half_of, lanes in enumerate(_PAIRED):
                part = b.shuffle(narrow, narrow, lanes)
                b.store(part, b.offset(place, (2 * number + half_of) * PIECE, U8), 0)

    # ---- and multiplied

    def add(self, b: Builder, place: Value, block: Value, group: BlockGroup, totals: Value) -> Value:
        """totals + what a group of block number `block` of some outputs gives: 4 sums of each output."""
        powers, sums, offsets, _ = self.places(b.target)
        summed, lanes = self.summed, totals.type.lanes
        inner = self._inner(b, place, block, group)
        slot = (block * (self.form.size // summed.group) + group.start // summed.group) * SUMS
        if self.offset(b.target):
            inner = inner - _spread(b, b.offset(place, offsets, U8), slot, Type(I32, SUMS), lanes)
        shared = (block * (self.form.size // GROUP) + group.start // GROUP) * SUMS
        power = _spread(b, b.offset(place, powers, U8), shared, Type(F32, SUMS), lanes)
        totals = b.fma(b.cast(inner, F32), group.scale * power, totals)
        if group.minimum is None:
            return totals
        return b.fma(group.minimum, _spread(b, b.offset(place, sums, U8), slot, Type(F32, SUMS), lanes), totals)

    def _inner(self, b: Builder, place: Value, block: Value, group: BlockGroup) -> Value:
        """sum_k q · i in fours, exact"""
        bits, count = self.digits(b.target)
        size = self.piece_bytes(b.target)
        first = block * (self.form.size // PIECE) + group.start // PIECE
        total = b.zero(Type(I32, group.pieces[0].type.lanes // SUMS))
        for digit in range(count):
            total = b.shift_left(total, bits) if digit else total
            for number, piece in enumerate(group.pieces):
                start = b.offset(place, (first + number) * size, U8)
                total = _dots(b, piece, start, digit, total)
        return total


def _signed(target: TargetDescription) -> bool:
    """Whether bytes of weights are multiplied as signed ones: they are below 128, but for those of eight bits."""
    return target.byte_dots is ByteDots.ALIKE


# Of 16 numbers those that stand in the even and odd bytes of words.
_PAIRED = tuple(tuple(range(first, PIECE, 2)) for first in (0, 1))


def _dots(b: Builder, piece: Value, place: Value, digit: int, total: Value) -> Value:
    """total + the sums in fours of bytes of the piece times digits at a place"""
    lanes = total.type.lanes
    if b.target.byte_dots is not ByteDots.NONE:
        x = _spread(b, b.offset(place, digit * PIECE, U8), 0, Type(I32, SUMS), lanes)
        dot = DotProduct(I8, I8, ByteDots.ALIKE) if _signed(b.target) else DotProduct(U8, I8, ByteDots.MIXED)
        return dot.add(b, b.words(piece), x, total)
    words = b.words(piece)
    for half_of in range(2):
        shifted = b.emit(words.type, f"lshr {words.type} {words.text}, {b.constant(8, words.type).text}")
        pairs = b.both(shifted if half_of else words, b.constant(0x00FF00FF, words.type))
        start = b.offset(place, (2 * digit + half_of) * PIECE, U8)
        total = total + sum_pairs(b, pairs, _spread(b, start, 0, Type(I32, SUMS), lanes))
    return total


def _fours(b: Builder, whole: Value) -> Value:
    """Sums of neighbours in fours."""
    for _ in range(2):
        even, odd = (b.shuffle(whole, whole, range(first, whole.type.lanes, 2)) for first in (0, 1))
        whole = even + odd
    return whole


def _spread(b: Builder, place: Value, index: Value | int, kind: Type, lanes: int) -> Value:
    """The 4 numbers there again and again."""
    value = b.load(place, index, kind)
    return b.shuffle(value, value, [lane % SUMS for lane in range(lanes)])


def folded(b: Builder, totals: Value) -> list[Value]:
    """The sum of each output, of its 4 sums."""
    for lanes in ((2, 3, 0, 1), (1, 0, 3, 2)):
        order = [first + lane for first in range(0, totals.type.lanes, SUMS) for lane in lanes]
        totals = totals + b.shuffle(totals, totals, order)
    return [b.extract(totals, first) for first in range(0, totals.type.lanes, SUMS)]


# ---- blocks


def _bytes(b: Builder, blocks: Sequence[Value], offset: int) -> Value:
    """PIECE bytes of each block at an offset."""
    return b.join([raw_load(b, block, offset, Type(U8, PIECE)) for block in blocks])


def _field(b: Builder, bytes_of: Value, shift: int, bits: int) -> Value:
    """Some bits of bytes, as the lowest ones."""
    shifted = b.shift_right(bytes_of, shift) if shift else bytes_of
    return shifted if shift + bits == 8 else b.both(shifted, b.constant((1 << bits) - 1, shifted.type))


def _above(b: Builder, low: Value, high: Value, shift: int) -> Value:
    return b.either(low, b.shift_left(high, shift) if shift else high)


def _each(b: Builder, values: Value) -> Value:
    """A number of each output for all of its sums."""
    return b.shuffle(values, values, [lane // SUMS for lane in range(SUMS * values.type.lanes)])


def _vector(b: Builder, values: Sequence[Value]) -> Value:
    """Numbers as a vector."""
    kind = Type(values[0].type.scalar, len(values))
    vector = Value("poison", kind, b)
    for lane, value in enumerate(values):
        vector = b.insert(vector, value, lane)
    return vector


def _scales(b: Builder, blocks: Sequence[Value], offset: int) -> Value:
    """An f16 of each block, for all sums of its output."""
    if not b.target.half:
        return _each(b, _vector(b, [half_number(b, block, offset) for block in blocks]))
    return _each(b, b.cast(_vector(b, [raw_load(b, block, offset, Type(F16)) for block in blocks]), F32))


def _scales_and_minima(b: Builder, blocks: Sequence[Value]) -> tuple[Value, Value]:
    """The two f16 that blocks begin with, of which one load takes both."""
    if not b.target.half:
        return _scales(b, blocks, 0), _scales(b, blocks, 2)
    words = _vector(b, [raw_load(b, block, 0, Type(I32)) for block in blocks])
    kind = Type(F16, 2 * len(blocks))
    pairs = b.cast(b.emit(kind, f"bitcast {words.type} {words.text} to {kind}"), F32)
    even, odd = ([2 * (lane // SUMS) + first for lane in range(SUMS * len(blocks))] for first in (0, 1))
    return b.shuffle(pairs, pairs, even), b.shuffle(pairs, pairs, odd)


def _fours_of(b: Builder, blocks: Sequence[Value], offset: int) -> tuple[Value, Value]:
    """The low and the high halves of PIECE bytes."""
    packed = _bytes(b, blocks, offset)
    return _field(b, packed, 0, 4), _field(b, packed, 4, 4)


def _quarter(b: Builder, blocks: Sequence[Value]) -> Iterator[BlockGroup]:
    yield BlockGroup(0, _fours_of(b, blocks, 2), _scales(b, blocks, 0))


def _quarter_minimum(b: Builder, blocks: Sequence[Value]) -> Iterator[BlockGroup]:
    yield BlockGroup(0, _fours_of(b, blocks, 4), *_scales_and_minima(b, blocks))


def _fifths(b: Builder, blocks: Sequence[Value], offset: int) -> tuple[Value, ...]:
    """Fours whose fifth bits are those of a word of each block in front of them."""
    words = _vector(b, [raw_load(b, block, offset, Type(I32)) for block in blocks])
    kind = Type(U8, I32.size * len(blocks))
    held = b.emit(kind, f"bitcast {words.type} {words.text} to {kind}")
    pieces = []
    for number, low in enumerate(_fours_of(b, blocks, offset + 4)):
        places = [
            I32.size * output + (PIECE * number + bit) // 8 for output in range(len(blocks)) for bit in range(PIECE)
        ]
        bit = Value(f"<{', '.join(f'i8 {1 << lane % 8}' for lane in range(len(places)))}>", low.type, b)
        there = b.compare("!=", b.both(b.shuffle(held, held, places), bit), 0)
        pieces.append(b.either(low, b.choose(there, b.constant(16, low.type), b.zero(low.type))))
    return tuple(pieces)


def _fives(b: Builder, blocks: Sequence[Value]) -> Iterator[BlockGroup]:
    yield BlockGroup(0, _fifths(b, blocks, 2), _scales(b, blocks, 0))


def _fives_minimum(b: Builder, blocks: Sequence[Value]) -> Iterator[BlockGroup]:
    yield BlockGroup(0, _fifths(b, blocks, 4), *_scales_and_minima(b, blocks))


def _eights(b: Builder, blocks: Sequence[Value]) -> Iterator[BlockGroup]:
    packed = [_bytes(b, blocks, 2 + start) for start in (0, PIECE)]
    if not _signed(b.target):
        packed = [b.exclusive(each, b.constant(OTHER_SIGN, each.type)) for each in packed]
    yield BlockGroup(0, tuple(packed), _scales(b, blocks, 0))


def _of_group(b: Builder, values: Sequence[Value], group: int) -> Value:
    """Of a vector of each output the number of a group, for all sums of the output."""
    joined, lanes = b.join(list(values)), values[0].type.lanes
    return b.shuffle(joined, joined, [lane // SUMS * lanes + group for lane in range(SUMS * len(values))])


def _k4(b: Builder, blocks: Sequence[Value]) -> Iterator[BlockGroup]:
    factors = [group_factors(b, block, 0, 2, *six_bits(b, block, 4)) for block in blocks]
    scales, minima = zip(*factors, strict=True)
    for pair in range(4):
        parts = [_fours_of(b, blocks, 16 + 32 * pair + start) for start in (0, PIECE)]
        for half_of, pieces in enumerate(zip(*parts, strict=True)):
            group = 2 * pair + half_of
            yield BlockGroup(GROUP * group, pieces, _of_group(b, scales, group), _of_group(b, minima, group))


def _k5(b: Builder, blocks: Sequence[Value]) -> Iterator[BlockGroup]:
    factors = [group_factors(b, block, 0, 2, *six_bits(b, block, 4)) for block in blocks]
    scales, minima = zip(*factors, strict=True)
    fifths = [_bytes(b, blocks, 16 + start) for start in (0, PIECE)]
    for pair in range(4):
        parts = [_fours_of(b, blocks, 48 + 32 * pair + start) for start in (0, PIECE)]
        for half_of, pieces in enumerate(zip(*parts, strict=True)):
            group = 2 * pair + half_of
            whole = tuple(_above(b, q, _field(b, bits, group, 1), 4) for q, bits in zip(pieces, fifths, strict=True))
            yield BlockGroup(GROUP * group, whole, _of_group(b, scales, group), _of_group(b, minima, group))


def _k6(b: Builder, blocks: Sequence[Value]) -> Iterator[BlockGroup]:
    scales = [
        b.cast(b.cast(raw_load(b, block, 192, Type(I8, PIECE)), I32), F32) * b.splat(half_number(b, block, 208), PIECE)
        for block in blocks
    ]
    for side in range(2):
        for start in (0, PIECE):
            high = _bytes(b, blocks, 128 + 32 * side + start)
            for column in range(2):
                for half_of, low in enumerate(_fours_of(b, blocks, 64 * side + 32 * column + start)):
                    plane = 2 * half_of + column
                    place = 128 * side + 32 * plane + start
                    piece = _above(b, low, _field(b, high, 2 * plane, 2), 4)
                    yield BlockGroup(place, (piece,), _of_group(b, scales, place // PIECE))


def _k2(b: Builder, blocks: Sequence[Value]) -> Iterator[BlockGroup]:
    factors = []
    for block in blocks:
        packed = b.cast(raw_load(b, block, 0, Type(U8, PIECE)), I32)
        parts = [b.cast(bit_field(b, packed, shift, 4), F32) for shift in (0, 4)]
        factors.append(group_factors(b, block, 80, 82, *parts))
    scales, minima = zip(*factors, strict=True)
    for side in range(2):
        for start in (0, PIECE):
            packed = _bytes(b, blocks, 16 + 32 * side + start)
            for plane in range(4):
                group = (128 * side + 32 * plane + start) // PIECE
                piece = _field(b, packed, 2 * plane, 2)
                scale, minimum = _of_group(b, scales, group), _of_group(b, minima, group)
                yield BlockGroup(PIECE * group, (piece,), scale, minimum)


def _k3(b: Builder, blocks: Sequence[Value]) -> Iterator[BlockGroup]:
    scales = [third_scales(b, block) for block in blocks]
    for start in (0, PIECE):
        bits = _bytes(b, blocks, start)
        for side in range(2):
            packed = _bytes(b, blocks, 32 + 32 * side + start)
            for plane in range(4):
                place = 128 * side + 32 * plane + start
                high = _field(b, bits, 4 * side + plane, 1)
                piece = _above(b, _field(b, packed, 2 * plane, 2), high, 2)
                yield BlockGroup(place, (piece,), _of_group(b, scales, place // PIECE))


# Inner sums are of 4 products a lane in groups of 16 elements, of 8 in those of 32: below 2^31 with these bits.
SUMMED: dict[str, SummedFormat] = {
    "q8_0": SummedFormat(_eights, offset=128, bits=21),
    "q4_0": SummedFormat(_quarter, offset=8),
    "q4_1": SummedFormat(_quarter_minimum, minima=True),
    "q5_0": SummedFormat(_fives, offset=16),
    "q5_1": SummedFormat(_fives_minimum, minima=True),
    "q2_k": SummedFormat(_k2, group=PIECE, minima=True),
    "q3_k": SummedFormat(_k3, offset=4, group=PIECE),
    "q4_k": SummedFormat(_k4, minima=True),
    "q5_k": SummedFormat(_k5, minima=True),
    "q6_k": SummedFormat(_k6, offset=32, group=PIECE),
}
