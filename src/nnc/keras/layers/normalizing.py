"""Normalizations under Keras' names and with its defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

from nnc import numerics as n
from nnc.arguments import Positive, Probability
from nnc.errors import ArgumentError, ShapeError
from nnc.keras.engine.base_layer import Layer
from nnc.keras.layers.core import as_float
from nnc.keras.named import refused
from nnc.ops import batch_norm, batch_norm_inference, layer_norm

__all__ = ["BatchNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization", "UnitNormalization"]


class BatchNormalization(Layer):
    """(x - mean) / √(variance + epsilon) · gamma + beta per channel, the last axis.

    In training of the batch, and moving = momentum · moving + (1 - momentum) · batch; else by the moving ones, and so
    too where the layer is frozen (`trainable = False`).

    >>> from nnc import keras
    >>> keras.layers.BatchNormalization()(n.ones((2, 3))).shape
    (2, 3)
    """

    supports_masking = True

    def __init__(
        self,
        axis: int = -1,
        momentum: Probability = 0.99,
        epsilon: Positive = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.axis, self.momentum, self.epsilon, self.center, self.scale = axis, momentum, epsilon, center, scale
        self.starts = gamma_initializer, beta_initializer, moving_mean_initializer, moving_variance_initializer
        self.penalties = gamma_regularizer, beta_regularizer

    def make_weights(self, input_shape: Any) -> None:
        if self.axis not in (-1, len(input_shape) - 1):
            raise refused("BatchNormalization", "axis", self.axis, "channels on the last axis")
        shape = (input_shape[-1],)
        if self.scale:
            self.gamma = self.add_weight(shape, self.starts[0], regularizer=self.penalties[0], name="gamma")
        if self.center:
            self.beta = self.add_weight(shape, self.starts[1], regularizer=self.penalties[1], name="beta")
        self.moving_mean = self.add_weight(shape, self.starts[2], trainable=False, name="moving_mean")
        self.moving_variance = self.add_weight(shape, self.starts[3], trainable=False, name="moving_variance")

    def call(self, inputs: Any, training: bool = False, mask: Any = None) -> Any:
        """By the batch's mean and variance in training: where there is a mask, of the steps that are real."""
        x = as_float(inputs)
        gamma = self.gamma if self.scale else n.ones(x.shape[-1:], dtype=x.dtype, device=x.device)
        beta = self.beta if self.center else n.zeros(x.shape[-1:], dtype=x.dtype, device=x.device)
        moving = self.moving_mean, self.moving_variance
        if training and self.trainable and mask is not None:
            return self._masked(x, mask, gamma, beta)
        if not training or not self.trainable:
            return batch_norm_inference(x, gamma, beta, *moving, epsilon=self.epsilon)
        y, mean, variance = batch_norm(x, gamma, beta, *moving, epsilon=self.epsilon, momentum=self.momentum)
        self.own_assign(moving_mean=mean, moving_variance=variance)
        return y

    def _masked(self, x: Any, mask: Any, gamma: Any, beta: Any) -> Any:
        axes = tuple(range(x.ndim - 1))
        real = n.broadcast_to(n.expand_dims(mask.astype(x.dtype), -1), (*x.shape[:-1], 1))
        # Keras' place of its own small number.
        count = n.sum(real) + 1e-7
        mean = n.sum(x * real, axis=axes) / count
        variance = n.sum(n.square(x - mean) * real, axis=axes) / count
        for name, now in (("moving_mean", mean), ("moving_variance", variance)):
            self.own_assign(**{name: getattr(self, name) * self.momentum + now * (1.0 - self.momentum)})
        return (x - mean) * n.rsqrt(variance + self.epsilon) * gamma + beta


class LayerNormalization(Layer):
    """(x - mean) / √(variance + epsilon) · gamma + beta over `axis`, of each example."""

    supports_masking = True

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        epsilon: Positive = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.axes = (axis,) if isinstance(axis, SupportsIndex) else tuple(axis)
        self.epsilon, self.center, self.scale = epsilon, center, scale
        self.starts = gamma_initializer, beta_initializer

    def make_weights(self, input_shape: Any) -> None:
        if any(not -len(input_shape) <= axis < len(input_shape) for axis in self.axes):
            got, need = f"axis={self.axes} of {len(input_shape)} dimensions", "axes that are there"
            raise ArgumentError("LayerNormalization", got=got, need=need)
        shape = tuple(input_shape[axis] for axis in self.axes)
        if self.scale:
            self.gamma = self.add_weight(shape, self.starts[0], name="gamma")
        if self.center:
            self.beta = self.add_weight(shape, self.starts[1], name="beta")

    def call(self, inputs: Any) -> Any:
        x = as_float(inputs)
        shape = tuple(x.shape[axis] for axis in self.axes)
        gamma = self.gamma if self.scale else n.ones(shape, dtype=x.dtype, device=x.device)
        beta = self.beta if self.center else n.zeros(shape, dtype=x.dtype, device=x.device)
        return layer_norm(x, gamma, beta, axes=self.axes, epsilon=self.epsilon)


class RMSNormalization(Layer):
    """x / √(mean x² + epsilon) · scale over `axis`, of each example."""

    supports_masking = True

    def __init__(self, axis: int | Sequence[int] = -1, epsilon: Positive = 1e-6, **options: Any) -> None:
        super().__init__(**options)
        self.axes = (axis,) if isinstance(axis, SupportsIndex) else tuple(axis)
        self.epsilon = epsilon

    def make_weights(self, input_shape: Any) -> None:
        if any(not -len(input_shape) <= axis < len(input_shape) for axis in self.axes):
            got, need = f"axis={self.axes} of {len(input_shape)} dimensions", "axes that are there"
            raise ArgumentError("RMSNormalization", got=got, need=need)
        self.scale = self.add_weight(tuple(input_shape[axis] for axis in self.axes), "ones", name="scale")

    def call(self, inputs: Any) -> Any:
        x = as_float(inputs)
        size = n.mean(x * x, axis=self.axes, keepdims=True)
        kept = [x.shape[axis] if axis in [own % x.ndim for own in self.axes] else 1 for axis in range(x.ndim)]
        return x * n.rsqrt(size + self.epsilon) * n.reshape(self.scale, kept)


class GroupNormalization(Layer):
    """Layer normalization over all places and the channels of each of `groups` groups; -1 is one for each channel."""

    def __init__(
        self,
        groups: int = 32,
        axis: int = -1,
        epsilon: Positive = 1e-3,
        center: bool = True,
        scale: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if axis != -1:
            raise refused("GroupNormalization", "axis", axis, "channels on the last axis")
        self.groups, self.epsilon, self.center, self.scale = groups, epsilon, center, scale

    def make_weights(self, input_shape: Any) -> None:
        if len(input_shape) < 2:
            raise ShapeError("GroupNormalization", got=f"{input_shape}", need="[batch, …, channels]")
        channels = input_shape[-1]
        self.parts = channels if self.groups == -1 else self.groups
        if channels % self.parts:
            raise ArgumentError("GroupNormalization", got=f"{channels} channels", need=f"a multiple of {self.parts}")
        if self.scale:
            self.gamma = self.add_weight((channels,), "ones", name="gamma")
        if self.center:
            self.beta = self.add_weight((channels,), "zeros", name="beta")

    def call(self, inputs: Any) -> Any:
        x = as_float(inputs)
        apart = n.reshape(x, (*x.shape[:-1], self.parts, x.shape[-1] // self.parts))
        axes = (*range(1, x.ndim - 1), x.ndim)
        mean = n.mean(apart, axis=axes, keepdims=True)
        far = apart - mean
        y = n.reshape(far * n.rsqrt(n.mean(far * far, axis=axes, keepdims=True) + self.epsilon), x.shape)
        y = y * self.gamma if self.scale else y
        return y + self.beta if self.center else y


class UnitNormalization(Layer):
    """x / |x| along the axis."""

    def __init__(self, axis: int = -1, **options: Any) -> None:
        super().__init__(**options)
        self.axis = axis

    def call(self, inputs: Any) -> Any:
        x = as_float(inputs)
        return x * n.rsqrt(n.maximum(n.sum(x * x, axis=self.axis, keepdims=True), 1e-12))
