"""Penalties on weights under Keras' names; `fit` adds them to the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from nnc import numerics as n
from nnc.arguments import Rate, checked
from nnc.dynamic.eager import as_operand
from nnc.keras.named import Remembered, named

Regularizer: TypeAlias = Callable[[Any], Any]


class L1L2(Remembered):
    """l1 · Σ |w| + l2 · Σ w²

    >>> from nnc import keras
    >>> keras.regularizers.L1L2(l2=0.5)([1.0, 2.0]).item()
    2.5
    """

    def __init__(self, l1: Rate | None = 0.0, l2: Rate | None = 0.0) -> None:
        self.l1, self.l2 = l1 or 0.0, l2 or 0.0

    def __call__(self, x: Any) -> Any:
        """The penalty, a scalar."""
        x = as_operand(x)
        parts = [factor * size for factor, size in ((self.l1, n.sum(n.abs(x))), (self.l2, n.sum(x * x))) if factor]
        return sum(parts[1:], start=parts[0]) if parts else n.sum(x) * 0.0


class L1(L1L2):
    """l1 · Σ |w|"""

    def __init__(self, l1: Rate = 0.01) -> None:
        super().__init__(l1=l1)


class L2(L1L2):
    """l2 · Σ w²"""

    def __init__(self, l2: Rate = 0.01) -> None:
        super().__init__(l2=l2)


@checked
def l1_l2(l1: Rate = 0.01, l2: Rate = 0.01) -> L1L2:
    """Both."""
    return L1L2(l1, l2)


l1, l2 = L1, L2
NAMES: dict[str, Callable[[], Regularizer]] = {"l1": L1, "l2": L2, "l1_l2": l1_l2}


@checked
def get(value: str | Regularizer | None) -> Regularizer | None:
    """The penalty of that name, or any function of a weight as it is."""
    return named("regularizer", value, NAMES)() if isinstance(value, str) else value
