"""Layers around layers, a product of any axes, and dropout of other kinds, under Keras' names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

from nnc import numerics as n
from nnc.arguments import Count, Share, shown
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.transforms.randomness import dropout
from nnc.errors import ArgumentError
from nnc.keras import activations
from nnc.keras.engine.base_layer import Layer
from nnc.keras.layers.core import SpatialDropout, as_float
from nnc.nn.layers.layer import Layer as AnyLayer

__all__ = ["AlphaDropout", "EinsumDense", "SpatialDropout3D", "SpectralNormalization", "Wrapper"]

# selu below zero goes to -scale · alpha.
LOWEST = -1.0507009873554805 * 1.6732632423543772


class SpatialDropout3D(SpatialDropout, rank=3):
    """Whole channels of [batch, depth, height, width, channels] are dropped."""


class AlphaDropout(Layer):
    """Dropout behind `selu`: what is dropped becomes selu(-∞), and mean and variance stay."""

    supports_masking = True

    def __init__(self, rate: Share, noise_shape: Any = None, seed: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.rate = rate

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Drop in training."""
        if not training or not self.rate:
            return inputs
        low = LOWEST
        scale = ((1 - self.rate) * (1 + self.rate * low**2)) ** -0.5
        kept = dropout(n.ones_like(inputs), self.rate) * (1 - self.rate)
        return scale * (inputs * kept + low * (1 - kept)) - scale * low * self.rate


class EinsumDense(Layer):
    """activation(einsum(equation, x, kernel) + bias); `output_shape` is without the batch.

    >>> from nnc import keras
    >>> keras.layers.EinsumDense("abc,cd->abd", (None, 4), bias_axes="d")(n.ones((2, 3, 5))).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        equation: str,
        output_shape: int | Sequence[int | None],
        activation: Any = None,
        bias_axes: str | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        operands, _, result = equation.replace(" ", "").partition("->")
        parts = operands.split(",")
        if len(parts) != 2 or not result:
            raise ArgumentError("EinsumDense", got=f"equation={equation!r}", need="such as 'abc,cd->abd'")
        if set(bias_axes or "") - set(result):
            raise ArgumentError("EinsumDense", got=f"bias_axes={bias_axes!r}", need=f"axes of {result!r}")
        self.equation, self.axes = equation, (*parts, result)
        self.sizes = (output_shape,) if isinstance(output_shape, SupportsIndex) else tuple(output_shape)
        self.activation, self.bias_axes = activations.get(activation), bias_axes
        self.starts, self.penalties = (kernel_initializer, bias_initializer), (kernel_regularizer, bias_regularizer)

    def make_weights(self, input_shape: Any) -> None:
        given, kernel, result = self.axes
        # Axes are counted from behind, so that what an ellipsis stands for does not matter.
        known = dict(zip(reversed(result.replace("...", "")), reversed((None, *self.sizes)), strict=False))
        known |= dict(zip(reversed(given.replace("...", "")), reversed(input_shape), strict=False))
        shape = [known.get(axis) for axis in kernel]
        if None in shape:
            got, fix = f"output_shape={self.sizes}", "say the sizes of the kernel's axes there"
            raise ArgumentError("EinsumDense", got=got, need=f"sizes of {kernel}", fix=fix, origin=caller_origin())
        self.kernel = self.add_weight(shape, self.starts[0], regularizer=self.penalties[0], name="kernel")
        if self.bias_axes:
            wide = [known[axis] if axis in self.bias_axes else 1 for axis in result.replace("...", "")]
            first = min(result.replace("...", "").index(axis) for axis in self.bias_axes)
            self.bias = self.add_weight(wide[first:], self.starts[1], regularizer=self.penalties[1], name="bias")

    def call(self, inputs: Any) -> Any:
        y = n.einsum(self.equation, as_float(inputs), self.kernel)
        return self.activation(y + self.bias if self.bias_axes else y)


class Wrapper(Layer):
    """A layer around another one, which subclasses call as they like."""

    def __init__(self, layer: Any, **options: Any) -> None:
        super().__init__(**options)
        if not isinstance(layer, AnyLayer):
            raise ArgumentError(type(self).__name__, got=shown(layer), need="a layer", origin=caller_origin())
        self.layer: Any = layer

    def call(self, inputs: Any) -> Any:
        return self.layer(inputs)


class SpectralNormalization(Wrapper):
    """A layer whose kernel is divided by its largest singular value, which power iterations follow in training."""

    def __init__(self, layer: Any, power_iterations: Count = 1, **options: Any) -> None:
        super().__init__(layer, **options)
        self.power_iterations = power_iterations

    def make_weights(self, input_shape: Any) -> None:
        self.layer.ensure_built((n.zeros((2, *input_shape[1:])),))
        if not hasattr(self.layer, "kernel"):
            got, need = type(self.layer).__name__, "a layer with a kernel"
            raise ArgumentError("SpectralNormalization", got=got, need=need, origin=caller_origin())
        self.vector = self.add_weight(
            (1, self.layer.kernel.shape[-1]), "truncated_normal", trainable=False, name="vector"
        )

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Divide in training; in use the kernel is the last one that was divided."""
        if training:
            self._divide()
        return self.layer(inputs)

    def _divide(self) -> None:
        kernel = self.layer.kernel
        flat = n.reshape(kernel, (-1, kernel.shape[-1]))
        u, v = self.vector, None
        for _ in range(self.power_iterations):
            v = _unit(u @ flat.T)
            u = _unit(v @ flat)
        largest = (v @ flat) @ u.T
        self.own_assign(vector=u)
        self.layer.kernel = kernel / n.reshape(largest, ())


def _unit(x: Any) -> Any:
    return x / n.maximum(n.sqrt(n.sum(x * x)), 1e-6)
