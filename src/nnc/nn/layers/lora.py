"""Low-rank adaptation: dense layers of a network learn a product of two narrow matrices beside weights that stay.

y = x · weight + bias + (alpha / rank) · x · lora_a[in, rank] · lora_b[rank, out]     (Hu et al. 2022)

Of `nn.Linear`, whose weight lies [out, in], they are lora_A[rank, in] and lora_B[out, rank], as in files of PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import Count, Positive, checked
from nnc.classes import dataclass
from nnc.core.values.tensor import as_array
from nnc.errors import FormatError, UsageError
from nnc.nn.layers.initializers import Values, he_uniform, uniform, zeros
from nnc.nn.layers.layer import Layer, MultiLayer, ParameterSpec, Scope, T
from nnc.ops import add, affine, gemm

__all__ = ["LoRA"]

Array = NDArray[np.generic]
# By the name of an adapter's first matrix, that of its second.
ADDED = {"lora_a": "lora_b", "lora_A": "lora_B"}
NAMES = frozenset((*ADDED, *ADDED.values()))


@checked
@dataclass(frozen=True, slots=True)
class LoRA(MultiLayer):
    """`layer` with an adapter on each dense layer whose path fits a pattern (as file names do); all else is frozen.

    `LoRA(net, ("*.query", "*.value"))` adapts those products of attention. Paths are seen from the layer itself, with
    `lora_a` and `lora_b` beside each adapted `weight`; adapters begin as nothing, and they alone are trained.

    >>> sorted(nn.Model(nn.LoRA(nn.Dense(4), ("*",), rank=2), (3,)).parameters)
    ['lora_a', 'lora_b']
    """

    layer: Layer
    patterns: tuple[str, ...]
    rank: Count = 8
    alpha: Positive = 16.0

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply the layer; UsageError for a pattern that no dense layer fits."""
        fitting: set[str] = set()
        dense: list[str] = []

        def frozen(parameter: ParameterSpec) -> T:
            return scope.resolve(replace(parameter, trainable=False))

        def adapted(place: Scope[T], x: T, y: T) -> T:
            before, y = y, scope.adapt(place, x, y)
            path = place.path.removeprefix(scope.path).removeprefix(".")
            fits = [pattern for pattern in self.patterns if fnmatchcase(path, pattern)]
            fitting.update(fits)
            dense.append(path)
            if fits and y is not before:
                raise UsageError("LoRA", got=f"an adapter within an adapter of {path}", need="one for each dense layer")
            return self._adapted(replace(place, resolve=scope.resolve), x, y) if fits else y

        outputs = self.layer.build_many(replace(scope, resolve=frozen, adapt=adapted), inputs)
        left = [pattern for pattern in self.patterns if pattern not in fitting]
        if left or not self.patterns:
            got = f"pattern {left[0]!r}" if left else "no patterns"
            raise UsageError(
                "LoRA", got=got, need=f"one that fits a dense layer: {', '.join(dense) or 'none is there'}"
            )
        return outputs

    def adapters(self, state: Mapping[str, ArrayLike]) -> dict[str, Array]:
        """The adapters alone, to be saved: `nnc.save(path, lora.adapters(model.state_dict()))`.

        They are loaded into a model of the same layer with `strict=False`.
        """
        return {path: as_array(value) for path, value in state.items() if path.rpartition(".")[2] in NAMES}

    def merged(self, state: Mapping[str, ArrayLike]) -> dict[str, Array]:
        """A state of `layer` itself, where each adapter is added to its weight."""
        arrays = {path: as_array(value) for path, value in state.items()}
        merged = {path: array for path, array in arrays.items() if path.rpartition(".")[2] not in NAMES}
        for path, a in arrays.items():
            place, _, name = path.rpartition(".")
            if name in ADDED:
                prefix = f"{place}." if place else ""
                second = f"{prefix}{ADDED[name]}"
                if second not in arrays or f"{prefix}weight" not in arrays:
                    raise FormatError("merged", got=f"{path} alone", need=f"{second} and {prefix}weight beside it")
                weight, b = arrays[f"{prefix}weight"], arrays[second]
                pair = (a, b) if name == "lora_a" else (b, a)
                product = pair[0].astype(np.float64) @ pair[1].astype(np.float64)
                merged[f"{prefix}weight"] = (weight.astype(np.float64) + self.alpha / self.rank * product).astype(
                    weight.dtype
                )
        return merged

    def _adapted(self, place: Scope[T], x: T, y: T) -> T:
        if place.owner == "Linear":
            a = place.parameter("lora_A", (self.rank, x.shape[-1]), x, _turned_uniform)
            b = place.parameter("lora_B", (y.shape[-1], self.rank), x, zeros)
            added = gemm(gemm(x, a, transpose_b=True), b, transpose_b=True)
        else:
            a = place.parameter("lora_a", (x.shape[-1], self.rank), x, he_uniform)
            b = place.parameter("lora_b", (self.rank, y.shape[-1]), x, zeros)
            added = gemm(gemm(x, a), b)
        return add(y, affine(added, self.alpha / self.rank))


def _turned_uniform(generator: np.random.Generator, values: Values) -> None:
    """`he_uniform` of a matrix that lies [out, in]."""
    bound = math.sqrt(6.0 / values.shape[1])
    uniform(-bound, bound)(generator, values)
