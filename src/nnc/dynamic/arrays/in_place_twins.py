"""PyTorch's methods that end in `_` and do what the method without it does: the value holds the result from then on.

    scores.masked_fill_(mask, -1e9)         total.index_add_(0, rows, x)        weight.uniform_(-0.1, 0.1)

What holds what, and what is refused, is said in `nnc.dynamic.arrays.in_place_methods`.
"""

# A row has no body.
# mypy: disable-error-code="empty-body"
from __future__ import annotations

import math
from typing import Any, Self

from nnc.arguments import explained_as
from nnc.core.precautions.origin import caller_origin
from nnc.core.running.namespace import array_functions
from nnc.dynamic.arrays.in_place_methods import InPlaceMethods
from nnc.dynamic.arrays.method_rows import Value, twins
from nnc.errors import AttributeValueError


@explained_as("")
@twins
class InPlaceTwins(InPlaceMethods):
    """The methods, and those that draw numbers."""

    __slots__ = ()

    def relu_(self) -> Self: ...
    def sigmoid_(self) -> Self: ...
    def tanh_(self) -> Self: ...
    def exp_(self) -> Self: ...
    def sqrt_(self) -> Self: ...
    def abs_(self) -> Self: ...
    def neg_(self) -> Self: ...
    def floor_(self) -> Self: ...
    def ceil_(self) -> Self: ...
    def round_(self) -> Self: ...
    def reciprocal_(self) -> Self: ...
    def log_(self) -> Self: ...
    def pow_(self, exponent: Value) -> Self: ...
    def masked_fill_(self, mask: Value, value: float) -> Self: ...
    def scatter_(self, dim: int, index: Value, src: Value, *, reduce: str | None = None) -> Self: ...
    def scatter_add_(self, dim: int, index: Value, src: Value) -> Self: ...
    def scatter_reduce_(
        self, dim: int, index: Value, src: Value, reduce: str, *, include_self: bool = True
    ) -> Self: ...
    def index_add_(self, dim: int, index: Value, source: Value, *, alpha: float = 1) -> Self: ...
    def index_copy_(self, dim: int, index: Value, source: Value) -> Self: ...
    def index_fill_(self, dim: int, index: Value, value: float) -> Self: ...
    def masked_scatter_(self, mask: Value, source: Value) -> Self: ...
    def clamp_min_(self, min: Value) -> Self: ...
    def addcmul_(self, tensor1: Value, tensor2: Value, *, value: float = 1) -> Self: ...
    def addcdiv_(self, tensor1: Value, tensor2: Value, *, value: float = 1) -> Self: ...

    def fill_diagonal_(self, fill_value: Value) -> Self:
        """The value on the diagonal of a matrix from now on.

        >>> nnc.zeros((2, 2)).fill_diagonal_(3.0).tolist()
        [[3.0, 0.0], [0.0, 3.0]]
        """
        array_functions().fill_diagonal(self, fill_value)
        return self

    def uniform_(self, a: float = 0.0, b: float = 1.0, *, generator: Value = None) -> Self:
        """Numbers between a and b from now on.

        >>> nnc.zeros(3).uniform_(2.0, 2.0).tolist()
        [2.0, 2.0, 2.0]
        """
        this: Any = self
        # NumPy would compare in the narrower type of its own numbers.
        a, b = float(a), float(b)
        if not 0.0 <= b - a < math.inf:
            need = "a ≤ b, a finite number apart"
            raise AttributeValueError("uniform_", got=f"from {a} to {b}", need=need, origin=caller_origin())
        drawn = array_functions().rand(*this.shape, device=this.device, generator=generator) * (b - a) + a
        return self._settled("uniform_", drawn.astype(this.dtype))

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Value = None) -> Self:
        """Numbers of a normal distribution from now on."""
        this: Any = self
        drawn = array_functions().randn(*this.shape, device=this.device, generator=generator)
        return self._settled("normal_", (drawn * std + mean).astype(this.dtype))

    def bernoulli_(self, p: float = 0.5, *, generator: Value = None) -> Self:
        """1 with probability p, else 0, from now on."""
        this: Any = self
        drawn = array_functions().rand(*this.shape, device=this.device, generator=generator)
        return self._settled("bernoulli_", (drawn < p).astype(this.dtype))

    def exponential_(self, lambd: float = 1.0, *, generator: Value = None) -> Self:
        """Numbers of an exponential distribution from now on."""
        this: Any = self
        drawn = -(-array_functions().rand(*this.shape, device=this.device, generator=generator)).log1p() / lambd
        return self._settled("exponential_", drawn.astype(this.dtype))
