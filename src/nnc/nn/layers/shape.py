"""Layers that change shapes only."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nnc.nn.layer import Layer, Scope, T
from nnc.ops import reshape


@dataclass(frozen=True, slots=True)
class Flatten(Layer):
    """[batch, …] to [batch, features]: a view, no copy."""

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`."""
        return reshape(x, (x.shape[0], math.prod(x.shape[1:])))
