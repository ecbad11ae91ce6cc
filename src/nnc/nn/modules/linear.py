"""Linear: y[…, out] = x[…, in] · weight[out, in]ᵀ + bias[out], a dense layer whose input size is said when it is made.

It is PyTorch's and MLX's layer of that name: its tensors are there from the start, uniform in ±1/√in, and lie as there;
the product reads the weight as it lies. `nn.Dense` finds its input size at the first call, has weight[in, out], and
begins as He et al. have it.
"""

from __future__ import annotations

from typing import ClassVar

from nnc.arguments import Count, checked
from nnc.errors import ShapeError
from nnc.nn.layers.initializers import zeros
from nnc.nn.layers.layer import Scope, T
from nnc.nn.modules.module import Module
from nnc.nn.modules.starting_values import only_input, start_uniform
from nnc.ops import gemm, reshape

__all__ = ["Linear"]


@checked
class Linear(Module):
    """Fully connected layer from `in_features` to `out_features` with `weight` and `bias` from the start.

    >>> nn.Linear(3, 4)(nnc.ones((2, 3))).shape
    (2, 4)
    """

    branches_in_training: ClassVar[bool] = False
    replays: ClassVar[bool] = True

    def __init__(self, in_features: Count, out_features: Count, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features, self.has_bias = in_features, out_features, bias
        start_uniform(self, (out_features, in_features), in_features, out_features, bias=bias)

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to the last axis of the input."""
        x = only_input(self, inputs)
        if x.spec.rank and x.shape[-1] != self.in_features:
            need, fix = f"{self.in_features} on the last axis", f"nn.Linear({x.shape[-1]}, {self.out_features})"
            raise ShapeError("Linear", got=str(x.spec), need=need, fix=fix)
        if x.spec.rank == 1:
            return (reshape(self._applied(scope, reshape(x, (1, self.in_features))), (self.out_features,)),)
        return (self._applied(scope, x),)

    def _applied(self, scope: Scope[T], x: T) -> T:
        """By the name of this class, whichever class inherits it: adapters go by how weights lie."""
        own = scope.owned("Linear")
        weight = own.parameter("weight", (self.out_features, self.in_features), x, zeros)
        bias = own.parameter("bias", (self.out_features,), x, zeros) if self.has_bias else None
        return own.adapt(own, x, gemm(x, weight, bias, transpose_b=True))

    def __repr__(self) -> str:
        return f"Linear(in_features={self.in_features}, out_features={self.out_features}, bias={self.has_bias})"
