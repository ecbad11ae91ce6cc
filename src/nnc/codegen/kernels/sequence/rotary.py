"""Rotary position embedding: the angles of a row turn the pairs of features of all its heads, a register at a time.

(y₁, y₂) = (x₁ · cos a - x₂ · sin a, x₁ · sin a + x₂ · cos a);   angle[…, i] = position[…] · base^(-i / pairs)
"""

from __future__ import annotations

import math

import numpy as np

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, WithoutMemory, phase
from nnc.codegen.frame.row import KernelRow, Rows, Specs, Views, floating, numeric
from nnc.codegen.ir import circular
from nnc.codegen.ir.builder import ADDRESS, F64, Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase
from nnc.ops.sequence.rotary import ROTARY, ROTARY_ANGLES, RotaryAnglesAttrs, RotaryAttrs

NANOSECONDS_PER_ANGLE, NANOSECONDS_PER_TURN, NANOSECONDS_PER_PRODUCT = 12.0, 2.0, 1.0
# Frequencies are part of the code.
MOST_FREQUENCIES = 4096


@dataclass(frozen=True, slots=True)
class Turn(WithoutMemory):
    """y = x[rows, heads, features] turned by angle[rows modulo `angles`, pairs].

    Pairs are (i, i + pairs), or (2i, 2i + 1) when `interleaved`. Operands: x, angle, y.
    """

    scalar: Scalar
    angle: Scalar
    rows: int
    angles: int
    heads: int
    features: int
    pairs: int
    interleaved: bool
    inverse: bool

    @property
    def work(self) -> Scalar:
        """The wider of both types that are computed in."""
        return max(computed(self.scalar), computed(self.angle), key=lambda scalar: scalar.size)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a row of x."""
        lanes = module.target.lanes(8 * self.work.size)
        whole = self.heads * self.features
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as row:
            b = w.b
            x, y = (b.offset(w.argument(place), row * whole, self.scalar) for place in (0, 2))
            angles = b.offset(w.argument(1), row % self.angles * self.pairs, self.angle)
            with b.loop(0, self.pairs, lanes) as first:
                rest = self.pairs - first if self.pairs % lanes else None
                mask = None if rest is None else b.mask(rest, lanes)
                angle = b.cast(b.load(angles, first, Type(self.angle, lanes), mask), self.work)
                cosine, sine = circular.cosine(b, angle), circular.sine(b, angle)
                with b.loop(0, self.heads) as head:
                    start = head * self.features
                    self._turn(b, (x, y), start, first, (cosine, b.negative(sine) if self.inverse else sine), rest)
            with b.loop(0, self.heads) as head, b.loop(2 * self.pairs, self.features) as behind:
                place = head * self.features + behind
                b.store(b.load(x, place, Type(self.scalar)), y, place)
        vectors = self.rows * -(-self.pairs // lanes)
        cost = vectors * (NANOSECONDS_PER_ANGLE + self.heads * NANOSECONDS_PER_TURN)
        return (Phase(name, self.rows if whole else 0, cost),)

    def _turn(
        self,
        b: Builder,
        places: tuple[Value, Value],
        start: Value,
        first: Value,
        turn: tuple[Value, Value],
        rest: Value | None,
    ) -> None:
        """A register of pairs of one head."""
        (x, y), (cosine, sine) = places, turn
        lanes = cosine.type.lanes
        kind = Type(self.scalar, lanes)
        if self.interleaved:
            both, at = Type(self.scalar, 2 * lanes), start + first * 2
            mask = None if rest is None else b.mask(rest * 2, 2 * lanes)
            read = b.load(x, at, both, mask)
            left, right = (b.shuffle(read, read, range(half, 2 * lanes, 2)) for half in range(2))
            left, right = self._turned(b, left, right, cosine, sine)
            order = [lane + lanes * half for lane in range(lanes) for half in range(2)]
            b.store(b.shuffle(left, right, order), y, at, mask)
            return
        mask = None if rest is None else b.mask(rest, lanes)
        left, right = (b.load(x, start + first + behind, kind, mask) for behind in (0, self.pairs))
        for behind, turned in zip((0, self.pairs), self._turned(b, left, right, cosine, sine), strict=True):
            b.store(turned, y, start + first + behind, mask)

    def _turned(self, b: Builder, left: Value, right: Value, cosine: Value, sine: Value) -> tuple[Value, Value]:
        x, y = b.cast(left, self.work), b.cast(right, self.work)
        turned = x * cosine - y * sine, x * sine + y * cosine
        return b.cast(turned[0], self.scalar), b.cast(turned[1], self.scalar)


@dataclass(frozen=True, slots=True)
class Angles(WithoutMemory):
    """y[k, i] = position[k] · base^(-i / pairs), in f64."""

    position: Scalar
    scalar: Scalar
    count: int
    pairs: int
    base: float

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a position."""
        lanes = module.target.lanes(64)
        frequencies = self.base ** (-np.arange(self.pairs) / self.pairs)
        table = module.table(f"{name}_frequencies", frequencies.view(np.int64).tolist())
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as row:
            b = w.b
            position = b.splat(b.cast(b.load(w.argument(0), row, Type(self.position)), F64), lanes)
            y = b.offset(w.argument(1), row * self.pairs, self.scalar)
            with b.loop(0, self.pairs, lanes) as index:
                mask = b.mask(self.pairs - index, lanes) if self.pairs % lanes else None
                frequency = b.load(Value(table, ADDRESS, b), index, Type(F64, lanes), mask)
                b.store(b.cast(position * frequency, self.scalar), y, index, mask)
        return (Phase(name, self.count, self.count * self.pairs / lanes * NANOSECONDS_PER_PRODUCT),)


def _turn(attrs: RotaryAttrs, inputs: Views, outputs: Views) -> Generator:
    x, angles = inputs
    batch, rows, heads, features = x.shape
    sizes = batch * rows, max(math.prod(angles.shape[:-1]), 1), heads, features, angles.shape[-1]
    return Turn(x.scalar, angles.scalar, *sizes, attrs.interleaved, attrs.inverse)


def _angles(attrs: RotaryAnglesAttrs, inputs: Views, outputs: Views) -> Generator:
    return Angles(inputs[0].scalar, outputs[0].scalar, inputs[0].elements, attrs.pairs, attrs.base)


def _few(attrs: RotaryAnglesAttrs, inputs: Specs, outputs: Specs) -> str:
    return "too many frequencies" if attrs.pairs > MOST_FREQUENCIES else numeric(attrs, inputs, outputs)


ROWS: Rows = {ROTARY: KernelRow(_turn, floating), ROTARY_ANGLES: KernelRow(_angles, _few)}
