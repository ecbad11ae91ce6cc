"""Normalization layers without running statistics: layer, root-mean-square, group and instance norm."""

from __future__ import annotations

from typing import ClassVar

from nnc.arguments import Count, Rate, checked
from nnc.classes import dataclass
from nnc.errors import ShapeError
from nnc.nn.layers.initializers import ones, zeros
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.ops import group_norm, instance_norm, layer_norm, rms_norm

__all__ = ["GroupNorm", "InstanceNorm", "LayerNorm", "RMSNorm"]


@checked
@dataclass(frozen=True, slots=True)
class LayerNorm(Layer):
    """y = (x - mean) / √(variance + epsilon) · weight + bias over the last `axes` axes of each example.

    >>> nn.LayerNorm()([[1.0, 3.0]])
    Variable(f32[1, 2], recorded)
    [[-1.  1.]]
    """

    replays: ClassVar[bool] = True
    axes: Count = 1
    epsilon: Rate = 1e-5
    affine: bool = True
    bias: bool = True

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to the last axes of `x`."""
        axes = _last_axes("LayerNorm", x, self.axes)
        weight, bias = _parameters(scope, x, x.shape[axes[0] :], self.affine, self.bias)
        return layer_norm(x, weight, bias, axes=axes, epsilon=self.epsilon)


@checked
@dataclass(frozen=True, slots=True)
class RMSNorm(Layer):
    """y = x / √(mean x² + epsilon) · weight over the last `axes` axes of each example.

    >>> nn.RMSNorm()([[3.0, 3.0]])
    Variable(f32[1, 2], recorded)
    [[1. 1.]]
    """

    replays: ClassVar[bool] = True
    axes: Count = 1
    epsilon: Rate = 1e-5
    affine: bool = True

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to the last axes of `x`."""
        axes = _last_axes("RMSNorm", x, self.axes)
        weight, _ = _parameters(scope, x, x.shape[axes[0] :], self.affine, False)
        return rms_norm(x, weight, axes=axes, epsilon=self.epsilon)


@checked
@dataclass(frozen=True, slots=True)
class GroupNorm(Layer):
    """Each example's channels in `groups` groups, each normalized over its channels and all positions.

    >>> nn.GroupNorm(2)(nnc.ones((2, 8, 8, 4))).shape
    (2, 8, 8, 4)
    """

    groups: Count
    epsilon: Rate = 1e-5
    affine: bool = True

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, …, channels]."""
        weight, bias = _parameters(scope, x, x.shape[-1:], self.affine, True)
        return group_norm(x, self.groups, weight, bias, epsilon=self.epsilon)


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


def _last_axes(layer: str, x: T, count: int) -> tuple[int, ...]:
    if x.spec.rank <= count:
        fix = f"nn.{layer}(): sizes are found" if x.spec.rank and count == x.shape[-1] else ""
        raise ShapeError(layer, got=str(x.spec), need=f"a batch and at least {count} more dimensions", fix=fix)
    return tuple(range(x.spec.rank - count, x.spec.rank))
