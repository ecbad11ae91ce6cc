"""Methods of PyTorch that are functions of ours: each is `nnc.NAME(x, …)`, in PyTorch's words.

    scores.logsumexp(dim=-1)        x.amax((2, 3))

The functions are of the layer above arrays, which hands them down: `nnc.core.running.namespace.array_functions`.
"""

from __future__ import annotations

from typing import Any, Self

from nnc.arguments import explained
from nnc.core.running.namespace import array_functions
from nnc.dynamic.arrays.located import located

Axes = int | tuple[int, ...] | None


@explained
class FunctionMethods:
    """The methods; what is looked at in them is eager alone."""

    __slots__ = ()

    def _by_function(self, name: str, *arguments: Any, **options: Any) -> Self:  # noqa: ANN401  # what the function takes
        """The function of that name of the layer above, of x and these."""
        result: Self = getattr(array_functions(), name)(self, *arguments, **options)
        return result

    @located
    def erf(self) -> Self:
        """nnc.erf(x)"""
        return self._by_function("erf")

    @located
    def erfc(self) -> Self:
        """nnc.erfc(x)"""
        return self._by_function("erfc")

    @located
    def erfinv(self) -> Self:
        """nnc.erfinv(x)"""
        return self._by_function("erfinv")

    @located
    def exp2(self) -> Self:
        """nnc.exp2(x)"""
        return self._by_function("exp2")

    @located
    def expm1(self) -> Self:
        """nnc.expm1(x)"""
        return self._by_function("expm1")

    @located
    def floor(self) -> Self:
        """nnc.floor(x)"""
        return self._by_function("floor")

    @located
    def ceil(self) -> Self:
        """nnc.ceil(x)"""
        return self._by_function("ceil")

    @located
    def trunc(self) -> Self:
        """nnc.trunc(x)"""
        return self._by_function("trunc")

    @located
    def sign(self) -> Self:
        """nnc.sign(x)"""
        return self._by_function("sign")

    @located
    def isnan(self) -> Self:
        """nnc.isnan(x)"""
        return self._by_function("isnan")

    @located
    def isinf(self) -> Self:
        """nnc.isinf(x)"""
        return self._by_function("isinf")

    @located
    def isfinite(self) -> Self:
        """nnc.isfinite(x)"""
        return self._by_function("isfinite")

    @located
    def relu(self) -> Self:
        """nnc.relu(x)"""
        return self._by_function("relu")

    @located
    def sinh(self) -> Self:
        """nnc.sinh(x)"""
        return self._by_function("sinh")

    @located
    def cosh(self) -> Self:
        """nnc.cosh(x)"""
        return self._by_function("cosh")

    @located
    def asin(self) -> Self:
        """nnc.asin(x)"""
        return self._by_function("asin")

    @located
    def acos(self) -> Self:
        """nnc.acos(x)"""
        return self._by_function("acos")

    @located
    def atan(self) -> Self:
        """nnc.atan(x)"""
        return self._by_function("atan")

    @located
    def logit(self) -> Self:
        """nnc.logit(x)"""
        return self._by_function("logit")

    @located
    def absolute(self) -> Self:
        """abs(x)"""
        return self._by_function("abs")

    @located
    def neg(self) -> Self:
        """-x"""
        return self._by_function("negative")

    @located
    def negative(self) -> Self:
        """-x"""
        return self._by_function("negative")

    @located
    def logical_not(self) -> Self:
        """nnc.logical_not(x)"""
        return self._by_function("logical_not")

    @located
    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """nnc.nan_to_num(x, nan, posinf, neginf)"""
        return self._by_function("nan_to_num", nan, posinf, neginf)

    @located
    def fmod(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.fmod(x, other)"""
        return self._by_function("fmod", other)

    @located
    def remainder(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.remainder(x, other)"""
        return self._by_function("remainder", other)

    @located
    def maximum(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.maximum(x, other)"""
        return self._by_function("maximum", other)

    @located
    def minimum(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.minimum(x, other)"""
        return self._by_function("minimum", other)

    @located
    def logical_and(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.logical_and(x, other)"""
        return self._by_function("logical_and", other)

    @located
    def logical_or(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.logical_or(x, other)"""
        return self._by_function("logical_or", other)

    @located
    def logical_xor(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.logical_xor(x, other)"""
        return self._by_function("logical_xor", other)

    @located
    def multiply(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.multiply(x, other)"""
        return self._by_function("multiply", other)

    @located
    def subtract(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.subtract(x, other)"""
        return self._by_function("subtract", other)

    @located
    def divide(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.divide(x, other)"""
        return self._by_function("divide", other)

    @located
    def true_divide(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.true_divide(x, other)"""
        return self._by_function("true_divide", other)

    @located
    def floor_divide(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.floor_divide(x, other)"""
        return self._by_function("floor_divide", other)

    @located
    def atan2(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.atan2(x, other)"""
        return self._by_function("atan2", other)

    @located
    def outer(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.outer(x, other)"""
        return self._by_function("outer", other)

    @located
    def inner(self, other: Any) -> Self:  # noqa: ANN401  # as above
        """nnc.inner(x, other)"""
        return self._by_function("inner", other)

    @located
    def lerp(self, end: Any, weight: Any) -> Self:  # noqa: ANN401  # as above
        """x + weight · (end - x)"""
        return self._by_function("lerp", end, weight)

    @located
    def addcmul(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Self:  # noqa: ANN401  # as above
        """x + value · tensor1 · tensor2"""
        return self._by_function("addcmul", tensor1, tensor2, value=value)

    @located
    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Self:  # noqa: ANN401  # as above
        """x + value · tensor1 / tensor2"""
        return self._by_function("addcdiv", tensor1, tensor2, value=value)

    @located
    def addmm(self, mat1: Any, mat2: Any) -> Self:  # noqa: ANN401  # as above
        """x + mat1 @ mat2"""
        return self._by_function("addmm", mat1, mat2)

    @located
    def clamp_min(self, min: Any) -> Self:  # noqa: ANN401  # as above
        """x.clip(min)"""
        return self._by_function("clip", min)

    @located
    def isclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Self:  # noqa: ANN401  # as above
        """nnc.isclose(x, other)"""
        return self._by_function("isclose", other, rtol, atol, equal_nan)

    @located
    def allclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Self:  # noqa: ANN401  # as above
        """nnc.allclose(x, other)"""
        return self._by_function("allclose", other, rtol, atol, equal_nan)

    @located
    def amax(self, dim: Axes = None, keepdim: bool = False) -> Self:
        """nnc.amax(x, dim)"""
        return self._by_function("amax", dim, keepdim)

    @located
    def amin(self, dim: Axes = None, keepdim: bool = False) -> Self:
        """nnc.amin(x, dim)"""
        return self._by_function("amin", dim, keepdim)

    @located
    def logsumexp(self, dim: Axes = None, keepdim: bool = False) -> Self:
        """nnc.logsumexp(x, dim)"""
        return self._by_function("logsumexp", dim, keepdim)

    @located
    def nansum(self, dim: Axes = None, keepdim: bool = False) -> Self:
        """nnc.nansum(x, dim)"""
        return self._by_function("nansum", dim, keepdim)

    @located
    def nanmean(self, dim: Axes = None, keepdim: bool = False) -> Self:
        """nnc.nanmean(x, dim)"""
        return self._by_function("nanmean", dim, keepdim)

    @located
    def count_nonzero(self, dim: Axes = None, keepdim: bool = False) -> Self:
        """nnc.count_nonzero(x, dim)"""
        return self._by_function("count_nonzero", dim, keepdim)

    @located
    def quantile(self, q: Any, dim: int | None = None, keepdim: bool = False) -> Self:  # noqa: ANN401  # as above
        """nnc.quantile(x, q, dim)"""
        return self._by_function("quantile", q, dim, keepdims=keepdim)

    @located
    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> Any:  # noqa: ANN401  # as above
        """nnc.aminmax(x), the smallest and the largest"""
        return self._by_function("aminmax", dim=dim, keepdim=keepdim)

    @located
    def kthvalue(self, k: int, dim: int = -1, keepdim: bool = False) -> Any:  # noqa: ANN401  # as above
        """nnc.kthvalue(x, k, dim): the k-th smallest, and its place"""
        return self._by_function("kthvalue", k, dim, keepdim)

    @located
    def mode(self, dim: int = -1, keepdim: bool = False) -> Any:  # noqa: ANN401  # as above
        """nnc.mode(x, dim): the most frequent, and its place"""
        return self._by_function("mode", dim, keepdim)

    @located
    def logcumsumexp(self, dim: int) -> Self:
        """nnc.logcumsumexp(x, dim)"""
        return self._by_function("logcumsumexp", dim)

    @located
    def bincount(self, weights: Any = None, minlength: int = 0) -> Self:  # noqa: ANN401  # as above
        """nnc.bincount(x)"""
        return self._by_function("bincount", weights, minlength)

    @located
    def histc(self, bins: int = 100, min: float = 0, max: float = 0) -> Self:
        """nnc.histc(x, bins, min, max)"""
        return self._by_function("histc", bins, min, max)

    @located
    def unique(self, return_inverse: bool = False, return_counts: bool = False) -> Any:  # noqa: ANN401  # as above
        """nnc.unique(x)"""
        return self._by_function("unique", return_inverse=return_inverse, return_counts=return_counts)
