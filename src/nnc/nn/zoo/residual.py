"""Residual networks (He et al. 2016): ResNet-50 for 224 × 224 pictures and ResNet-20 for 32 × 32 ones."""

from __future__ import annotations

from nnc.nn.combine import Residual, Sequential
from nnc.nn.layer import Layer
from nnc.nn.layers import AveragePool, BatchNorm, Convolution, Dense, GlobalAveragePool, MaxPool, PadChannels, ReLU


def resnet50(classes: int = 1000) -> Sequential:
    """25,557,032 parameters with 1,000 classes; the stride of a stage is in its first 3 × 3 convolution."""
    stages: dict[str, Layer] = {}
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 1):
        for block in range(blocks):
            stride = 2 if stage > 1 and not block else 1
            stages[f"stage{stage}_{block}"] = _bottleneck(width, stride, not block)
    return Sequential(
        stem=_normalized(64, 7, 2, 3),
        relu=ReLU(),
        pool=MaxPool(3, 2, 1),
        **stages,
        mean=GlobalAveragePool(),
        classes=Dense(classes),
    )


def resnet20(classes: int = 10) -> Sequential:
    """269,722 parameters with 10 classes; shortcuts pick every second pixel and pad channels, without parameters."""
    stages: dict[str, Layer] = {}
    for stage, width in enumerate((16, 32, 64), 1):
        for block in range(3):
            stride = 2 if stage > 1 and not block else 1
            stages[f"stage{stage}_{block}"] = _basic(width, stride)
    return Sequential(
        stem=_normalized(16, 3, 1, 1), relu=ReLU(), **stages, mean=GlobalAveragePool(), classes=Dense(classes)
    )


def _normalized(filters: int, kernel: int, stride: int = 1, padding: int = 0) -> Sequential:
    return Sequential(convolution=Convolution(filters, kernel, stride, padding, bias=False), norm=BatchNorm())


def _bottleneck(width: int, stride: int, widens: bool) -> Sequential:
    """1 × 1, 3 × 3, 1 × 1 convolutions; `widens` where the number of channels changes."""
    body = Sequential(
        narrow=_normalized(width, 1),
        relu1=ReLU(),
        middle=_normalized(width, 3, stride, 1),
        relu2=ReLU(),
        widen=_normalized(4 * width, 1),
    )
    shortcut = _normalized(4 * width, 1, stride) if widens else None
    return Sequential(sum=Residual(body, shortcut), relu=ReLU())


def _basic(width: int, stride: int) -> Sequential:
    """Two 3 × 3 convolutions; a stride of 2 doubles the channels."""
    body = Sequential(first=_normalized(width, 3, stride, 1), relu=ReLU(), second=_normalized(width, 3, 1, 1))
    shortcut = Sequential(pick=AveragePool(1, 2), pad=PadChannels(width // 4, width // 4)) if stride > 1 else None
    return Sequential(sum=Residual(body, shortcut), relu=ReLU())
