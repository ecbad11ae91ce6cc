"""Learning-rate schedules: the rate of update `step`, which is 1 at the first."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from nnc.arguments import Count, Positive, Probability, Rate, checked


class RateSchedule(ABC):
    """A rate that depends on the step."""

    __slots__ = ()

    @abstractmethod
    def rate(self, step: int) -> float:
        """The rate of update `step`."""


@checked
@dataclass(frozen=True, slots=True)
class Constant(RateSchedule):
    """The same rate at every step."""

    value: Rate

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        return self.value


@checked
@dataclass(frozen=True, slots=True)
class Cosine(RateSchedule):
    """rate = end + (start - end) · (1 + cos(π · min(step - 1, steps) / steps)) / 2 (Loshchilov & Hutter 2017)."""

    start: Rate
    steps: Count
    end: Rate = 0.0

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        progress = min(step - 1, self.steps) / self.steps
        return self.end + (self.start - self.end) * (1.0 + math.cos(math.pi * progress)) / 2.0


@checked
@dataclass(frozen=True, slots=True)
class Exponential(RateSchedule):
    """rate = start · (end / start)^(min(step - 1, steps) / steps): the same factor at each step."""

    start: Positive
    steps: Count
    end: Positive

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        return float(self.start * (self.end / self.start) ** (min(step - 1, self.steps) / self.steps))


@checked
@dataclass(frozen=True, slots=True)
class Linear(RateSchedule):
    """rate = start + (end - start) · min(step - 1, steps) / steps."""

    start: Rate
    steps: Count
    end: Rate = 0.0

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        return float(self.start + (self.end - self.start) * min(step - 1, self.steps) / self.steps)


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


@checked
@dataclass(frozen=True, slots=True)
class StepDecay(RateSchedule):
    """rate = start · factor^⌊(step - 1) / every⌋."""

    start: Rate
    every: Count
    factor: Rate = 0.1

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        return float(self.start * self.factor ** ((step - 1) // self.every))


@checked
@dataclass(frozen=True, slots=True)
class Milestones(RateSchedule):
    """rate = start · factor^(how many milestones are behind step - 1)."""

    start: Rate
    milestones: tuple[Count, ...]
    factor: Rate = 0.1

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        return float(self.start * self.factor ** sum(step - 1 >= one for one in self.milestones))


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


@checked
@dataclass(frozen=True, slots=True)
class Warmup(RateSchedule):
    """rate = after(1) · (first + (1 - first) · (step - 1) / steps) for `steps` updates, then after(step - steps)."""

    steps: Count
    after: RateSchedule
    first: Probability = 0.0

    def rate(self, step: int) -> float:
        """The rate of update `step`."""
        if step > self.steps:
            return self.after.rate(step - self.steps)
        return self.after.rate(1) * (self.first + (1.0 - self.first) * (step - 1) / self.steps)


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
