"""Batch normalization: by the batch's statistics in training, by running ones otherwise (Ioffe & Szegedy 2015)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from nnc.arguments import Positive, Probability, checked
from nnc.classes import dataclass
from nnc.core.running.late_names import LateModule
from nnc.errors import ArgumentError
from nnc.nn.layers.initializers import ones, zeros
from nnc.nn.layers.layer import Layer, Ranks, Scope, T
from nnc.ops import (
    add,
    affine,
    batch_norm,
    batch_norm_inference,
    broadcast_to,
    cast,
    multiply,
    reduce_mean,
    rsqrt,
    square,
    subtract,
)
from nnc.ops.normalization.normalization import statistics_dtype
from nnc.vocabulary.words import MEANT

__all__ = ["BatchNorm"]

_SIZED: Any = LateModule("nnc.nn.modules.mlx_modules")


@checked
@dataclass(frozen=True, slots=True)
class BatchNorm(Layer):
    """y = (x - mean) / √(variance + epsilon) · weight + bias per channel (the last axis).

    The running statistics follow those of the batches: running = momentum · running + (1 - momentum) · batch. With
    `unbiased` the running variance is that of a sample, n / (n - 1) times that of the n values of the batch.

    >>> norm = nn.BatchNorm()
    >>> norm([[1.0], [3.0]])
    Variable(f32[2, 1], recorded)
    [[-1.]
     [ 1.]]
    >>> [path for path, _ in norm.named_buffers()]
    ['running_mean', 'running_variance']
    """

    variance_name: ClassVar[str] = "running_variance"
    momentum: Probability = 0.9
    epsilon: Positive = 1e-5
    unbiased: bool = False

    def __new__(cls, *sizes: Any, **options: Any) -> Any:  # noqa: ANN401  # this layer, or that of the size
        """MLX's layer where the number of channels is said: `nn.BatchNorm(8)`."""
        if "num_features" in options or (sizes and isinstance(sizes[0], int) and not isinstance(sizes[0], bool)):
            return _SIZED.SizedBatchNorm(*sizes, **options)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        if self.momentum == 1 and isinstance(self.momentum, int):
            fix = MEANT["BatchNorm.momentum"]
            raise ArgumentError("BatchNorm", got="momentum=1", need="a share such as 0.9", fix=fix)

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, …, channels]."""
        shape, dtype = x.shape[-1:], statistics_dtype(x.spec)
        weight, bias = scope.parameter("weight", shape, x, ones), scope.parameter("bias", shape, x, zeros)
        mean = scope.statistic("running_mean", shape, dtype, zeros)
        variance = scope.statistic(self.variance_name, shape, dtype, ones)
        if not scope.training:
            return batch_norm_inference(x, weight, bias, mean, variance, epsilon=self.epsilon)
        corrected = self._of_a_sample(scope, x, variance) if self.unbiased else None
        if scope.ranks is not None:
            y, next_mean, next_variance = self._of_all(scope.ranks, x, (weight, bias, mean, variance))
        else:
            y, next_mean, next_variance = batch_norm(
                x, weight, bias, mean, variance, epsilon=self.epsilon, momentum=self.momentum
            )
        if corrected is not None:
            next_variance = corrected(next_variance)
        scope.renew_statistic("running_mean", next_mean)
        scope.renew_statistic(self.variance_name, next_variance)
        return y

    def _of_a_sample(self, scope: Scope[T], x: T, old: T) -> Callable[[T], T]:
        """The running variance by n - 1, of that by n; the old one is read before the new one takes its place."""
        count = math.prod(x.shape[:-1]) * (1 if scope.ranks is None else scope.ranks.group.size)
        factor = count / max(count - 1, 1)
        kept = affine(old, (1.0 - factor) * self.momentum)
        return lambda new: add(affine(new, factor), kept)

    def _of_all(self, ranks: Ranks[T], x: T, given: tuple[T, T, T, T]) -> tuple[T, T, T]:
        """The same by the statistics of the whole batch, of which each rank has a part."""
        weight, bias, old_mean, old_variance = given
        axes, wide = tuple(range(x.spec.rank - 1)), cast(x, old_mean.spec.dtype)
        mean = ranks.mean(reduce_mean(wide, axes))
        distance = subtract(wide, broadcast_to(mean, x.shape))
        variance = ranks.mean(reduce_mean(square(distance), axes))
        scale = multiply(cast(weight, mean.spec.dtype), rsqrt(affine(variance, 1.0, self.epsilon)))
        scaled = cast(multiply(distance, broadcast_to(scale, x.shape)), x.spec.dtype)
        kept, fresh = self.momentum, 1.0 - self.momentum
        return (
            add(scaled, broadcast_to(bias, x.shape)),
            add(affine(old_mean, kept), affine(mean, fresh)),
            add(affine(old_variance, kept), affine(variance, fresh)),
        )


@dataclass(frozen=True, slots=True)
class NamedBatchNorm(BatchNorm):
    """The same with PyTorch's and MLX's name of the running variance, for their layers."""

    variance_name = "running_var"
