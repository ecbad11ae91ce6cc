"""Recurrent layers over [batch, steps, features]."""

from __future__ import annotations

from dataclasses import dataclass

from nnc.arguments import Count, checked
from nnc.nn.initializers import glorot_uniform, zeros
from nnc.nn.layer import Layer, Scope, T, require_rank
from nnc.ops import RecurrentWeights, lstm, transpose


@checked
@dataclass(frozen=True, slots=True)
class LSTM(Layer):
    """y[batch, t, units] = h of step t of `layers` long short-term memories on top of each other.

    z = x · input_weight + h₋ · state_weight + bias;  states start at zero (Hochreiter & Schmidhuber 1997).
    """

    units: Count
    layers: Count = 1

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, steps, features]."""
        require_rank("LSTM", x, 3, "batch, steps, features")
        y = transpose(x, (1, 0, 2))
        for layer in range(self.layers):
            y = lstm(y, self._weights(scope.inside(str(layer)), y))[0]
        return transpose(y, (1, 0, 2))

    def _weights(self, scope: Scope[T], x: T) -> RecurrentWeights[T]:
        gates = 4 * self.units
        return RecurrentWeights(
            scope.parameter("input_weight", (x.shape[-1], gates), x, glorot_uniform),
            scope.parameter("state_weight", (self.units, gates), x, glorot_uniform),
            scope.parameter("bias", (gates,), x, zeros),
        )
