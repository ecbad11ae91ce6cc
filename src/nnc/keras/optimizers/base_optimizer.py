"""What all optimizers of `nnc.keras` share: an optimizer of `nnc.nn`, the weights it has met, and their state.

One update is `apply_gradients`: eagerly, or as a part of a function that is compiled, in which the rate, the count of
updates and the state are inputs and results. Formulas are Keras', with its places of epsilon and of the rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import Positive, Rate, checked, shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.tensor import Tensor
from nnc.dynamic import eager
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.dynamic.state import constant_of, current
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, ArityError, FormatError
from nnc.keras.named import Remembered, refused, snake_case
from nnc.keras.optimizers.schedules import LearningRateSchedule
from nnc.nn.optimization.chains import ChainedChange, ClipNorm, ClipValue, DecoupledDecay, OptimizerChain
from nnc.nn.optimization.in_place import begin_state, follow_gradients
from nnc.nn.optimization.optimizer_base import Optimizer as Rule
from nnc.nn.optimization.parameter_update import state_name
from nnc.nn.state.layer_state import LayerState

LearningRate: TypeAlias = Rate | LearningRateSchedule | Callable[[], Any] | ArrayOperand | NDArray[Any]
Gradient: TypeAlias = ArrayOperand | ArrayLike


class Optimizer(Remembered):
    """How weights follow their gradients: `rule`, an optimizer of `nnc.nn` of any rate, made by each class below."""

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        weight_decay: Rate | None = None,
        clipnorm: Positive | None = None,
        clipvalue: Positive | None = None,
        global_clipnorm: Positive | None = None,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: float | None = None,
        gradient_accumulation_steps: int | None = None,
        name: str | None = None,
        *,
        rule: Rule | None = None,
    ) -> None:
        kind = type(self).__name__
        if rule is None:
            fix = "super().__init__(learning_rate, rule=nnc.nn.Adam())"
            raise ArgumentError(kind, got="no rule", need="an optimizer of nnc.nn", fix=fix, origin=caller_origin())
        self.name = name or snake_case(kind)
        for option, value, fix in (
            ("use_ema", use_ema, "mean.zip_map(…) of copies, or a callback that keeps a mean of get_weights()"),
            ("loss_scale_factor", loss_scale_factor, "nnc.nn.Model(…, loss_scale=nnc.nn.LossScale())"),
            ("gradient_accumulation_steps", gradient_accumulation_steps, "nnc.nn.Model(…).fit(…, accumulate=4)"),
        ):
            if value:
                raise refused(kind, option, value, fix)
        ways: list[ChainedChange] = [
            *([] if clipnorm is None else [ClipNorm(clipnorm, each=True)]),
            *([] if clipvalue is None else [ClipValue(clipvalue)]),
            *([] if global_clipnorm is None else [ClipNorm(global_clipnorm)]),
        ]
        if len(ways) > 1:
            raise ArgumentError(kind, got="several ways to clip", need="one of clipnorm, clipvalue, global_clipnorm")
        if weight_decay:
            ways.append(DecoupledDecay(weight_decay))
        self.weight_decay, self.clipnorm, self.clipvalue = weight_decay or 0.0, clipnorm, clipvalue
        self.global_clipnorm = global_clipnorm
        self.rule: Rule = OptimizerChain(rule, tuple(ways)) if ways else rule
        self._trained = _Trained()
        self._rate = eager.tensor(np.float64(0.0))
        self._schedule: LearningRateSchedule | None = None
        self.learning_rate = learning_rate

    # ---- the rate

    @property
    def learning_rate(self) -> Any:
        """The rate of the next update, which may be set to a number or a schedule."""
        if self._schedule is None:
            return eager.tensor(np.float32(self._rate.item()))
        return eager.tensor(np.float32(self._schedule.rate(self._count() + 1)))

    @learning_rate.setter
    def learning_rate(self, rate: Any) -> None:
        if isinstance(rate, LearningRateSchedule):
            self._schedule, self.rule = rate, self.rule.at_rate(rate)
            return
        number = rate() if callable(rate) else rate
        try:
            value = float(number)
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if not 0 <= value < math.inf:
            got, need = f"learning_rate={shown(number)}", "a finite number ≥ 0, or a schedule"
            raise ArgumentError(type(self).__name__, got=got, need=need, origin=caller_origin())
        self._schedule = None
        self._rate.become(eager.tensor(np.float64(value)))

    lr = learning_rate

    @property
    def schedule(self) -> LearningRateSchedule | None:
        """The schedule of the rate, where it has one."""
        return self._schedule

    def _count(self) -> int:
        step = self._trained.own.optimizer_state.get("step")
        return 0 if step is None else int(step)

    @property
    def iterations(self) -> Variable:
        """How many updates there were."""
        return eager.tensor(np.int64(self._count()))

    # ---- updates

    @checked
    def build(self, variables: Iterable[Variable]) -> None:
        """State for these weights; those that are known keep theirs."""
        begin_state(self.rule, self._trained, self._trained.places(variables))

    @property
    def variables(self) -> list[Variable]:
        """The rate, the count of updates, and the state of each weight."""
        return [self._rate, *self._trained.own.optimizer_state.values()]

    @checked
    def apply_gradients(self, grads_and_vars: Iterable[tuple[Gradient | None, Variable]], **unused: object) -> None:
        """One update by pairs (gradient, weight); those whose gradient is None stay."""
        given: list[tuple[Any, ...]] = [
            tuple(pair) if isinstance(pair, tuple | list) else () for pair in grads_and_vars
        ]
        if any(len(pair) != 2 or not isinstance(pair[1], Variable) for pair in given):
            fix = "zip(gradients, model.trainable_variables)"
            raise ArgumentError("apply_gradients", got="what is no pair", need="(gradient, weight) each", fix=fix)
        pairs = [(g, w) for g, w in given if g is not None]
        if not pairs:
            fix = "tape.gradient(loss, model.trainable_variables), of a loss that depends on them"
            raise ArityError(
                "apply_gradients", got="no gradients", need="one at least", fix=fix, origin=caller_origin()
            )
        self.apply([g for g, _ in pairs], [w for _, w in pairs])

    @checked
    def apply(self, grads: Sequence[Gradient], trainable_variables: Sequence[Variable] | None = None) -> None:
        """One update of weights by their gradients."""
        weights = trainable_variables if trainable_variables is not None else [*self._trained.own.variables.values()]
        if len(grads) != len(weights):
            got, need = f"{len(grads)} gradients, {len(weights)} weights", "one for each"
            raise ArityError("apply", got=got, need=need, origin=caller_origin())
        by_place = self._trained.places(weights)
        slopes = {
            place: constant_of(as_operand(g)).astype(weight.dtype)
            for (place, weight), g in zip(by_place.items(), grads, strict=True)
        }
        rate = current(self._rate) if self._schedule is None else None
        follow_gradients(self.rule, self._trained, by_place, slopes, rate)

    # ---- files

    def slots_of(self, weights: Mapping[str, Variable]) -> dict[str, Variable]:
        """The count of updates, and the state of these weights by their paths."""
        state, places = self._trained.own.optimizer_state, self._trained.places(weights.values())
        paths = dict(zip(places, weights, strict=True))
        slots = {"step": state["step"]} if "step" in state else {}
        for name, value in state.items():
            place, _, slot = name.partition(".")
            if place in paths:
                slots[state_name(paths[place], slot)] = value
        return slots

    def take_slots(self, weights: Mapping[str, Variable], values: Mapping[str, Tensor]) -> None:
        """Go on with the state of `slots_of`; FormatError where it is that of another optimizer."""
        if not values:
            return
        self.build(weights.values())
        slots = self.slots_of(weights)
        if slots.keys() != values.keys():
            got = f"{sorted(slots.keys() ^ values.keys())[0]!r} on one side alone"
            raise FormatError("optimizer", got=got, need=f"the state of {type(self).__name__}")
        for name, slot in slots.items():
            slot.become(eager.tensor(values[name]))

    def get_config(self) -> dict[str, Any]:
        """The name and the rate."""
        rate = float(self.learning_rate) if self._schedule is None else self._schedule
        return {"name": self.name, "learning_rate": rate, "weight_decay": self.weight_decay or None}


class _Trained(LayerState):
    """The weights that an optimizer has met, by when it did, with what it keeps beside them."""

    __slots__ = ()

    def places(self, variables: Iterable[Variable]) -> dict[str, Variable]:
        """These weights by their places; those that are new have the next ones."""
        own = self.own.variables
        known = {id(variable): place for place, variable in own.items()}
        chosen: dict[str, Variable] = {}
        for variable in variables:
            place = known.setdefault(id(variable), str(len(own)))
            chosen[place] = own[place] = variable
        return chosen
