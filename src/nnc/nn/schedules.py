"""Learning-rate schedules: the rate of update `step`, which is 1 at the first."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from nnc.arguments import Count, Positive, Rate, checked


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
