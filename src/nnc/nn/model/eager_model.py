"""What a model gives inside eager code: one node of the record, which keeps what the gradient reads.

The model's program for these shapes is compiled once. In training its statistics are renewed as `fit` renews them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from nnc.core.precautions.forking import fork_safe_lock
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.transforms.compilation import CompiledFunction
from nnc.dynamic.transforms.randomness import counter_of_a_call
from nnc.nn.model.model_weights import ModelWeights

# `Any`: arrays and operands of all kinds.
Evaluation = CompiledFunction[[Mapping[str, Any], Any, Any, bool], tuple[Any, dict[str, Any]]]

_EVALUATIONS: weakref.WeakKeyDictionary[ModelWeights, Evaluation] = weakref.WeakKeyDictionary()
_LOCK = fork_safe_lock()


def eager_outputs(model: ModelWeights, x: Any, tensors: Mapping[str, Any] | None, training: bool) -> Any:  # noqa: ANN401  # arrays and operands of all kinds
    """The model's outputs for `x`, by its own tensors or others by path."""
    given = dict(model.tensors() if tensors is None else tensors)
    y, renewed = _evaluation(model)(given, x, counter_of_a_call(), training)

    def renew() -> None:
        for path, value in renewed.items():
            model.statistics[path].copy_from(value.numpy())

    if renewed and all(isinstance(value, ArrayOperand) for value in renewed.values()):
        model.between_updates("dynamic_evaluate", renew)
    return y


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
