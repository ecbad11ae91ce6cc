"""Optimizers that hold parameters, or the layer that they were last given, and change them in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.device import CPU
from nnc.core.values.dtype import F64
from nnc.dynamic import eager
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.state import current, depends_on
from nnc.dynamic.traced import active_trace
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, FormatError, UsageError
from nnc.nn.optimization.chains import OptimizerChain
from nnc.nn.optimization.in_place import follow_gradients, update_in_place
from nnc.nn.optimization.optimizer_base import Optimizer, PerParameter
from nnc.nn.optimization.schedules import RateSchedule
from nnc.nn.state.layer_state import LayerState, Parameters
from nnc.nn.state.loading import host_array

ParameterSource: TypeAlias = Parameters | Iterable[Variable | Mapping[str, object]]

# Options of a group, and the fields of an optimizer that they set.
GROUP_OPTIONS = {"momentum": "momentum", "nesterov": "nesterov", "weight_decay": "decay", "eps": "epsilon"}


def float_of(subject: str, value: Any) -> float:  # noqa: ANN401  # numbers of all kinds
    """What a number, or an array of one, is; ArgumentError for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ArgumentError(subject, got=shown(value), need="a number", origin=caller_origin()) from None


class StepOptimizer:
    """`step()` changes the parameters by their gradients, `p.grad`; those without one stay as they are.

    Without parameters of its own it serves `update(net, gradients)`, as in MLX. In a function that is compiled its rate
    is an input: one program serves all rates.

    Groups of parameters, `[{"params": body.parameters(), "lr": 1e-4}, {"params": head.parameters()}]`, have rates and
    decays of their own: rates are inputs too, and a function that is compiled is compiled again for another decay.
    """

    def __init__(self, parameters: ParameterSource | None, rule: Optimizer) -> None:
        self._layer: LayerState | None = None
        if isinstance(parameters, Parameters):
            self._layer = parameters.layer
        elif parameters is not None:
            given = list(parameters)
            groups = [each for each in given if isinstance(each, Mapping)]
            if groups and len(groups) == len(given):
                self._layer, rule = _Groups(groups), _rule_of_groups(rule, groups)
            else:
                self._layer = _Group(given)
        self._rates: dict[str, Variable] = {}
        self.rule = rule

    @property
    def rule(self) -> Optimizer:
        """The optimizer of `nnc.nn` whose command and options these are."""
        return self._rule

    @rule.setter
    def rule(self, rule: Optimizer) -> None:
        self._rule = rule
        numbers = _numbers_of(rule)
        # What a program depends on: all of it, but for numbers that are rates.
        self._kind = _at_rates(rule, dict.fromkeys(numbers, 0.0))
        for name, number in numbers.items():
            value = eager.tensor(np.float64(number), F64)
            if name in self._rates:
                self._rates[name].become(value)
            else:
                self._rates[name] = value

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # noqa: ANN401  # what the closure gives
        """One update; with a closure, by the gradients that it computes, and what it gives back."""
        loss = None if closure is None else closure()
        layer = self._held("step")
        trained = layer.trainable_parameters()
        gradients = {path: gradient for path, variable in trained.items() if (gradient := variable.grad) is not None}
        variables = trained if len(gradients) == len(trained) else {path: trained[path] for path in gradients}
        follow_gradients(self.rule, layer, variables, gradients, self._rates_here())
        return loss

    def update(self, model: LayerState, gradients: Mapping[str, ArrayOperand]) -> None:
        """Give the parameters of a layer or module their new values, by gradients by path."""
        self._layer = model
        update_in_place(self.rule, model, gradients, self._rates_here())

    def _rates_here(self) -> Mapping[str, ArrayOperand] | None:
        """In a compiled function rates as inputs of its program."""
        if active_trace() is None:
            return None
        depends_on(self, lambda: self._kind)
        return {name: current(self._rates[name]) for name in _numbers_of(self.rule)}

    def _held(self, subject: str) -> LayerState:
        if self._layer is None:
            fix = "optim.Adam(net.parameters(), lr=0.001), or optimizer.update(net, gradients)"
            raise UsageError(subject, got="an optimizer without parameters", need="those that it changes", fix=fix)
        return self._layer

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, whether or not zeros are asked for."""
        self._held("zero_grad").zero_grad()

    @property
    def lr(self) -> float:
        """The rate; of a schedule that of its next update."""
        return self.rule.scalars(self._updates() + 1)["rate"]

    @lr.setter
    def lr(self, rate: float) -> None:
        if active_trace() is not None:
            fix = "step the schedule outside, or lr=nn.Cosine(1e-3, 100) of the optimizer"
            raise UsageError("lr", got="another rate in a function that is compiled", need="one outside", fix=fix)
        if isinstance(self._layer, _Groups):
            fix = 'for group in optimizer.param_groups: group["lr"] = …'
            raise UsageError("lr", got="an optimizer with several groups", need="a rate for each", fix=fix)
        self.rule = self.rule.at_rate(float_of("lr", rate))

    @property
    def learning_rate(self) -> Variable:
        """`lr` as an array, as in MLX."""
        return eager.tensor(np.float32(self.lr))

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self.lr = rate

    def _updates(self) -> int:
        step = None if self._layer is None else self._layer.own.optimizer_state.get("step")
        return 0 if step is None else int(step)

    @property
    def param_groups(self) -> list[ParameterGroup]:
        """The groups, or one with all parameters; their `"lr"` may be set."""
        count = self._layer.count if isinstance(self._layer, _Groups) else 0
        return [ParameterGroup(self, place) for place in range(count)] or [ParameterGroup(self)]

    def add_param_group(self, param_group: Mapping[str, object]) -> None:
        """Train these parameters too, from now on, by the group's options: what was trained keeps its state.

        >>> body, head = nn.Linear(2, 2), nn.Linear(2, 1)
        >>> optimizer = optim.SGD(head.parameters(), lr=0.1)
        >>> optimizer.add_param_group({"params": body.parameters(), "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        given: object = param_group
        if not isinstance(given, Mapping):
            got, fix = shown(given), 'optimizer.add_param_group({"params": net.parameters(), "lr": 1e-4})'
            raise ArgumentError("add_param_group", got=got, need="a dictionary", fix=fix)
        before, rule = self._held("add_param_group"), self.rule
        if isinstance(before, _Groups):
            assert isinstance(rule, PerParameter)
            place = before.add(param_group)
            added = (f"{place}.*", _with_options(rule.default, param_group))
            self.rule = replace(rule, rules=(*rule.rules, added))
            return
        groups = ({"params": [variable for _, variable in before.named_parameters()]}, param_group)
        layer, renamed = _Groups(groups), {id(variable): path for path, variable in before.named_parameters()}
        old, new = before.own, layer.own
        for path, variable in layer.named_parameters():
            former = renamed.get(id(variable))
            if former in old.optimizer_kinds:
                new.optimizer_kinds[path] = old.optimizer_kinds[former]
            for name, value in old.optimizer_state.items():
                if former is not None and name.startswith(f"{former}."):
                    new.optimizer_state[path + name.removeprefix(former)] = value
        if "step" in old.optimizer_state:
            new.optimizer_state["step"] = old.optimizer_state["step"]
        self._layer, self.rule = layer, _rule_of_groups(rule, groups)

    @property
    def state(self) -> dict[str, Variable]:
        """What the optimizer keeps, by path of the parameter and name, and the number of updates under `step`."""
        return {} if self._layer is None else dict(self._layer.own.optimizer_state)

    def state_dict(self) -> dict[str, NDArray[np.generic]]:
        """Copies of the state; beside it rates that are numbers."""
        values = {name: value.tensor.copied() for name, value in self.state.items()}
        return values | {name: np.array(rate) for name, rate in _numbers_of(self.rule).items()}

    def load_state_dict(self, values: Mapping[str, ArrayLike]) -> None:
        """Go on with this state, which an optimizer of the same parameters and kind had."""
        layer = self._held("load_state_dict")
        own, trained = layer.own, layer.trainable_parameters()
        given = {name: host_array(value) for name, value in values.items()}
        rates = {name: given.pop(name) for name in _numbers_of(self.rule) if name in given}
        for path in trained:
            part = self.rule.at(path)
            own.optimizer_kinds[path] = None if part is None else part.command().op
            names = {} if part is None or not given else part.state_names()
            missing = [name for name in names if f"{path}.{name}" not in given]
            if missing:
                raise FormatError("state", got=f"no {path}.{missing[0]}", need="the state of each parameter")
        if not given:
            own.optimizer_kinds.clear()
        homes = {
            name: variable.device for path, variable in trained.items() for name in given if name.startswith(f"{path}.")
        }
        own.optimizer_state = {name: eager.tensor(value, device=homes.get(name, CPU)) for name, value in given.items()}
        self.rule = _at_rates(self.rule, {name: float_of("load_state_dict", rate) for name, rate in rates.items()})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rule!r})"


def _numbers_of(rule: Optimizer) -> dict[str, float]:
    """Rates that are numbers, by their names among `scalars`."""
    parts: dict[str, Optimizer | None] = {"rate": rule}
    if isinstance(rule, PerParameter):
        parts |= {f"rate.{pattern}": part for pattern, part in rule.rules}
    elif isinstance(rule, OptimizerChain) and isinstance(rule.optimizer, PerParameter):
        return {}
    rates = {name: part.rate for name, part in parts.items() if part is not None}
    return {name: rate for name, rate in rates.items() if not isinstance(rate, RateSchedule)}


def _at_rates(rule: Optimizer, rates: Mapping[str, float]) -> Optimizer:
    """The same with some other rates, by their names."""
    if "rate" in rates:
        rule = rule.at_rate(rates["rate"])
    if not isinstance(rule, PerParameter):
        return rule
    named = ((pattern, part, rates.get(f"rate.{pattern}")) for pattern, part in rule.rules)
    return replace(
        rule,
        rules=tuple(
            (pattern, part if part is None or rate is None else part.at_rate(rate)) for pattern, part, rate in named
        ),
    )


class ParameterGroup(Mapping[str, object]):
    """The parameters of an optimizer and its options, as PyTorch has them: `group["lr"] = 0.1` sets the rate."""

    def __init__(self, optimizer: StepOptimizer, place: int | None = None) -> None:
        self._optimizer, self._place = optimizer, place

    @property
    def rate(self) -> float:
        """The rate of the next update."""
        return self._rule().scalars(self._optimizer._updates() + 1)["rate"]

    @rate.setter
    def rate(self, rate: float) -> None:
        if self._place is None:
            self._optimizer.lr = rate
        else:
            self._become(self._rule().at_rate(float_of("param_groups", rate)))

    def __getitem__(self, name: str) -> object:
        if name == "params":
            trained = self._optimizer._held("param_groups").trainable_parameters()
            before = "" if self._place is None else f"{self._place}."
            return [value for path, value in trained.items() if path.startswith(before)]
        if name == "lr":
            return self.rate
        if name not in self._options():
            raise KeyError(name)
        return getattr(self._rule(), GROUP_OPTIONS[name])

    def __setitem__(self, name: str, value: float) -> None:
        if name == "lr":
            self.rate = value
        elif name in self._options():
            changed: Optimizer = replace(self._rule(), **{GROUP_OPTIONS[name]: value})  # type: ignore[type-var]  # a dataclass, as its fields are known
            self._become(changed)
        else:
            need = ", ".join(["'lr'", *map(repr, self._options())])
            raise ArgumentError("param_groups", got=repr(name), need=need, fix="a new optimizer of these options")

    def _become(self, rule: Optimizer) -> None:
        """Go on by these options."""
        whole = self._optimizer.rule
        if self._place is None:
            self._optimizer.rule = rule
            return
        assert isinstance(whole, PerParameter)
        rules = list(whole.rules)
        rules[self._place] = (rules[self._place][0], rule)
        self._optimizer.rule = replace(whole, rules=tuple(rules))

    def _rule(self) -> Optimizer:
        whole = self._optimizer.rule
        if self._place is None:
            return whole
        assert isinstance(whole, PerParameter)
        rule = whole.rules[self._place][1]
        assert rule is not None
        return rule

    def _options(self) -> list[str]:
        """Names of the options but for the rate."""
        known = _fields_of(self._rule())
        return [option for option, own in GROUP_OPTIONS.items() if own in known]

    def __iter__(self) -> Iterator[str]:
        return iter(("params", "lr", *self._options()))

    def __len__(self) -> int:
        return 2 + len(self._options())


class _Group(LayerState):
    """Variables without a layer, by their positions."""

    __slots__ = ()

    def __init__(self, parameters: Iterable[object]) -> None:
        self._take(parameters, "")

    def _take(self, parameters: Iterable[object], before: str) -> None:
        for place, variable in enumerate(parameters):
            # What is frozen now may be trained later: groups of PyTorch's programs hold it.
            frozen = isinstance(variable, Variable) and bool(before) and not variable.requires_grad
            if not frozen and not (isinstance(variable, Variable) and variable.graph.is_leaf(variable)):
                need, fix = "leaf variables", "net.parameters(), after a first call of net(x)"
                raise ArgumentError("optim", got=f"a {type(variable).__name__}", need=need, fix=fix)
            assert isinstance(variable, Variable)
            self.own.variables[f"{before}{place}"] = variable


class _Groups(_Group):
    """Groups of variables without a layer, by the positions of the group and in it."""

    __slots__ = ("count",)

    def __init__(self, groups: Sequence[Mapping[str, object]]) -> None:
        self.count = 0
        for group in groups:
            self.add(group)

    def add(self, group: Mapping[str, object]) -> int:
        """One more group; its position."""
        place, given = self.count, group.get("params")
        parameters = list(given) if isinstance(given, Iterable) and not isinstance(given, Variable) else [given]
        if not parameters:
            fix = "make the optimizer after a first call of net(x)"
            raise ArgumentError("optim", got=f"no parameters in group {place}", need="some", fix=fix)
        known = {id(variable) for variable in self.own.variables.values()}
        if any(id(variable) in known for variable in parameters):
            raise ArgumentError("optim", got=f"a parameter of another group in group {place}", need="each in one group")
        self._take(parameters, f"{place}.")
        self.count += 1
        return place


def _rule_of_groups(rule: Optimizer, groups: Sequence[Mapping[str, object]]) -> PerParameter:
    """The optimizer of each group: `rule` with the group's options."""
    return PerParameter(rule, tuple((f"{place}.*", _with_options(rule, group)) for place, group in enumerate(groups)))


def _fields_of(rule: Optimizer) -> set[str]:
    return {field.name for field in fields(rule)} if is_dataclass(rule) else set()


def _with_options(rule: Optimizer, group: Mapping[str, object]) -> Optimizer:
    known = _fields_of(rule)
    changed: dict[str, object] = {}
    for name, value in group.items():
        field = GROUP_OPTIONS.get(name)
        if name in ("params", "lr"):
            continue
        if field not in known:
            need = ", ".join(["params", "lr", *[option for option, own in GROUP_OPTIONS.items() if own in known]])
            raise ArgumentError("optim", got=f"{name!r} in a group", need=need)
        changed[str(field)] = value
    rate = group.get("lr")
    made: Optimizer = replace(rule, **changed)  # type: ignore[type-var]  # a dataclass, as its fields are known
    return made if rate is None else made.at_rate(rate if isinstance(rate, RateSchedule) else float(rate))  # type: ignore[arg-type]
