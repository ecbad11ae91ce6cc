"""Weights of a model that several layers share: `head.weight = embed.weight` is one tensor, under its first path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from nnc.classes import dataclass
from nnc.nn.layers.layer import Layer, MultiLayer, ParameterSpec, Scope, T
from nnc.nn.state.layer_state import dotted

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class TiedWeights(MultiLayer):
    """y = layer(x), where a tensor of two `paths` is that of the second one; paths are those of the layer itself."""

    stands_by_class = False
    layer: Layer
    paths: tuple[tuple[str, str], ...]

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply the layer."""
        first = {dotted(scope.path, path): dotted(scope.path, other) for path, other in self.paths}

        def resolve(parameter: ParameterSpec) -> T:
            path = first.get(parameter.path)
            return scope.resolve(parameter if path is None else replace(parameter, path=path))

        return self.layer.build_many(replace(scope, resolve=resolve), inputs)


def with_ties(layer: Layer) -> Layer:
    """The layer, with what says which of its tensors are one where there are such."""
    if isinstance(layer, TiedWeights):
        return layer
    first: dict[int, str] = {}
    paths = [(path, first.setdefault(id(variable), path)) for path, variable in layer.named_variables()]
    tied = tuple(pair for pair in paths if pair[0] != pair[1])
    return TiedWeights(layer, tied) if tied else layer


def without_ties(layer: Layer, values: Mapping[str, V]) -> Mapping[str, V]:
    """Tensors by path without those that stand under their first path too."""
    if not isinstance(layer, TiedWeights):
        return values
    again = {path for path, first in layer.paths if first in values}
    return {path: value for path, value in values.items() if path not in again}
