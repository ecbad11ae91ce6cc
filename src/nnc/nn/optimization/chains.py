"""Chains: what is done to gradients before an optimizer, and to its updates behind it, as in optax.

    nn.chain(nn.ClipNorm(1.0), nn.Adam(), nn.Cosine(1e-3, 100))

w' = w + after(optimizer(w, before(g)) - w). A schedule right behind the optimizer is its rate. A chain is an optimizer:
its state is that of the one it holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Self

from nnc.arguments import Finite, Positive, Rate, checked
from nnc.classes import QUIET, dataclass
from nnc.core.values.command import AnyCommand
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.state import constant_of
from nnc.errors import ArgumentError, ArityError
from nnc.nn.optimization.optimizer_base import ByPath, GivenRate, Optimizer, State
from nnc.nn.optimization.optimizers import SGD
from nnc.nn.optimization.parameter_update import steering_scalar
from nnc.nn.optimization.schedules import RateSchedule
from nnc.ops.elementwise.pointwise import (
    add,
    affine,
    cast,
    clamp,
    divide,
    minimum,
    multiply,
    sqrt,
    square,
    subtract,
)
from nnc.ops.movement.broadcast import reduce_sum
from nnc.ops.optimizer.update import UpdateOperator

__all__ = [
    "AddDecay",
    "OptimizerChain",
    "ChainedChange",
    "ClipNorm",
    "ClipValue",
    "DecoupledDecay",
    "Scale",
    "ScaleBySchedule",
    "chain",
]

# w' = w - g, which gives a leaf for a leaf.
ADDED = SGD(1.0, momentum=0.0)


class ChainedChange(ABC):
    """What one part of a chain makes of gradients or updates."""

    __slots__ = ()

    @abstractmethod
    def changed(self, slopes: ByPath, parameters: ByPath, step: ArrayOperand) -> dict[str, ArrayOperand]:
        """Gradients or updates for the next part; `step` is 1 at the first update."""

    def moved(self, parameters: ByPath, rate: float | ArrayOperand) -> ByPath:
        """The parameters as the optimizer finds them."""
        return parameters


@checked
@dataclass(frozen=True, slots=True)
class ClipNorm(ChainedChange):
    """g' = g · min(1, limit / |g|), |g| the 2-norm over all of them together (Pascanu et al. 2013), or of `each`."""

    limit: Positive
    each: bool = field(default=False, metadata=QUIET)

    def changed(self, slopes: ByPath, parameters: ByPath, step: ArrayOperand) -> dict[str, ArrayOperand]:
        """All of them scaled alike, or each by its own norm."""
        if self.each:
            alone = ClipNorm(self.limit)
            return {path: alone.changed({path: slope}, {}, step)[path] for path, slope in slopes.items()}
        norm = global_norm(slopes)
        scale = minimum(divide(steering_scalar(norm, self.limit), norm), steering_scalar(norm, 1.0))
        return {path: multiply(slope, cast(scale, slope.dtype)) for path, slope in slopes.items()}


@checked
@dataclass(frozen=True, slots=True)
class ClipValue(ChainedChange):
    """g' = min(max(g, -limit), limit), element by element."""

    limit: Positive

    def changed(self, slopes: ByPath, parameters: ByPath, step: ArrayOperand) -> dict[str, ArrayOperand]:
        """Each of them clamped."""
        return {path: clamp(slope, -self.limit, self.limit) for path, slope in slopes.items()}


@checked
@dataclass(frozen=True, slots=True)
class Scale(ChainedChange):
    """g' = factor · g"""

    factor: Finite

    def changed(self, slopes: ByPath, parameters: ByPath, step: ArrayOperand) -> dict[str, ArrayOperand]:
        """Each of them scaled."""
        return {path: affine(slope, self.factor) for path, slope in slopes.items()}


@checked
@dataclass(frozen=True, slots=True)
class ScaleBySchedule(ChainedChange):
    """g' = schedule(step) · g"""

    schedule: RateSchedule

    def changed(self, slopes: ByPath, parameters: ByPath, step: ArrayOperand) -> dict[str, ArrayOperand]:
        """Each of them scaled by the rate of this step."""
        rate = self.schedule.rate_at(step)
        return {path: multiply(slope, steering_scalar(slope, rate)) for path, slope in slopes.items()}


@checked
@dataclass(frozen=True, slots=True)
class AddDecay(ChainedChange):
    """g' = g + decay · w"""

    decay: Rate

    def changed(self, slopes: ByPath, parameters: ByPath, step: ArrayOperand) -> dict[str, ArrayOperand]:
        """Each of them with its share of the parameter."""
        return {path: add(slope, affine(parameters[path], self.decay)) for path, slope in slopes.items()}


@checked
@dataclass(frozen=True, slots=True)
class DecoupledDecay(ChainedChange):
    """w = w · (1 - rate · decay) before the optimizer, as AdamW has it, for any optimizer (Loshchilov & Hutter 2019).

    >>> nn.chain(nn.DecoupledDecay(0.01), nn.SGD(0.1)).before
    (DecoupledDecay(decay=0.01),)
    """

    decay: Rate

    def changed(self, slopes: ByPath, parameters: ByPath, step: ArrayOperand) -> dict[str, ArrayOperand]:
        """Gradients stay as they are."""
        return dict(slopes)

    def moved(self, parameters: ByPath, rate: float | ArrayOperand) -> ByPath:
        """All of them a little smaller."""
        kept = {path: affine(steering_scalar(old, rate), -self.decay, 1.0) for path, old in parameters.items()}
        return {path: multiply(old, cast(kept[path], old.dtype)) for path, old in parameters.items()}


@dataclass(frozen=True, slots=True)
class OptimizerChain(Optimizer):
    """An optimizer between parts that change its gradients and its updates; `nn.chain` makes it."""

    optimizer: Optimizer
    before: tuple[ChainedChange, ...] = ()
    after: tuple[ChainedChange, ...] = field(default=())

    @property
    def rate(self) -> float | RateSchedule:  # type: ignore[override]  # the optimizer's, which nobody sets here
        """The rate of the optimizer."""
        return self.optimizer.rate

    def at_rate(self, rate: float | RateSchedule) -> Self:
        """The same with another rate."""
        return replace(self, optimizer=self.optimizer.at_rate(rate))

    def command(self) -> AnyCommand:
        """The command of the optimizer."""
        return self.optimizer.command()

    def operator(self) -> UpdateOperator[Any]:
        """The row of the optimizer."""
        return self.optimizer.operator()

    def at(self, path: str) -> Optimizer | None:
        """The optimizer of the parameter at `path`."""
        return self.optimizer.at(path)

    def rate_name(self, path: str) -> str:
        """As the optimizer has it."""
        return self.optimizer.rate_name(path)

    def scalars(self, step: int) -> dict[str, float]:
        """As the optimizer has them."""
        return self.optimizer.scalars(step)

    def followed(self, olds: ByPath, slopes: ByPath, state: State, rate: GivenRate) -> tuple[ByPath, State]:
        """w' = w + after(optimizer(w, before(g)) - w)"""
        rate = rate.get("rate") if isinstance(rate, Mapping) else rate
        if not olds or "step" not in state or olds.keys() != slopes.keys():
            return self.optimizer.followed(olds, slopes, state, rate)
        step, known = state["step"] + 1, {path: constant_of(old) for path, old in olds.items()}
        chosen = self.optimizer.rate_at(step) if rate is None else rate
        for part in self.before:
            slopes, olds = part.changed(slopes, known, step), part.moved(olds, chosen)
        made, following = self.optimizer.followed(olds, slopes, state, rate)
        if self.after:
            moves = {path: subtract(constant_of(made[path]), old) for path, old in known.items()}
            for part in self.after:
                moves = part.changed(moves, known, step)
            against = {path: affine(move, -1.0) for path, move in moves.items()}
            made, _ = ADDED.followed(olds, against, {"step": state["step"]}, None)
        return made, following

    def for_models(self) -> tuple[Optimizer, float | None, float | None]:
        """(optimizer, largest norm, largest value): what the steps of a model have of a chain."""
        match self.before, self.after:
            case (), ():
                return self.optimizer, None, None
            case (ClipNorm(norm, each=False),), ():
                return self.optimizer, norm, None
            case (ClipValue(value),), ():
                return self.optimizer, None, value
            case (ClipValue(value), ClipNorm(norm, each=False)), ():
                return self.optimizer, norm, value
        need = "ClipValue, ClipNorm and an optimizer, in this order, for a model"
        raise ArgumentError("chain", got=repr(self), need=need, fix="optimizer.update(net, gradients) of a module")


@checked
def chain(*parts: ChainedChange | Optimizer | RateSchedule) -> OptimizerChain:
    """One optimizer of parts in the order in which they act; a schedule behind the optimizer is its rate.

    Without an optimizer among them updates are what the parts make of the gradients, added: `Scale(-0.1)` descends.

    >>> chain(ClipNorm(1.0), SGD(momentum=0.0)).before
    (ClipNorm(limit=1.0),)
    """
    optimizers = [place for place, part in enumerate(parts) if isinstance(part, Optimizer)]
    if len(optimizers) > 1:
        raise ArityError("chain", got=f"{len(optimizers)} optimizers", need="one", fix="nn.PerParameter(…)")
    place = optimizers[0] if optimizers else len(parts)
    before, behind = parts[:place], list(parts[place + 1 :])
    if not optimizers:
        return OptimizerChain(ADDED, (*map(_part, before), Scale(-1.0)))
    optimizer = parts[place]
    assert isinstance(optimizer, Optimizer)
    rate = behind[0] if behind else None
    if isinstance(rate, RateSchedule):
        optimizer, behind = optimizer.at_rate(rate), behind[1:]
    inner = optimizer if isinstance(optimizer, OptimizerChain) else OptimizerChain(optimizer)
    return OptimizerChain(inner.optimizer, (*map(_part, before), *inner.before), (*inner.after, *map(_part, behind)))


def _part(part: ChainedChange | Optimizer | RateSchedule) -> ChainedChange:
    """A schedule that stands anywhere else multiplies."""
    if isinstance(part, RateSchedule):
        return ScaleBySchedule(part)
    assert isinstance(part, ChainedChange)
    return part


def global_norm(slopes: ByPath) -> ArrayOperand:
    """sqrt(sum over all of them and all their elements of g²)"""
    squares = [reduce_sum(square(slope)) for slope in slopes.values()]
    total = squares[0]
    for further in squares[1:]:
        total = add(total, cast(further, total.dtype))
    return sqrt(total)
