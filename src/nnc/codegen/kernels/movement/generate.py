"""Tensors made of nothing but attributes: y[k] = start + k · step, and the bias of causal attention."""

from __future__ import annotations

import math
from dataclasses import field, replace

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, WithNumbers, WithoutMemory, WithSizes, ceiling, phase
from nnc.codegen.frame.row import KernelRow, Rows, Views, any_type
from nnc.codegen.ir.builder import F64, I64, Module, Number, Scalar, Type
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Read, known_multiple
from nnc.ops.movement.generate import ARANGE, ArangeAttrs
from nnc.ops.number import as_float
from nnc.ops.sequence.attention import CAUSAL_BIAS, CausalBiasAttrs

CHUNK = 4096
NANOSECONDS_PER_VECTOR = 2.0


@dataclass(frozen=True, slots=True)
class Progression(WithoutMemory, WithNumbers, WithSizes):
    """y[k] = start + k · step: of floats in f64, of integers modulo 2^64. Operand: y; numbers: start, step."""

    scalar: Scalar
    elements: int
    numbers: tuple[Number, ...] = field(compare=False)

    @property
    def kinds(self) -> tuple[Scalar, ...]:
        """Of the type that is computed in."""
        return (self._work, self._work)

    @property
    def _work(self) -> Scalar:
        return F64 if self.scalar.floating else I64

    def opened(self, read: Read, target: TargetDescription) -> Progression:
        """How many there are is read."""
        return replace(self, elements=read(self.elements))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a run of CHUNK elements."""
        lanes, chunk = module.target.lanes(64), module.target.run(CHUNK)
        with phase(module, name) as w:
            b = w.b
            start, step = (b.splat(number, lanes) for number in self.read(w, 1))
            with b.loop(w.begin * chunk, b.least(w.end * chunk, self.elements), lanes) as index:
                mask = b.mask(self.elements - index, lanes) if not known_multiple(self.elements, lanes) else None
                places = b.splat(index, lanes) + b.enumerate_lanes(Type(I64, lanes))
                value = start + b.cast(places, self._work) * step
                b.store(b.cast(value, self.scalar), w.argument(0), index, mask)
        cost = ceiling(self.elements, lanes) * NANOSECONDS_PER_VECTOR
        return (Phase(name, ceiling(self.elements, chunk), cost),)


@dataclass(frozen=True, slots=True)
class CausalBias(WithoutMemory, WithSizes):
    """y[i, j] = 0 where j ≤ i + columns - rows, else -∞."""

    scalar: Scalar
    rows: int
    columns: int

    def opened(self, read: Read, target: TargetDescription) -> CausalBias:
        """Both sizes are read."""
        return CausalBias(self.scalar, read(self.rows), read(self.columns))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a row."""
        lanes = module.target.lanes(32)
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as row:
            b = w.b
            kind = Type(computed(self.scalar), lanes)
            last = row + (self.columns - self.rows)
            y = b.offset(w.argument(0), row * self.columns, self.scalar)
            with b.loop(0, self.columns, lanes) as index:
                mask = b.mask(self.columns - index, lanes) if not known_multiple(self.columns, lanes) else None
                seen = b.mask(b.greatest(last + 1 - index, 0), lanes)
                value = b.choose(seen, b.zero(kind), b.constant(-math.inf, kind))
                b.store(b.cast(value, self.scalar), y, index, mask)
        cost = self.rows * ceiling(self.columns, lanes) * NANOSECONDS_PER_VECTOR
        return (Phase(name, self.rows, cost),)


def _progression(attrs: ArangeAttrs, inputs: Views, outputs: Views) -> Generator:
    y = outputs[0]
    ends = (attrs.start, attrs.step)
    return Progression(y.scalar, y.elements, tuple(map(as_float, ends)) if y.scalar.floating else tuple(map(int, ends)))


def _bias(attrs: CausalBiasAttrs, inputs: Views, outputs: Views) -> Generator:
    return CausalBias(outputs[0].scalar, *outputs[0].shape)


ROWS: Rows = {ARANGE: KernelRow(_progression, any_type), CAUSAL_BIAS: KernelRow(_bias, any_type)}
