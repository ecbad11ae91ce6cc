"""Layers whose parameters start otherwise than they say themselves."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.errors import UsageError
from nnc.nn.layers.initializers import Initializer
from nnc.nn.layers.layer import Layer, MultiLayer, ParameterSpec, Scope, T

__all__ = ["Initialized"]


@checked
@dataclass(frozen=True, slots=True)
class Initialized(MultiLayer):
    """`layer`, where the first rule whose pattern fits a parameter's path (as file names do) says how it starts.

    `Initialized(net, (("*.bias", constant(0.1)), ("*", orthogonal)))`; paths are those of the layer itself.
    """

    layer: Layer
    rules: tuple[tuple[str, Initializer], ...]

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply the layer; UsageError for a rule that fits no parameter before others have it."""
        used: set[str] = set()

        def started(parameter: ParameterSpec) -> T:
            path = parameter.path.removeprefix(f"{scope.path}.")
            for pattern, initializer in self.rules:
                if parameter.trainable and fnmatchcase(path, pattern):
                    used.add(pattern)
                    return scope.resolve(replace(parameter, initializer=initializer))
            return scope.resolve(parameter)

        outputs = self.layer.build_many(replace(scope, resolve=started), inputs)
        left = [pattern for pattern, _ in self.rules if pattern not in used]
        if left:
            raise UsageError("Initialized", got=f"pattern {left[0]!r}", need="one that fits a parameter left to it")
        return outputs
