"""Convolution layers over [batch, height, width, channels] and, in one dimension, [batch, steps, channels]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nnc.arguments import Count, Size, checked
from nnc.nn.layers.initializers import he_uniform, zeros
from nnc.nn.layers.layer import Layer, Scope, T, require_rank
from nnc.ops import Window, convolution, reshape, window_of


@checked
@dataclass(frozen=True, slots=True)
class Convolution(Layer):
    """`filters` filters of `kernel` × `kernel`; padding "same" keeps the size at stride 1."""

    filters: Count
    kernel: Count = 3
    stride: Count = 1
    padding: Size | Literal["same"] = "same"
    dilation: Count = 1
    groups: Count = 1
    bias: bool = True

    def build(self, scope: Scope[T], x: T) -> T:
        require_rank("Convolution", x, 4, "batch, height, width, channels")
        window = window_of(self.kernel, stride=self.stride, padding=self.padding, dilation=self.dilation)
        shape = (self.kernel, self.kernel, x.shape[-1] // self.groups, self.filters)
        weight = scope.parameter("weight", shape, x, he_uniform)
        bias = scope.parameter("bias", (self.filters,), x, zeros) if self.bias else None
        return convolution(x, weight, bias, window=window, groups=self.groups)


@checked
@dataclass(frozen=True, slots=True)
class Convolution1D(Layer):
    """`filters` filters of `kernel` steps; padding "same" keeps the size at stride 1, "causal" sees no later step."""

    filters: Count
    kernel: Count = 3
    stride: Count = 1
    padding: Size | Literal["same", "causal"] = "same"
    dilation: Count = 1
    groups: Count = 1
    bias: bool = True

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, steps, channels]."""
        require_rank("Convolution1D", x, 3, "batch, steps, channels")
        reach = self.dilation * (self.kernel - 1)
        borders = {"same": (reach - reach // 2, reach // 2), "causal": (reach, 0)}
        border = (self.padding, self.padding) if isinstance(self.padding, int) else borders[self.padding]
        window = Window((1, self.stride), ((0, 0), border), (1, self.dilation))
        shape = (self.kernel, x.shape[-1] // self.groups, self.filters)
        weight = reshape(scope.parameter("weight", shape, x, he_uniform), (1, *shape))
        bias = scope.parameter("bias", (self.filters,), x, zeros) if self.bias else None
        y = convolution(as_row(x), weight, bias, window=window, groups=self.groups)
        return reshape(y, (y.shape[0], *y.shape[2:]))


def as_row(x: T) -> T:
    """Steps as a picture of one row."""
    return reshape(x, (x.shape[0], 1, *x.shape[1:]))
