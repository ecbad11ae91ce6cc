"""Gradient-based optimization: the backward execs, then one optimizer command per parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnc.core.command import AnyCommand
from nnc.core.dtype import F32, F64, DType
from nnc.core.spec import TensorSpec
from nnc.errors import AttributeValueError
from nnc.ops.optimizer import SCALAR_NAMES, STATE_NAMES
from nnc.symbolic.gradient import backward
from nnc.symbolic.ir import Symbol, SymbolicGraph


@dataclass(frozen=True, slots=True)
class Update:
    """One parameter's step: its value and state before and after, and its gradient."""

    parameter: Symbol
    updated: Symbol
    gradient: Symbol
    states: tuple[Symbol, ...]
    updated_states: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class Minimized:
    """All updates, and the scalar inputs that steer them, by name (`rate`, `step`)."""

    updates: tuple[Update, ...]
    scalars: Mapping[str, Symbol]

    def carries(self) -> dict[Symbol, Symbol]:
        """New value → old value, for parameters and states: who takes whose memory."""
        pairs: dict[Symbol, Symbol] = {}
        for update in self.updates:
            pairs[update.updated] = update.parameter
            pairs.update(zip(update.updated_states, update.states, strict=True))
        return pairs


def minimize(
    graph: SymbolicGraph,
    optimizer: AnyCommand,
    losses: Sequence[Symbol],
    parameters: Sequence[Symbol],
) -> Minimized:
    """Append the gradients of `losses` by `parameters` and one `optimizer` exec per parameter.

    AttributeValueError for a command that is no optimizer.
    """
    op = optimizer.op
    if op not in STATE_NAMES:
        raise AttributeValueError(
            op.name, got="no optimizer", need="one of " + ", ".join(one.name for one in STATE_NAMES)
        )
    gradients = backward(graph, losses, parameters)
    dtype = steering_dtype(*(parameter.spec.dtype for parameter in parameters))
    scalars = {name: graph.input(TensorSpec((), dtype), name) for name in SCALAR_NAMES[op]}
    updates = []
    for parameter, gradient in zip(parameters, gradients, strict=True):
        spec = parameter.spec
        states = tuple(graph.input(spec, f"{parameter.name}.{name}") for name in STATE_NAMES[op])
        updated, *updated_states = graph.apply(optimizer, (gradient, parameter, *states, *scalars.values()))
        updates.append(Update(parameter, updated, gradient, states, tuple(updated_states)))
    return Minimized(tuple(updates), scalars)


def steering_dtype(*parameters: DType) -> DType:
    """Element type of an optimizer's scalars: f64 beside f64 parameters, else f32: steps count high."""
    return F64 if F64 in parameters else F32
