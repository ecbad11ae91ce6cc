"""Random numbers and dropout, as `nnc.ops.random` defines them: words of Philox4x64-10 (Salmon et al. 2011).

    round: (c0, c1, c2, c3) -> (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2), hi(M0 c0) ^ c3 ^ k1, lo(M0 c0))

A block of four words comes from the counter (block + 1, 0, counter, 0) and the key (seed, 0), which grows by BUMPS from
round to round. u = (w >> 11) · 2^-53, and u >= rate is a comparison of integers. Items are chunks of blocks. Seeds,
bounds and rates stand behind the addresses: one kernel serves all layers of a shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from fractions import Fraction

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, WithNumbers, WithoutMemory, WithSizes, ceiling, phase
from nnc.codegen.frame.row import (
    KernelRow,
    Rows,
    Specs,
    Views,
    only,
)
from nnc.codegen.ir import circular, mathematics
from nnc.codegen.ir.builder import BF16, F16, F32, F64, I64, INDEX, Builder, Module, Number, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Read, known_multiple
from nnc.core.values.dtype import dtype_of
from nnc.ops.random.random import (
    DROPOUT,
    RANDOM_NORMAL,
    RANDOM_UNIFORM,
    DropoutAttrs,
    NormalAttrs,
    UniformAttrs,
    largest_below,
)

ROUNDS, WORDS, DROPPED_BITS, KEPT_BITS = 10, 4, 11, 53
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
BUMPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
CHUNK = 256  # blocks of an item
NANOSECONDS_PER_BLOCK, NANOSECONDS_PER_NORMAL_BLOCK = 15.0, 60.0

Words = tuple[Value, Value, Value, Value]


@dataclass(frozen=True, slots=True)
class Dropout(WithoutMemory, WithNumbers, WithSizes):
    """y = x / (1 - rate) where mask, else 0, of `elements`; one draw for all with `entirety`.

    Operands: x, counter, y, mask; numbers: the seed, the least word that keeps an element, what it is multiplied by.
    """

    scalar: Scalar
    elements: int
    entirety: bool
    numbers: tuple[Number, ...] = field(compare=False)

    @property
    def kinds(self) -> tuple[Scalar, ...]:
        """The factor is of the type that is computed in."""
        return (I64, I64, computed(self.scalar))

    def opened(self, read: Read, target: TargetDescription) -> Dropout:
        """How many elements there are is read."""
        return replace(self, elements=read(self.elements))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase."""
        blocks, chunk = ceiling(self.elements, WORDS), module.target.share(CHUNK)
        with phase(module, name) as w:
            b = w.b
            x, counter, y, mask = (w.argument(index) for index in range(4))
            seed, least, factor = self.read(w, 4)
            drawn = b.load(counter, 0, INDEX)
            if self.entirety:
                keep = _keeps(b, philox(b, b.constant(1), drawn, seed)[0], least)
                # Without elements there is a draw still, so there is an item.
                with b.when(b.compare("==", w.begin, 0)):
                    b.store(keep, mask, 0)
            with b.loop(w.begin * chunk, b.least(w.end * chunk, blocks)) as block:
                words = None if self.entirety else philox(b, block + 1, drawn, seed)
                for number in range(WORDS):
                    index = block * WORDS + number
                    whole = known_multiple(self.elements, WORDS)
                    with b.always() if whole else b.when(b.compare("<", index, self.elements)):
                        if words is not None:
                            keep = _keeps(b, words[number], least)
                            b.store(keep, mask, index)
                        self._put(b, (x, y), index, keep, factor)
        return (Phase(name, max(ceiling(blocks, chunk), int(self.entirety)), NANOSECONDS_PER_BLOCK * blocks),)

    def _put(self, b: Builder, places: tuple[Value, Value], index: Value, keep: Value, factor: Value) -> None:
        x, y = places
        work = Type(computed(self.scalar))
        value = b.cast(b.load(x, index, Type(self.scalar)), work.scalar) * factor
        b.store(b.cast(b.choose(keep, value, b.zero(work)), self.scalar), y, index)


@dataclass(frozen=True, slots=True)
class UniformNumbers(WithoutMemory, WithNumbers, WithSizes):
    """y[i] = low + width · u[i], at most `largest`. Operands: counter, y; numbers: seed, low, width, largest."""

    scalar: Scalar
    elements: int
    numbers: tuple[Number, ...] = field(compare=False)

    @property
    def kinds(self) -> tuple[Scalar, ...]:
        """A seed and three f64."""
        return (I64, F64, F64, F64)

    def opened(self, read: Read, target: TargetDescription) -> UniformNumbers:
        """How many elements there are is read."""
        return replace(self, elements=read(self.elements))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase."""
        blocks, chunk = ceiling(self.elements, WORDS), module.target.share(CHUNK)
        with phase(module, name) as w:
            b = w.b
            drawn, y = b.load(w.argument(0), 0, INDEX), w.argument(1)
            seed, low, width, largest = self.read(w, 2)
            with b.loop(w.begin * chunk, b.least(w.end * chunk, blocks)) as block:
                for number, word in enumerate(philox(b, block + 1, drawn, seed)):
                    index = block * WORDS + number
                    value = b.minimum(low + width * _fraction(b, word), largest)
                    whole = known_multiple(self.elements, WORDS)
                    with b.always() if whole else b.when(b.compare("<", index, self.elements)):
                        b.store(b.cast(value, self.scalar), y, index)
        return (Phase(name, ceiling(blocks, chunk), NANOSECONDS_PER_BLOCK * blocks),)


@dataclass(frozen=True, slots=True)
class NormalNumbers(WithoutMemory, WithNumbers, WithSizes):
    """y[2k], y[2k + 1] = mean + deviation · √(-2 ln(1 - u[2k])) · (cos, sin)(2π u[2k + 1]), a register full of pairs.

    Operands: counter, y; numbers: seed, mean, deviation.
    """

    scalar: Scalar
    elements: int
    numbers: tuple[Number, ...] = field(compare=False)

    @property
    def kinds(self) -> tuple[Scalar, ...]:
        """A seed and two f64."""
        return (I64, F64, F64)

    def opened(self, read: Read, target: TargetDescription) -> NormalNumbers:
        """How many elements there are is read."""
        return replace(self, elements=read(self.elements))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is CHUNK blocks."""
        pairs = max(module.target.lanes(8 * F64.size), WORDS // 2)
        each = 2 * pairs // WORDS  # blocks that fill a register with pairs, at least one
        blocks, chunk = ceiling(self.elements, WORDS), each if module.target.threads else CHUNK
        with phase(module, name) as w:
            b = w.b
            drawn, y = b.load(w.argument(0), 0, INDEX), w.argument(1)
            seed, mean, deviation = self.read(w, 2)
            with b.loop(w.begin * chunk, b.least(w.end * chunk, blocks), each) as block:
                words = [word for number in range(each) for word in philox(b, block + number + 1, drawn, seed)]
                values = _normal(b, words)
                values = b.splat(mean, 2 * pairs) + b.splat(deviation, 2 * pairs) * values
                rest = self.elements - block * WORDS
                b.store(b.cast(values, self.scalar), y, block * WORDS, b.mask(rest, 2 * pairs))
        return (Phase(name, ceiling(blocks, chunk), NANOSECONDS_PER_NORMAL_BLOCK * blocks),)


def _normal(b: Builder, words: Sequence[Value]) -> Value:
    """Standard normal numbers of pairs of words."""
    kind = Type(F64, len(words) // 2)
    first, second = (_fraction(b, _lanes(b, words[start::2])) for start in range(2))
    # 1 - u is exact: u is a multiple of 2^-53.
    radius = mathematics.square_root(b, mathematics.logarithm(b, 1.0 - first) * -2.0)
    angle = second * (2.0 * math.pi)
    cosine, sine = radius * circular.cosine(b, angle), radius * circular.sine(b, angle)
    order = [lane + kind.lanes * half for lane in range(kind.lanes) for half in range(2)]
    return b.shuffle(cosine, sine, order)


def _lanes(b: Builder, words: Sequence[Value]) -> Value:
    vector = b.splat(words[0], len(words))
    for lane, word in enumerate(words[1:], 1):
        vector = b.insert(vector, word, lane)
    return vector


def _fraction(b: Builder, word: Value) -> Value:
    """u = (w >> 11) · 2^-53"""
    return b.cast(_kept(b, word), F64) * 2.0**-KEPT_BITS


def _kept(b: Builder, word: Value) -> Value:
    """w >> 11, the sign being a bit like others"""
    return b.emit(word.type, f"lshr {word.type} {word.text}, {b.constant(DROPPED_BITS, word.type).text}")


def _keeps(b: Builder, word: Value, least: Value) -> Value:
    """u >= rate"""
    return b.compare(">=", _kept(b, word), least)


def philox(b: Builder, block: Value, counter: Value, seed: Value) -> Words:
    """The four words of a block."""
    zero = b.constant(0)
    words: Words = (block, zero, counter, zero)
    for number in range(ROUNDS):
        keys = (seed + _signed(number * BUMPS[0]), b.constant(_signed(number * BUMPS[1])))
        (low, high), (low_2, high_2) = (
            _product(b, words[place], factor) for place, factor in zip((0, 2), MULTIPLIERS, strict=True)
        )
        mixed = (b.exclusive(b.exclusive(h, words[1 + 2 * p]), keys[p]) for p, h in enumerate((high_2, high)))
        words = (next(mixed), low_2, next(mixed), low)
    return words


def _product(b: Builder, word: Value, factor: int) -> tuple[Value, Value]:
    """The low and the high half of word * factor."""
    wide = b.emit(INDEX, f"zext i64 {word.text} to i128")
    product = b.emit(INDEX, f"mul i128 {wide.text}, {factor}")
    shifted = b.emit(INDEX, f"lshr i128 {product.text}, 64")
    low, high = (b.emit(INDEX, f"trunc i128 {value.text} to i64") for value in (product, shifted))
    return low, high


def _signed(word: int) -> int:
    """The word modulo 2^64, as LLVM writes it."""
    return (word + 2**63) % 2**64 - 2**63


def _dropout(attrs: DropoutAttrs, inputs: Views, outputs: Views) -> Generator:
    x = inputs[0]
    least = math.ceil(Fraction(attrs.rate) * 2**KEPT_BITS)
    return Dropout(x.scalar, x.elements, attrs.entirety, (attrs.seed, least, 1.0 / (1.0 - attrs.rate)))


def _uniform(attrs: UniformAttrs, inputs: Views, outputs: Views) -> Generator:
    y = outputs[0]
    largest = largest_below(attrs.high, dtype_of(y.scalar.name))
    return UniformNumbers(y.scalar, y.elements, (attrs.seed, attrs.low, attrs.high - attrs.low, largest))


def _normal_row(attrs: NormalAttrs, inputs: Views, outputs: Views) -> Generator:
    y = outputs[0]
    return NormalNumbers(y.scalar, y.elements, (attrs.seed, attrs.mean, attrs.deviation))


def _floating_x(attrs: object, inputs: Specs, outputs: Specs) -> str:
    return only(F64, F32, F16, BF16)(attrs, inputs[:1], ())


def _floating_y(attrs: object, inputs: Specs, outputs: Specs) -> str:
    return only(F64, F32, F16, BF16)(attrs, (), outputs)


ROWS: Rows = {
    DROPOUT: KernelRow(_dropout, _floating_x),
    RANDOM_UNIFORM: KernelRow(_uniform, _floating_y),
    RANDOM_NORMAL: KernelRow(_normal_row, _floating_y),
}
