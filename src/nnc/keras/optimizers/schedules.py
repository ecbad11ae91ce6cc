"""Schedules of learning rates under Keras' names: `schedule(step)`, of numbers and of operands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from nnc import numerics as n
from nnc.arguments import Positive, Rate, explained
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.errors import ArgumentError
from nnc.keras.named import Remembered
from nnc.nn.optimization.schedules import RateSchedule

# The number of an update, which only a run may know.
Step: TypeAlias = float | ArrayOperand


class LearningRateSchedule(Remembered, RateSchedule):
    """A rate for each update, counted from 0: subclasses say `__call__(step)`. Optimizers of `nnc.nn` take it too."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__call__" in vars(cls):
            cls.__call__ = explained(cls.__call__)  # type: ignore[method-assign]  # of the subclass

    def __call__(self, step: Any) -> Any:
        """The rate."""
        raise NotImplementedError

    def rate(self, step: int) -> float:
        """The rate of update `step`, counted from 1."""
        return float(self(float(step - 1)))

    def rate_array(self, step: ArrayOperand) -> ArrayOperand:
        """`rate` of a step that only a run knows."""
        return as_operand(self(step - 1))


def _floor(x: Any) -> Any:
    return n.floor(x) if isinstance(x, ArrayOperand) else math.floor(x)


def _least(x: Any, most: float) -> Any:
    return n.minimum(x, most) if isinstance(x, ArrayOperand) else min(x, most)


def _cosine(x: Any) -> Any:
    return n.cos(x) if isinstance(x, ArrayOperand) else math.cos(x)


def _where(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, ArrayOperand):
        return n.where(condition, a, b)
    return a if condition else b


def _power(base: float, x: Any) -> Any:
    return n.exp(x * math.log(base)) if isinstance(x, ArrayOperand) else base**x


class ExponentialDecay(LearningRateSchedule):
    """initial · decay_rate^(step / decay_steps); `staircase` takes whole parts of that.

    >>> from nnc import keras
    >>> keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)(20)
    0.025
    """

    def __init__(
        self, initial_learning_rate: Rate, decay_steps: Positive, decay_rate: Positive, staircase: bool = False,
        name: str = "ExponentialDecay",
    ) -> None:  # fmt: skip
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.decay_rate, self.staircase = decay_rate, staircase

    def __call__(self, step: Step) -> Any:
        """The rate."""
        turns = step / self.decay_steps
        return self.initial_learning_rate * _power(self.decay_rate, _floor(turns) if self.staircase else turns)


class InverseTimeDecay(LearningRateSchedule):
    """initial / (1 + decay_rate · step / decay_steps)"""

    def __init__(
        self, initial_learning_rate: Rate, decay_steps: Positive, decay_rate: Rate, staircase: bool = False,
        name: str = "InverseTimeDecay",
    ) -> None:  # fmt: skip
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.decay_rate, self.staircase = decay_rate, staircase

    def __call__(self, step: Step) -> Any:
        """The rate."""
        turns = step / self.decay_steps
        return self.initial_learning_rate / (1.0 + self.decay_rate * (_floor(turns) if self.staircase else turns))


class PolynomialDecay(LearningRateSchedule):
    """(initial - end) · (1 - step / decay_steps)^power + end"""

    def __init__(
        self, initial_learning_rate: Rate, decay_steps: Positive, end_learning_rate: Rate = 0.0001,
        power: Positive = 1.0, cycle: bool = False, name: str = "PolynomialDecay",
    ) -> None:  # fmt: skip
        if cycle:
            raise ArgumentError("PolynomialDecay", got="cycle=True", need="False", fix="CosineDecayRestarts")
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.end_learning_rate, self.power = end_learning_rate, power

    def __call__(self, step: Step) -> Any:
        """The rate."""
        left = 1.0 - _least(step, self.decay_steps) / self.decay_steps
        spread = self.initial_learning_rate - self.end_learning_rate
        return spread * left**self.power + self.end_learning_rate


class PiecewiseConstantDecay(LearningRateSchedule):
    """values[0] up to the first boundary, the boundary included, then values[1], …"""

    def __init__(
        self, boundaries: Sequence[int | float], values: Sequence[float], name: str = "PiecewiseConstant"
    ) -> None:
        if len(boundaries) + 1 != len(values):
            got = f"{len(boundaries)} boundaries and {len(values)} values"
            raise ArgumentError("PiecewiseConstantDecay", got=got, need="one value more than boundaries")
        self.boundaries, self.values = list(boundaries), list(values)

    def __call__(self, step: Step) -> Any:
        """The rate."""
        rate: Any = self.values[-1]
        for boundary, value in zip(reversed(self.boundaries), reversed(self.values[:-1]), strict=True):
            rate = _where(step <= boundary, value, rate)
        return rate


class CosineDecay(LearningRateSchedule):
    """Half a cosine from the initial rate to alpha times it, in decay_steps; before it a line up to warmup_target."""

    def __init__(
        self, initial_learning_rate: Rate, decay_steps: Positive, alpha: Rate = 0.0, name: str = "CosineDecay",
        warmup_target: Rate | None = None, warmup_steps: Rate = 0,
    ) -> None:  # fmt: skip
        self.initial_learning_rate, self.decay_steps, self.alpha = initial_learning_rate, decay_steps, alpha
        self.warmup_target, self.warmup_steps = warmup_target, warmup_steps

    def __call__(self, step: Step) -> Any:
        """The rate."""
        if self.warmup_target is None:
            return self._decayed(step, self.initial_learning_rate)
        rise = (self.warmup_target - self.initial_learning_rate) / max(self.warmup_steps, 1)
        later = self._decayed(step - self.warmup_steps, self.warmup_target)
        return _where(step < self.warmup_steps, self.initial_learning_rate + rise * step, later)

    def _decayed(self, step: Any, first: float) -> Any:
        turn = 0.5 * (1.0 + _cosine(math.pi * _least(step, self.decay_steps) / self.decay_steps))
        return first * ((1.0 - self.alpha) * turn + self.alpha)


class CosineDecayRestarts(LearningRateSchedule):
    """Half a cosine again and again, each t_mul times as long and m_mul times as high as the one before."""

    def __init__(
        self, initial_learning_rate: Rate, first_decay_steps: Positive, t_mul: Positive = 2.0, m_mul: Positive = 1.0,
        alpha: Rate = 0.0, name: str = "SGDRDecay",
    ) -> None:  # fmt: skip
        self.initial_learning_rate, self.first_decay_steps = initial_learning_rate, first_decay_steps
        self.t_mul, self.m_mul, self.alpha = t_mul, m_mul, alpha

    def __call__(self, step: Step) -> Any:
        """The rate."""
        done = step / self.first_decay_steps
        if self.t_mul == 1.0:
            turn = _floor(done)
            part = done - turn
        else:
            turn = _floor(_logarithm(1.0 - done * (1.0 - self.t_mul)) / math.log(self.t_mul))
            before = (1.0 - _power(self.t_mul, turn)) / (1.0 - self.t_mul)
            part = (done - before) / _power(self.t_mul, turn)
        height = 0.5 * (1.0 + _cosine(math.pi * part)) * _power(self.m_mul, turn)
        return self.initial_learning_rate * ((1.0 - self.alpha) * height + self.alpha)


def _logarithm(x: Any) -> Any:
    return n.log(x) if isinstance(x, ArrayOperand) else math.log(x)
