"""How a layer's products are split among the ranks of a mesh's axis `tensor`: what a model decides itself otherwise.

    nn.ColumnParallel(nn.Dense(4096))      each rank has some of the columns of weight[in, out], and of y
    nn.RowParallel(nn.Dense(1024))         some of its rows, and of x; y is the sum over ranks
    nn.Replicated(nn.Dense(10))            all of it

Paths of parameters are those of the layer itself, and without a mesh nothing differs.
"""

from __future__ import annotations

from dataclasses import replace

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.errors import UsageError
from nnc.nn.layers.layer import Layer, MultiLayer, Scope, T
from nnc.parallel.block_operators import SplitRequest

__all__ = ["ColumnParallel", "Replicated", "RowParallel"]


def _requested(layer: Layer, request: SplitRequest, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
    """The layer, whose weights are asked for so; UsageError within another request."""
    if scope.request and scope.request != request:
        got, need = f"a {request} one within a {scope.request} one at {scope.path or 'the top'}", "one for each layer"
        raise UsageError("parallel layers", got=got, need=need)
    return layer.build_many(replace(scope, request=request), inputs)


@checked
@dataclass(frozen=True, slots=True)
class ColumnParallel(MultiLayer):
    """y = layer(x), each rank with its columns of weights (Shoeybi et al. 2019): of an `Embedding` its features.

    What comes next reads the parts where it is a `RowParallel` layer, with what works element by element in between;
    anything else gets them joined. A bias is split with its columns.

    >>> nn.ColumnParallel(nn.Dense(4))(nnc.ones((2, 3))).shape
    (2, 4)
    """

    stands_by_class = False
    layer: Layer

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply the layer."""
        return _requested(self.layer, "column", scope, inputs)


@checked
@dataclass(frozen=True, slots=True)
class RowParallel(MultiLayer):
    """y = layer(x), each rank with its rows of weights, whose products are summed: of an `Embedding` its tokens.

    >>> nn.RowParallel(nn.Dense(4))(nnc.ones((2, 3))).shape
    (2, 4)
    """

    stands_by_class = False
    layer: Layer

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply the layer."""
        return _requested(self.layer, "row", scope, inputs)


@checked
@dataclass(frozen=True, slots=True)
class Replicated(MultiLayer):
    """y = layer(x), the same on each rank with all weights.

    >>> nn.Replicated(nn.Dense(4))(nnc.ones((2, 3))).shape
    (2, 4)
    """

    stands_by_class = False
    layer: Layer

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply the layer."""
        return _requested(self.layer, "whole", scope, inputs)
