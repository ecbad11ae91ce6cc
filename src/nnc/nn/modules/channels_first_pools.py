"""Pools and dropout of images as PyTorch has them: arrays are [batch, channels, spatial…].

nn.MaxPool2d(2)             nn.MaxPool(2) of channels last
nn.AdaptiveAvgPool2d(1)     nn.GlobalAveragePool(), which leaves no axes
"""

from __future__ import annotations

from typing import ClassVar

from nnc.arguments import Probability, checked
from nnc.classes import dataclass
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.nn.layers.pooling import over_the_end
from nnc.nn.layers.random import ChannelDropout
from nnc.nn.modules.channels_first_windows import (
    Counts,
    Sizes,
    adaptive_average,
    each,
    for_kernels,
    window_over,
    with_channels_last,
)
from nnc.ops import Window, average_pool, max_pool

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "Dropout2d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
]


@dataclass(frozen=True, slots=True)
class _Pool(Layer):
    """What pools over any number of axes share."""

    kernel_size: Counts
    stride: Counts | None = None
    padding: Sizes = 0
    rank: ClassVar[int] = 2

    def _window(self) -> tuple[tuple[int, ...], Window]:
        kind = type(self).__name__
        kernel = each(kind, "kernel_size", self.kernel_size, self.rank)
        window = for_kernels(window_over(kind, kernel, self.stride or self.kernel_size, self.padding))
        return kernel if self.rank > 1 else (1, *kernel), window

    def build(self, scope: Scope[T], x: T) -> T:
        return self.pooled(x)

    def pooled(self, x: T) -> T:
        """Of [batch, channels, spatial…], or one example of it."""
        kernel, window = self._window()
        return with_channels_last(type(self).__name__, x, self.rank, lambda last: self._pooled(last, kernel, window))

    def _pooled(self, last: T, kernel: tuple[int, ...], window: Window) -> T:
        return max_pool(last, kernel, window)


@checked
@dataclass(frozen=True, slots=True)
class MaxPool1d(_Pool):
    """Largest element of each `kernel_size` steps, which move by `stride` (the kernel, unless given).

    >>> nn.MaxPool1d(2)(nnc.ones((2, 3, 10))).shape
    (2, 3, 5)
    """

    rank: ClassVar[int] = 1


@checked
@dataclass(frozen=True, slots=True)
class MaxPool2d(_Pool):
    """Largest element of each window, which moves by `stride` (the kernel, unless given).

    With `ceil_mode` windows go on over the end until each element stands in one.

    >>> nn.MaxPool2d(3, stride=2, padding=1)(nnc.ones((2, 3, 8, 8))).shape
    (2, 3, 4, 4)
    >>> nn.MaxPool2d(3, stride=2, ceil_mode=True)(nnc.ones((2, 3, 8, 8))).shape
    (2, 3, 4, 4)
    """

    ceil_mode: bool = False

    def _pooled(self, last: T, kernel: tuple[int, ...], window: Window) -> T:
        return max_pool(last, kernel, over_the_end(last.shape[1:-1], kernel, window) if self.ceil_mode else window)


@checked
@dataclass(frozen=True, slots=True)
class MaxPool3d(MaxPool2d):
    """As `MaxPool2d`, over depth, height and width.

    >>> nn.MaxPool3d(2)(nnc.ones((2, 3, 4, 6, 8))).shape
    (2, 3, 2, 3, 4)
    """

    rank: ClassVar[int] = 3


@checked
@dataclass(frozen=True, slots=True)
class AvgPool1d(_Pool):
    """Mean of each `kernel_size` steps; zeros of the border count.

    >>> nn.AvgPool1d(2)(nnc.ones((2, 3, 10))).shape
    (2, 3, 5)
    """

    rank: ClassVar[int] = 1

    def _pooled(self, last: T, kernel: tuple[int, ...], window: Window) -> T:
        return average_pool(last, kernel, window, count_border=True)


@checked
@dataclass(frozen=True, slots=True)
class AvgPool2d(_Pool):
    """Mean of each window; zeros of the border count, unless `count_include_pad` is False.

    >>> nn.AvgPool2d(2)(nnc.ones((2, 3, 8, 8))).shape
    (2, 3, 4, 4)
    """

    count_include_pad: bool = True

    def _pooled(self, last: T, kernel: tuple[int, ...], window: Window) -> T:
        return average_pool(last, kernel, window, count_border=self.count_include_pad)


@checked
@dataclass(frozen=True, slots=True)
class AvgPool3d(AvgPool2d):
    """As `AvgPool2d`, over depth, height and width.

    >>> nn.AvgPool3d(2)(nnc.ones((2, 3, 4, 6, 8))).shape
    (2, 3, 2, 3, 4)
    """

    rank: ClassVar[int] = 3


@checked
@dataclass(frozen=True, slots=True)
class AdaptiveAvgPool1d(Layer):
    """Means over equal parts of the steps, `output_size` of them, which must divide their number.

    >>> nn.AdaptiveAvgPool1d(1)(nnc.ones((2, 3, 10))).shape
    (2, 3, 1)
    """

    output_size: Counts

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to [batch, channels, steps], or one example of it."""
        return adaptive_average("AdaptiveAvgPool1d", x, self.output_size, 1)


@checked
@dataclass(frozen=True, slots=True)
class AdaptiveAvgPool2d(Layer):
    """Means over equal parts of the image, `output_size` (height, width) of them, which must divide its sizes.

    >>> nn.AdaptiveAvgPool2d(1)(nnc.ones((2, 3, 8, 8))).shape
    (2, 3, 1, 1)
    >>> nn.AdaptiveAvgPool2d((2, 4))(nnc.ones((2, 3, 8, 8))).shape
    (2, 3, 2, 4)
    """

    output_size: Counts

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to [batch, channels, height, width], or one example of it."""
        return adaptive_average("AdaptiveAvgPool2d", x, self.output_size, 2)


@checked
@dataclass(frozen=True, slots=True)
class Dropout2d(Layer):
    """Zeros for whole channels of an example with probability `p`, in training; the others are divided by 1 - p.

    >>> nn.Dropout2d(0.5).eval()(nnc.ones((1, 1, 1, 2))).tolist()
    [[[[1.0, 1.0]]]]
    """

    p: Probability = 0.5

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to [batch, channels, height, width], or one example of it."""
        if not scope.training:
            return x
        return with_channels_last("Dropout2d", x, 2, lambda last: ChannelDropout(self.p).build(scope, last))
