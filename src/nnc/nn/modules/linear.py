"""Linear: y[…, out] = x[…, in] @ weight[in, out] + bias[out], a dense layer whose input size is said when it is made.

It is PyTorch's and MLX's layer of that name: its tensors are there from the start, uniform in ±1/√in. `nn.Dense` finds
its input size at the first call, and begins as He et al. have it.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Count, checked
from nnc.dynamic.transforms.randomness import next_counter
from nnc.errors import ArityError, OutOfMemoryError, ShapeError
from nnc.nn.layers.initializers import he_uniform, uniform, zeros
from nnc.nn.layers.layer import Scope, T
from nnc.nn.modules.module import Module, Parameter
from nnc.nn.state.generators import generator_for
from nnc.ops import gemm, reshape

__all__ = ["Linear"]


def empty_parameter(subject: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Room for the elements of a parameter; NumPy has two errors for the lack of it."""
    try:
        return np.empty(shape, np.float32)
    except (ValueError, MemoryError):
        got, need = f"{4 * math.prod(shape)} bytes for {list(shape)}", "memory that this machine has"
        raise OutOfMemoryError(subject, got=got, need=need) from None


@checked
class Linear(Module):
    """Fully connected layer from `in_features` to `out_features` with `weight` and `bias` from the start.

    >>> nn.Linear(3, 4)(nnc.ones((2, 3))).shape
    (2, 4)
    """

    branches_in_training: ClassVar[bool] = False

    def __init__(self, in_features: Count, out_features: Count, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features, self.has_bias = in_features, out_features, bias
        seed, draw = int(next_counter()), uniform(-1 / math.sqrt(in_features), 1 / math.sqrt(in_features))
        shapes = {"weight": (in_features, out_features), "bias": (out_features,)}
        for name, shape in shapes.items():
            values = empty_parameter("Linear", shape)
            draw(generator_for(seed, name), values)
            setattr(self, name, Parameter(values) if bias or name == "weight" else None)
        self.own.called = True

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to the last axis of the input."""
        if len(inputs) != 1:
            raise ArityError("Linear", got=f"{len(inputs)} inputs", need="one input")
        (x,) = inputs
        if x.spec.rank and x.shape[-1] != self.in_features:
            need, fix = f"{self.in_features} on the last axis", f"nn.Linear({x.shape[-1]}, {self.out_features})"
            raise ShapeError("Linear", got=str(x.spec), need=need, fix=fix)
        if x.spec.rank == 1:
            return (reshape(self._applied(scope, reshape(x, (1, self.in_features))), (self.out_features,)),)
        return (self._applied(scope, x),)

    def _applied(self, scope: Scope[T], x: T) -> T:
        """As the dense layer, by whose name files know whose parameters these are; a layer made here takes 15 µs."""
        own = scope.owned("Dense")
        weight = own.parameter("weight", (self.in_features, self.out_features), x, he_uniform)
        bias = own.parameter("bias", (self.out_features,), x, zeros) if self.has_bias else None
        return own.adapt(own, x, gemm(x, weight, bias))

    def __repr__(self) -> str:
        return f"Linear(in_features={self.in_features}, out_features={self.out_features}, bias={self.has_bias})"
