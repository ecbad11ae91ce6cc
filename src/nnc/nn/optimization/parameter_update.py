"""What an optimizer does to one parameter: its command, made once, and the operands that the command reads."""

from __future__ import annotations

from typing import Any, Protocol

from nnc.classes import dataclass
from nnc.core.precautions.recent import TwoGenerations
from nnc.core.values.command import AnyCommand, Command
from nnc.core.values.spec import TensorSpec
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.optimizer.update import UpdateOperator
from nnc.symbolic.minimization import steering_dtype


class SteeringOptimizer(Protocol):
    """What is needed of an optimizer, whose options never change."""

    def command(self) -> AnyCommand:
        """The command applied to each parameter."""

    # `Any`: rows of all attribute types.
    def operator(self) -> UpdateOperator[Any]:
        """The row of the command."""

    def rate_at(self, step: ArrayOperand) -> float | ArrayOperand:
        """The rate at a step."""


@dataclass(frozen=True, slots=True, eq=False)
class ParameterUpdate:
    """What an optimizer does to a parameter: its command, and the row that says what the command reads."""

    optimizer: SteeringOptimizer
    command: AnyCommand
    # `Any`: rows of all attribute types.
    row: UpdateOperator[Any]

    def states_at(self, path: str) -> tuple[str, ...]:
        """Where the state of the parameter at `path` stands among all."""
        return tuple([state_name(path, name) for name in self.row.states])

    def scalars(
        self, parameter: ArrayOperand, step: ArrayOperand, rate: float | ArrayOperand | None
    ) -> list[ArrayOperand]:
        """The scalar inputs of the command."""
        chosen = self.optimizer.rate_at(step) if rate is None else rate
        values = {"rate": chosen, "step": step}
        return [steering_scalar(parameter, values[name]) for name in self.row.scalars]


KEPT_UPDATES = 256
# By the identity of an optimizer, which its entry holds: making a command anew takes as long as running it.
_UPDATES: TwoGenerations[int, ParameterUpdate] = TwoGenerations(lambda: KEPT_UPDATES)


def update_of(optimizer: SteeringOptimizer) -> ParameterUpdate:
    """What it does to a parameter; its options never change."""
    update = _UPDATES.get(id(optimizer))
    if update is None:
        update = _UPDATES.put(id(optimizer), ParameterUpdate(optimizer, optimizer.command(), optimizer.operator()))
    return update


def state_name(path: str, name: str) -> str:
    """The name, among all states, of one of the parameter at `path`."""
    return f"{path}.{name}" if path else name


def steering_scalar(parameter: ArrayOperand, value: float | ArrayOperand) -> ArrayOperand:
    """A scalar input of an optimizer's command beside this parameter, on its device."""
    spec = TensorSpec((), steering_dtype(parameter.dtype), device=parameter.device)
    if isinstance(value, ArrayOperand):
        return value if value.spec == spec else value.to(spec.device, spec.dtype)
    return parameter.apply(Command(FILL, FillAttrs(float(value), spec)), ())[0]
