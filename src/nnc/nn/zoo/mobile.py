"""MobileNetV3 (Howard et al. 2019) and EfficientNet-B0 (Tan & Le 2019): inverted residuals with squeeze-excitation."""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.nn.layers import (
    BatchNorm,
    Convolution,
    Dense,
    GlobalAveragePool,
    Hardsigmoid,
    Hardswish,
    ReLU,
    Sigmoid,
    SiLU,
)
from nnc.nn.layers.combine import Residual, Sequential
from nnc.nn.layers.layer import Layer, Scope, T
from nnc.ops import broadcast_to, multiply, reduce_mean, reshape

# (kernel, hidden channels, channels, squeezed, Hardswish, stride)
LARGE = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)
SMALL = (
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
)
# (expansion, kernel, stride of the first, channels, repeats)
EFFICIENT = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


@dataclass(frozen=True, slots=True)
class SqueezeExcitation(Layer):
    """y = x · gate(widen(activation(narrow(mean of x over positions)))), a factor per channel (Hu et al. 2018)."""

    squeezed: int
    activation: Layer
    gate: Layer

    def build(self, scope: Scope[T], x: T) -> T:
        """Apply to `x`[batch, height, width, channels]."""
        means = reduce_mean(x, (1, 2))
        narrow = Dense(self.squeezed).build(scope.inside("narrow"), means)
        wide = Dense(x.shape[-1]).build(scope.inside("widen"), self.activation.build(scope, narrow))
        factor = self.gate.build(scope, wide)
        return multiply(x, broadcast_to(reshape(factor, (x.shape[0], 1, 1, x.shape[-1])), x.shape))


def mobilenet_v3_large(classes: int = 1000) -> Sequential:
    """5,483,032 parameters with 1,000 classes."""
    return _mobilenet_v3(LARGE, 1280, classes)


def mobilenet_v3_small(classes: int = 1000) -> Sequential:
    """2,542,856 parameters with 1,000 classes."""
    return _mobilenet_v3(SMALL, 1024, classes)


def efficientnet_b0(classes: int = 1000) -> Sequential:
    """5,288,548 parameters with 1,000 classes."""
    blocks: dict[str, Layer] = {}
    channels = 32
    for group, (expansion, kernel, stride, width, repeats) in enumerate(EFFICIENT):
        for repeat in range(repeats):
            squeeze = SqueezeExcitation(max(1, channels // 4), SiLU(), Sigmoid())
            first = stride if not repeat else 1
            sizes = (channels, channels * expansion, width)
            blocks[f"block{group}_{repeat}"] = _inverted(sizes, kernel, first, SiLU(), squeeze)
            channels = width
    return Sequential(
        stem=_activated(32, 3, SiLU(), 2),
        **blocks,
        last=_activated(1280, 1, SiLU()),
        mean=GlobalAveragePool(),
        classes=Dense(classes),
    )


def _mobilenet_v3(rows: tuple[tuple[int, int, int, bool, bool, int], ...], last: int, classes: int) -> Sequential:
    blocks: dict[str, Layer] = {}
    channels = 16
    for position, (kernel, hidden, width, squeezed, hardswish, stride) in enumerate(rows):
        squeeze = SqueezeExcitation(_divisible(hidden // 4), ReLU(), Hardsigmoid()) if squeezed else None
        activation = Hardswish() if hardswish else ReLU()
        blocks[f"block{position}"] = _inverted((channels, hidden, width), kernel, stride, activation, squeeze, 1e-3)
        channels = width
    return Sequential(
        stem=_activated(16, 3, Hardswish(), 2, epsilon=1e-3),
        **blocks,
        last=_activated(6 * channels, 1, Hardswish(), epsilon=1e-3),
        mean=GlobalAveragePool(),
        hidden=Dense(last),
        hardswish=Hardswish(),
        classes=Dense(classes),
    )


def _divisible(channels: int) -> int:
    """The nearest multiple of 8 that is no less than 9 tenths of it."""
    nearest = max(8, (channels + 4) // 8 * 8)
    return nearest if 10 * nearest >= 9 * channels else nearest + 8


def _activated(
    filters: int, kernel: int, activation: Layer, stride: int = 1, groups: int = 1, epsilon: float = 1e-5
) -> Sequential:
    convolution = Convolution(filters, kernel, stride, kernel // 2, groups=groups, bias=False)
    return Sequential(convolution=convolution, norm=BatchNorm(epsilon=epsilon), activation=activation)


def _inverted(
    sizes: tuple[int, int, int],
    kernel: int,
    stride: int,
    activation: Layer,
    squeeze: Layer | None,
    epsilon: float = 1e-5,
) -> Layer:
    """1 × 1 to `hidden` channels, a filter on each alone, squeeze-excitation, 1 × 1 to `width`; no last activation."""
    channels, hidden, width = sizes
    parts: dict[str, Layer] = {}
    if hidden != channels:
        parts["widen"] = _activated(hidden, 1, activation, epsilon=epsilon)
    parts["each"] = _activated(hidden, kernel, activation, stride, hidden, epsilon)
    if squeeze is not None:
        parts["squeeze"] = squeeze
    parts |= {"narrow": Convolution(width, 1, bias=False), "norm": BatchNorm(epsilon=epsilon)}
    body = Sequential(**parts)
    return Residual(body) if stride == 1 and channels == width else body
