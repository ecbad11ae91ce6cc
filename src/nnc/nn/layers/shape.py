"""Layers that change shapes only."""

from __future__ import annotations

import math
from dataclasses import field

from nnc.arguments import Size, checked
from nnc.classes import QUIET, dataclass
from nnc.errors import ShapeError
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.ops import pad, reshape

__all__ = ["Flatten", "Identity", "PadChannels"]


@checked
@dataclass(frozen=True, slots=True)
class Identity(Layer):
    """y = x.

    >>> nn.Identity()(nnc.ones((2, 3))).shape
    (2, 3)
    """

    def build(self, scope: Scope[T], x: T) -> T:
        """`x` itself."""
        return x


@checked
@dataclass(frozen=True, slots=True)
class Flatten(Layer):
    """[batch, …] to [batch, features], a view; or the axes from `start_dim` to `end_dim` as one.

    >>> nn.Flatten()(nnc.ones((2, 8, 8, 3))).shape
    (2, 192)
    >>> nn.Flatten(0, 1)(nnc.ones((4, 1))).shape
    (4,)
    """

    start_dim: int = field(default=1, metadata=QUIET)
    end_dim: int = field(default=-1, metadata=QUIET)

    def build(self, scope: Scope[T], x: T) -> T:
        rank = x.spec.rank
        if not rank:
            raise ShapeError("Flatten", got=str(x.spec), need="a batch")
        if (self.start_dim, self.end_dim) == (1, -1):
            return reshape(x, (x.shape[0], math.prod(x.shape[1:])))
        start, end = self.start_dim % rank, self.end_dim % rank
        if not start <= end or not -rank <= self.start_dim < rank or not -rank <= self.end_dim < rank:
            need = f"axes of {rank}, the first in front of the last"
            raise ShapeError("Flatten", got=f"axes {self.start_dim} to {self.end_dim} of {x.spec}", need=need)
        return reshape(x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


@checked
@dataclass(frozen=True, slots=True)
class PadChannels(Layer):
    """`before` and `after` channels of zeros around the channels (the last axis).

    >>> nn.PadChannels(1, 1)(nnc.ones((2, 8, 8, 3))).shape
    (2, 8, 8, 5)
    """

    before: Size
    after: Size

    def build(self, scope: Scope[T], x: T) -> T:
        leading = (0,) * (x.spec.rank - 1)
        return pad(x, (*leading, self.before), (*leading, self.after))
