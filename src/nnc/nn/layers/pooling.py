"""Pooling layers over [batch, height, width, channels] and, in one dimension, [batch, steps, channels]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nnc.arguments import Count, Size, checked
from nnc.errors import ShapeError
from nnc.nn.layers.convolution import as_row
from nnc.nn.layers.layer import Layer, Scope, T, require_rank
from nnc.ops import Window, average_pool, max_pool, reduce_mean, reshape, window_of


@checked
@dataclass(frozen=True, slots=True)
class MaxPool(Layer):
    """Largest element of each `kernel` × `kernel` window, which moves by `stride` (the kernel when 0).

    With `ceil` windows go on over the end until each element stands in one.
    """

    kernel: Count = 2
    stride: Size = 0
    padding: Size = 0
    ceil: bool = False

    def build(self, scope: Scope[T], x: T) -> T:
        require_rank("MaxPool", x, 4, "batch, height, width, channels")
        window = window_of(self.kernel, stride=self.stride or self.kernel, padding=self.padding)
        if self.ceil:
            borders = (self._border(size) for size in x.shape[1:3])
            window = replace(window, padding=tuple(borders))
        return max_pool(x, (self.kernel, self.kernel), window)

    def _border(self, size: int) -> tuple[int, int]:
        """What is added before and behind an axis; a window that would begin behind its end is left out."""
        stride, whole = self.stride or self.kernel, size + 2 * self.padding
        windows = max(-(-(whole - self.kernel) // stride), 0)
        if windows * stride >= size + self.padding:
            windows -= 1
        return self.padding, self.padding + max(windows * stride + self.kernel - whole, 0)


@checked
@dataclass(frozen=True, slots=True)
class AveragePool(Layer):
    """Mean of each `kernel` × `kernel` window, which moves by `stride` (the kernel when 0)."""

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
    """Largest element of each `kernel` steps, which move by `stride` (the kernel when 0)."""

    kernel: Count = 2
    stride: Size = 0
    padding: Size = 0

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, steps, channels]."""
        return _over_steps(self, max_pool, x)


@checked
@dataclass(frozen=True, slots=True)
class AveragePool1D(Layer):
    """Mean of each `kernel` steps, which move by `stride` (the kernel when 0)."""

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
class GlobalAveragePool(Layer):
    """y[batch, channels] = mean of x over all positions."""

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, …, channels]."""
        if x.spec.rank < 3:
            raise ShapeError("GlobalAveragePool", got=str(x.spec), need="at least three dimensions")
        return reduce_mean(x, range(1, x.spec.rank - 1))
