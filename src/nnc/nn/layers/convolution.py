"""Convolution layer in two dimensions over [batch, height, width, channels]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nnc.arguments import Count, Size, checked
from nnc.nn.initializers import he_uniform, zeros
from nnc.nn.layer import Layer, Scope, T, require_rank
from nnc.ops import convolution, window_of


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
