"""Schedules as PyTorch has them: objects that set the rate of an optimizer when they are stepped.

    schedule = optim.lr_scheduler.StepLR(optimizer, step_size=30)
    for epoch in range(90):
        …
        optimizer.step()
        schedule.step()

A schedule as the rate of an optimizer (`optim.Adam(net.parameters(), lr=nn.Cosine(1e-3, 100))`) needs no steps of its
own. In a function that is compiled the rate is an input, so a step that sets it makes no other program.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias
from weakref import WeakKeyDictionary

from nnc.arguments import Count, Finite, Positive, Probability, Rate, Size, checked, shown
from nnc.core.precautions.named_functions import HoldsFunctions
from nnc.core.precautions.origin import caller_origin
from nnc.errors import ArgumentError, ArityError, FormatError
from nnc.nn.optimization.schedules import CosineRestarts, Milestones, OneCycle, StepDecay
from nnc.nn.optimization.step_optimizer import StepOptimizer, float_of
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.network_names import LAYERS

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


# Rates that an optimizer's groups had before its first schedule, which all of them start from, as in PyTorch.
_FIRST_RATES: WeakKeyDictionary[StepOptimizer, list[float]] = WeakKeyDictionary()
# The rate of a step.
RateOfStep: TypeAlias = Callable[[int], float]


def _scheduled(optimizer: StepOptimizer, made: Callable[[float], RateOfStep]) -> LRScheduler:
    """For each group what is made of its first rate."""
    bases = _FIRST_RATES.setdefault(optimizer, [])
    groups = optimizer.param_groups
    bases.extend(group.rate for group in groups[len(bases) :])
    return LRScheduler(optimizer, [made(base) for base in bases])


def _of_groups(subject: str, optimizer: StepOptimizer, given: Any) -> list[Any]:  # noqa: ANN401  # one, or one a group
    """What is given for each group, or for all of them."""
    count = len(optimizer.param_groups)
    values = list(given) if isinstance(given, Sequence) else [given] * count
    if len(values) != count:
        raise ArityError(
            subject, got=f"{len(values)} values", need=f"one, or {count}: one a group", origin=caller_origin()
        )
    return values


def _numbers(state: Mapping[str, Any], *names: str) -> list[float]:
    """Parts of what `state_dict()` gave, which may be arrays; FormatError where one is missing or no number."""
    try:
        return [float(state[name]) for name in names]
    except (KeyError, TypeError, ValueError):
        got, need = shown(state), f"numbers {', '.join(names)}, as state_dict() gives them"
        raise FormatError("load_state_dict", got=got, need=need, origin=caller_origin()) from None


class LRScheduler(HoldsFunctions):
    """Sets rates of an optimizer: those of the first update at once, then the next ones at each step.

    `rate` is a function of the number of steps, or one for each group of parameters.
    """

    @checked
    def __init__(self, optimizer: StepOptimizer, rate: RateOfStep | Sequence[RateOfStep]) -> None:
        self.optimizer, self.rates = optimizer, _of_groups("LRScheduler", optimizer, rate)
        self._go_to(0)

    def _go_to(self, step: int) -> None:
        self.last_epoch = step
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=False):
            group.rate = rate(step)

    def step(self) -> None:
        """Set the next rates."""
        self._go_to(self.last_epoch + 1)

    def get_last_lr(self) -> list[float]:
        """The rate of each group that was set last."""
        return [group.rate for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, int]:
        """How many steps there were."""
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on behind so many steps."""
        (count,) = _numbers(state_dict, "last_epoch")
        self._go_to(int(count))


@checked
def StepLR(optimizer: StepOptimizer, step_size: Count, gamma: Rate = 0.1) -> LRScheduler:  # noqa: N802  # as PyTorch calls it
    """nn.StepDecay"""
    return _scheduled(optimizer, lambda base: StepDecay(base, step_size, gamma))


@checked
def MultiStepLR(optimizer: StepOptimizer, milestones: Sequence[Count], gamma: Rate = 0.1) -> LRScheduler:  # noqa: N802  # as PyTorch calls it
    """nn.Milestones"""
    return _scheduled(optimizer, lambda base: Milestones(base, tuple(milestones), gamma))


@checked
def ExponentialLR(optimizer: StepOptimizer, gamma: Rate) -> LRScheduler:  # noqa: N802  # as PyTorch calls it
    """rate · gamma^steps"""
    return _scheduled(optimizer, lambda base: StepDecay(base, 1, gamma))


@checked
def CosineAnnealingLR(optimizer: StepOptimizer, T_max: Count, eta_min: Rate = 0.0) -> LRScheduler:  # noqa: N802, N803  # as PyTorch calls it
    """eta_min + (rate - eta_min) · (1 + cos(π · steps / T_max)) / 2, which rises again behind T_max."""
    return _scheduled(optimizer, lambda base: partial(_of_cosine, eta_min, (base - eta_min) / 2.0, T_max))


def _of_cosine(least: float, height: float, half: int, step: int) -> float:
    return least + height * (1.0 + math.cos(math.pi * step / half))


@checked
def CosineAnnealingWarmRestarts(  # noqa: N802  # as PyTorch calls it
    optimizer: StepOptimizer,
    T_0: Count,  # noqa: N803  # as PyTorch calls it
    T_mult: Count = 1,  # noqa: N803  # as PyTorch calls it
    eta_min: Rate = 0.0,
) -> LRScheduler:
    """nn.CosineRestarts"""
    return _scheduled(optimizer, lambda base: CosineRestarts(base, T_0, eta_min, T_mult))


@checked
def LinearLR(  # noqa: N802  # as PyTorch calls it
    optimizer: StepOptimizer, start_factor: Probability = 1 / 3, end_factor: Probability = 1.0, total_iters: Count = 5
) -> LRScheduler:
    """rate · (start + (end - start) · min(steps, total) / total)"""
    return _scheduled(optimizer, lambda base: partial(_of_line, base, start_factor, end_factor, total_iters))


def _of_line(base: float, start: float, end: float, steps: int, step: int) -> float:
    return base * (start + (end - start) * min(step, steps) / steps)


@checked
def OneCycleLR(  # noqa: N802  # as PyTorch calls it
    optimizer: StepOptimizer,
    max_lr: Rate | Sequence[Rate],
    total_steps: Count | None = None,
    epochs: Count = 1,
    steps_per_epoch: Count = 1,
    pct_start: Probability = 0.3,
    div_factor: Positive = 25.0,
    final_div_factor: Positive = 1e4,
) -> LRScheduler:
    """nn.OneCycle, which rises again at the step behind its end, as in PyTorch; ArgumentError at a further one."""
    steps = total_steps or epochs * steps_per_epoch
    options = steps, pct_start, div_factor, final_div_factor
    highest = _of_groups("OneCycleLR", optimizer, max_lr)
    return LRScheduler(optimizer, [partial(_of_cycle, OneCycle(rate, *options)) for rate in highest])


def _of_cycle(cycle: OneCycle, step: int) -> float:
    if step > cycle.steps:
        got, need, fix = f"step {step}", f"at most {cycle.steps} steps", f"total_steps={step}, or more"
        raise ArgumentError("OneCycleLR", got=got, need=need, fix=fix, origin=caller_origin())
    return cycle.falling(step) if step == cycle.steps else cycle(step)


@checked
def LambdaLR(optimizer: StepOptimizer, lr_lambda: RateOfStep | Sequence[RateOfStep]) -> LRScheduler:  # noqa: N802  # as PyTorch calls it
    """rate · lr_lambda(steps), of one function or of one for each group"""
    functions = iter(_of_groups("LambdaLR", optimizer, lr_lambda))
    return _scheduled(optimizer, lambda base: partial(_of_function, base, next(functions)))


def _of_function(base: float, function: Callable[[int], float], step: int) -> float:
    return base * float_of("LambdaLR", function(step))


@checked
def ConstantLR(optimizer: StepOptimizer, factor: Probability = 1 / 3, total_iters: Count = 5) -> LRScheduler:  # noqa: N802  # as PyTorch calls it
    """rate · factor for so many steps, then the rate"""
    return _scheduled(optimizer, lambda base: partial(_of_steps, base, factor, total_iters))


def _of_steps(base: float, factor: float, steps: int, step: int) -> float:
    return base * factor if step < steps else base


@checked
def PolynomialLR(optimizer: StepOptimizer, total_iters: Count = 5, power: Rate = 1.0) -> LRScheduler:  # noqa: N802  # as PyTorch calls it
    """rate · (1 - min(steps, total) / total)^power"""
    return _scheduled(optimizer, lambda base: partial(_of_power, base, total_iters, power))


def _of_power(base: float, steps: int, power: float, step: int) -> float:
    # Of an integer and a float the type checker knows no power that is a float.
    return float(base * (1.0 - min(step, steps) / steps) ** power)


@checked
def SequentialLR(  # noqa: N802  # as PyTorch calls it
    optimizer: StepOptimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[Count]
) -> LRScheduler:
    """Each schedule from its milestone on, where its own steps begin.

    >>> optimizer = optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1)
    >>> parts = [optim.lr_scheduler.ConstantLR(optimizer, 0.5), optim.lr_scheduler.ExponentialLR(optimizer, 0.5)]
    >>> schedule = optim.lr_scheduler.SequentialLR(optimizer, parts, milestones=[2])
    >>> [round(schedule.rates[0](step), 3) for step in range(4)]
    [0.05, 0.05, 0.1, 0.05]
    """
    begins, parts = (0, *milestones), tuple(schedulers)
    if len(parts) != len(begins) or list(begins) != sorted(set(begins)):
        got, need = f"{len(parts)} schedules, milestones {list(milestones)}", "a milestone before each but the first"
        raise ArgumentError("SequentialLR", got=got, need=f"{need}, in order")
    return LRScheduler(optimizer, [partial(_in_turn, begins, rates) for rates in zip(*(part.rates for part in parts))])


def _in_turn(begins: Sequence[int], parts: Sequence[RateOfStep], step: int) -> float:
    place = bisect_right(begins, step) - 1
    return parts[place](step - begins[place])


@checked
def MultiplicativeLR(optimizer: StepOptimizer, lr_lambda: RateOfStep | Sequence[RateOfStep]) -> LRScheduler:  # noqa: N802  # as PyTorch calls it
    """rate · lr_lambda(1) · … · lr_lambda(steps), of one function or of one for each group"""
    functions = iter(_of_groups("MultiplicativeLR", optimizer, lr_lambda))
    return _scheduled(optimizer, lambda base: partial(_of_factors, base, next(functions)))


def _of_factors(base: float, function: RateOfStep, step: int) -> float:
    return base * math.prod(float_of("MultiplicativeLR", function(place)) for place in range(1, step + 1))


@checked
def ChainedScheduler(schedulers: Sequence[LRScheduler]) -> LRScheduler:  # noqa: N802  # as PyTorch calls it
    """The product of what schedules of one optimizer make of its first rates: rate · Π schedule(steps) / rate.

    >>> optimizer = optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1)
    >>> parts = [optim.lr_scheduler.ConstantLR(optimizer, 0.5, 2), optim.lr_scheduler.ExponentialLR(optimizer, 0.5)]
    >>> schedule = optim.lr_scheduler.ChainedScheduler(parts)
    >>> [round(schedule.rates[0](step), 4) for step in range(4)]
    [0.05, 0.025, 0.025, 0.0125]
    """
    optimizers = {id(schedule.optimizer) for schedule in schedulers}
    if len(optimizers) != 1:
        raise ArgumentError("ChainedScheduler", got=f"schedules of {len(optimizers)} optimizers", need="of one")
    parts = iter(zip(*(schedule.rates for schedule in schedulers), strict=True))
    return _scheduled(schedulers[0].optimizer, lambda base: partial(_of_product, base, next(parts)))


def _of_product(base: float, parts: Sequence[RateOfStep], step: int) -> float:
    return base * math.prod(part(step) / base for part in parts) if base else 0.0


class ReduceLROnPlateau:
    """rate · factor where a figure has not got better for more than `patience` steps, then from the beginning."""

    @checked
    def __init__(
        self,
        optimizer: StepOptimizer,
        mode: Literal["min", "max"] = "min",
        factor: Rate = 0.1,
        patience: Size = 10,
        threshold: Rate = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: Size = 0,
        min_lr: Rate | Sequence[Rate] = 0.0,
    ) -> None:
        self.optimizer, self.factor, self.patience = optimizer, factor, patience
        self.min_lrs = _of_groups("ReduceLROnPlateau", optimizer, min_lr)
        self.threshold, self.threshold_mode, self.cooldown = threshold, threshold_mode, cooldown
        self._sign = 1.0 if mode == "min" else -1.0
        self.best, self.num_bad_epochs, self.cooldown_counter = self._sign * float("inf"), 0, 0

    def step(self, metrics: Finite) -> None:
        """Look at the figure of this epoch; better is by `threshold` at least, a share of the best one or a number."""
        figure = float_of("ReduceLROnPlateau", metrics)
        value, best = self._sign * figure, self._sign * self.best
        if best == float("inf") or value < best - self.threshold * (abs(best) if self.threshold_mode == "rel" else 1.0):
            self.best, self.num_bad_epochs = figure, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=False):
                group.rate = max(group.rate * self.factor, least)
            self.num_bad_epochs, self.cooldown_counter = 0, self.cooldown

    def state_dict(self) -> dict[str, float]:
        """The best figure so far, the rate of each group, and how many steps were no better."""
        state = {"best": self.best, "num_bad_epochs": self.num_bad_epochs, "cooldown_counter": self.cooldown_counter}
        return state | dict(zip(self._rate_names(), self.get_last_lr(), strict=True))

    def _rate_names(self) -> list[str]:
        count = len(self.optimizer.param_groups)
        return ["lr"] if count == 1 else [f"lr_{place}" for place in range(count)]

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from there; numbers may be arrays, as files hold them."""
        names = "best", "num_bad_epochs", "cooldown_counter", *self._rate_names()
        best, bad, cooldown, *rates = _numbers(state_dict, *names)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group.rate = rate
        self.best, self.num_bad_epochs, self.cooldown_counter = best, int(bad), int(cooldown)

    def get_last_lr(self) -> list[float]:
        """The rate of each group that was set last."""
        return [group.rate for group in self.optimizer.param_groups]


if not TYPE_CHECKING:
    # A type checker goes by what there is.
    def __getattr__(name: str) -> NoReturn:
        raise unknown_name("module 'nnc.optim.lr_scheduler'", name, LAYERS, lambda: globals(), "optim.lr_scheduler.")
