"""Small networks for pictures: SqueezeNet 1.1 (Iandola et al. 2016) and MobileNetV2 (Sandler et al. 2018)."""

from __future__ import annotations

from nnc.nn.layers import BatchNorm, Clamp, Convolution, Dense, GlobalAveragePool, MaxPool, ReLU
from nnc.nn.layers.combine import Concatenate, Residual, Sequential
from nnc.nn.layers.layer import Layer

# (squeeze, expand) per fire module; None is a pooling layer.
FIRES = (None, (16, 64), (16, 64), None, (32, 128), (32, 128), None, (48, 192), (48, 192), (64, 256), (64, 256))
# (expansion, channels, repeats, stride of the first)
INVERTED = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def squeezenet(classes: int = 1000) -> Sequential:
    """1,235,496 parameters with 1,000 classes."""
    modules: dict[str, Layer] = {}
    for position, fire in enumerate(FIRES):
        modules[f"features{position}"] = MaxPool(3, 2) if fire is None else _fire(*fire)
    return Sequential(
        stem=Convolution(64, 3, 2, 0),
        relu=ReLU(),
        **modules,
        classes=Convolution(classes, 1),
        classes_relu=ReLU(),
        mean=GlobalAveragePool(),
    )


def mobilenet_v2(classes: int = 1000) -> Sequential:
    """3,504,872 parameters with 1,000 classes."""
    blocks: dict[str, Layer] = {}
    channels = 32
    for group, (expansion, width, repeats, stride) in enumerate(INVERTED):
        for repeat in range(repeats):
            first = stride if not repeat else 1
            blocks[f"block{group}_{repeat}"] = _inverted(channels, expansion, width, first)
            channels = width
    return Sequential(
        stem=_activated(32, 3, 2), **blocks, last=_activated(1280, 1), mean=GlobalAveragePool(), classes=Dense(classes)
    )


def _fire(squeeze: int, expand: int) -> Sequential:
    near = Sequential(convolution=Convolution(expand, 1), relu=ReLU())
    wide = Sequential(convolution=Convolution(expand, 3), relu=ReLU())
    return Sequential(squeeze=Convolution(squeeze, 1), relu=ReLU(), expand=Concatenate(near=near, wide=wide))


def _activated(filters: int, kernel: int, stride: int = 1, groups: int = 1) -> Sequential:
    convolution = Convolution(filters, kernel, stride, kernel // 2, groups=groups, bias=False)
    return Sequential(convolution=convolution, norm=BatchNorm(), relu=Clamp(0.0, 6.0))


def _inverted(channels: int, expansion: int, width: int, stride: int) -> Layer:
    """1 × 1 to `expansion` times the channels, 3 × 3 on each channel alone, 1 × 1 to `width`; no last activation."""
    hidden = channels * expansion
    widen = {"widen": _activated(hidden, 1)} if expansion > 1 else {}
    body = Sequential(
        **widen,
        each=_activated(hidden, 3, stride, hidden),
        narrow=Convolution(width, 1, bias=False),
        norm=BatchNorm(),
    )
    return Residual(body) if stride == 1 and channels == width else body
