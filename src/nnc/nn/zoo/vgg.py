"""VGG-19 (Simonyan & Zisserman 2015), without the dropout between its dense layers."""

from __future__ import annotations

from nnc.nn.combine import Sequential
from nnc.nn.layer import Layer
from nnc.nn.layers import Convolution, Dense, Flatten, MaxPool, ReLU


def vgg19(classes: int = 1000) -> Sequential:
    """143,667,240 parameters with 1,000 classes."""
    features: list[Layer] = []
    for width, repeats in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
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
