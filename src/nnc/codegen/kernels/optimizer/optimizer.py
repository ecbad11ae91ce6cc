"""Optimizer updates in one pass over memory: parameter and state are read once and written once.

    gradient_descent: w' = w - rate * s
    sgd:  m' = momentum * m + (1 - dampening) * s, s = g + decay * w;  w' = w - rate * m'
          nesterov: m' = momentum * m + s;                             w' = w - rate * (s + momentum * m')
    adam: m' = b1 m + (1 - b1) s;  v' = b2 v + (1 - b2) s^2
          w' = w - rate * (m' / (1 - b1^t)) / (sqrt(v' / (1 - b2^t)) + e) [- rate * decay * w when decoupled]
    and AMSGrad, RMSProp, Adagrad, Adadelta, Adamax and Lion, as `nnc.ops.optimizer` writes them

What depends on the step alone is computed once per call, in f64. Operands: g, w, states, scalars; w', states'.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, Phase, PhaseWriter, WithoutMemory, WithSizes, ceiling, phase
from nnc.codegen.frame.row import (
    KernelRow,
    Rows,
    Specs,
    Views,
    floating,
)
from nnc.codegen.ir import mathematics
from nnc.codegen.ir.builder import F64, Builder, Module, Scalar, Type, Value
from nnc.codegen.ir.expression import computed, sign
from nnc.codegen.ir.target import TargetDescription
from nnc.core.values.derived import Read, known_multiple
from nnc.ops.optimizer.optimizer import (
    ADADELTA,
    ADAGRAD,
    ADAM,
    ADAMAX,
    AMSGRAD,
    GRADIENT_DESCENT,
    LION,
    RMSPROP,
    SGD,
    AdamAttrs,
)

CHUNK = 4096
NANOSECONDS_PER_VECTOR = 5.0


class UpdateRule(ABC):
    """The numbers of an optimizer, and its update of one vector."""

    __slots__ = ()

    @property
    @abstractmethod
    def states(self) -> int:
        """How many tensors it keeps for a parameter."""

    def prepare(self, b: Builder, scalars: Sequence[Value], kind: Type) -> list[Value]:
        """What steers this call's updates, in every lane: the rate."""
        return [spread(b, scalars[0], kind)]

    @abstractmethod
    def update(self, b: Builder, steering: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """(w', states') of (g, w, states)."""


@dataclass(frozen=True, slots=True)
class GradientDescentRule(UpdateRule):
    """The numbers of gradient descent without momentum."""

    decay: float
    states: ClassVar[int] = 0

    def update(self, b: Builder, steering: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """Of (g, w)."""
        (rate,) = steering
        gradient, weight = values
        return [weight - rate * decayed(b, gradient, weight, self.decay)]


@dataclass(frozen=True, slots=True)
class SGDRule(UpdateRule):
    """The numbers of stochastic gradient descent."""

    momentum: float
    dampening: float
    decay: float
    nesterov: bool
    states: ClassVar[int] = 1

    def update(self, b: Builder, steering: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """Of (g, w, m)."""
        (rate,) = steering
        gradient, weight, moment = values
        slope = decayed(b, gradient, weight, self.decay)
        kept = slope if self.nesterov else slope * (1.0 - self.dampening)
        following = moment * self.momentum + kept
        move = following * self.momentum + slope if self.nesterov else following
        return [weight - rate * move, following]


@dataclass(frozen=True, slots=True)
class AdamRule(UpdateRule):
    """The numbers of Adam; decoupled decay makes it AdamW, a third state with the `highest` variance AMSGrad."""

    beta1: float
    beta2: float
    epsilon: float
    decay: float
    decoupled: bool
    highest: bool = False

    @property
    def states(self) -> int:
        """Moment and variance, and the highest variance."""
        return 3 if self.highest else 2

    def prepare(self, b: Builder, scalars: Sequence[Value], kind: Type) -> list[Value]:
        """rate / (1 - b1^t), 1 / (1 - b2^t), and what is left of w when decay is decoupled."""
        rate, step = scalars
        factor = spread(b, rate / remaining(b, self.beta1, step), kind)
        correction = spread(b, b.constant(1.0, Type(F64)) / remaining(b, self.beta2, step), kind)
        return [factor, correction, *([spread(b, 1.0 - rate * self.decay, kind)] if self.decoupled else [])]

    def update(self, b: Builder, steering: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """Of (g, w, m, v[, top])."""
        factor, correction, *shrink = steering
        gradient, weight, moment, variance, *top = values
        slope = gradient if self.decoupled else decayed(b, gradient, weight, self.decay)
        mean = moment * self.beta1 + slope * (1.0 - self.beta1)
        square = variance * self.beta2 + slope * slope * (1.0 - self.beta2)
        highest = [b.maximum(earlier, square) for earlier in top]
        deviation = mathematics.square_root(b, (highest[0] if top else square) * correction) + self.epsilon
        kept = weight * shrink[0] if shrink else weight
        return [kept - factor * mean / deviation, mean, square, *highest]


@dataclass(frozen=True, slots=True)
class RMSPropRule(UpdateRule):
    """The numbers of RMSProp."""

    alpha: float
    momentum: float
    epsilon: float
    decay: float
    states: ClassVar[int] = 2

    def update(self, b: Builder, steering: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """Of (g, w, m, v)."""
        (rate,) = steering
        gradient, weight, moment, variance = values
        slope = decayed(b, gradient, weight, self.decay)
        square = variance * self.alpha + slope * slope * (1.0 - self.alpha)
        move = moment * self.momentum + slope / (mathematics.square_root(b, square) + self.epsilon)
        return [weight - rate * move, move, square]


@dataclass(frozen=True, slots=True)
class AdagradRule(UpdateRule):
    """The numbers of Adagrad."""

    epsilon: float
    decay: float
    states: ClassVar[int] = 1

    def update(self, b: Builder, steering: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """Of (g, w, v)."""
        (rate,) = steering
        gradient, weight, variance = values
        slope = decayed(b, gradient, weight, self.decay)
        square = variance + slope * slope
        return [weight - rate * slope / (mathematics.square_root(b, square) + self.epsilon), square]


@dataclass(frozen=True, slots=True)
class LionRule(UpdateRule):
    """The numbers of Lion."""

    beta1: float
    beta2: float
    decay: float
    states: ClassVar[int] = 1

    def update(self, b: Builder, steering: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """Of (g, w, m)."""
        (rate,) = steering
        gradient, weight, moment = values
        direction = sign(b, moment * self.beta1 + gradient * (1.0 - self.beta1))
        following = moment * self.beta2 + gradient * (1.0 - self.beta2)
        return [weight - rate * decayed(b, direction, weight, self.decay), following]


@dataclass(frozen=True, slots=True)
class AdadeltaRule(UpdateRule):
    """The numbers of Adadelta."""

    rho: float
    epsilon: float
    decay: float
    states: ClassVar[int] = 2

    def update(self, b: Builder, steering: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """Of (g, w, v, u)."""
        (rate,) = steering
        gradient, weight, variance, delta = values
        slope = decayed(b, gradient, weight, self.decay)
        square = variance * self.rho + slope * slope * (1.0 - self.rho)
        far, steep = (mathematics.square_root(b, moment + self.epsilon) for moment in (delta, square))
        move = far / steep * slope
        return [weight - rate * move, square, delta * self.rho + move * move * (1.0 - self.rho)]


@dataclass(frozen=True, slots=True)
class AdamaxRule(UpdateRule):
    """The numbers of Adamax."""

    beta1: float
    beta2: float
    epsilon: float
    decay: float
    states: ClassVar[int] = 2

    def prepare(self, b: Builder, scalars: Sequence[Value], kind: Type) -> list[Value]:
        """rate / (1 - b1^t)"""
        rate, step = scalars
        return [spread(b, rate / remaining(b, self.beta1, step), kind)]

    def update(self, b: Builder, steering: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """Of (g, w, m, u)."""
        (factor,) = steering
        gradient, weight, moment, top = values
        slope = decayed(b, gradient, weight, self.decay)
        mean = moment * self.beta1 + slope * (1.0 - self.beta1)
        largest = b.maximum(top * self.beta2, b.maximum(slope, slope * -1.0) + self.epsilon)
        return [weight - factor * mean / largest, mean, largest]


def decayed(b: Builder, gradient: Value, weight: Value, decay: float) -> Value:
    """g + decay * w"""
    return b.fma(weight, decay, gradient) if decay else gradient


def remaining(b: Builder, beta: float, step: Value) -> Value:
    """1 - beta^step"""
    if beta == 0.0:
        return b.constant(1.0, step.type)
    return 1.0 - mathematics.exponential(b, step * math.log(beta))


def spread(b: Builder, number: Value, kind: Type) -> Value:
    """An f64 number in every lane of a vector."""
    return b.splat(b.cast(number, kind.scalar), kind.lanes)


@dataclass(frozen=True, slots=True)
class OptimizerUpdate(WithoutMemory, WithSizes):
    """`rule` over `elements` contiguous elements; `scalars` are the types of rate (and step)."""

    rule: UpdateRule
    scalar: Scalar
    elements: int
    scalars: tuple[Scalar, ...]

    def opened(self, read: Read, target: TargetDescription) -> OptimizerUpdate:
        """How many elements there are is read."""
        return replace(self, elements=read(self.elements))

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is a run of CHUNK elements."""
        lanes = module.target.lanes(8 * computed(self.scalar).size)
        with phase(module, name) as writer:
            self._write(writer, lanes)
        cost = ceiling(self.elements, lanes) * NANOSECONDS_PER_VECTOR
        return (Phase(name, ceiling(self.elements, module.target.run(CHUNK)), cost),)

    def _write(self, w: PhaseWriter, lanes: int) -> None:
        b = w.b
        reads = 2 + self.rule.states
        kind = Type(computed(self.scalar), lanes)
        numbers = [
            b.cast(b.load(w.argument(reads + position), 0, Type(scalar)), F64)
            for position, scalar in enumerate(self.scalars)
        ]
        steering = self.rule.prepare(b, numbers, kind)
        sources = [w.argument(position) for position in range(reads)]
        results = [w.argument(reads + len(self.scalars) + position) for position in range(reads - 1)]
        chunk = b.target.run(CHUNK)
        low, high = w.begin * chunk, b.least(w.end * chunk, self.elements)
        with b.loop(low, high, lanes) as index:
            mask = b.mask(high - index, lanes) if not known_multiple(self.elements, lanes) else None
            stored = Type(self.scalar, lanes)
            values = [b.cast(b.load(source, index, stored, mask), kind.scalar) for source in sources]
            for result, value in zip(results, self.rule.update(b, steering, values), strict=True):
                b.store(b.cast(value, self.scalar), result, index, mask)


def _row(rule: Callable[[Any], UpdateRule]) -> KernelRow:
    """The update by the rule of an operator's attributes."""

    def generate(attrs: object, inputs: Views, outputs: Views) -> Generator:
        made, out = rule(attrs), outputs[0]
        scalars = tuple(view.scalar for view in inputs[2 + made.states :])
        return OptimizerUpdate(made, out.scalar, out.elements, scalars)

    return KernelRow(generate, _numbers_for_scalars)


def _numbers_for_scalars(attrs: object, inputs: Specs, outputs: Specs) -> str:
    return floating(attrs, inputs[: len(outputs) + 1], outputs)


def _adam(highest: bool) -> Callable[[AdamAttrs], UpdateRule]:
    return lambda attrs: AdamRule(attrs.beta1, attrs.beta2, attrs.epsilon, attrs.decay, attrs.decoupled, highest)


ROWS: Rows = {
    GRADIENT_DESCENT: _row(lambda attrs: GradientDescentRule(attrs.decay)),
    SGD: _row(lambda attrs: SGDRule(attrs.momentum, attrs.dampening, attrs.decay, attrs.nesterov)),
    ADAM: _row(_adam(False)),
    AMSGRAD: _row(_adam(True)),
    RMSPROP: _row(lambda attrs: RMSPropRule(attrs.alpha, attrs.momentum, attrs.epsilon, attrs.decay)),
    ADAGRAD: _row(lambda attrs: AdagradRule(attrs.epsilon, attrs.decay)),
    LION: _row(lambda attrs: LionRule(attrs.beta1, attrs.beta2, attrs.decay)),
    ADADELTA: _row(lambda attrs: AdadeltaRule(attrs.rho, attrs.epsilon, attrs.decay)),
    ADAMAX: _row(lambda attrs: AdamaxRule(attrs.beta1, attrs.beta2, attrs.epsilon, attrs.decay)),
}
