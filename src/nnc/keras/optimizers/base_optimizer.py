"""What all optimizers of `nnc.keras` share: slots beside each weight, a rate, clipping, and decay of weights.

One update is `apply_gradients`: eagerly, or as a part of a function that is compiled, in which the rate, the count of
updates and the slots are inputs and results. Formulas are Keras', with its place of epsilon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from nnc import numerics as n
from nnc.arguments import Finite, Positive
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.tensor import Tensor
from nnc.dynamic import eager
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.state import assign_all, constant_of, current
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, ArityError
from nnc.keras.named import Remembered, refused, snake_case
from nnc.keras.optimizers.schedules import LearningRateSchedule

LearningRate: TypeAlias = Finite | LearningRateSchedule | Any


class Optimizer(Remembered):
    """How weights follow their gradients: subclasses say `slots` and `rule`."""

    slots: ClassVar[tuple[str, ...]] = ()
    # What slots begin with.
    first: float = 0.0

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        weight_decay: float | None = None,
        clipnorm: Positive | None = None,
        clipvalue: Positive | None = None,
        global_clipnorm: Positive | None = None,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: float | None = None,
        gradient_accumulation_steps: int | None = None,
        name: str | None = None,
    ) -> None:
        kind = type(self).__name__
        self.name = name or snake_case(kind)
        for option, value, fix in (
            ("use_ema", use_ema, "mean.zip_map(…) of copies, or a callback that keeps a mean of get_weights()"),
            ("loss_scale_factor", loss_scale_factor, "nnc.nn.Model(…, loss_scale=nnc.nn.LossScale())"),
            ("gradient_accumulation_steps", gradient_accumulation_steps, "nnc.nn.Model(…).fit(…, accumulate=4)"),
        ):
            if value:
                raise refused(kind, option, value, fix)
        if sum(value is not None for value in (clipnorm, clipvalue, global_clipnorm)) > 1:
            raise ArgumentError(kind, got="several ways to clip", need="one of clipnorm, clipvalue, global_clipnorm")
        self.weight_decay = weight_decay or 0.0
        self.clipnorm, self.clipvalue, self.global_clipnorm = clipnorm, clipvalue, global_clipnorm
        self._step = eager.tensor(np.float32(0.0))
        self._state: dict[int, tuple[Variable, dict[str, Variable]]] = {}
        self._rate = eager.tensor(np.float32(0.0))
        self._schedule: LearningRateSchedule | None = None
        self.learning_rate = learning_rate

    def __getstate__(self) -> dict[str, Any]:
        """Slots beside their weights: a copy knows them by its own."""
        return {**vars(self), "_state": list(self._state.values())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        rows = state.pop("_state")
        vars(self).update(state, _state={id(variable): (variable, slots) for variable, slots in rows})

    # ---- the rate

    @property
    def learning_rate(self) -> Any:
        """The rate of the next update, which may be set to a number or a schedule."""
        if self._schedule is None:
            return eager.tensor(self._rate.tensor.copied())
        return eager.tensor(np.float32(self._schedule(self._count())))

    @learning_rate.setter
    def learning_rate(self, rate: Any) -> None:
        if isinstance(rate, LearningRateSchedule):
            self._schedule = rate
            return
        number = rate() if callable(rate) else rate
        value = float(number)
        if not np.isfinite(value) or value < 0:
            raise ArgumentError(type(self).__name__, got=f"learning_rate={value}", need="a finite number ≥ 0")
        self._schedule = None
        self._rate.become(eager.tensor(np.float32(value)))

    lr = learning_rate

    def _count(self) -> int:
        return int(self._step.tensor.numpy())

    @property
    def iterations(self) -> Variable:
        """How many updates there were."""
        return eager.tensor(np.int64(self._count()))

    # ---- updates

    def rule(self, g: Any, w: Any, slots: dict[str, Any], rate: Any, step: Any) -> tuple[Any, dict[str, Any]]:
        """(what is taken from w, new slots) at update `step`, the first of which is 1."""
        raise NotImplementedError

    def build(self, variables: Sequence[Variable]) -> None:
        """Slots for these weights; those that are known keep theirs."""
        for variable in variables:
            if id(variable) not in self._state:
                slots = {name: self._slot(variable) for name in self.slots}
                self._state[id(variable)] = (variable, slots)

    def _slot(self, variable: Variable) -> Variable:
        start = np.full(variable.shape, self.first, np.float32)
        return eager.tensor(Tensor.from_numpy(start).clone().to(variable.device), share=True)

    @property
    def variables(self) -> list[Variable]:
        """The count of updates, the rate, and the slots of each weight."""
        return [self._step, self._rate, *(slot for _, slots in self._state.values() for slot in slots.values())]

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Variable]], **unused: Any) -> None:
        """One update by pairs (gradient, weight); those whose gradient is None stay."""
        pairs = [(g, w) for g, w in grads_and_vars if g is not None]
        if not pairs:
            fix = "tape.gradient(loss, model.trainable_variables), of a loss that depends on them"
            raise ArityError(
                "apply_gradients", got="no gradients", need="one at least", fix=fix, origin=caller_origin()
            )
        self.apply([g for g, _ in pairs], [w for _, w in pairs])

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Variable] | None = None) -> None:
        """One update of weights by their gradients."""
        weights = trainable_variables or [variable for variable, _ in self._state.values()]
        if len(grads) != len(weights):
            got, need = f"{len(grads)} gradients, {len(weights)} weights", "one for each"
            raise ArityError("apply", got=got, need=need, origin=caller_origin())
        self.build(weights)
        step = current(self._step) + 1.0
        rate = current(self._rate) if self._schedule is None else self._schedule(current(self._step))
        renewed: list[tuple[Variable, Any]] = [(self._step, step)]
        for g, variable in zip(self._clipped(grads), weights, strict=True):
            slots, w = self._state[id(variable)][1], constant_of(current(variable))
            change, news = self.rule(g, w, {name: current(slot) for name, slot in slots.items()}, rate, step)
            if self.weight_decay:
                change = change + w * (rate * self.weight_decay)
            renewed.append((variable, (w - change).astype(variable.dtype)))
            renewed.extend((slots[name], value) for name, value in news.items())
        assign_all([(variable, constant_of(value)) for variable, value in renewed])

    def _clipped(self, grads: Sequence[Any]) -> list[Any]:
        slopes = [constant_of(g if isinstance(g, ArrayOperand) else n.asarray(g)) for g in grads]
        if self.clipvalue is not None:
            return [n.clip(g, -self.clipvalue, self.clipvalue) for g in slopes]
        if self.clipnorm is not None:
            return [g * _shrink(n.sqrt(n.sum(g * g)), self.clipnorm) for g in slopes]
        if self.global_clipnorm is not None:
            total = n.sqrt(sum((n.sum(g * g) for g in slopes[1:]), start=n.sum(slopes[0] * slopes[0])))
            return [g * _shrink(total, self.global_clipnorm) for g in slopes]
        return slopes

    @property
    def schedule(self) -> LearningRateSchedule | None:
        """The schedule of the rate, where it has one."""
        return self._schedule

    def slots_of(self, weights: Mapping[str, Variable]) -> dict[str, Variable]:
        """The count of updates, and the slots of these weights by their paths."""
        own = {path: self._state[id(weight)][1] for path, weight in weights.items() if id(weight) in self._state}
        named = {f"{path}.{name}": slot for path, slots in own.items() for name, slot in slots.items()}
        return {"step": self._step, **named}

    def take_slots(self, weights: Mapping[str, Variable], values: Mapping[str, Tensor]) -> None:
        """Go on with the slots of `slots_of`."""
        if len(values) > 1:
            self.build([*weights.values()])
        for name, slot in self.slots_of(weights).items():
            if name in values:
                slot.become(eager.tensor(values[name]))

    def get_config(self) -> dict[str, Any]:
        """The name and the rate."""
        rate = float(self.learning_rate) if self._schedule is None else self._schedule
        return {"name": self.name, "learning_rate": rate, "weight_decay": self.weight_decay or None}


def _shrink(norm: Any, most: float) -> Any:
    """The factor that makes a norm no larger than the most."""
    return most / n.maximum(norm, most)
