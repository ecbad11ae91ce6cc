"""Dense (fully connected) layer: y[…, units] = x[…, features] @ weight[features, units] + bias[units]."""

from __future__ import annotations

from typing import ClassVar

from nnc.arguments import Count, checked
from nnc.classes import dataclass
from nnc.errors import ShapeError
from nnc.nn.layers.activation import ActivationName, activated, no_activation
from nnc.nn.layers.initializers import he_uniform, zeros
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.ops import gemm

__all__ = ["Dense"]


@checked
@dataclass(frozen=True, slots=True)
class Dense(Layer):
    """Fully connected layer of `units` outputs, and an activation of them where one is named.

    >>> nn.Dense(4)(nnc.ones((2, 3))).shape
    (2, 4)
    """

    replays: ClassVar[bool] = True
    units: Count
    bias: bool = True
    activation: ActivationName | None = no_activation()

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to the last axis of `x`."""
        if x.spec.rank < 2:
            raise ShapeError("Dense", got=str(x.spec), need="at least two dimensions [batch, features]")
        weight = scope.parameter("weight", (x.shape[-1], self.units), x, he_uniform)
        bias = scope.parameter("bias", (self.units,), x, zeros) if self.bias else None
        return activated(scope.adapt(scope, x, gemm(x, weight, bias)), self.activation)
