"""Residual networks (He et al. 2016): ResNet-18 to 152 for 224 × 224 pictures and ResNet-20 for 32 × 32 ones."""

from __future__ import annotations

from collections.abc import Callable

from nnc.nn.layers import AveragePool, BatchNorm, Convolution, Dense, GlobalAveragePool, MaxPool, PadChannels, ReLU
from nnc.nn.layers.combine import Residual, Sequential
from nnc.nn.layers.layer import Layer


def resnet18(classes: int = 1000) -> Sequential:
    """11,689,512 parameters with 1,000 classes."""
    return _residual((2, 2, 2, 2), _projected, classes)


def resnet34(classes: int = 1000) -> Sequential:
    """21,797,672 parameters with 1,000 classes."""
    return _residual((3, 4, 6, 3), _projected, classes)


def resnet50(classes: int = 1000) -> Sequential:
    """25,557,032 parameters with 1,000 classes; the stride of a stage is in its first 3 × 3 convolution."""
    return _residual((3, 4, 6, 3), _bottleneck, classes)


def resnet101(classes: int = 1000) -> Sequential:
    """44,549,160 parameters with 1,000 classes."""
    return _residual((3, 4, 23, 3), _bottleneck, classes)


def resnet152(classes: int = 1000) -> Sequential:
    """60,192,808 parameters with 1,000 classes."""
    return _residual((3, 8, 36, 3), _bottleneck, classes)


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


def _residual(blocks: tuple[int, ...], make: Callable[[int, int, bool], Layer], classes: int) -> Sequential:
    """A stem and four stages of blocks: `make(width, stride, whether it is the first)`."""
    stages: dict[str, Layer] = {}
    for stage, count in enumerate(blocks, 1):
        for block in range(count):
            stride = 2 if stage > 1 and not block else 1
            stages[f"stage{stage}_{block}"] = make(64 * 2 ** (stage - 1), stride, not block)
    return Sequential(
        stem=_normalized(64, 7, 2, 3),
        relu=ReLU(),
        pool=MaxPool(3, 2, 1),
        **stages,
        mean=GlobalAveragePool(),
        classes=Dense(classes),
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


def _projected(width: int, stride: int, first: bool) -> Sequential:
    """Two 3 × 3 convolutions; where the size changes, the shortcut is a 1 × 1 convolution."""
    body = Sequential(first=_normalized(width, 3, stride, 1), relu=ReLU(), second=_normalized(width, 3, 1, 1))
    shortcut = _normalized(width, 1, stride) if stride > 1 else None
    return Sequential(sum=Residual(body, shortcut), relu=ReLU())


def _basic(width: int, stride: int) -> Sequential:
    """Two 3 × 3 convolutions; a stride of 2 doubles the channels."""
    body = Sequential(first=_normalized(width, 3, stride, 1), relu=ReLU(), second=_normalized(width, 3, 1, 1))
    shortcut = Sequential(pick=AveragePool(1, 2), pad=PadChannels(width // 4, width // 4)) if stride > 1 else None
    return Sequential(sum=Residual(body, shortcut), relu=ReLU())
