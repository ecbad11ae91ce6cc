"""Optimizers as users name them: a command and the rate that steers it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from nnc.core.command import AnyCommand, Command
from nnc.errors import AttributeValueError
from nnc.nn.schedules import Constant, Schedule
from nnc.ops.optimizer import ADAM, SCALAR_NAMES, SGD, STATE_NAMES, AdamAttrs, SgdAttrs


class Optimizer(ABC):
    """How parameters follow their gradients."""

    __slots__ = ()

    rate: float | Schedule

    @abstractmethod
    def command(self) -> AnyCommand:
        """The command applied to each parameter."""

    def scalars(self, step: int) -> dict[str, float]:
        """Values of the command's scalar inputs at update `step` (1 at the first)."""
        schedule = self.rate if isinstance(self.rate, Schedule) else Constant(self.rate)
        values = {"rate": schedule.rate(step), "step": float(step)}
        return {name: values[name] for name in SCALAR_NAMES[self.command().op]}

    def state_names(self) -> tuple[str, ...]:
        """Names of the state tensors kept per parameter."""
        return STATE_NAMES[self.command().op]


@dataclass(frozen=True, slots=True)
class StochasticGradientDescent(Optimizer):
    """m' = momentum · m + g + decay · w;  w' = w - rate · m'."""

    rate: float | Schedule = 0.01
    momentum: float = 0.9
    decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.momentum < 1.0 or self.decay < 0.0:
            raise AttributeValueError(
                "SGD", got=f"momentum={self.momentum}, decay={self.decay}", need="0 ≤ momentum < 1, decay ≥ 0"
            )

    def command(self) -> AnyCommand:
        """The sgd command."""
        return Command(SGD, SgdAttrs(self.momentum, 0.0, self.decay, self.nesterov))


@dataclass(frozen=True, slots=True)
class Adam(Optimizer):
    """w' = w - rate · m̂ / (√v̂ + ε), m̂ and v̂ the bias-corrected moments (Kingma & Ba 2015)."""

    rate: float | Schedule = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.0
    decoupled: bool = False

    def __post_init__(self) -> None:
        if not (0.0 <= self.beta1 < 1.0 and 0.0 <= self.beta2 < 1.0 and self.epsilon > 0.0):
            got = f"beta1={self.beta1}, beta2={self.beta2}, epsilon={self.epsilon}"
            raise AttributeValueError("Adam", got=got, need="0 ≤ beta < 1, epsilon > 0")

    def command(self) -> AnyCommand:
        """The adam command."""
        return Command(ADAM, AdamAttrs(self.beta1, self.beta2, self.epsilon, self.decay, self.decoupled))
