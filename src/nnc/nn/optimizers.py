"""Optimizers as users name them: a command and the rate that steers it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fnmatch import fnmatchcase

from nnc.arguments import Positive, Rate, Share, checked
from nnc.core.command import AnyCommand, Command
from nnc.nn.schedules import Constant, RateSchedule
from nnc.ops import optimizer as ops


class Optimizer(ABC):
    """How parameters follow their gradients."""

    __slots__ = ()

    rate: float | RateSchedule

    @abstractmethod
    def command(self) -> AnyCommand:
        """The command applied to each parameter."""

    def at(self, path: str) -> Optimizer | None:
        """The optimizer of the parameter at `path`; None for one that stays as it is."""
        return self

    def rate_name(self, path: str) -> str:
        """The name, among `scalars`, of the rate for the parameter at `path`."""
        return "rate"

    def scalars(self, step: int) -> dict[str, float]:
        """Values of the command's scalar inputs at update `step` (1 at the first)."""
        schedule = self.rate if isinstance(self.rate, RateSchedule) else Constant(self.rate)
        values = {"rate": schedule.rate(step), "step": float(step)}
        return {name: values[name] for name in ops.SCALAR_NAMES[self.command().op]}

    def state_names(self) -> tuple[str, ...]:
        """Names of the state tensors kept per parameter."""
        return ops.STATE_NAMES[self.command().op]


@checked
@dataclass(frozen=True, slots=True)
class SGD(Optimizer):
    """m' = momentum · m + g + decay · w;  w' = w - rate · m'. Without momentum there is no m."""

    rate: Rate | RateSchedule = 0.01
    momentum: Share = 0.9
    decay: Rate = 0.0
    nesterov: bool = False

    def command(self) -> AnyCommand:
        """The sgd command, or gradient_descent, which keeps no state."""
        if not self.momentum:
            return Command(ops.GRADIENT_DESCENT, ops.GradientDescentAttrs(self.decay))
        return Command(ops.SGD, ops.SGDAttrs(self.momentum, 0.0, self.decay, self.nesterov))


@checked
@dataclass(frozen=True, slots=True)
class Adam(Optimizer):
    """w' = w - rate · m̂ / (√v̂ + ε), m̂ and v̂ the bias-corrected moments (Kingma & Ba 2015).

    With `amsgrad` the largest v̂ so far takes the place of v̂ (Reddi et al. 2018).
    """

    rate: Rate | RateSchedule = 1e-3
    beta1: Share = 0.9
    beta2: Share = 0.999
    epsilon: Positive = 1e-8
    decay: Rate = 0.0
    decoupled: bool = False
    amsgrad: bool = False

    def command(self) -> AnyCommand:
        """The adam or the amsgrad command."""
        attrs = ops.AdamAttrs(self.beta1, self.beta2, self.epsilon, self.decay, self.decoupled)
        return Command(ops.AMSGRAD if self.amsgrad else ops.ADAM, attrs)


@checked
@dataclass(frozen=True, slots=True)
class AdamW(Optimizer):
    """Adam whose decay acts on the parameter itself: w' = w - rate · (m̂ / (√v̂ + ε) + decay · w) (Loshchilov 2019)."""

    rate: Rate | RateSchedule = 1e-3
    beta1: Share = 0.9
    beta2: Share = 0.999
    epsilon: Positive = 1e-8
    decay: Rate = 0.01
    amsgrad: bool = False

    def command(self) -> AnyCommand:
        """The adam or the amsgrad command, decoupled."""
        attrs = ops.AdamAttrs(self.beta1, self.beta2, self.epsilon, self.decay, decoupled=True)
        return Command(ops.AMSGRAD if self.amsgrad else ops.ADAM, attrs)


@checked
@dataclass(frozen=True, slots=True)
class Lamb(Optimizer):
    """w' = w - rate · |w| / |d| · d, d = m̂ / (√v̂ + ε) + decay · w, for large batches (You et al. 2020)."""

    rate: Rate | RateSchedule = 1e-3
    beta1: Share = 0.9
    beta2: Share = 0.999
    epsilon: Positive = 1e-6
    decay: Rate = 0.01

    def command(self) -> AnyCommand:
        """The lamb command."""
        return Command(ops.LAMB, ops.LambAttrs(self.beta1, self.beta2, self.epsilon, self.decay))


@checked
@dataclass(frozen=True, slots=True)
class RMSProp(Optimizer):
    """v' = α v + (1 - α) s²;  m' = momentum · m + s / (√v' + ε);  w' = w - rate · m', s = g + decay · w."""

    rate: Rate | RateSchedule = 1e-3
    alpha: Share = 0.99
    momentum: Share = 0.0
    epsilon: Positive = 1e-8
    decay: Rate = 0.0

    def command(self) -> AnyCommand:
        """The rmsprop command."""
        return Command(ops.RMSPROP, ops.RMSPropAttrs(self.alpha, self.momentum, self.epsilon, self.decay))


@checked
@dataclass(frozen=True, slots=True)
class Adagrad(Optimizer):
    """v' = v + s²;  w' = w - rate · s / (√v' + ε), s = g + decay · w (Duchi et al. 2011)."""

    rate: Rate | RateSchedule = 0.01
    epsilon: Positive = 1e-10
    decay: Rate = 0.0

    def command(self) -> AnyCommand:
        """The adagrad command."""
        return Command(ops.ADAGRAD, ops.AdagradAttrs(self.epsilon, self.decay))


@checked
@dataclass(frozen=True, slots=True)
class Lion(Optimizer):
    """w' = w - rate · (sign(β₁ m + (1 - β₁) g) + decay · w);  m' = β₂ m + (1 - β₂) g (Chen et al. 2023)."""

    rate: Rate | RateSchedule = 1e-4
    beta1: Share = 0.9
    beta2: Share = 0.99
    decay: Rate = 0.0

    def command(self) -> AnyCommand:
        """The lion command."""
        return Command(ops.LION, ops.LionAttrs(self.beta1, self.beta2, self.decay))


@checked
@dataclass(frozen=True, slots=True)
class PerParameter(Optimizer):
    """The first rule whose pattern fits a parameter's path (as file names do) says its optimizer, else `default` does.

    An optimizer of None leaves the parameter as it is. Each rule has a rate of its own.

    >>> PerParameter(AdamW(), (("*.bias", AdamW(decay=0.0)),)).at("hidden.bias")
    AdamW(rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-08, decay=0.0, amsgrad=False)
    """

    default: Optimizer
    rules: tuple[tuple[str, Optimizer | None], ...]

    @property
    def rate(self) -> float | RateSchedule:  # type: ignore[override]  # the default's, which nobody sets here
        """The rate of parameters that no rule fits."""
        return self.default.rate

    def command(self) -> AnyCommand:
        """The command of parameters that no rule fits."""
        return self.default.command()

    def at(self, path: str) -> Optimizer | None:
        """The optimizer of the first rule that fits."""
        rule = self._rule(path)
        return self.default if rule is None else rule[1]

    def rate_name(self, path: str) -> str:
        """`rate`, or that of the rule, by its pattern."""
        rule = self._rule(path)
        return "rate" if rule is None else f"rate.{rule[0]}"

    def scalars(self, step: int) -> dict[str, float]:
        """The default's, the step where some optimizer reads it, and the rate of each rule."""
        values = self.default.scalars(step)
        for pattern, optimizer in self.rules:
            if optimizer is not None:
                found = optimizer.scalars(step)
                values[f"rate.{pattern}"] = found.pop("rate")
                values.update(found)
        return values

    def _rule(self, path: str) -> tuple[str, Optimizer | None] | None:
        return next((rule for rule in self.rules if fnmatchcase(path, rule[0])), None)
