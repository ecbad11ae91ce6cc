"""Layers of images as PyTorch has them: arrays are [batch, channels, spatial…], and a layer is told its sizes.

    nn.Conv2d(3, 8, 3, padding=1)       nn.Convolution(8, 3) of channels last, whose input size is found
    nn.BatchNorm2d(8)                   nn.BatchNorm()

Tensors have PyTorch's names. Weights of convolutions are kept as kernels read them, [spatial…, in / groups, out]: steps
that turned them took 1.7 times as long (eight layers of up to 512 channels). `load_state_dict` takes PyTorch's too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from nnc.arguments import Count, Positive, Probability, checked
from nnc.core.values.spec import Layout
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.layers.batch_norm import NamedBatchNorm
from nnc.nn.layers.initializers import zeros
from nnc.nn.layers.layer import Scope, T
from nnc.nn.modules.channels_first_windows import (
    Counts,
    Padding,
    Sizes,
    convolved,
    each,
    window_over,
    with_channels_last,
)
from nnc.nn.modules.module import Module, Parameter
from nnc.nn.modules.starting_values import empty_parameter, only_input, start_uniform
from nnc.nn.state.weight_order import in_first
from nnc.ops import (
    Window,
    convolution_transpose,
    transpose,
)
from nnc.ops.movement.layout import layout_permutation

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose2d",
]


class _Convolution(Module):
    """What convolutions over any number of axes share."""

    branches_in_training: ClassVar[bool] = False
    rank: ClassVar[int]

    def __init__(
        self,
        in_channels: Count,
        out_channels: Count,
        kernel_size: Counts,
        stride: Counts = 1,
        padding: Padding = 0,
        dilation: Counts = 1,
        groups: Count = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        kind = type(self).__name__
        if in_channels % groups or out_channels % groups:
            got = f"{in_channels} and {out_channels} channels in {groups} groups"
            raise ArgumentError(kind, got=got, need="groups that divide both")
        self.in_channels, self.out_channels, self.groups, self.has_bias = in_channels, out_channels, groups, bias
        self.kernel_size = each(kind, "kernel_size", kernel_size, self.rank)
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self._window()
        fan_in = math.prod(self.kernel_size) * (in_channels // groups)
        start_uniform(self, self._weight_shape(), fan_in, out_channels, bias=bias)
        in_first(self.own.variables["weight"])

    def layouts(self) -> Mapping[str, tuple[int, ...]]:
        """[out, in, spatial…]"""
        return {"weight": (self.rank + 1, self.rank, *range(self.rank))}

    def _window(self) -> Window:
        return window_over(type(self).__name__, self.kernel_size, self.stride, self.padding, self.dilation)

    def _weight_shape(self) -> tuple[int, ...]:
        return (*self.kernel_size, self.in_channels // self.groups, self.out_channels)

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to the only input."""
        x = only_input(self, inputs)
        return (with_channels_last(type(self).__name__, x, self.rank, lambda last: self._last(scope, last)),)

    def _parameters(self, scope: Scope[T], last: T) -> tuple[T, T | None]:
        if last.shape[-1] != self.in_channels:
            got, need = f"{last.shape[-1]} channels on axis 1", f"{self.in_channels}"
            kind = type(self).__name__
            fix = f"nn.{kind}({last.shape[-1]}, {self.out_channels}, …); nn.Convolution(filters) has channels last"
            raise ShapeError(kind, got=got, need=need, fix=fix)
        weight = scope.parameter("weight", self._weight_shape(), last, zeros)
        bias = scope.parameter("bias", (self.out_channels,), last, zeros) if self.has_bias else None
        return weight, bias

    def _last(self, scope: Scope[T], last: T) -> T:
        weight, bias = self._parameters(scope, last)
        return convolved(last, weight, bias, self._window(), self.groups)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size})"


@checked
class Conv1d(_Convolution):
    """y[n, f, i] = Σ x[n, c, i·stride + k·dilation - padding] · weight[k, c, f] + bias[f]

    >>> nn.Conv1d(3, 8, 3, padding=1)(nnc.ones((2, 3, 10))).shape
    (2, 8, 10)
    """

    rank = 1


@checked
class Conv2d(_Convolution):
    """y[n, f, i, j] = Σ x[n, c, i·stride + k·dilation - padding, …] · weight[k, l, c, f] + bias[f]

    >>> nn.Conv2d(3, 8, 3, padding=1)(nnc.ones((2, 3, 8, 8))).shape
    (2, 8, 8, 8)
    >>> nn.Conv2d(3, 8, (3, 1), stride=2)(nnc.ones((3, 8, 8))).shape
    (8, 3, 4)
    """

    rank = 2


@checked
class Conv3d(_Convolution):
    """As `Conv2d`, over depth, height and width.

    >>> nn.Conv3d(1, 4, 3)(nnc.ones((2, 1, 5, 6, 7))).shape
    (2, 4, 3, 4, 5)
    """

    rank = 3


@checked
class ConvTranspose2d(_Convolution):
    """The transpose of `Conv2d`.

    size = (size - 1) · stride - 2 · padding + dilation · (kernel - 1) + output_padding + 1

    >>> nn.ConvTranspose2d(8, 3, 2, stride=2)(nnc.ones((2, 8, 4, 4))).shape
    (2, 3, 8, 8)
    """

    rank = 2

    def __init__(
        self,
        in_channels: Count,
        out_channels: Count,
        kernel_size: Counts,
        stride: Counts = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: Count = 1,
        bias: bool = True,
        dilation: Counts = 1,
    ) -> None:
        self.output_padding = each("ConvTranspose2d", "output_padding", output_padding, 2)
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)

    def _weight_shape(self) -> tuple[int, ...]:
        return (*self.kernel_size, self.out_channels // self.groups, self.in_channels)

    def _last(self, scope: Scope[T], last: T) -> T:
        weight, bias = self._parameters(scope, last)
        extra = self.output_padding
        return convolution_transpose(
            last, weight, bias, window=self._window(), groups=self.groups, output_padding=extra
        )


class ChannelStatistics(Module):
    """Weight, bias and running statistics of a batch norm that is told its number of channels."""

    branches_in_training: ClassVar[bool] = False

    def __init__(self, num_features: Count, eps: Positive = 1e-5, momentum: Probability = 0.1) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            values = empty_parameter(self, (num_features,))
            values[...] = value
            if name in ("weight", "bias"):
                setattr(self, name, Parameter(values))
            else:
                self.register_buffer(name, values)
        self.own.called = True


class _BatchNorm(ChannelStatistics):
    """What batch norms over any number of axes share."""

    ranks: ClassVar[tuple[int, ...]]

    def build_many(self, scope: Scope[T], inputs: tuple[T, ...]) -> tuple[T, ...]:
        """Apply to the only input."""
        x, kind = only_input(self, inputs), type(self).__name__
        if x.spec.rank not in self.ranks or x.shape[1] != self.num_features:
            need = f"{self.num_features} channels on axis 1 of {' or '.join(map(str, self.ranks))} axes"
            raise ShapeError(kind, got=str(x.spec), need=need, fix=f"nn.{kind}(channels)")
        norm = NamedBatchNorm(1.0 - self.momentum, self.eps, unbiased=True)
        rank = x.spec.rank
        y = norm.build(scope, transpose(x, layout_permutation(Layout.NHWC, rank)))
        return (transpose(y, layout_permutation(Layout.NCHW, rank)),)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_features}, eps={self.eps}, momentum={self.momentum})"


@checked
class BatchNorm1d(_BatchNorm):
    """`BatchNorm2d` of x[batch, channels] or x[batch, channels, steps].

    >>> nn.BatchNorm1d(1)([[1.0], [3.0]])
    Variable(f32[2, 1], recorded)
    [[-1.]
     [ 1.]]
    """

    ranks = (2, 3)


@checked
class BatchNorm2d(_BatchNorm):
    """y = (x - mean) / √(variance + eps) · weight + bias for each channel of x[batch, channels, height, width].

    running = (1 - momentum) · running + momentum · batch; the running variance is that of a sample, by n - 1.

    >>> norm = nn.BatchNorm2d(3)
    >>> norm(nnc.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    >>> norm.running_mean.tolist()
    [0.10000000149011612, 0.10000000149011612, 0.10000000149011612]
    """

    ranks = (4,)


@checked
class BatchNorm3d(_BatchNorm):
    """`BatchNorm2d` of x[batch, channels, depth, height, width]."""

    ranks = (5,)
