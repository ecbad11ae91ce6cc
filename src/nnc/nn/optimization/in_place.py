"""Updates of layers with parameters of their own, which get new values; the layer keeps the optimizer's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from nnc.core.precautions.origin import caller_origin
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.dynamic import eager
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.dynamic.state import assign_all, currents
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError
from nnc.nn.state.layer_state import LayerState
from nnc.symbolic.minimization import steering_dtype


class ParameterRule(Protocol):
    """What is needed of an optimizer."""

    def at(self, path: str) -> Any:  # noqa: ANN401  # an optimizer, or None
        """The optimizer of one parameter."""

    def followed(self, olds: Any, slopes: Any, state: Any, rate: Any) -> tuple[Any, Any]:  # noqa: ANN401  # operands by path
        """New parameters and state."""


def update_in_place(
    rule: ParameterRule,
    layer: LayerState,
    gradients: Mapping[str, ArrayOperand],
    rate: float | ArrayOperand | Mapping[str, ArrayOperand] | None,
) -> None:
    """Give the parameters that have gradients their new values.

    State goes on as long as a parameter's command is of the same kind, as where the rate alone is another.
    """
    trained = layer.trainable_parameters()
    unknown = sorted(gradients.keys() - trained.keys())
    if unknown:
        need = f"gradients of trained parameters: {', '.join(trained)}"
        raise ArgumentError("update", got=f"one of {unknown[0]!r}", need=need, origin=caller_origin())
    follow_gradients(rule, layer, {path: trained[path] for path in trained if path in gradients}, gradients, rate)


def follow_gradients(
    rule: ParameterRule,
    layer: LayerState,
    variables: Mapping[str, Variable],
    gradients: Mapping[str, Any],
    rate: float | ArrayOperand | Mapping[str, ArrayOperand] | None,
) -> None:
    """Give these parameters of a layer, all of which have gradients, their new values."""
    if not variables:
        return
    begin_state(rule, layer, variables)
    kept = layer.own.optimizer_state
    slopes = {path: as_operand(gradients[path]) for path in variables}
    news, following = rule.followed(currents(variables), slopes, currents(kept), rate)
    assign_all([(variables[path], new) for path, new in news.items()])
    assign_all([(kept[name], value) for name, value in following.items()])


def begin_state(rule: ParameterRule, layer: LayerState, variables: Mapping[str, Variable]) -> None:
    """Zeros for each parameter whose command is of another kind than before, and the count of updates."""
    own = layer.own
    for path, variable in variables.items():
        if "step" not in own.optimizer_state:
            own.optimizer_state["step"] = _constant(TensorSpec((), steering_dtype(variable.dtype)))
        part = rule.at(path)
        kind = None if part is None else part.operator()
        if path not in own.optimizer_kinds or own.optimizer_kinds[path] is not kind:
            own.optimizer_kinds[path] = kind
            specs = {} if part is None else part.state_specs(variable.spec)
            own.optimizer_state.update((f"{path}.{name}", _constant(spec)) for name, spec in specs.items())


def _constant(spec: TensorSpec) -> Variable:
    return eager.tensor(Tensor.zeros(spec), share=True)
