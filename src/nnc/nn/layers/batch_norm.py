"""Batch normalization: by the batch's statistics in training, by running ones otherwise (Ioffe & Szegedy 2015)."""

from __future__ import annotations

from dataclasses import dataclass

from nnc.errors import AttributeValueError
from nnc.nn.initializers import ones, zeros
from nnc.nn.layer import Layer, Scope, T
from nnc.ops import batch_norm, batch_norm_inference
from nnc.ops.normalization import statistics_dtype


@dataclass(frozen=True, slots=True)
class BatchNorm(Layer):
    """y = (x - mean) / √(variance + epsilon) · weight + bias per channel (the last axis).

    The running statistics follow those of the batches: running = momentum · running + (1 - momentum) · batch.
    """

    momentum: float = 0.9
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        if not 0.0 <= self.momentum <= 1.0 or not self.epsilon > 0.0:
            got = f"momentum={self.momentum}, epsilon={self.epsilon}"
            raise AttributeValueError("BatchNorm", got=got, need="0 ≤ momentum ≤ 1, epsilon > 0")

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, …, channels]."""
        shape, dtype = x.shape[-1:], statistics_dtype(x.spec)
        weight, bias = scope.parameter("weight", shape, x, ones), scope.parameter("bias", shape, x, zeros)
        mean = scope.statistic("running_mean", shape, dtype, zeros)
        variance = scope.statistic("running_variance", shape, dtype, ones)
        if not scope.training:
            return batch_norm_inference(x, weight, bias, mean, variance, epsilon=self.epsilon)
        y, next_mean, next_variance = batch_norm(
            x, weight, bias, mean, variance, epsilon=self.epsilon, momentum=self.momentum
        )
        scope.renew_statistic("running_mean", next_mean)
        scope.renew_statistic("running_variance", next_variance)
        return y
