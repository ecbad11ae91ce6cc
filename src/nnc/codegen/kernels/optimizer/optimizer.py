"""Optimizer updates in one pass over memory: parameter and state are read once and written once.

    gradient_descent: w' = w - rate * s
    sgd:  m' = momentum * m + (1 - dampening) * s, s = g + decay * w;  w' = w - rate * m'
          nesterov: m' = momentum * m + s;                             w' = w - rate * (s + momentum * m')
    adam: m' = b1 m + (1 - b1) s;  v' = b2 v + (1 - b2) s^2
          w' = w - rate * (m' / (1 - b1^t)) / (sqrt(v' / (1 - b2^t)) + e) [- rate * decay * w when decoupled]
    and AMSGrad, Nadam, RMSProp, Adagrad, Adadelta, Adamax and Lion, as `nnc.ops.optimizer` writes them

What depends on the step alone is computed once per call, in f64. Operands: g, w, states, scalars; w', states'.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, PhaseWriter, WithoutMemory, WithSizes, ceiling, phase
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
from nnc.codegen.ir.native_kernel import Phase
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
    NADAM,
    RMSPROP,
    RMSPROP_CENTERED,
    RMSPROP_PLAIN,
    SGD,
    AdamAttrs,
    RMSPropAttrs,
)

CHUNK = 4096
# Of the decline of Nadam's momentum.
LN_DECLINE = math.log(0.96)
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
    rate_inside: bool = False
    states: ClassVar[int] = 1

    def update(self, b: Builder, steering: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """Of (g, w, m)."""
        (rate,) = steering
        gradient, weight, moment = values
        slope = decayed(b, gradient, weight, self.decay)
        slope = rate * slope if self.rate_inside else slope
        kept = slope if self.nesterov else slope * (1.0 - self.dampening)
        following = moment * self.momentum + kept
        move = following * self.momentum + slope if self.nesterov else following
        return [weight - (move if self.rate_inside else rate * move), following]


@dataclass(frozen=True, slots=True)
class AdamRule(UpdateRule):
    """The numbers of Adam; decoupled decay makes it AdamW, a third state with the `highest` variance AMSGrad."""

    beta1: float
    beta2: float
    epsilon: float
    decay: float
    decoupled: bool
    highest: bool = False
    epsilon_hat: bool = False

    @property
    def states(self) -> int:
        """Moment and variance, and the highest variance."""
        return 3 if self.highest else 2

    def prepare(self, b: Builder, scalars: Sequence[Value], kind: Type) -> list[Value]:
        """rate / (1 - b1^t), 1 / (1 - b2^t), and what is left of w when decay is decoupled.

        Where e is e^ the root of the second is in the first: rate * sqrt(1 - b2^t) / (1 - b1^t) * m' / (sqrt(v') + e).
        """
        rate, step = scalars
        factor = rate / remaining(b, self.beta1, step)
        if self.epsilon_hat:
            factor = factor * mathematics.square_root(b, remaining(b, self.beta2, step))
        factor, correction = spread(b, factor, kind), b.constant(1.0, Type(F64))
        if not self.epsilon_hat:
            correction = correction / remaining(b, self.beta2, step)
        correction = spread(b, correction, kind)
        return [factor, correction, *([spread(b, 1.0 - rate * self.decay, kind)] if self.decoupled else [])]

    def update(self, b: Builder, steering: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """Of (g, w, m, v[, top])."""
        factor, correction, *shrink = steering
        gradient, weight, moment, variance, *top = values
        slope = gradient if self.decoupled else decayed(b, gradient, weight, self.decay)
        mean = moment * self.beta1 + slope * (1.0 - self.beta1)
        square = variance * self.beta2 + slope * slope * (1.0 - self.beta2)
        highest = [b.maximum(earlier, square) for earlier in top]
        largest = highest[0] if top else square
        corrected = largest if self.epsilon_hat else largest * correction
        deviation = mathematics.square_root(b, corrected) + self.epsilon
        kept = weight * shrink[0] if shrink else weight
        return [kept - factor * mean / deviation, mean, square, *highest]


@dataclass(frozen=True, slots=True)
class NadamRule(UpdateRule):
    """The numbers of Nadam."""

    beta1: float
    beta2: float
    epsilon: float
    decay: float
    momentum_decay: float
    states: ClassVar[int] = 2

    def prepare(self, b: Builder, scalars: Sequence[Value], kind: Type) -> list[Value]:
        """Factors of m' and of s, and 1 / (1 - b2^t)."""
        rate, step = scalars
        powers = [
            mathematics.exponential(b, (step + ahead) * (self.momentum_decay * LN_DECLINE)) for ahead in (0.0, 1.0)
        ]
        now, later = (1.0 - power * 0.5 for power in powers)
        now, later = now * self.beta1, later * self.beta1
        product = self._product(b, step, powers[1])
        factors = (
            rate * later / (1.0 - product * later),
            rate * (1.0 - now) / (1.0 - product),
            b.constant(1.0, Type(F64)) / remaining(b, self.beta2, step),
        )
        return [spread(b, factor, kind) for factor in factors]

    def _product(self, b: Builder, step: Value, power: Value) -> Value:
        """b1^t (1 - q / 2) (1 - q^2 / 2) ... (1 - q^t / 2), q = 0.96^decline, from q^(t+1) alone.

        ln (1 - x) (1 - x q) (1 - x q^2) ... = -S(x), S(x) = sum of x^k / (k (1 - q^k)): the product of the first t
        factors is exp(S(q^(t+1) / 2) - S(q / 2)). With x <= 1/2 terms behind the sixtieth are below 1e-18 of the sum.
        """
        q = math.exp(self.momentum_decay * LN_DECLINE)
        terms = [1.0 / (k * -math.expm1(k * self.momentum_decay * LN_DECLINE)) for k in range(1, 61)]
        x = power * 0.5
        total = b.constant(terms[-1], Type(F64))
        for term in reversed(terms[:-1]):
            total = total * x + term
        first = math.fsum(term * (0.5 * q) ** k for k, term in enumerate(terms, start=1))
        kept = step * math.log(self.beta1) if self.beta1 else step * -math.inf
        return mathematics.exponential(b, total * x - first + kept)

    def update(self, b: Builder, steering: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """Of (g, w, m, v)."""
        ahead, beside, correction = steering
        gradient, weight, moment, variance = values
        slope = decayed(b, gradient, weight, self.decay)
        mean = moment * self.beta1 + slope * (1.0 - self.beta1)
        square = variance * self.beta2 + slope * slope * (1.0 - self.beta2)
        deviation = mathematics.square_root(b, square * correction) + self.epsilon
        return [weight - (ahead * mean + beside * slope) / deviation, mean, square]


@dataclass(frozen=True, slots=True)
class RMSPropRule(UpdateRule):
    """The numbers of RMSProp; without `kept` there is no moment, and with `centered` there is a mean."""

    alpha: float
    momentum: float
    epsilon: float
    decay: float
    rate_inside: bool = False
    epsilon_inside: bool = False
    kept: bool = True
    centered: bool = False

    @property
    def states(self) -> int:
        """Moment, variance and mean."""
        return self.kept + 1 + self.centered

    def update(self, b: Builder, steering: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """Of (g, w[, m], v[, mean])."""
        (rate,) = steering
        gradient, weight, *states = values
        slope = decayed(b, gradient, weight, self.decay)
        square = states[int(self.kept)] * self.alpha + slope * slope * (1.0 - self.alpha)
        means = [states[2] * self.alpha + slope * (1.0 - self.alpha)] if self.centered else []
        spread = square - means[0] * means[0] if means else square
        earlier = [states[0] * self.momentum] if self.kept else []
        move = slope / root_with_epsilon(b, spread, self.epsilon, self.epsilon_inside)
        move = rate * move if self.rate_inside else move
        move = earlier[0] + move if earlier else move
        moved = weight - (move if self.rate_inside else rate * move)
        return [moved, *([move] if self.kept else []), square, *means]


@dataclass(frozen=True, slots=True)
class AdagradRule(UpdateRule):
    """The numbers of Adagrad."""

    epsilon: float
    decay: float
    initial: float = 0.0
    epsilon_inside: bool = False
    states: ClassVar[int] = 1

    def update(self, b: Builder, steering: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """Of (g, w, v)."""
        (rate,) = steering
        gradient, weight, variance = values
        slope = decayed(b, gradient, weight, self.decay)
        square = variance + slope * slope
        whole = square + self.initial if self.initial else square
        return [weight - rate * slope / root_with_epsilon(b, whole, self.epsilon, self.epsilon_inside), square]


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
    epsilon_outside: bool = False
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
        shrunk, size = top * self.beta2, b.maximum(slope, slope * -1.0)
        largest = b.maximum(shrunk, size if self.epsilon_outside else size + self.epsilon)
        divisor = largest + self.epsilon if self.epsilon_outside else largest
        return [weight - factor * mean / divisor, mean, largest]


def root_with_epsilon(b: Builder, square: Value, epsilon: float, inside: bool) -> Value:
    """sqrt(x) + e, or sqrt(x + e)"""
    return mathematics.square_root(b, square + epsilon) if inside else mathematics.square_root(b, square) + epsilon


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
    return lambda attrs: AdamRule(
        attrs.beta1, attrs.beta2, attrs.epsilon, attrs.decay, attrs.decoupled, highest, attrs.epsilon_hat
    )


def _rmsprop(kept: bool, centered: bool) -> Callable[[RMSPropAttrs], UpdateRule]:
    return lambda attrs: RMSPropRule(
        attrs.alpha, attrs.momentum, attrs.epsilon, attrs.decay, attrs.rate_inside, attrs.epsilon_inside, kept, centered
    )


ROWS: Rows = {
    GRADIENT_DESCENT: _row(lambda attrs: GradientDescentRule(attrs.decay)),
    SGD: _row(lambda a: SGDRule(a.momentum, a.dampening, a.decay, a.nesterov, a.rate_inside)),
    ADAM: _row(_adam(False)),
    AMSGRAD: _row(_adam(True)),
    NADAM: _row(lambda a: NadamRule(a.beta1, a.beta2, a.epsilon, a.decay, a.momentum_decay)),
    RMSPROP: _row(_rmsprop(True, False)),
    RMSPROP_PLAIN: _row(_rmsprop(False, False)),
    RMSPROP_CENTERED: _row(_rmsprop(True, True)),
    ADAGRAD: _row(lambda a: AdagradRule(a.epsilon, a.decay, a.initial, a.epsilon_inside)),
    LION: _row(lambda attrs: LionRule(attrs.beta1, attrs.beta2, attrs.decay)),
    ADADELTA: _row(lambda attrs: AdadeltaRule(attrs.rho, attrs.epsilon, attrs.decay)),
    ADAMAX: _row(lambda a: AdamaxRule(a.beta1, a.beta2, a.epsilon, a.decay, a.epsilon_outside)),
}
