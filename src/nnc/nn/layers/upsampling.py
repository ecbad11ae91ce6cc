"""Layers that make pictures larger: transposed convolution and resampling, over [batch, height, width, channels]."""

from __future__ import annotations

from typing import Literal

from nnc.arguments import Count, Size, checked
from nnc.classes import dataclass
from nnc.nn.layers.convolution import VOLUME, Counts3D, Sizes3D, borders_of, of_three
from nnc.nn.layers.initializers import he_uniform, zeros
from nnc.nn.layers.layer import Layer, Scope, T, require_rank
from nnc.ops import Window, convolution_transpose, upsample, window_of

__all__ = ["ConvolutionTranspose", "ConvolutionTranspose3D", "Upsample"]


@checked
@dataclass(frozen=True, slots=True)
class ConvolutionTranspose(Layer):
    """`filters` channels: size' = (size - 1) · stride + kernel - 2 · padding + output_padding.

    >>> nn.ConvolutionTranspose(4, 2, stride=2, padding=0)(nnc.ones((2, 8, 8, 3))).shape
    (2, 16, 16, 4)
    """

    filters: Count
    kernel: Count = 2
    stride: Count = 2
    padding: Size = 0
    output_padding: Size = 0
    bias: bool = True

    def build(self, scope: Scope[T], x: T) -> T:
        require_rank("ConvolutionTranspose", x, 4, "batch, height, width, channels")
        window = window_of(self.kernel, stride=self.stride, padding=self.padding)
        weight = scope.parameter("weight", (self.kernel, self.kernel, self.filters, x.shape[-1]), x, he_uniform)
        bias = scope.parameter("bias", (self.filters,), x, zeros) if self.bias else None
        extra = (self.output_padding, self.output_padding)
        return convolution_transpose(x, weight, bias, window=window, output_padding=extra)


@checked
@dataclass(frozen=True, slots=True)
class ConvolutionTranspose3D(Layer):
    """`filters` channels over depth, height and width, with the sizes of ConvolutionTranspose.

    >>> nn.ConvolutionTranspose3D(4, 2, stride=2, padding=0)(nnc.ones((2, 4, 4, 4, 3))).shape
    (2, 8, 8, 8, 4)
    """

    filters: Count
    kernel: Counts3D = 2
    stride: Counts3D = 2
    padding: Sizes3D = 0
    output_padding: Sizes3D = 0
    bias: bool = True

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, depth, height, width, channels]."""
        require_rank("ConvolutionTranspose3D", x, 5, VOLUME)
        window = Window(of_three(self.stride), borders_of(self.padding), (1, 1, 1))
        shape = (*of_three(self.kernel), self.filters, x.shape[-1])
        weight = scope.parameter("weight", shape, x, he_uniform)
        bias = scope.parameter("bias", (self.filters,), x, zeros) if self.bias else None
        return convolution_transpose(x, weight, bias, window=window, output_padding=of_three(self.output_padding))


@checked
@dataclass(frozen=True, slots=True)
class Upsample(Layer):
    """`factor` times the height and width; `mode` is "nearest" or "bilinear".

    >>> nn.Upsample(2)(nnc.ones((2, 8, 8, 3))).shape
    (2, 16, 16, 3)
    """

    factor: Count = 2
    mode: Literal["nearest", "bilinear"] = "nearest"

    def build(self, scope: Scope[T], x: T) -> T:
        require_rank("Upsample", x, 4, "batch, height, width, channels")
        return upsample(x, (x.shape[1] * self.factor, x.shape[2] * self.factor), self.mode)
