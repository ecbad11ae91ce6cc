"""Layers that make pictures larger: transposed convolution and resampling, over [batch, height, width, channels]."""

from __future__ import annotations

from dataclasses import dataclass

from nnc.errors import AttributeValueError
from nnc.nn.initializers import he_uniform, zeros
from nnc.nn.layer import Layer, Scope, T, require_rank
from nnc.ops import convolution_transpose, upsample, window_of


@dataclass(frozen=True, slots=True)
class ConvolutionTranspose(Layer):
    """`filters` channels: size' = (size - 1) · stride + kernel - 2 · padding + output_padding."""

    filters: int
    kernel: int = 2
    stride: int = 2
    padding: int = 0
    output_padding: int = 0
    bias: bool = True

    def __post_init__(self) -> None:
        if min(self.filters, self.kernel, self.stride) < 1 or self.padding < 0:
            got = f"filters={self.filters}, kernel={self.kernel}, stride={self.stride}, padding={self.padding}"
            raise AttributeValueError("ConvolutionTranspose", got=got, need="all ≥ 1, padding ≥ 0")

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`."""
        require_rank("ConvolutionTranspose", x, 4, "batch, height, width, channels")
        window = window_of(self.kernel, stride=self.stride, padding=self.padding)
        weight = scope.parameter("weight", (self.kernel, self.kernel, self.filters, x.shape[-1]), x, he_uniform)
        bias = scope.parameter("bias", (self.filters,), x, zeros) if self.bias else None
        extra = (self.output_padding, self.output_padding)
        return convolution_transpose(x, weight, bias, window=window, output_padding=extra)


@dataclass(frozen=True, slots=True)
class Upsample(Layer):
    """`factor` times the height and width; `mode` is "nearest" or "bilinear"."""

    factor: int = 2
    mode: str = "nearest"

    def __post_init__(self) -> None:
        if self.factor < 1 or self.mode not in {"nearest", "bilinear"}:
            got = f"factor={self.factor}, mode={self.mode!r}"
            raise AttributeValueError("Upsample", got=got, need='factor ≥ 1, mode "nearest" or "bilinear"')

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`."""
        require_rank("Upsample", x, 4, "batch, height, width, channels")
        return upsample(x, (x.shape[1] * self.factor, x.shape[2] * self.factor), self.mode)
