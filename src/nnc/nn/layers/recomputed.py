"""Gradient checkpointing of one layer: what is inside of it is computed again when its gradient is."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.concrete import CountBelow
from nnc.nn.layers.layer import Layer, MultiLayer, Scope, T
from nnc.symbolic import Symbol, while_loop

__all__ = ["Recomputed"]


@checked
@dataclass(frozen=True, slots=True)
class Recomputed(MultiLayer):
    """y = layer(x), of which training keeps x alone: the backward pass computes the rest again (Chen et al. 2016).

    Paths of parameters are those of the layer itself, and results the same bit by bit. A memory limit of a model does
    as much by itself where it pays; this says it of a layer.

    In training the layer is the body of a loop that breaks at once: gradients of loops begin with what an iteration
    began with, and no pass takes their work and the first one's for the same.

    >>> nn.Recomputed(nn.Dense(4))(nnc.ones((2, 3))).shape
    (2, 4)
    """

    stands_by_class = False
    layer: Layer

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply the layer."""
        if not (scope.differentiated and isinstance(inputs[0], Symbol)):
            return self.layer.build_many(scope, inputs)
        renewed: dict[str, T] = {}
        inside = replace(scope, renew=renewed.__setitem__)
        with while_loop(inputs[0].graph, CountBelow(0)) as loop:
            carried = tuple(loop.carry(cast("Symbol", x)) for x in inputs)
            outputs = self.layer.build_many(inside, cast("tuple[T, ...]", carried))
            for x in carried:
                loop.next(x, x)
        for path, value in renewed.items():
            scope.renew(path, cast("T", loop.result(cast("Symbol", value))))
        return tuple(cast("T", loop.result(cast("Symbol", y))) for y in outputs)
