"""Layers that change shapes only."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nnc.errors import AttributeValueError
from nnc.nn.layer import Layer, Scope, T
from nnc.ops import pad, reshape


@dataclass(frozen=True, slots=True)
class Identity(Layer):
    """y = x."""

    def build(self, scope: Scope[T], x: T) -> T:
        """`x` itself."""
        return x


@dataclass(frozen=True, slots=True)
class Flatten(Layer):
    """[batch, …] to [batch, features]: a view, no copy."""

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`."""
        return reshape(x, (x.shape[0], math.prod(x.shape[1:])))


@dataclass(frozen=True, slots=True)
class PadChannels(Layer):
    """`before` and `after` channels of zeros around the channels (the last axis)."""

    before: int
    after: int

    def __post_init__(self) -> None:
        if min(self.before, self.after) < 0:
            raise AttributeValueError("PadChannels", got=f"{self.before}, {self.after}", need="both ≥ 0")

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`."""
        leading = (0,) * (x.spec.rank - 1)
        return pad(x, (*leading, self.before), (*leading, self.after))
