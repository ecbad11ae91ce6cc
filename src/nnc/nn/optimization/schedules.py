"""Learning-rate schedules: the rate of update `step`, which is 1 at the first.

`rate` is of a step that is known, `rate_array` the same formula in f64 of one that only a run knows: a compiled
function has it in its program, and one program serves all steps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Count, Positive, Probability, Rate, checked
from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import F64
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.variable import Variable
from nnc.errors import AttributeValueError
from nnc.ops.elementwise.integers import remainder
from nnc.ops.elementwise.pointwise import cast, clamp, cos, floor, where
from nnc.ops.movement.broadcast import reduce_sum
from nnc.ops.movement.fill import fill_like
from nnc.ops.reduction.reduction import reduce_max

__all__ = [
    "Constant", "Cosine", "CosineRestarts", "Exponential", "Joined", "LinearSchedule", "Milestones", "OneCycle",
    "Polynomial", "RateSchedule", "StepDecay", "Warmup",
]  # fmt: skip

# Beyond, not all whole numbers are numbers of f64.
MOST_STEPS = 2**53


class RateSchedule(ABC):
    """A rate that depends on the step."""

    __slots__ = ()

    @abstractmethod
    def rate(self, step: int) -> float:
        """The rate of update `step`."""

    def __call__(self, count: int) -> float:
        """The rate behind `count` updates, as optax and MLX ask for it."""
        return self.rate(count + 1)

    def rate_at(self, step: ArrayOperand) -> float | ArrayOperand:
        """The rate of a step that is an operand: a number where it is known, else a part of the program."""
        return self.rate(int(step)) if isinstance(step, Variable) else self.rate_array(cast(step, F64))

    def rate_array(self, step: ArrayOperand) -> ArrayOperand:
        """The same of a scalar of f64; schedules that do not say it are refused in compiled functions."""
        raise AttributeValueError(
            "update",
            got=f"the schedule {type(self).__name__}, which has no rate_array, in a compiled function",
            need="the rate as a function of an array: only a run knows the step",
            fix="define rate_array(self, step), or give rate= as an array argument",
            origin=caller_origin(),
        )


@checked
@dataclass(frozen=True, slots=True)
class Constant(RateSchedule):
    """The same rate at every step.

    >>> nn.Constant(0.1).rate(7)
    0.1
    """

    value: Rate

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        return self.value

    def rate_array(self, step: ArrayOperand) -> ArrayOperand:
        """`rate` of a step that only a run knows."""
        return fill_like(step, self.value)


@checked
@dataclass(frozen=True, slots=True)
class Cosine(RateSchedule):
    """rate = end + (start - end) · (1 + cos(π · min(step - 1, steps) / steps)) / 2 (Loshchilov & Hutter 2017).

    >>> nn.Cosine(0.1, 100).rate(51)
    0.05
    """

    start: Rate
    steps: Count
    end: Rate = 0.0

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        progress = min(step - 1, self.steps) / self.steps
        return self.end + (self.start - self.end) * (1.0 + math.cos(math.pi * progress)) / 2.0

    def rate_array(self, step: ArrayOperand) -> ArrayOperand:
        """`rate` of a step that only a run knows."""
        wave = cos(_progress(step, self.steps) * math.pi)
        return (wave + 1.0) * (self.start - self.end) / 2.0 + self.end


@checked
@dataclass(frozen=True, slots=True)
class Exponential(RateSchedule):
    """rate = start · (end / start)^(min(step - 1, steps) / steps): the same factor at each step.

    >>> nn.Exponential(0.1, 100, 0.01).rate(1)
    0.1
    """

    start: Positive
    steps: Count
    end: Positive

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        return float(self.start * (self.end / self.start) ** (min(step - 1, self.steps) / self.steps))

    def rate_array(self, step: ArrayOperand) -> ArrayOperand:
        """`rate` of a step that only a run knows."""
        return fill_like(step, self.end / self.start) ** _progress(step, self.steps) * self.start


@checked
@dataclass(frozen=True, slots=True)
class LinearSchedule(RateSchedule):
    """rate = start + (end - start) · min(step - 1, steps) / steps.

    >>> nn.LinearSchedule(0.1, 100, 0.0).rate(51)
    0.05
    """

    start: Rate
    steps: Count
    end: Rate = 0.0

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        return float(self.start + (self.end - self.start) * (min(step - 1, self.steps) / self.steps))

    def rate_array(self, step: ArrayOperand) -> ArrayOperand:
        """`rate` of a step that only a run knows."""
        return _progress(step, self.steps) * (self.end - self.start) + self.start


@checked
@dataclass(frozen=True, slots=True)
class Polynomial(RateSchedule):
    """rate = end + (start - end) · (1 - min(step - 1, steps) / steps)^power."""

    start: Rate
    steps: Count
    end: Rate = 0.0
    power: Positive = 1.0

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        left = 1.0 - min(step - 1, self.steps) / self.steps
        return float(self.end + (self.start - self.end) * left**self.power)

    def rate_array(self, step: ArrayOperand) -> ArrayOperand:
        """`rate` of a step that only a run knows."""
        left = 1.0 - _progress(step, self.steps)
        return left ** fill_like(step, self.power) * (self.start - self.end) + self.end


@checked
@dataclass(frozen=True, slots=True)
class StepDecay(RateSchedule):
    """rate = start · factor^⌊(step - 1) / every⌋."""

    start: Rate
    every: Count
    factor: Rate = 0.1

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        return float(self.start * _power(self.factor, (step - 1) // self.every))

    def rate_array(self, step: ArrayOperand) -> ArrayOperand:
        """`rate` of a step that only a run knows."""
        return fill_like(step, self.factor) ** floor((step - 1) / float(_bounded((self.every,))[0])) * self.start


@checked
@dataclass(frozen=True, slots=True)
class Milestones(RateSchedule):
    """rate = start · factor^(how many milestones are behind step - 1)."""

    start: Rate
    milestones: tuple[Count, ...]
    factor: Rate = 0.1

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        return float(self.start * _power(self.factor, sum(step - 1 >= milestone for milestone in self.milestones)))

    def rate_array(self, step: ArrayOperand) -> ArrayOperand:
        """`rate` of a step that only a run knows."""
        passed = reduce_sum(cast(step - 1 >= _bounded(self.milestones), step.dtype))
        return fill_like(step, self.factor) ** passed * self.start


@checked
@dataclass(frozen=True, slots=True)
class CosineRestarts(RateSchedule):
    """A cosine from `start` to `end` again and again, each `growth` times as long (Loshchilov & Hutter 2017)."""

    start: Rate
    steps: Count
    end: Rate = 0.0
    growth: Count = 1

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        place, length = step - 1, self.steps
        if self.growth == 1:
            place %= length
        while place >= length:
            place, length = place - length, length * self.growth
        return self.end + (self.start - self.end) * (1.0 + math.cos(math.pi * place / length)) / 2.0

    def rate_array(self, step: ArrayOperand) -> ArrayOperand:
        """`rate` of a step that only a run knows."""
        starts, lengths = self._periods()
        begun = cast(step - 1 >= starts, step.dtype)
        place = step - 1 - reduce_max(begun * starts)
        if self.growth == 1:
            place = remainder(place, fill_like(place, float(lengths[0])))
        wave = cos(place / reduce_max(begun * lengths) * math.pi)
        return (wave + 1.0) * (self.start - self.end) / 2.0 + self.end

    def _periods(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Where each period begins, and its length; of equal periods the first."""
        starts, lengths = [0], [min(self.steps, MOST_STEPS)]
        while self.growth > 1 and starts[-1] + lengths[-1] < MOST_STEPS:
            starts.append(starts[-1] + lengths[-1])
            lengths.append(lengths[-1] * self.growth)
        return np.array(starts, np.float64), _bounded(lengths)


@checked
@dataclass(frozen=True, slots=True)
class Warmup(RateSchedule):
    """rate = after(1) · (first + (1 - first) · (step - 1) / steps) for `steps` updates, then after(step - steps).

    >>> [round(nn.Warmup(10, nn.Cosine(0.1, 100)).rate(step), 3) for step in (1, 10)]
    [0.0, 0.09]
    """

    steps: Count
    after: RateSchedule
    first: Probability = 0.0

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        if step > self.steps:
            return self.after.rate(step - self.steps)
        return self.after.rate(1) * (self.first + (1.0 - self.first) * ((step - 1) / self.steps))

    def rate_array(self, step: ArrayOperand) -> ArrayOperand:
        """`rate` of a step that only a run knows."""
        steps = float(_bounded((self.steps,))[0])
        rising = (_progress(step, self.steps) * (1.0 - self.first) + self.first) * self.after.rate(1)
        return where(step > steps, self.after.rate_array(step - steps), rising)


@checked
@dataclass(frozen=True, slots=True)
class OneCycle(RateSchedule):
    """A cosine from peak / rise to `peak` in `warm` of the steps, then one to peak / (rise · fall) (Smith 2018).

    Numbers are those of PyTorch's OneCycleLR, whose `div_factor` is `rise` and `final_div_factor` is `fall`.
    """

    peak: Rate
    steps: Count
    warm: Probability = 0.3
    rise: Positive = 25.0
    fall: Positive = 1e4

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        top, place = self._top(), min(step - 1, max(self.steps - 1, 0))
        if place <= top:
            share = place / top if top > 0.0 else 1.0
            return _wave(self.peak / self.rise, self.peak, math.cos(math.pi * share))
        return self.falling(place)

    def falling(self, place: int) -> float:
        """The rate of a step, counted from 0, on the way down; behind the last step the cosine rises again."""
        end, top = max(self.steps - 1, 0), self._top()
        share = (place - top) / (end - top) if end > top else 1.0
        return _wave(self.peak, self.peak / self.rise / self.fall, math.cos(math.pi * share))

    def rate_array(self, step: ArrayOperand) -> ArrayOperand:
        """`rate` of a step that only a run knows."""
        top, end = self._top(), max(float(_bounded((self.steps,))[0]) - 1.0, 0.0)
        low, last = self.peak / self.rise, self.peak / self.rise / self.fall
        place = clamp(step - 1, None, end)
        share = place / top if top > 0.0 else fill_like(place, 1.0)
        rising = (1.0 - cos(share * math.pi)) * (self.peak - low) / 2.0 + low
        falling = (1.0 - cos((place - top) / (end - top if end > top else 1.0) * math.pi)) * (
            last - self.peak
        ) / 2.0 + self.peak
        return where(place <= top, rising, falling)

    def _top(self) -> float:
        """The step, from 0, whose rate is the peak, before the first one where `warm` is less than a step."""
        return self.warm * float(min(self.steps, MOST_STEPS)) - 1.0


@checked
@dataclass(frozen=True, slots=True)
class Joined(RateSchedule):
    """Each schedule for its number of updates, from its own first step on; then `last`."""

    parts: tuple[tuple[Count, RateSchedule], ...]
    last: RateSchedule

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        for length, schedule in self.parts:
            if step <= length:
                return schedule.rate(step)
            step -= length
        return self.last.rate(step)

    def rate_array(self, step: ArrayOperand) -> ArrayOperand:
        """`rate` of a step that only a run knows."""
        lengths = _bounded([length for length, _ in self.parts])
        begins = [0.0, *np.cumsum(lengths).tolist()]
        rate = self.last.rate_array(step - begins[-1])
        for (_, schedule), begin, end in reversed([*zip(self.parts, begins, begins[1:], strict=False)]):
            rate = where(step <= end, schedule.rate_array(step - begin), rate)
        return rate


def _wave(start: float, end: float, wave: float) -> float:
    """From start to end while the wave goes from 1 to -1."""
    return start + (end - start) * (1.0 - wave) / 2.0


def _power(base: float, exponent: int) -> float:
    """base^exponent, infinite where no float holds it."""
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf


def _progress(step: ArrayOperand, steps: int) -> ArrayOperand:
    """min(step - 1, steps) / steps"""
    most = float(_bounded((steps,))[0])
    return clamp(step - 1, None, most) / most


def _bounded(steps: Sequence[int]) -> NDArray[np.float64]:
    """Counts of steps in f64: more than there can be are as many as there can be."""
    return np.array([min(step, MOST_STEPS) for step in steps], np.float64)
