"""Normalization layers without running statistics: layer, root-mean-square, group and instance norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from nnc.arguments import Count, Rate, checked
from nnc.classes import dataclass
from nnc.core.values.spec import Layout
from nnc.dynamic.variable import Variable
from nnc.errors import ShapeError
from nnc.nn.layers.initializers import ones, zeros
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.nn.state.sized_tensors import SizedTensors
from nnc.ops import group_norm, instance_norm, layer_norm, rms_norm, transpose
from nnc.ops.movement.layout import layout_permutation

__all__ = ["GroupNorm", "InstanceNorm", "LayerNorm", "RMSNorm"]


@checked
@dataclass(frozen=True, slots=True)
class LayerNorm(Layer):
    """y = (x - mean) / √(variance + epsilon) · weight + bias over the last `axes` axes of each example.

    With a `normalized_shape`, as in PyTorch, these are the last sizes, and the tensors are there from the start.

    >>> nn.LayerNorm()([[1.0, 3.0]])
    Variable(f32[1, 2], recorded)
    [[-1.  1.]]
    >>> nn.LayerNorm(2).weight.tolist()
    [1.0, 1.0]
    """

    replays: ClassVar[bool] = True
    normalized_shape: Count | tuple[Count, ...] | None = None
    epsilon: Rate = 1e-5
    affine: bool = True
    has_bias: bool = True
    axes: Count = 1

    if TYPE_CHECKING:

        @property
        def weight(self) -> Variable: ...

        @property
        def bias(self) -> Variable: ...

        def __init__(
            self,
            normalized_shape: int | Sequence[int] | None = None,
            eps: float = 1e-5,
            elementwise_affine: bool = True,
            bias: bool = True,
            *,
            axes: int = 1,
            epsilon: float = 1e-5,
            affine: bool = True,
        ) -> None: ...

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to the last axes of `x`."""
        axes = _last_axes("LayerNorm", x, self.axes, self.normalized_shape)
        weight, bias = _parameters(scope, x, x.shape[axes[0] :], self.affine, self.has_bias)
        return layer_norm(x, weight, bias, axes=axes, epsilon=self.epsilon)

    def sized_tensors(self) -> SizedTensors:
        """Weight and bias, where the sizes are said."""
        return _sized(_sizes(self.normalized_shape), self.affine, self.has_bias)


@checked
@dataclass(frozen=True, slots=True)
class RMSNorm(Layer):
    """y = x / √(mean x² + epsilon) · weight over the last `axes` axes of each example, or those of `normalized_shape`.

    >>> nn.RMSNorm()([[3.0, 3.0]])
    Variable(f32[1, 2], recorded)
    [[1. 1.]]
    """

    replays: ClassVar[bool] = True
    normalized_shape: Count | tuple[Count, ...] | None = None
    epsilon: Rate = 1e-5
    affine: bool = True
    axes: Count = 1

    if TYPE_CHECKING:

        @property
        def weight(self) -> Variable: ...

        def __init__(
            self,
            normalized_shape: int | Sequence[int] | None = None,
            eps: float = 1e-5,
            elementwise_affine: bool = True,
            *,
            axes: int = 1,
            epsilon: float = 1e-5,
            affine: bool = True,
        ) -> None: ...

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to the last axes of `x`."""
        axes = _last_axes("RMSNorm", x, self.axes, self.normalized_shape)
        weight, _ = _parameters(scope, x, x.shape[axes[0] :], self.affine, False)
        return rms_norm(x, weight, axes=axes, epsilon=self.epsilon)

    def sized_tensors(self) -> SizedTensors:
        """Weight, where the sizes are said."""
        return _sized(_sizes(self.normalized_shape), self.affine, False)


@checked
@dataclass(frozen=True, slots=True)
class GroupNorm(Layer):
    """Each example's channels in `groups` groups, each normalized over its channels and all positions.

    Channels are last; on axis 1 where their number is said, as in PyTorch.

    >>> nn.GroupNorm(2)(nnc.ones((2, 8, 8, 4))).shape
    (2, 8, 8, 4)
    >>> nn.GroupNorm(2, 4)(nnc.ones((2, 4, 8, 8))).shape
    (2, 4, 8, 8)
    """

    groups: Count
    channels: Count | None = None
    epsilon: Rate = 1e-5
    affine: bool = True

    if TYPE_CHECKING:

        @property
        def weight(self) -> Variable: ...

        @property
        def bias(self) -> Variable: ...

        def __init__(
            self,
            num_groups: int,
            num_channels: int | None = None,
            eps: float = 1e-5,
            affine: bool = True,
            *,
            epsilon: float = 1e-5,
        ) -> None: ...

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, …, channels], or [batch, channels, …] where their number is said."""
        if self.channels is None:
            return self._last(scope, x)
        rank = x.spec.rank
        if rank < 2 or x.shape[1] != self.channels:
            raise ShapeError("GroupNorm", got=str(x.spec), need=f"{self.channels} channels on axis 1")
        y = self._last(scope, transpose(x, layout_permutation(Layout.NHWC, rank)))
        return transpose(y, layout_permutation(Layout.NCHW, rank))

    def _last(self, scope: Scope[T], x: T) -> T:
        weight, bias = _parameters(scope, x, x.shape[-1:], self.affine, True)
        return group_norm(x, self.groups, weight, bias, epsilon=self.epsilon)

    def sized_tensors(self) -> SizedTensors:
        """Weight and bias, where the channels are said."""
        return _sized(() if self.channels is None else (self.channels,), self.affine, True)


@checked
@dataclass(frozen=True, slots=True)
class InstanceNorm(Layer):
    """Each channel of each example normalized over all positions.

    >>> nn.InstanceNorm()(nnc.ones((2, 8, 8, 3))).shape
    (2, 8, 8, 3)
    """

    replays: ClassVar[bool] = True
    epsilon: Rate = 1e-5
    affine: bool = True

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, spatial…, channels]."""
        weight, bias = _parameters(scope, x, x.shape[-1:], self.affine, True)
        return instance_norm(x, weight, bias, epsilon=self.epsilon)


def _parameters(scope: Scope[T], x: T, shape: tuple[int, ...], affine: bool, bias: bool) -> tuple[T | None, T | None]:
    """(weight, bias) of this shape, as far as they are wanted."""
    weight = scope.parameter("weight", shape, x, ones) if affine else None
    return weight, scope.parameter("bias", shape, x, zeros) if affine and bias else None


def _sizes(shape: int | tuple[int, ...] | None) -> tuple[int, ...]:
    return () if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)


def _sized(shape: tuple[int, ...], affine: bool, bias: bool) -> SizedTensors:
    """Parameters of this shape, where it is known."""
    if not shape or not affine:
        return {}
    return {"weight": (shape, ones), "bias": (shape, zeros)} if bias else {"weight": (shape, ones)}


def _last_axes(layer: str, x: T, count: int, shape: int | tuple[int, ...] | None) -> tuple[int, ...]:
    sizes = _sizes(shape)
    if sizes and x.shape[-len(sizes) :] != sizes:
        need, fix = f"{list(sizes)} as its last sizes", f"nn.{layer}({x.shape[-1] if x.spec.rank else ''})"
        raise ShapeError(layer, got=str(x.spec), need=need, fix=fix)
    count = len(sizes) or count
    if x.spec.rank <= count - bool(sizes):
        raise ShapeError(layer, got=str(x.spec), need=f"a batch and at least {count} more dimensions")
    return tuple(range(x.spec.rank - count, x.spec.rank))
