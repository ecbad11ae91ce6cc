"""What a model gives inside eager code: one node of the record, which keeps what the gradient reads.

The model's program for these shapes is compiled once. In training its statistics are renewed as `fit` renews them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from nnc.core.precautions.forking import fork_safe_lock
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.state import current, parameter_over
from nnc.dynamic.traced import active_trace
from nnc.dynamic.transforms.compilation import CompiledFunction
from nnc.dynamic.transforms.randomness import counter_of_a_call
from nnc.dynamic.variable import Variable
from nnc.errors import UsageError
from nnc.nn.model.model_weights import ModelWeights
from nnc.nn.optimization.in_place import ParameterRule, update_in_place
from nnc.nn.state.layer_state import LayerState

# `Any`: arrays and operands of all kinds.
Evaluation = CompiledFunction[[Mapping[str, Any], Any, Any, bool], tuple[Any, dict[str, Any]]]

_EVALUATIONS: weakref.WeakKeyDictionary[ModelWeights, Evaluation] = weakref.WeakKeyDictionary()
_LEAVES: weakref.WeakKeyDictionary[ModelWeights, dict[str, Variable]] = weakref.WeakKeyDictionary()
_FOLLOWERS: weakref.WeakKeyDictionary[ModelWeights, _ModelParameters] = weakref.WeakKeyDictionary()
_LOCK = fork_safe_lock()


def eager_outputs(model: ModelWeights, x: Any, tensors: Mapping[str, Any] | None, training: bool) -> Any:  # noqa: ANN401  # arrays and operands of all kinds
    """The model's outputs for `x`, by its own tensors or others by path."""
    if tensors is None:
        model.check_whole("dynamic_evaluate")
    given: dict[str, Any] = dict(model.tensors() if tensors is None else tensors)
    if tensors is None and model in _LEAVES:
        given |= {path: current(leaf) for path, leaf in leaves_of(model).items()}
    y, renewed = _evaluation(model)(given, x, counter_of_a_call(), training)

    def renew() -> None:
        for path, value in renewed.items():
            model.statistics[path].copy_from(value.tensor)

    if renewed and all(isinstance(value, ArrayOperand) for value in renewed.values()):
        model.between_updates("dynamic_evaluate", renew)
    return y


def leaves_of(model: ModelWeights) -> dict[str, Variable]:
    """A leaf over the memory of each parameter, to which gradients of `model(x)` flow from the first time on."""
    model.check_whole("trainable_parameters")
    with _LOCK:
        leaves = _LEAVES.setdefault(model, {})
        for path, tensor in model.parameters.items():
            if path not in leaves or leaves[path].tensor is not tensor:
                leaves[path] = parameter_over(tensor)
        return {path: leaves[path] for path in model.parameters}


class _ModelParameters(LayerState):
    """The leaves of a model as an optimizer takes them, with its state."""

    __slots__ = ()


def follow(model: ModelWeights, rule: ParameterRule, gradients: Mapping[str, ArrayOperand], rate: Any) -> None:  # noqa: ANN401  # a number or an operand
    """One update of the model's parameters by gradients by path; the optimizer's state is kept for such updates."""
    if active_trace() is not None:
        fix = "model.train_on_batch(x, y), or the layer itself in the place of the model"
        raise UsageError("update", got="a model in a function that is compiled", need="a layer", fix=fix)
    holder = _FOLLOWERS.setdefault(model, _ModelParameters())
    holder.own.variables = {path: parameter_over(leaf.tensor) for path, leaf in leaves_of(model).items()}
    update_in_place(rule, holder, gradients, rate)

    def renew() -> None:
        for path, leaf in holder.own.variables.items():
            model.parameters[path].copy_from(leaf.tensor)

    model.between_updates("update", renew)


def _evaluation(model: ModelWeights) -> Evaluation:
    with _LOCK:
        evaluation = _EVALUATIONS.get(model)
        if evaluation is None:
            evaluation = _EVALUATIONS[model] = CompiledFunction(_of(weakref.ref(model)))
        return evaluation


def _of(reference: Callable[[], ModelWeights | None]) -> Callable[..., Any]:
    """What a model computes; it is alive when somebody asks."""

    def evaluate(tensors: Mapping[str, Any], x: Any, draws: Any, training: bool) -> Any:  # noqa: ANN401  # as above
        model = reference()
        assert model is not None
        renewed: dict[str, Any] = {}
        y = model.apply(x, tensors, renewed=renewed if training else None, draws=draws)
        return y, renewed

    return evaluate
