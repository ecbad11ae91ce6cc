"""VGG-16 and VGG-19 (Simonyan & Zisserman 2015), without the dropout between their dense layers."""

from __future__ import annotations

from nnc.nn.layers import Convolution, Dense, Flatten, MaxPool, ReLU
from nnc.nn.layers.combine import Sequential
from nnc.nn.layers.layer import Layer


def vgg16(classes: int = 1000) -> Sequential:
    """138,357,544 parameters with 1,000 classes."""
    return _vgg((2, 2, 3, 3, 3), classes)


def vgg19(classes: int = 1000) -> Sequential:
    """143,667,240 parameters with 1,000 classes."""
    return _vgg((2, 2, 4, 4, 4), classes)


def _vgg(sizes: tuple[int, ...], classes: int) -> Sequential:
    features: list[Layer] = []
    for width, repeats in zip((64, 128, 256, 512, 512), sizes, strict=True):
        for _ in range(repeats):
            features += (Convolution(width), ReLU())
        features.append(MaxPool())
    return Sequential(
        *features,
        flatten=Flatten(),
        hidden1=Dense(4096),
        relu1=ReLU(),
        hidden2=Dense(4096),
        relu2=ReLU(),
        classes=Dense(classes),
    )
