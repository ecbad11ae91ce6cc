"""Pooling layers over [batch, height, width, channels], [batch, steps, channels] and, in three dimensions,
[batch, depth, height, width, channels].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from nnc.arguments import Count, Size, checked
from nnc.classes import dataclass
from nnc.errors import ShapeError
from nnc.nn.layers.convolution import VOLUME, Counts3D, Sizes3D, as_row, borders_of, of_three
from nnc.nn.layers.layer import Layer, Scope, T, require_rank
from nnc.ops import Window, average_pool, max_pool, reduce_mean, reshape, window_of

__all__ = ["AveragePool", "AveragePool1D", "AveragePool3D", "GlobalAveragePool", "MaxPool", "MaxPool1D", "MaxPool3D"]


@checked
@dataclass(frozen=True, slots=True)
class MaxPool(Layer):
    """Largest element of each `kernel` × `kernel` window, which moves by `stride` (the kernel when 0).

    With `ceil` windows go on over the end until each element stands in one.

    >>> nn.MaxPool(2)(nnc.ones((2, 8, 8, 3))).shape
    (2, 4, 4, 3)
    """

    replays: ClassVar[bool] = True
    kernel: Count = 2
    stride: Size = 0
    padding: Size = 0
    ceil: bool = False

    def build(self, scope: Scope[T], x: T) -> T:
        require_rank("MaxPool", x, 4, "batch, height, width, channels")
        window = window_of(self.kernel, stride=self.stride or self.kernel, padding=self.padding)
        if self.ceil:
            window = over_the_end(x.shape[1:3], (self.kernel, self.kernel), window)
        return max_pool(x, (self.kernel, self.kernel), window)


@checked
@dataclass(frozen=True, slots=True)
class AveragePool(Layer):
    """Mean of each `kernel` × `kernel` window, which moves by `stride` (the kernel when 0).

    >>> nn.AveragePool(2)(nnc.ones((2, 8, 8, 3))).shape
    (2, 4, 4, 3)
    """

    replays: ClassVar[bool] = True
    kernel: Count = 2
    stride: Size = 0
    padding: Size = 0

    def build(self, scope: Scope[T], x: T) -> T:
        require_rank("AveragePool", x, 4, "batch, height, width, channels")
        window = window_of(self.kernel, stride=self.stride or self.kernel, padding=self.padding)
        return average_pool(x, (self.kernel, self.kernel), window)


@checked
@dataclass(frozen=True, slots=True)
class MaxPool1D(Layer):
    """Largest element of each `kernel` steps, which move by `stride` (the kernel when 0).

    >>> nn.MaxPool1D(2)(nnc.ones((2, 10, 3))).shape
    (2, 5, 3)
    """

    kernel: Count = 2
    stride: Size = 0
    padding: Size = 0

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, steps, channels]."""
        return _over_steps(self, max_pool, x)


@checked
@dataclass(frozen=True, slots=True)
class AveragePool1D(Layer):
    """Mean of each `kernel` steps, which move by `stride` (the kernel when 0).

    >>> nn.AveragePool1D(2)(nnc.ones((2, 10, 3))).shape
    (2, 5, 3)
    """

    kernel: Count = 2
    stride: Size = 0
    padding: Size = 0

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, steps, channels]."""
        return _over_steps(self, average_pool, x)


def _over_steps(layer: MaxPool1D | AveragePool1D, pool: Callable[[T, tuple[int, int], Window], T], x: T) -> T:
    """Pool steps as images of one row."""
    require_rank(type(layer).__name__, x, 3, "batch, steps, channels")
    padding = ((0, 0), (layer.padding, layer.padding))
    y = pool(as_row(x), (1, layer.kernel), Window((1, layer.stride or layer.kernel), padding, (1, 1)))
    return reshape(y, (y.shape[0], *y.shape[2:]))


@checked
@dataclass(frozen=True, slots=True)
class MaxPool3D(Layer):
    """Largest element of each window over depth, height and width, which moves by `stride` (the kernel when 0).

    With `ceil` windows go on over the end until each element stands in one.

    >>> nn.MaxPool3D(2)(nnc.ones((2, 4, 4, 4, 3))).shape
    (2, 2, 2, 2, 3)
    """

    kernel: Counts3D = 2
    stride: Sizes3D = 0
    padding: Sizes3D = 0
    ceil: bool = False

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, depth, height, width, channels]."""
        require_rank("MaxPool3D", x, 5, VOLUME)
        kernel, window = of_three(self.kernel), _window_3d(self)
        return max_pool(x, kernel, over_the_end(x.shape[1:4], kernel, window) if self.ceil else window)


@checked
@dataclass(frozen=True, slots=True)
class AveragePool3D(Layer):
    """Mean of each window over depth, height and width, which moves by `stride` (the kernel when 0).

    >>> nn.AveragePool3D(2)(nnc.ones((2, 4, 4, 4, 3))).shape
    (2, 2, 2, 2, 3)
    """

    kernel: Counts3D = 2
    stride: Sizes3D = 0
    padding: Sizes3D = 0

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, depth, height, width, channels]."""
        require_rank("AveragePool3D", x, 5, VOLUME)
        return average_pool(x, of_three(self.kernel), _window_3d(self))


def _window_3d(layer: MaxPool3D | AveragePool3D) -> Window:
    pairs = zip(of_three(layer.stride), of_three(layer.kernel), strict=True)
    return Window(tuple(stride or kernel for stride, kernel in pairs), borders_of(layer.padding), (1, 1, 1))


def over_the_end(sizes: tuple[int, ...], kernel: tuple[int, ...], window: Window) -> Window:
    """With so much added behind each axis that every element stands in a window."""
    rows = zip(sizes, kernel, window.strides, window.padding, strict=True)
    return replace(window, padding=tuple(_border(size, extent, step, low) for size, extent, step, (low, _) in rows))


def _border(size: int, kernel: int, stride: int, padding: int) -> tuple[int, int]:
    """What is added before and behind an axis; a window that would begin behind its end is left out."""
    whole = size + 2 * padding
    windows = max(-(-(whole - kernel) // stride), 0)
    if windows * stride >= size + padding:
        windows -= 1
    return padding, padding + max(windows * stride + kernel - whole, 0)


@checked
@dataclass(frozen=True, slots=True)
class GlobalAveragePool(Layer):
    """y[batch, channels] = mean of x over all positions.

    >>> nn.GlobalAveragePool()(nnc.ones((2, 8, 8, 3))).shape
    (2, 3)
    """

    replays: ClassVar[bool] = True

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, …, channels]."""
        if x.spec.rank < 3:
            raise ShapeError("GlobalAveragePool", got=str(x.spec), need="at least three dimensions")
        return reduce_mean(x, range(1, x.spec.rank - 1))
