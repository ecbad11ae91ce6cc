"""Updates of layers with parameters of their own, which get new values; the layer keeps the optimizer's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from nnc.core.precautions.origin import caller_origin
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.dynamic import eager
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.state import assign, current
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError
from nnc.nn.state.layer_state import LayerState
from nnc.symbolic.minimization import steering_dtype


class ParameterRule(Protocol):
    """What is needed of an optimizer."""

    def at(self, path: str) -> Any:  # noqa: ANN401  # an optimizer, or None
        """The optimizer of one parameter."""

    def update(self, parameters: Any, gradients: Any, state: Any, *, rate: Any) -> tuple[Any, Any]:  # noqa: ANN401  # trees of operands
        """New parameters and state."""


def update_in_place(
    rule: ParameterRule, layer: LayerState, gradients: Mapping[str, ArrayOperand], rate: float | ArrayOperand | None
) -> None:
    """Give the parameters that have gradients their new values.

    State goes on as long as a parameter's command is of the same kind, as where the rate alone is another.
    """
    trained = layer.trainable_parameters()
    unknown = sorted(gradients.keys() - trained.keys())
    if unknown:
        need = f"gradients of trained parameters: {', '.join(trained)}"
        raise ArgumentError("update", got=f"one of {unknown[0]!r}", need=need, origin=caller_origin())
    variables = {path: variable for path, variable in trained.items() if path in gradients}
    if not variables:
        return
    _begin_state(rule, layer, variables)
    kept = layer.own.optimizer_state
    olds = {path: current(variable) for path, variable in variables.items()}
    slopes = {path: gradients[path] for path in variables}
    news, following = rule.update(olds, slopes, {name: current(value) for name, value in kept.items()}, rate=rate)
    for path, new in news.items():
        assign(variables[path], new)
    for name, value in following.items():
        assign(kept[name], value)


def _begin_state(rule: ParameterRule, layer: LayerState, variables: Mapping[str, Variable]) -> None:
    """Zeros for each parameter whose command is of another kind than before, and the count of updates."""
    own = layer.own
    for path, variable in variables.items():
        if "step" not in own.optimizer_state:
            own.optimizer_state["step"] = _constant(TensorSpec((), steering_dtype(variable.dtype)))
        part = rule.at(path)
        kind = None if part is None else part.command().op
        if path not in own.optimizer_kinds or own.optimizer_kinds[path] is not kind:
            own.optimizer_kinds[path] = kind
            specs = {} if part is None else part.state_specs(variable.spec)
            own.optimizer_state.update((f"{path}.{name}", _constant(spec)) for name, spec in specs.items())


def _constant(spec: TensorSpec) -> Variable:
    return eager.tensor(Tensor.zeros(spec), share=True)
