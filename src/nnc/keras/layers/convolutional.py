"""Convolutions under Keras' names, over [batch, spatial…, channels].

Padding "same" is TensorFlow's: outputs of size ⌈n / stride⌉, and of an odd border the larger half behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from nnc import numerics as n
from nnc.arguments import Count
from nnc.errors import ArgumentError, ShapeError
from nnc.keras import activations
from nnc.keras.layers.core import as_float
from nnc.keras.layers.spatial import Sizes, SpatialLayer, check_format, in_rows, per_axis, window_over
from nnc.keras.named import refused
from nnc.ops import Window, convolution, convolution_transpose

__all__ = [
    "Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "DepthwiseConv2D",
    "SeparableConv1D", "SeparableConv2D",
]  # fmt: skip

Padding: TypeAlias = Literal["valid", "same", "causal", "VALID", "SAME"]


class WindowedLayer(SpatialLayer):
    """A sum over windows of images, or of as many other axes as the `rank` says."""

    other_axes = 0

    def __init__(
        self,
        kernel_size: Sizes,
        strides: Sizes,
        padding: Padding,
        dilation_rate: Sizes,
        data_format: str | None,
        activation: Any,
        use_bias: bool,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        kind = type(self).__name__
        check_format(kind, data_format)
        self.kernel_size = per_axis(kind, "kernel_size", kernel_size, self.rank)
        self.strides = per_axis(kind, "strides", strides, self.rank)
        self.dilation_rate = per_axis(kind, "dilation_rate", dilation_rate, self.rank)
        self.padding, self.activation, self.use_bias = padding.lower(), activations.get(activation), use_bias


class _Convolution(WindowedLayer):
    """What convolutions over any number of axes share."""

    transposed: ClassVar[bool] = False

    def __init__(
        self,
        filters: Count,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Padding = "valid",
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        groups: Count = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(kernel_size, strides, padding, dilation_rate, data_format, activation, use_bias, **options)
        self.filters, self.groups = filters, groups
        if self.padding == "causal" and self.rank != 1:
            raise refused(type(self).__name__, "padding", padding, 'padding="same" or "valid"')
        self.starts, self.penalties = (kernel_initializer, bias_initializer), (kernel_regularizer, bias_regularizer)

    def make_weights(self, input_shape: Any) -> None:
        kind, axes = type(self).__name__, self.rank + 2
        if len(input_shape) != axes:
            raise ShapeError(kind, got=f"{input_shape}", need=f"{axes} dimensions [batch, spatial…, channels]")
        channels = input_shape[-1]
        if channels % self.groups or self.filters % self.groups:
            got = f"{channels} channels and {self.filters} filters in {self.groups} groups"
            raise ArgumentError(kind, got=got, need="groups that divide both")
        ends = (self.filters, channels) if self.transposed else (channels // self.groups, self.filters)
        shape = (*self.kernel_size, *ends)
        self.kernel = self.add_weight(shape, self.starts[0], regularizer=self.penalties[0], name="kernel")
        if self.use_bias:
            self.bias = self.add_weight((self.filters,), self.starts[1], regularizer=self.penalties[1], name="bias")

    def call(self, inputs: Any) -> Any:
        x, bias = as_float(inputs), self.bias if self.use_bias else None
        if self.rank > 1:
            return self.activation(self._over(x, self.kernel, bias, self.kernel_size))
        kernel = n.expand_dims(self.kernel, 0)
        return self.activation(in_rows(x, lambda row: self._over(row, kernel, bias, self.kernel_size)))

    def _over(self, x: Any, kernel: Any, bias: Any, extents: tuple[int, ...]) -> Any:
        strides, dilations = self.strides, self.dilation_rate
        if self.rank == 1:
            # Causal padding is that of steps alone: a row has an extent of 1.
            extents, strides, dilations = (1, *extents), (1, *strides), (1, *dilations)
        window = window_over(x.shape[1:-1], extents, strides, self.padding, dilations)
        return convolution(x, kernel, bias, window=window, groups=self.groups)


class Conv1D(_Convolution, rank=1):
    """Σ x[batch, i · stride + k, c] · kernel[k, c, f] + bias[f]; "causal" sees no later step."""


class Conv2D(_Convolution, rank=2):
    """Σ x[batch, i · stride + k, j · stride + l, c] · kernel[k, l, c, f] + bias[f]

    >>> from nnc import keras
    >>> keras.layers.Conv2D(8, 3, padding="same", activation="relu")(n.ones((2, 8, 8, 3))).shape
    (2, 8, 8, 8)
    """


class Conv3D(_Convolution, rank=3):
    """As `Conv2D`, over depth, height and width."""


class _Transposed(_Convolution):
    transposed = True

    def _over(self, x: Any, kernel: Any, bias: Any, extents: tuple[int, ...]) -> Any:
        strides = self.strides
        if self.rank == 1:
            extents, strides = (1, *extents), (1, *strides)
        borders, extra = [], []
        for extent, stride in zip(extents, strides, strict=True):
            total = max(extent - stride, 0) if self.padding == "same" else 0
            borders.append((total // 2, total - total // 2))
            extra.append(max(stride - extent, 0))
        window = Window(tuple(strides), tuple(borders), (1,) * len(extents))
        return convolution_transpose(x, kernel, bias, window=window, output_padding=tuple(extra))

    def make_weights(self, input_shape: Any) -> None:
        if self.groups != 1 or set(self.dilation_rate) != {1}:
            raise refused(type(self).__name__, "dilation_rate", self.dilation_rate, "leave groups and dilation out")
        super().make_weights(input_shape)


class Conv2DTranspose(_Transposed, rank=2):
    """The transpose of `Conv2D`: sizes n · stride ("same"), n · stride + max(kernel - stride, 0) ("valid")."""


class Conv1DTranspose(_Transposed, rank=1):
    """The transpose of `Conv1D`."""


class Conv3DTranspose(_Transposed, rank=3):
    """The transpose of `Conv3D`."""


class DepthwiseConv2D(WindowedLayer, rank=2):
    """Each channel is convolved with `depth_multiplier` filters of its own."""

    def __init__(
        self,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Padding = "valid",
        depth_multiplier: Count = 1,
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(kernel_size, strides, padding, dilation_rate, data_format, activation, use_bias, **options)
        self.depth_multiplier, self.penalty = depth_multiplier, depthwise_regularizer
        self.starts = depthwise_initializer, bias_initializer

    def make_weights(self, input_shape: Any) -> None:
        channels, many = input_shape[-1], self.depth_multiplier
        shape = (*self.kernel_size, channels, many)
        self.kernel = self.add_weight(shape, self.starts[0], regularizer=self.penalty, name="kernel")
        if self.use_bias:
            self.bias = self.add_weight((channels * many,), self.starts[1], name="bias")

    def call(self, inputs: Any) -> Any:
        y = depthwise(as_float(inputs), self.kernel, self.strides, self.padding, self.dilation_rate)
        return self.activation(y + self.bias if self.use_bias else y)


def depthwise(x: Any, kernel: Any, strides: Sequence[int], padding: str, dilations: Sequence[int]) -> Any:
    """x[batch, height, width, c] with kernel[k, l, c, m], each channel by itself."""
    channels = x.shape[-1]
    flat = n.reshape(kernel, (*kernel.shape[:2], 1, channels * kernel.shape[3]))
    return convolution(
        x, flat, window=window_over(x.shape[1:3], kernel.shape[:2], strides, padding, dilations), groups=channels
    )


class _Separable(WindowedLayer):
    def __init__(
        self,
        filters: Count,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Padding = "valid",
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        depth_multiplier: Count = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        pointwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **options: Any,
    ) -> None:
        super().__init__(kernel_size, strides, padding, dilation_rate, data_format, activation, use_bias, **options)
        self.filters, self.depth_multiplier = filters, depth_multiplier
        self.starts = depthwise_initializer, pointwise_initializer, bias_initializer

    def make_weights(self, input_shape: Any) -> None:
        channels, many = input_shape[-1], self.depth_multiplier
        shape = (*self.kernel_size, channels, many)
        self.depthwise_kernel = self.add_weight(shape, self.starts[0], name="depthwise_kernel")
        shape = (*(1,) * self.rank, channels * many, self.filters)
        self.pointwise_kernel = self.add_weight(shape, self.starts[1], name="pointwise_kernel")
        if self.use_bias:
            self.bias = self.add_weight((self.filters,), self.starts[2], name="bias")

    def call(self, inputs: Any) -> Any:
        x = as_float(inputs)
        if self.rank == 1:
            narrow, point = n.expand_dims(self.depthwise_kernel, 0), n.expand_dims(self.pointwise_kernel, 0)
            strides, dilations = (1, *self.strides), (1, *self.dilation_rate)
            y = in_rows(x, lambda row: self._both(row, narrow, point, strides, dilations))
        else:
            y = self._both(x, self.depthwise_kernel, self.pointwise_kernel, self.strides, self.dilation_rate)
        return self.activation(y)

    def _both(self, x: Any, narrow: Any, point: Any, strides: Sequence[int], dilations: Sequence[int]) -> Any:
        between = depthwise(x, narrow, strides, self.padding, dilations)
        bias = self.bias if self.use_bias else None
        return convolution(between, point, bias, window=window_over(between.shape[1:3], (1, 1), (1, 1), "valid"))


class SeparableConv2D(_Separable, rank=2):
    """A depthwise convolution, then one of 1 × 1."""


class SeparableConv1D(_Separable, rank=1):
    """A depthwise convolution of steps, then one of 1."""
