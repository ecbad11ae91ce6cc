"""What weights are held to behind each update, under Keras' names: `Dense(4, kernel_constraint="non_neg")`.

`fit` and `train_on_batch` hold weights to it, whatever `train_step` they run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from nnc import numerics as n
from nnc.arguments import Positive, Rate, Share, checked
from nnc.dynamic.eager import as_operand
from nnc.keras.named import Remembered, named, snake_case

Axis: TypeAlias = int | list[int] | tuple[int, ...]
EPSILON = 1e-7


class Constraint(Remembered):
    """A function of a weight that gives what it becomes."""

    def __call__(self, w: Any) -> Any:
        """The weight as it may be."""
        return w


def _norms(w: Any, axis: Axis) -> Any:
    axes = axis if isinstance(axis, int) else tuple(axis)
    return n.sqrt(n.sum(w * w, axis=axes, keepdims=True))


class MaxNorm(Constraint):
    """w · min(|w|, max_value) / |w| along the axis

    >>> from nnc import keras
    >>> keras.constraints.MaxNorm(1.0)([[3.0], [4.0]]).tolist()
    [[0.6000000238418579], [0.800000011920929]]
    """

    def __init__(self, max_value: Rate = 2, axis: Axis = 0) -> None:
        self.max_value, self.axis = max_value, axis

    def __call__(self, w: Any) -> Any:
        w = as_operand(w)
        norms = _norms(w, self.axis)
        return w * (n.clip(norms, 0, self.max_value) / (norms + EPSILON))


class MinMaxNorm(Constraint):
    """w · (rate · clip(|w|, min_value, max_value) + (1 - rate) · |w|) / |w| along the axis"""

    def __init__(self, min_value: Rate = 0.0, max_value: Positive = 1.0, rate: Share = 1.0, axis: Axis = 0) -> None:
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w: Any) -> Any:
        w = as_operand(w)
        norms = _norms(w, self.axis)
        wanted = self.rate * n.clip(norms, self.min_value, self.max_value) + (1 - self.rate) * norms
        return w * (wanted / (norms + EPSILON))


class NonNeg(Constraint):
    """max(w, 0)"""

    def __call__(self, w: Any) -> Any:
        return n.maximum(as_operand(w), 0.0)


class UnitNorm(Constraint):
    """w / |w| along the axis"""

    def __init__(self, axis: Axis = 0) -> None:
        self.axis = axis

    def __call__(self, w: Any) -> Any:
        w = as_operand(w)
        return w / (_norms(w, self.axis) + EPSILON)


max_norm, min_max_norm, non_neg, unit_norm = MaxNorm, MinMaxNorm, NonNeg, UnitNorm
KINDS: tuple[type[Constraint], ...] = (MaxNorm, MinMaxNorm, NonNeg, UnitNorm)
NAMES: dict[str, Callable[[], Constraint]] = {
    name: kind for kind in KINDS for name in (snake_case(kind.__name__), kind.__name__)
}


@checked
def get(value: str | Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """The constraint of that name, or any function of a weight as it is."""
    return named("constraint", value, NAMES)() if isinstance(value, str) else value
