"""Dropout with the numbers that `nnc.ops.random` defines: words of Philox4x64-10 (Salmon et al. 2011).

    round: (c0, c1, c2, c3) -> (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2), hi(M0 c0) ^ c3 ^ k1, lo(M0 c0))

A block of four words comes from the counter (block + 1, 0, counter, 0) and the key (seed, 0), which grows by BUMPS from
round to round. u = (w >> 11) · 2^-53 >= rate is a comparison of integers. Items are chunks of blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from nnc.backends.llvm.frame.kernel import Generator, Phase, WithoutMemory, ceiling, phase
from nnc.backends.llvm.frame.row import (
    KernelRow,
    Rows,
    Specs,
    Views,
    only,
)
from nnc.backends.llvm.ir.builder import BF16, F16, F32, F64, INDEX, Builder, Module, Scalar, Type, Value
from nnc.backends.llvm.ir.expression import computed
from nnc.ops.random import DROPOUT, DropoutAttrs

ROUNDS, WORDS, DROPPED_BITS, KEPT_BITS = 10, 4, 11, 53
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
BUMPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
CHUNK = 256  # blocks of an item
NANOSECONDS_PER_BLOCK = 15.0

Words = tuple[Value, Value, Value, Value]


@dataclass(frozen=True, slots=True)
class Dropout(WithoutMemory):
    """y = x / (1 - rate) where mask, else 0, of `elements`; one draw for all with `entirety`.

    Operands: x, counter, y, mask.
    """

    scalar: Scalar
    elements: int
    rate: float
    seed: int
    entirety: bool

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase."""
        blocks = ceiling(self.elements, WORDS)
        with phase(module, name) as w:
            b = w.b
            x, counter, y, mask = (w.argument(index) for index in range(4))
            drawn = b.load(counter, 0, INDEX)
            if self.entirety:
                keep = self._keeps(b, philox(b, b.constant(1), drawn, self.seed)[0])
                # Without elements there is a draw still, so there is an item.
                with b.when(b.compare("==", w.begin, 0)):
                    b.store(keep, mask, 0)
            with b.loop(w.begin * CHUNK, b.least(w.end * CHUNK, blocks)) as block:
                words = None if self.entirety else philox(b, block + 1, drawn, self.seed)
                for number in range(WORDS):
                    index = block * WORDS + number
                    whole = self.elements % WORDS == 0
                    with b.always() if whole else b.when(b.compare("<", index, self.elements)):
                        if words is not None:
                            keep = self._keeps(b, words[number])
                            b.store(keep, mask, index)
                        self._put(b, x, y, index, keep)
        return (Phase(name, max(ceiling(blocks, CHUNK), int(self.entirety)), NANOSECONDS_PER_BLOCK * blocks),)

    def _keeps(self, b: Builder, word: Value) -> Value:
        """u >= rate"""
        least = math.ceil(Fraction(self.rate) * 2**KEPT_BITS)
        return b.compare(">=", b.emit(INDEX, f"lshr i64 {word.text}, {DROPPED_BITS}"), least)

    def _put(self, b: Builder, x: Value, y: Value, index: Value, keep: Value) -> None:
        work = Type(computed(self.scalar))
        value = b.cast(b.load(x, index, Type(self.scalar)), work.scalar) * (1.0 / (1.0 - self.rate))
        b.store(b.cast(b.choose(keep, value, b.zero(work)), self.scalar), y, index)


def philox(b: Builder, block: Value, counter: Value, seed: int) -> Words:
    """The four words of a block."""
    zero = b.constant(0)
    words: Words = (block, zero, counter, zero)
    for number in range(ROUNDS):
        keys = [(key + number * bump) % 2**64 for key, bump in zip((seed, 0), BUMPS, strict=True)]
        (low, high), (low_2, high_2) = (
            _product(b, words[place], factor) for place, factor in zip((0, 2), MULTIPLIERS, strict=True)
        )
        words = (_mixed(b, high_2, words[1], keys[0]), low_2, _mixed(b, high, words[3], keys[1]), low)
    return words


def _product(b: Builder, word: Value, factor: int) -> tuple[Value, Value]:
    """The low and the high half of word * factor."""
    wide = b.emit(INDEX, f"zext i64 {word.text} to i128")
    product = b.emit(INDEX, f"mul i128 {wide.text}, {factor}")
    shifted = b.emit(INDEX, f"lshr i128 {product.text}, 64")
    low, high = (b.emit(INDEX, f"trunc i128 {one.text} to i64") for one in (product, shifted))
    return low, high


def _mixed(b: Builder, high: Value, word: Value, key: int) -> Value:
    """high ^ word ^ key"""
    signed = key - 2**64 if key >= 2**63 else key
    return b.emit(INDEX, f"xor i64 {b.exclusive(high, word).text}, {signed}")


def _dropout(attrs: DropoutAttrs, inputs: Views, outputs: Views) -> Generator:
    x = inputs[0]
    return Dropout(x.scalar, x.elements, attrs.rate, attrs.seed, attrs.entirety)


def _floating_x(attrs: object, inputs: Specs, outputs: Specs) -> str:
    return only(F64, F32, F16, BF16)(attrs, inputs[:1], ())


ROWS: Rows = {
    DROPOUT: KernelRow(_dropout, _floating_x),
}
