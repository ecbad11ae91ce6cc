"""Layers made of layers."""

from __future__ import annotations

from nnc.errors import AttributeValueError
from nnc.nn.layer import Layer, Scope, T


class Sequential(Layer):
    """Layers one after another. Names come from keywords, or are positions: `0`, `1`, …

    >>> from nnc.nn.layers import Dense, ReLU
    >>> [name for name, _ in Sequential(Dense(8), ReLU(), head=Dense(2)).parts]
    ['0', '1', 'head']
    """

    __slots__ = ("parts",)

    def __init__(self, *layers: Layer, **named: Layer) -> None:
        numbered = ((str(position), layer) for position, layer in enumerate(layers))
        self.parts: tuple[tuple[str, Layer], ...] = (*numbered, *named.items())
        for name, layer in self.parts:
            if not isinstance(layer, Layer):
                raise AttributeValueError("Sequential", got=f"{name}: {type(layer).__name__}", need="layers")

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply all layers in order."""
        for name, layer in self.parts:
            x = layer.build(scope.inside(name), x)
        return x

    def __repr__(self) -> str:
        return "Sequential(" + ", ".join(f"{name}={layer!r}" for name, layer in self.parts) + ")"
