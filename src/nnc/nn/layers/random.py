"""Layers that draw random numbers in training and do nothing otherwise."""

from __future__ import annotations

from dataclasses import field

from nnc.arguments import Rate, Share, checked
from nnc.classes import QUIET, dataclass
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.ops import add, broadcast_to, dropout, multiply, random_normal, reshape
from nnc.ops.movement.fill import scalar_like

__all__ = ["ChannelDropout", "Dropout", "GaussianNoise"]


@checked
@dataclass(frozen=True, slots=True)
class Dropout(Layer):
    """In training y = x / (1 - rate) for a share 1 - rate of all elements, else 0; otherwise y = x.

    What is dropped depends on the model's seed, the layer's path and the number of training passes alone, so that a
    resumed training draws what the whole one does (Srivastava et al. 2014).

    >>> layer = nn.Dropout(0.5)
    >>> layer.eval()([[1.0, 2.0]])
    Variable(f32[1, 2], constant)
    [[1. 2.]]
    """

    rate: Share = 0.5
    inplace: bool = field(default=False, metadata=QUIET)

    def build(self, scope: Scope[T], x: T) -> T:
        stream = scope.stream()
        return x if stream is None or not self.rate else dropout(x, stream[0], self.rate, seed=stream[1])


@checked
@dataclass(frozen=True, slots=True)
class ChannelDropout(Layer):
    """`Dropout` of whole channels (the last axis) of each example at once (Tompson et al. 2015).

    >>> nn.ChannelDropout(0.5)(nnc.ones((2, 8, 8, 3))).shape
    (2, 8, 8, 3)
    """

    rate: Share = 0.5

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, …, channels]."""
        stream = scope.stream()
        if stream is None or not self.rate:
            return x
        shape = (x.shape[0], *(1,) * (x.spec.rank - 2), x.shape[-1])
        unit = reshape(scalar_like(x, 1.0), (1,) * x.spec.rank)
        mask = dropout(broadcast_to(unit, shape), stream[0], self.rate, seed=stream[1])
        return multiply(x, broadcast_to(mask, x.shape))


@checked
@dataclass(frozen=True, slots=True)
class GaussianNoise(Layer):
    """In training y = x + N(0, deviation²); otherwise y = x.

    >>> nn.GaussianNoise(0.1)(nnc.ones((2, 3))).shape
    (2, 3)
    """

    deviation: Rate

    def build(self, scope: Scope[T], x: T) -> T:
        stream = scope.stream()
        if stream is None:
            return x
        return add(x, random_normal(stream[0], x.spec, 0.0, self.deviation, seed=stream[1]))
