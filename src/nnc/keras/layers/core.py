"""Layers of vectors and shapes under Keras' names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nnc import numerics as n
from nnc.arguments import Count, Share, shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import F32
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.transforms.randomness import dropout, normal
from nnc.errors import ArgumentError, ShapeError
from nnc.keras import activations
from nnc.keras.engine.base_layer import Layer
from nnc.keras.layers.spatial import SpatialLayer
from nnc.keras.named import refused
from nnc.ops import gemm

__all__ = [
    "Activation", "ActivityRegularization", "Dense", "Dropout", "ELU", "Embedding", "Flatten", "GaussianDropout",
    "GaussianNoise", "Identity", "Lambda", "Layer", "LeakyReLU", "Masking", "PReLU", "Permute", "ReLU", "RepeatVector",
    "Rescaling", "Reshape", "Softmax", "SpatialDropout1D", "SpatialDropout2D", "TimeDistributed",
]  # fmt: skip


def as_float(x: ArrayOperand) -> ArrayOperand:
    """Integers and truth values as f32; ArgumentError for several arrays where one is needed."""
    if not isinstance(x, ArrayOperand):
        raise ArgumentError("layer", got=shown(x), need="one array", origin=caller_origin())
    return x if x.dtype.is_continuous else x.astype(F32)


class Dense(Layer):
    """activation(x @ kernel[features, units] + bias)

    >>> from nnc import keras
    >>> keras.layers.Dense(4, activation="relu")(np.ones((2, 3))).shape
    (2, 4)
    """

    supports_masking = True

    def __init__(
        self,
        units: Count,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.units, self.use_bias, self.activation = units, use_bias, activations.get(activation)
        self.starts = kernel_initializer, bias_initializer
        self.penalties = kernel_regularizer, bias_regularizer

    def make_weights(self, input_shape: Any) -> None:
        if len(input_shape) < 2:
            raise ShapeError("Dense", got=f"{input_shape}", need="at least two dimensions [batch, features]")
        shape = (input_shape[-1], self.units)
        self.kernel = self.add_weight(shape, self.starts[0], regularizer=self.penalties[0], name="kernel")
        if self.use_bias:
            self.bias = self.add_weight((self.units,), self.starts[1], regularizer=self.penalties[1], name="bias")

    def call(self, inputs: Any) -> Any:
        """Apply to the last axis."""
        return self.activation(gemm(as_float(inputs), self.kernel, self.bias if self.use_bias else None))


class Activation(Layer):
    """A function by its name, or any function, as a layer."""

    supports_masking = True

    def __init__(self, activation: Any, **options: Any) -> None:
        super().__init__(**options)
        self.activation = activations.get(activation)

    def call(self, inputs: Any) -> Any:
        """The function's result."""
        return self.activation(inputs)


class ReLU(Layer):
    """max(x, 0); `negative_slope` below the threshold, no more than `max_value`."""

    supports_masking = True

    def __init__(
        self, max_value: float | None = None, negative_slope: float = 0.0, threshold: float = 0.0, **options: Any
    ) -> None:
        super().__init__(**options)
        self.max_value, self.negative_slope, self.threshold = max_value, negative_slope, threshold

    def call(self, inputs: Any) -> Any:
        return activations.relu(inputs, self.negative_slope, self.max_value, self.threshold)


class LeakyReLU(Layer):
    """x above 0, negative_slope · x below."""

    supports_masking = True

    def __init__(self, negative_slope: float = 0.3, **options: Any) -> None:
        # Its name in Keras 2.
        negative_slope = options.pop("alpha", negative_slope)
        super().__init__(**options)
        self.negative_slope = negative_slope

    def call(self, inputs: Any) -> Any:
        return activations.leaky_relu(inputs, self.negative_slope)


class PReLU(Layer):
    """x above 0, alpha · x below, where alpha is trained; it has one size on each of the `shared_axes`."""

    supports_masking = True

    def __init__(
        self, alpha_initializer: Any = "zeros", shared_axes: Sequence[int] | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self.start, self.shared_axes = alpha_initializer, () if shared_axes is None else tuple(shared_axes)

    def make_weights(self, input_shape: Any) -> None:
        shape = [1 if axis in self.shared_axes else size for axis, size in enumerate(input_shape)][1:]
        self.alpha = self.add_weight(shape, self.start, name="alpha")

    def call(self, inputs: Any) -> Any:
        return n.where(inputs > 0, inputs, self.alpha * inputs)


class ELU(Layer):
    """x above 0, alpha · (e^x - 1) below."""

    supports_masking = True

    def __init__(self, alpha: float = 1.0, **options: Any) -> None:
        super().__init__(**options)
        self.alpha = alpha

    def call(self, inputs: Any) -> Any:
        return activations.elu(inputs, self.alpha)


class Softmax(Layer):
    """e^x / Σ e^x along the axis."""

    supports_masking = True

    def __init__(self, axis: int = -1, **options: Any) -> None:
        super().__init__(**options)
        self.axis = axis

    def call(self, inputs: Any) -> Any:
        return activations.softmax(inputs, self.axis)


class Dropout(Layer):
    """In training a share `rate` of the elements is zero, the others are scaled to keep the mean.

    Where `noise_shape` has a 1, what is dropped is dropped along the whole axis.
    """

    supports_masking = True

    def __init__(
        self, rate: Share, noise_shape: Sequence[int | None] | None = None, seed: int | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self.rate, self.noise_shape = rate, None if noise_shape is None else tuple(noise_shape)

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Drop in training."""
        if not training or not self.rate:
            return inputs
        if self.noise_shape is None:
            return dropout(inputs, self.rate)
        if len(self.noise_shape) != len(inputs.shape):
            raise ShapeError(
                "Dropout", got=f"noise_shape={self.noise_shape} for {inputs.shape}", need="a size or None for each axis"
            )
        shape = tuple(own if size is None else size for size, own in zip(self.noise_shape, inputs.shape, strict=True))
        return inputs * dropout(n.ones(shape, dtype=inputs.dtype, device=inputs.device), self.rate)


class SpatialDropout(Dropout, SpatialLayer):
    """Whole channels are dropped."""

    def __init__(self, rate: Share, seed: int | None = None, **options: Any) -> None:
        super().__init__(rate, (None, *(1,) * self.rank, None), seed, **options)


class SpatialDropout1D(SpatialDropout, rank=1):
    """Whole channels of [batch, steps, channels] are dropped."""


class SpatialDropout2D(SpatialDropout, rank=2):
    """Whole channels of [batch, height, width, channels] are dropped."""


class GaussianNoise(Layer):
    """In training x + noise of this deviation."""

    supports_masking = True

    def __init__(self, stddev: float, seed: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.stddev = stddev

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Add noise in training."""
        return inputs + normal(inputs.shape, 0.0, self.stddev, device=inputs.device) if training else inputs


class GaussianDropout(Layer):
    """In training x · noise of mean 1 and variance rate / (1 - rate)."""

    supports_masking = True

    def __init__(self, rate: Share, seed: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.rate = rate

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Multiply by noise in training."""
        return (
            inputs * normal(inputs.shape, 1.0, math.sqrt(self.rate / (1.0 - self.rate)), device=inputs.device)
            if training
            else inputs
        )


class ActivityRegularization(Layer):
    """x itself, of which l1 · Σ |x| + l2 · Σ x² is a part of the loss."""

    supports_masking = True

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.l1, self.l2 = l1, l2

    def call(self, inputs: Any) -> Any:
        self.add_loss((self.l1 * n.sum(n.abs(inputs)) + self.l2 * n.sum(inputs * inputs)) / inputs.shape[0])
        return inputs


class Flatten(Layer):
    """x[batch, …] as [batch, features]."""

    def __init__(self, data_format: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        if data_format == "channels_first":
            raise refused("Flatten", "data_format", data_format, "images with channels last")

    def call(self, inputs: Any) -> Any:
        return n.reshape(inputs, (inputs.shape[0], math.prod(inputs.shape[1:])))


class Reshape(Layer):
    """x[batch, …] as [batch, *target_shape], one size of which may be -1."""

    def __init__(self, target_shape: Sequence[int], **options: Any) -> None:
        super().__init__(**options)
        self.target_shape = tuple(target_shape)

    def call(self, inputs: Any) -> Any:
        return n.reshape(inputs, (inputs.shape[0], *self.target_shape))


class Permute(Layer):
    """The axes behind the batch in the order `dims`, which counts them from 1."""

    def __init__(self, dims: Sequence[int], **options: Any) -> None:
        super().__init__(**options)
        self.dims = tuple(dims)

    def call(self, inputs: Any) -> Any:
        return n.transpose(inputs, (0, *self.dims))


class RepeatVector(Layer):
    """x[batch, features] at each of `n` steps."""

    def __init__(self, n: Count, **options: Any) -> None:
        super().__init__(**options)
        self.steps = n

    def call(self, inputs: Any) -> Any:
        return n.repeat(n.expand_dims(inputs, 1), self.steps, axis=1)


class Identity(Layer):
    """x itself."""

    supports_masking = True

    def call(self, inputs: Any) -> Any:
        return inputs


class Rescaling(Layer):
    """scale · x + offset"""

    supports_masking = True

    def __init__(self, scale: Any, offset: Any = 0.0, **options: Any) -> None:
        super().__init__(**options)
        for name, value in (("scale", scale), ("offset", offset)):
            if np.asarray(value).dtype.kind not in "biuf":
                raise ArgumentError("Rescaling", got=f"{name}={value!r}", need="numbers")
        self.scale, self.offset = scale, offset

    def call(self, inputs: Any) -> Any:
        def beside(value: Any) -> Any:
            return value if isinstance(value, int | float) else np.asarray(value, np.float32)

        return as_float(inputs) * beside(self.scale) + beside(self.offset)


class Lambda(Layer):
    """Any function of operands as a layer without weights."""

    def __init__(
        self, function: Callable[..., Any], output_shape: Any = None, mask: Any = None,
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(**options)
        self.function, self.arguments = function, dict(arguments or {})

    def call(self, inputs: Any) -> Any:
        return self.function(inputs, **self.arguments)


class Masking(Layer):
    """Steps of x[batch, steps, features] all of whose features are `mask_value` are masked, and zero."""

    supports_masking = True

    def __init__(self, mask_value: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.mask_value = mask_value

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Steps that are real."""
        return n.any(inputs != self.mask_value, axis=-1)

    def call(self, inputs: Any) -> Any:
        return n.where(n.any(inputs != self.mask_value, axis=-1, keepdims=True), inputs, 0.0)


class Embedding(Layer):
    """embeddings[x]: a row of `output_dim` numbers for each integer 0 ≤ x < input_dim.

    With `mask_zero` steps of 0 are masked for the layers behind.

    >>> from nnc import keras
    >>> keras.layers.Embedding(100, 8)(np.array([[1, 5, 7]])).shape
    (1, 3, 8)
    """

    def __init__(
        self,
        input_dim: Count,
        output_dim: Count,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        mask_zero: bool = False,
        weights: Any = None,
        input_length: Count | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.input_dim, self.output_dim, self.mask_zero = input_dim, output_dim, mask_zero
        self.start, self.penalty, self.rows = embeddings_initializer, embeddings_regularizer, weights

    def make_weights(self, input_shape: Any) -> None:
        shape = (self.input_dim, self.output_dim)
        start = self.start if self.rows is None else lambda shape: np.reshape(self.rows, shape)
        self.embeddings = self.add_weight(shape, start, regularizer=self.penalty, name="embeddings")

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Steps that are not 0."""
        return inputs != 0 if self.mask_zero else None

    def call(self, inputs: Any) -> Any:
        """The rows."""
        places = inputs.astype("int32") if inputs.dtype.is_continuous else inputs
        return n.take(self.embeddings, places, axis=0)


class TimeDistributed(Layer):
    """A layer applied to each step of x[batch, steps, …]."""

    supports_masking = True

    def __init__(self, layer: Layer, **options: Any) -> None:
        super().__init__(**options)
        self.layer = layer

    def make_weights(self, input_shape: Any) -> None:
        self.layer.build((None, *input_shape[2:]))

    def call(self, inputs: Any) -> Any:
        batch, steps, *others = inputs.shape
        y = self.layer(n.reshape(inputs, (batch * steps, *others)))
        return n.reshape(y, (batch, steps, *y.shape[1:]))
