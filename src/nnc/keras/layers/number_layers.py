"""Layers that prepare numbers under Keras' names, by what `adapt` has seen of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nnc import numerics as n
from nnc.arguments import Count, Finite, shown
from nnc.array_api.data_types import numpy_work
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import F32, I64
from nnc.dynamic import eager
from nnc.errors import ArgumentError, DataError, UsageError
from nnc.keras.engine.base_layer import Layer
from nnc.keras.layers.core import as_float
from nnc.keras.metric_states import plain, real
from nnc.numerics.conversion import place_of

__all__ = ["CategoryEncoding", "Discretization", "Normalization"]


def single_of(kind: str, given: Any) -> NDArray[np.float32]:
    """Real numbers as f32."""
    with numpy_work(kind):
        return real(given).astype(np.float32)


def _samples(kind: str, data: Any) -> NDArray[Any]:
    """All numbers that a layer adapts to: an array, or one batch behind another."""
    whole = hasattr(data, "__array__") or isinstance(data, list)
    if not whole and not isinstance(data, Iterable):
        raise ArgumentError(kind, got=shown(data), need="an array, or batches", origin=caller_origin())
    with numpy_work(kind):
        values = real(data if whole else np.concatenate([*map(plain, data)]))
    if not values.size or not values.ndim:
        raise DataError(kind, got="no examples", need="one or more", origin=caller_origin())
    return values


class Normalization(Layer):
    """(x - mean) / √variance along `axis`, both of which `adapt` finds; with `invert` the way back.

    >>> from nnc import keras
    >>> layer = keras.layers.Normalization()
    >>> layer.adapt([[0.0], [2.0]])
    >>> layer([[4.0]]).tolist()
    [[3.0]]
    """

    def __init__(
        self, axis: int | Sequence[int] | None = -1, mean: Any = None, variance: Any = None, invert: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(**options)
        if (mean is None) != (variance is None):
            raise ArgumentError("Normalization", got="mean or variance alone", need="both, or neither")
        self.axis, self.invert = axis, invert
        self.said = None if mean is None else (single_of("Normalization", mean), single_of("Normalization", variance))

    def make_weights(self, input_shape: Any) -> None:
        kept = self.kept(len(input_shape))
        shape = tuple(int(size) if axis in kept else 1 for axis, size in enumerate(input_shape))
        if self.said is None:
            self.mean = self.add_weight(shape, "zeros", trainable=False, name="mean")
            self.variance = self.add_weight(shape, "ones", trainable=False, name="variance")
            return
        for name, value in zip(("mean", "variance"), self.said, strict=True):
            # Constants, and no weights.
            with numpy_work("Normalization"):
                whole = np.broadcast_to(value, shape) if value.size == 1 else value.reshape(shape)
            object.__setattr__(self, name, np.array(whole))

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Find mean and variance of the data."""
        values = np.asarray(_samples("Normalization", data), np.float64)
        if self.said is not None:
            raise UsageError("Normalization", got="mean and variance given", need="to find them", fix="Normalization()")
        if values.ndim == 1:
            values = values[:, None]
        self.ensure_built((values,))
        axes = tuple(axis for axis in range(values.ndim) if axis not in self.kept(values.ndim))
        for weight, value in (
            (self.mean, values.mean(axes, keepdims=True)),
            (self.variance, values.var(axes, keepdims=True)),
        ):
            weight.become(eager.tensor(single_of("Normalization", value)))

    def kept(self, ndim: int) -> list[int]:
        """The axes that have means of their own."""
        axes = () if self.axis is None else self.axis if isinstance(self.axis, Sequence) else (self.axis,)
        return [place_of("Normalization", axis, ndim) for axis in axes]

    def call(self, inputs: Any) -> Any:
        deviation = n.maximum(n.sqrt(n.asarray(self.variance)), 1e-7)
        x = as_float(inputs)
        return self.mean + x * deviation if self.invert else (x - self.mean) / deviation


class Discretization(Layer):
    """How many boundaries are not above x; `adapt` finds those that share the data among `num_bins`."""

    def __init__(
        self,
        bin_boundaries: Sequence[Finite] | None = None,
        num_bins: Count | None = None,
        epsilon: float = 0.01,
        output_mode: Literal["int", "one_hot", "multi_hot", "count"] = "int",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if (bin_boundaries is None) == (num_bins is None):
            raise ArgumentError("Discretization", got="both or neither", need="one of bin_boundaries and num_bins")
        self.num_bins, self.output_mode = num_bins, output_mode
        self.bin_boundaries = None if bin_boundaries is None else sorted(real(bin_boundaries).tolist())

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Find the boundaries."""
        values = _samples("Discretization", data)
        if self.num_bins is not None:
            with numpy_work("Discretization"):
                self.bin_boundaries = np.quantile(values, np.linspace(0, 1, self.num_bins + 1)[1:-1]).tolist()

    def call(self, inputs: Any) -> Any:
        if self.bin_boundaries is None:
            raise UsageError("Discretization", got="no boundaries", need="some", fix="layer.adapt(data)")
        edges = np.asarray(self.bin_boundaries, np.float32)
        places = n.sum((n.expand_dims(as_float(inputs), -1) >= edges).astype(I64), axis=-1)
        return places if self.output_mode == "int" else hot(places, len(edges) + 1, self.output_mode)


def hot(places: Any, size: int, output: str, weights: Any = None) -> Any:
    """places[…, k] as `encoded` has them, of operands."""
    if output == "one_hot":
        places = places[..., 0] if places.ndim and places.shape[-1] == 1 else places
        return (n.expand_dims(places, -1) == np.arange(size)).astype(F32)
    each = (n.expand_dims(places, -1) == np.arange(size)).astype(F32)
    if output == "multi_hot":
        return n.max(each, axis=-2)
    return n.sum(each if weights is None else each * n.expand_dims(weights, -1), axis=-2)


class CategoryEncoding(Layer):
    """Whole numbers as 1 at each ("one_hot"), or for each row whether ("multi_hot") or how often ("count") it is there.

    >>> from nnc import keras
    >>> keras.layers.CategoryEncoding(3, "one_hot")([0, 2]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """

    def __init__(
        self, num_tokens: Count, output_mode: Literal["one_hot", "multi_hot", "count"] = "multi_hot", **options: Any
    ) -> None:
        super().__init__(**options)
        self.num_tokens, self.output_mode = num_tokens, output_mode

    def call(self, inputs: Any, count_weights: Any = None) -> Any:
        places = inputs.astype(I64)
        return hot(places, self.num_tokens, self.output_mode, count_weights)
