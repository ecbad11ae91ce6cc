"""ShuffleNetV2 (Ma et al. 2018): half of the channels go through a unit, then all are shuffled."""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.nn.layers import BatchNorm, Convolution, Dense, GlobalAveragePool, MaxPool, ReLU
from nnc.nn.layers.combine import Concatenate, Sequential
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.ops import concatenate, reshape, slice_axis, transpose

# (channels, units) of each stage, at width 1.
STAGES = ((116, 4), (232, 8), (464, 4))


@dataclass(frozen=True, slots=True)
class ChannelShuffle(Layer):
    """y[…, channel · groups + group] = x[…, group · channels + channel]."""

    groups: int

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, height, width, channels]."""
        grouped = reshape(x, (*x.shape[:3], self.groups, x.shape[-1] // self.groups))
        return reshape(transpose(grouped, (0, 1, 2, 4, 3)), x.shape)


@dataclass(frozen=True, slots=True)
class HalfKept(Layer):
    """y = [first half of x, body(second half of x)] along the channels."""

    body: Layer

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, height, width, channels]."""
        axis, channels = x.spec.rank - 1, x.shape[-1]
        changed = self.body.build(scope.inside("body"), slice_axis(x, axis, channels // 2, channels))
        return concatenate([slice_axis(x, axis, 0, channels // 2), changed], axis)


def shufflenet_v2(classes: int = 1000) -> Sequential:
    """2,278,604 parameters with 1,000 classes, at width 1."""
    units: dict[str, Layer] = {}
    channels = 24
    for stage, (width, repeats) in enumerate(STAGES, 2):
        half = width // 2
        near = Sequential(*_each(channels, 2), *_all(half))
        units[f"stage{stage}_0"] = Sequential(Concatenate(near, _unit(half, 2)), ChannelShuffle(2))
        for unit in range(1, repeats):
            units[f"stage{stage}_{unit}"] = Sequential(HalfKept(_unit(half, 1)), ChannelShuffle(2))
        channels = width
    return Sequential(
        stem=Sequential(Convolution(24, 3, 2, 1, bias=False), BatchNorm(), ReLU()),
        pool=MaxPool(3, 2, 1),
        **units,
        last=Sequential(*_all(1024)),
        mean=GlobalAveragePool(),
        classes=Dense(classes),
    )


def _unit(width: int, stride: int) -> Sequential:
    return Sequential(*_all(width), *_each(width, stride), *_all(width))


def _all(width: int) -> tuple[Layer, ...]:
    return (Convolution(width, 1, bias=False), BatchNorm(), ReLU())


def _each(channels: int, stride: int) -> tuple[Layer, ...]:
    """3 × 3 on each channel alone, without an activation."""
    return (Convolution(channels, 3, stride, 1, groups=channels, bias=False), BatchNorm())
