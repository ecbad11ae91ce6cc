"""What all optimizers have: a command, the rate that steers it, and updates of parameters; several for one network."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, ClassVar, Protocol, Self, TypeAlias, overload, runtime_checkable

from nnc.arguments import Rate, checked
from nnc.classes import dataclass
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.device import Device
from nnc.core.values.dtype import DType
from nnc.core.values.spec import TensorSpec
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.dynamic.tree import Tree, flatten
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, ArityError
from nnc.nn.optimization.in_place import update_in_place
from nnc.nn.optimization.parameter_update import state_name, steering_scalar, update_of
from nnc.nn.optimization.schedules import Constant, RateSchedule
from nnc.nn.state.layer_state import LayerState
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.optimizer.update import UpdateOperator, row_of
from nnc.vocabulary.answers import Answering
from nnc.vocabulary.network_names import OPTIMIZER

__all__ = ["Optimizer", "PerParameter"]

# Tensors beside the parameters, by path and name, and the number of updates under `step`.
State: TypeAlias = dict[str, ArrayOperand]
# Gradients or parameters, by path.
ByPath: TypeAlias = Mapping[str, ArrayOperand]
# What takes the place of the optimizer's own rate: one, several by name, or nothing.
GivenRate: TypeAlias = float | ArrayOperand | Mapping[str, ArrayOperand] | None


@runtime_checkable
class HasFollowed(Protocol):
    """A model, seen from below: its parameters follow gradients."""

    def follow(self, rule: Optimizer, gradients: Mapping[str, ArrayOperand], rate: float | ArrayOperand | None) -> None:
        """One update."""
        ...


class Optimizer(Answering, ABC):
    """How parameters follow their gradients."""

    __slots__ = ()
    forms: ClassVar[Mapping[str, str]] = OPTIMIZER
    spoken: ClassVar[str] = "optimizer"

    rate: float | RateSchedule

    @abstractmethod
    def command(self) -> AnyCommand:
        """The command applied to each parameter."""

    # `Any`: rows of all attribute types.
    def operator(self) -> UpdateOperator[Any]:
        """The row of the command."""
        return row_of(self.command())

    def at(self, path: str) -> Optimizer | None:
        """The optimizer of the parameter at `path`; None for one that stays as it is."""
        return self

    def at_rate(self, rate: float | RateSchedule) -> Self:
        """The same with another rate."""
        return replace(self, rate=rate)  # type: ignore[type-var]  # all optimizers are dataclasses

    def without(self, *patterns: str) -> PerParameter:
        """The same for all parameters but those whose paths fit a pattern (as file names do): they stay as they are.

        >>> nn.SGD().without("encoder.*").at("encoder.0.weight") is None
        True
        """
        return PerParameter(self, tuple((pattern, None) for pattern in patterns))

    def rate_name(self, path: str) -> str:
        """The name, among `scalars`, of the rate for the parameter at `path`."""
        return "rate"

    def scalars(self, step: int) -> dict[str, float]:
        """Values of the command's scalar inputs at update `step` (1 at the first)."""
        rate = self.rate if isinstance(self.rate, float) else _schedule(self.rate).rate(step)
        if not 0.0 <= rate < math.inf:
            raise ArgumentError(
                type(_schedule(self.rate)).__name__, got=f"rate {rate} at step {step}", need="a finite rate ≥ 0"
            )
        values = {"rate": rate, "step": float(step)}
        return {name: values[name] for name in self.operator().scalars}

    def state_names(self) -> tuple[str, ...]:
        """Names of the state tensors kept per parameter."""
        return self.operator().states

    def state_specs(self, parameter: TensorSpec) -> dict[str, TensorSpec]:
        """Specs of the state tensors kept for such a parameter, by name."""
        row = self.operator()
        return dict(zip(row.states, row.state_specs(parameter), strict=True))

    # ---- eager and compiled functions

    def init(self, parameters: Tree) -> State:
        """The state before the first update of these parameters: how many updates there were, and zeros for each."""
        state: State = {}
        for path, parameter in by_path(parameters).items():
            state.setdefault("step", steering_scalar(parameter, 0.0))
            optimizer = self.at(path)
            specs = {} if optimizer is None else optimizer.state_specs(parameter.spec)
            state.update((state_name(path, name), _zeros(parameter, spec)) for name, spec in specs.items())
        return state

    @overload
    def update(
        self, parameters: LayerState | HasFollowed, gradients: Tree, *, rate: float | ArrayOperand | None = ...
    ) -> None: ...
    @overload
    def update(
        self, parameters: Tree, gradients: Tree, state: State, *, rate: float | ArrayOperand | None = ...
    ) -> tuple[Tree, State]: ...
    def update(
        self, parameters: Tree, gradients: Tree, state: State | None = None, *, rate: float | ArrayOperand | None = None
    ) -> tuple[Tree, State] | None:
        """(new parameters, new state) after one update; the old ones keep their values.

        Of a layer or module, `update(net, gradients)` gives its parameters their new values, and the layer keeps the
        state: gradients are by path, and parameters without one stay as they are.

        Parameters and gradients are arrays or variables, nested alike in tuples, lists and dictionaries; paths are the
        keys and positions that lead to them. What is computed is not recorded, and a leaf follows a leaf. `rate` takes
        the place of the optimizer's own. In a compiled function a schedule is a part of the program, which is one for
        all steps (`RateSchedule.rate_array`).
        """
        if isinstance(parameters, LayerState):
            update_in_place(self, parameters, gradients, rate)
            return None
        if isinstance(parameters, HasFollowed):
            parameters.follow(self, gradients, rate)
            return None
        if state is None:
            fix = "state = optimizer.init(parameters)"
            raise ArityError("update", got="no state", need="one beside arrays", fix=fix, origin=caller_origin())
        leaves, structure = flatten(parameters)
        olds = dict(zip(structure.paths(), map(as_operand, leaves), strict=True))
        news, following = self.followed(olds, by_path(gradients), state, rate)
        return structure.unflatten([news[path] for path in olds]), following

    def followed(self, olds: ByPath, slopes: ByPath, state: State, rate: GivenRate) -> tuple[ByPath, State]:
        """(new parameters, new state) by path; `rate` may be several, by the names that they have among `scalars`."""
        updates = {path: None if (rule := self.at(path)) is None else update_of(rule) for path in olds}
        if not olds:
            return olds, state
        states = {path: entry.states_at(path) for path, entry in updates.items() if entry is not None}
        missing = olds.keys() ^ slopes.keys() or {"step", *chain(*states.values())} - state.keys()
        if missing:
            got, need = f"no {sorted(missing)[0]!r}", "a gradient and a state for each parameter"
            raise ArityError("update", got=got, need=need, fix="make the state with init()", origin=caller_origin())
        news, following = dict(olds), {**state, "step": state["step"] + 1}
        # Parameters of one kind share the numbers that steer them: each is a command of its own.
        steering: dict[tuple[int, str, DType, Device], list[ArrayOperand]] = {}
        for path, names in states.items():
            update, old = updates[path], olds[path]
            assert update is not None
            name = self.rate_name(path) if isinstance(rate, Mapping) else ""
            key = (id(update), name, old.spec.dtype, old.spec.device)
            scalars = steering.get(key)
            if scalars is None:
                own = rate.get(name) if isinstance(rate, Mapping) else rate
                scalars = steering[key] = update.scalars(old, following["step"], own)
            news[path], *renewed = old.renewed(
                update.command, (slopes[path], old, *[state[name] for name in names], *scalars)
            )
            following.update(zip(names, renewed, strict=True))
        return news, following

    def rate_at(self, step: ArrayOperand) -> float | ArrayOperand:
        """The rate; of a schedule as a part of the program where only a run knows the step."""
        if isinstance(self.rate, RateSchedule) and not isinstance(step, Variable):
            return self.rate.rate_at(step)
        asked = isinstance(step, Variable) and isinstance(self.rate, RateSchedule)
        return self.scalars(int(step) if asked else 1)["rate"]  # type: ignore[call-overload]  # a variable is a number


@dataclass(frozen=True)
class RowOptimizer(Optimizer):
    """The optimizer of a row of `nnc.ops.optimizer`: a rate, then what the row's attributes are, with their ranges.

    `class Lion(LionAttrs, RowOptimizer)` has all fields of both; it says its own defaults where the row has others.
    """

    __slots__ = ()
    # `Any`: rows of all attribute types.
    row: ClassVar[UpdateOperator[Any]]
    rate: Rate | RateSchedule

    def operator(self) -> UpdateOperator[Any]:
        """The row that these options choose."""
        return self.row

    def command(self) -> AnyCommand:
        """The row's command: attributes that are no fields of this optimizer are as the row has them."""
        row = self.operator()
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        names = [field.name for field in fields(row.attributes)]
        return Command(row, row.attributes(**{name: own[name] for name in names if name in own}))


@checked
@dataclass(frozen=True, slots=True)
class PerParameter(Optimizer):
    """The first rule whose pattern fits a parameter's path (as file names do) says its optimizer, else `default` does.

    An optimizer of None leaves the parameter as it is. Each rule has a rate of its own.

    >>> PerParameter(nn.AdamW(), (("*.bias", nn.AdamW(decay=0.0)),)).at("hidden.bias")
    AdamW(rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-08, decay=0.0, amsgrad=False)
    """

    default: Optimizer
    rules: tuple[tuple[str, Optimizer | None], ...]

    @property
    def rate(self) -> float | RateSchedule:  # type: ignore[override]  # the default's, which nobody sets here
        """The rate of parameters that no rule fits."""
        return self.default.rate

    def at_rate(self, rate: float | RateSchedule) -> Self:
        """The same with another rate where no rule fits."""
        return replace(self, default=self.default.at_rate(rate))

    def without(self, *patterns: str) -> PerParameter:
        """The same, where these patterns come before the rules."""
        return replace(self, rules=(*((pattern, None) for pattern in patterns), *self.rules))

    def command(self) -> AnyCommand:
        """The command of parameters that no rule fits."""
        return self.default.command()

    def operator(self) -> UpdateOperator[Any]:
        """The row of parameters that no rule fits."""
        return self.default.operator()

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
                scalars = optimizer.scalars(step)
                values[f"rate.{pattern}"] = scalars.pop("rate")
                values.update(scalars)
        return values

    def _rule(self, path: str) -> tuple[str, Optimizer | None] | None:
        return next((rule for rule in self.rules if fnmatchcase(path, rule[0])), None)


def _schedule(rate: float | RateSchedule) -> RateSchedule:
    return rate if isinstance(rate, RateSchedule) else Constant(rate)


def by_path(tree: Tree) -> dict[str, ArrayOperand]:
    """The leaves as operands, by path."""
    leaves, structure = flatten(tree)
    return dict(zip(structure.paths(), map(as_operand, leaves), strict=True))


def _zeros(parameter: ArrayOperand, spec: TensorSpec) -> ArrayOperand:
    """A state tensor beside this parameter."""
    return parameter.apply(Command(FILL, FillAttrs(0.0, spec)), ())[0]
