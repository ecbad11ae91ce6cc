"""Layers that change shapes only."""

from __future__ import annotations

import math

from nnc.arguments import Size, checked
from nnc.classes import dataclass
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
    """[batch, …] to [batch, features]: a view, no copy.

    >>> nn.Flatten()(nnc.ones((2, 8, 8, 3))).shape
    (2, 192)
    """

    def build(self, scope: Scope[T], x: T) -> T:
        if not x.spec.rank:
            raise ShapeError("Flatten", got=str(x.spec), need="a batch")
        return reshape(x, (x.shape[0], math.prod(x.shape[1:])))


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
