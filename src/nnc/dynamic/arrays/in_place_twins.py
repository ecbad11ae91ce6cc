"""PyTorch's methods that end in `_` and do what the method without it does: the value holds the result from then on.

    scores.masked_fill_(mask, -1e9)         total.index_add_(0, rows, x)        weight.uniform_(-0.1, 0.1)

What holds what, and what is refused, is said in `nnc.dynamic.arrays.in_place_methods`.
"""

from __future__ import annotations

from typing import Any, Self

from nnc.arguments import explained
from nnc.core.running.namespace import array_functions
from nnc.dynamic.arrays.in_place_methods import InPlaceMethods


@explained
class InPlaceTwins(InPlaceMethods):
    """The methods, and those that draw numbers."""

    __slots__ = ()

    def uniform_(self, a: float = 0.0, b: float = 1.0) -> Self:
        """Numbers between a and b from now on.

        >>> nnc.zeros(3).uniform_(2.0, 2.0).tolist()
        [2.0, 2.0, 2.0]
        """
        this: Any = self
        drawn = array_functions().random.uniform(shape=this.shape) * (b - a) + a
        return self._settled("uniform_", drawn.astype(this.dtype))

    def normal_(self, mean: float = 0.0, std: float = 1.0) -> Self:
        """Numbers of a normal distribution from now on."""
        this: Any = self
        return self._settled("normal_", (array_functions().randn(*this.shape) * std + mean).astype(this.dtype))

    def bernoulli_(self, p: float = 0.5) -> Self:
        """1 with probability p, else 0, from now on."""
        this: Any = self
        return self._settled("bernoulli_", (array_functions().rand(*this.shape) < p).astype(this.dtype))

    def exponential_(self, lambd: float = 1.0) -> Self:
        """Numbers of an exponential distribution from now on."""
        this: Any = self
        drawn = -(-array_functions().rand(*this.shape)).log1p() / lambd
        return self._settled("exponential_", drawn.astype(this.dtype))

    def relu_(self) -> Self:
        """x.relu() from now on."""
        this: Any = self
        return self._settled("relu_", this.relu())

    def sigmoid_(self) -> Self:
        """x.sigmoid() from now on."""
        this: Any = self
        return self._settled("sigmoid_", this.sigmoid())

    def tanh_(self) -> Self:
        """x.tanh() from now on."""
        this: Any = self
        return self._settled("tanh_", this.tanh())

    def exp_(self) -> Self:
        """x.exp() from now on."""
        this: Any = self
        return self._settled("exp_", this.exp())

    def sqrt_(self) -> Self:
        """x.sqrt() from now on."""
        this: Any = self
        return self._settled("sqrt_", this.sqrt())

    def abs_(self) -> Self:
        """x.abs() from now on."""
        this: Any = self
        return self._settled("abs_", this.abs())

    def neg_(self) -> Self:
        """x.neg() from now on."""
        this: Any = self
        return self._settled("neg_", this.neg())

    def floor_(self) -> Self:
        """x.floor() from now on."""
        this: Any = self
        return self._settled("floor_", this.floor())

    def ceil_(self) -> Self:
        """x.ceil() from now on."""
        this: Any = self
        return self._settled("ceil_", this.ceil())

    def round_(self) -> Self:
        """x.round() from now on."""
        this: Any = self
        return self._settled("round_", this.round())

    def reciprocal_(self) -> Self:
        """x.reciprocal() from now on."""
        this: Any = self
        return self._settled("reciprocal_", this.reciprocal())

    def log_(self) -> Self:
        """x.log() from now on."""
        this: Any = self
        return self._settled("log_", this.log())

    def pow_(self, exponent: Any) -> Self:  # noqa: ANN401  # whatever arrays are computed with
        """x.pow(exponent) from now on."""
        this: Any = self
        return self._settled("pow_", this.pow(exponent))

    def masked_fill_(self, mask: Any, value: float) -> Self:  # noqa: ANN401  # whatever arrays are computed with
        """x.masked_fill(mask, value) from now on."""
        this: Any = self
        return self._settled("masked_fill_", this.masked_fill(mask, value))

    def scatter_(self, dim: int, index: Any, src: Any, *, reduce: str | None = None) -> Self:  # noqa: ANN401  # whatever arrays are computed with
        """x.scatter(dim, index, src, reduce) from now on."""
        this: Any = self
        return self._settled("scatter_", this.scatter(dim, index, src, reduce=reduce))

    def scatter_add_(self, dim: int, index: Any, src: Any) -> Self:  # noqa: ANN401  # whatever arrays are computed with
        """x.scatter_add(dim, index, src) from now on."""
        this: Any = self
        return self._settled("scatter_add_", this.scatter_add(dim, index, src))

    def scatter_reduce_(self, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Self:  # noqa: ANN401  # whatever arrays are computed with
        """x.scatter_reduce(dim, index, src, reduce, include_self) from now on."""
        this: Any = self
        return self._settled("scatter_reduce_", this.scatter_reduce(dim, index, src, reduce, include_self=include_self))

    def index_add_(self, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Self:  # noqa: ANN401  # whatever arrays are computed with
        """x.index_add(dim, index, source, alpha) from now on."""
        this: Any = self
        return self._settled("index_add_", this.index_add(dim, index, source, alpha=alpha))

    def index_copy_(self, dim: int, index: Any, source: Any) -> Self:  # noqa: ANN401  # whatever arrays are computed with
        """x.index_copy(dim, index, source) from now on."""
        this: Any = self
        return self._settled("index_copy_", this.index_copy(dim, index, source))

    def index_fill_(self, dim: int, index: Any, value: float) -> Self:  # noqa: ANN401  # whatever arrays are computed with
        """x.index_fill(dim, index, value) from now on."""
        this: Any = self
        return self._settled("index_fill_", this.index_fill(dim, index, value))

    def masked_scatter_(self, mask: Any, source: Any) -> Self:  # noqa: ANN401  # whatever arrays are computed with
        """x.masked_scatter(mask, source) from now on."""
        this: Any = self
        return self._settled("masked_scatter_", this.masked_scatter(mask, source))

    def clamp_min_(self, min: Any) -> Self:  # noqa: ANN401  # whatever arrays are computed with
        """x.clamp_min(min) from now on."""
        this: Any = self
        return self._settled("clamp_min_", this.clamp_min(min))

    def addcmul_(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Self:  # noqa: ANN401  # whatever arrays are computed with
        """x.addcmul(tensor1, tensor2, value) from now on."""
        this: Any = self
        return self._settled("addcmul_", this.addcmul(tensor1, tensor2, value=value))

    def addcdiv_(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Self:  # noqa: ANN401  # whatever arrays are computed with
        """x.addcdiv(tensor1, tensor2, value) from now on."""
        this: Any = self
        return self._settled("addcdiv_", this.addcdiv(tensor1, tensor2, value=value))
