"""Convolution layers over [batch, height, width, channels], [batch, steps, channels] and, in three dimensions,
[batch, depth, height, width, channels].
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from nnc.arguments import Count, Size, checked
from nnc.classes import dataclass
from nnc.nn.layers.activation import ActivationName, activated, no_activation
from nnc.nn.layers.initializers import he_uniform, zeros
from nnc.nn.layers.layer import Layer, Scope, T, require_rank
from nnc.ops import Window, convolution, reshape, window_of

__all__ = ["Convolution", "Convolution1D", "Convolution3D"]

VOLUME = "batch, depth, height, width, channels"


@checked
@dataclass(frozen=True, slots=True)
class Convolution(Layer):
    """`filters` filters of `kernel` × `kernel`; padding "same" keeps the size at stride 1.

    >>> nn.Convolution(8, 3)(nnc.ones((2, 8, 8, 3))).shape
    (2, 8, 8, 8)
    >>> nn.Convolution(8, 3, stride=2, padding=0)(nnc.ones((2, 8, 8, 3))).shape
    (2, 3, 3, 8)
    """

    replays: ClassVar[bool] = True
    filters: Count
    kernel: Count = 3
    stride: Count = 1
    padding: Size | Literal["same"] = "same"
    dilation: Count = 1
    groups: Count = 1
    bias: bool = True
    activation: ActivationName | None = no_activation()

    def build(self, scope: Scope[T], x: T) -> T:
        require_rank("Convolution", x, 4, "batch, height, width, channels")
        window = window_of(self.kernel, stride=self.stride, padding=self.padding, dilation=self.dilation)
        shape = (self.kernel, self.kernel, x.shape[-1] // self.groups, self.filters)
        weight = scope.parameter("weight", shape, x, he_uniform)
        bias = scope.parameter("bias", (self.filters,), x, zeros) if self.bias else None
        return activated(convolution(x, weight, bias, window=window, groups=self.groups), self.activation)


@checked
@dataclass(frozen=True, slots=True)
class Convolution1D(Layer):
    """`filters` filters of `kernel` steps; padding "same" keeps the size at stride 1, "causal" sees no later step.

    >>> nn.Convolution1D(8, 3)(nnc.ones((2, 10, 3))).shape
    (2, 10, 8)
    """

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


# One number for all three axes, or one for each.
Counts3D: TypeAlias = Count | tuple[Count, Count, Count]
Sizes3D: TypeAlias = Size | tuple[Size, Size, Size]


@checked
@dataclass(frozen=True, slots=True)
class Convolution3D(Layer):
    """`filters` filters over depth, height and width; padding "same" keeps the sizes at stride 1.

    >>> nn.Convolution3D(8, 3)(nnc.ones((2, 4, 4, 4, 3))).shape
    (2, 4, 4, 4, 8)
    """

    filters: Count
    kernel: Counts3D = 3
    stride: Counts3D = 1
    padding: Sizes3D | Literal["same"] = "same"
    dilation: Counts3D = 1
    groups: Count = 1
    bias: bool = True

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, depth, height, width, channels]."""
        require_rank("Convolution3D", x, 5, VOLUME)
        kernel, dilations = of_three(self.kernel), of_three(self.dilation)
        window = Window(of_three(self.stride), self._borders(kernel, dilations), dilations)
        shape = (*kernel, x.shape[-1] // self.groups, self.filters)
        weight = scope.parameter("weight", shape, x, he_uniform)
        bias = scope.parameter("bias", (self.filters,), x, zeros) if self.bias else None
        return convolution(x, weight, bias, window=window, groups=self.groups)

    def _borders(self, kernel: tuple[int, ...], dilations: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        if not isinstance(self.padding, str):
            return borders_of(self.padding)
        reaches = [dilation * (extent - 1) for extent, dilation in zip(kernel, dilations, strict=True)]
        return tuple((reach - reach // 2, reach // 2) for reach in reaches)


def of_three(value: int | tuple[int, int, int]) -> tuple[int, int, int]:
    """One number for each of three axes."""
    return value if isinstance(value, tuple) else (value, value, value)


def borders_of(padding: int | tuple[int, int, int]) -> tuple[tuple[int, int], ...]:
    """The same border before and behind each of three axes."""
    return tuple((size, size) for size in of_three(padding))


def as_row(x: T) -> T:
    """Steps as a picture of one row."""
    return reshape(x, (x.shape[0], 1, *x.shape[1:]))
