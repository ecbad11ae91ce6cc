"""Inception-v1, or GoogLeNet (Szegedy et al. 2015), with batch norm and without its auxiliary classifiers.

As in torchvision the widest branch has 3 × 3 filters, and pooling keeps what does not fill a window.
"""

from __future__ import annotations

from nnc.nn.layers import BatchNorm, Convolution, Dense, GlobalAveragePool, MaxPool, ReLU
from nnc.nn.layers.combine import Concatenate, Sequential
from nnc.nn.layers.layer import Layer

# Filters of 1 × 1; 1 × 1 before 3 × 3; 1 × 1 before the wide ones; 1 × 1 behind the pooling. None is a pooling layer.
MODULES = (
    (64, (96, 128), (16, 32), 32),
    (128, (128, 192), (32, 96), 64),
    None,
    (192, (96, 208), (16, 48), 64),
    (160, (112, 224), (24, 64), 64),
    (128, (128, 256), (24, 64), 64),
    (112, (144, 288), (32, 64), 64),
    (256, (160, 320), (32, 128), 128),
    None,
    (256, (160, 320), (32, 128), 128),
    (384, (192, 384), (48, 128), 128),
)


def inception_v1(classes: int = 1000) -> Sequential:
    """6,624,904 parameters with 1,000 classes."""
    modules: dict[str, Layer] = {}
    for position, row in enumerate(MODULES):
        # The last pooling has windows of 2 × 2.
        pool = MaxPool(3, 2, ceil=True) if position < 8 else MaxPool(2, 2, ceil=True)
        modules[f"module{position}"] = pool if row is None else _module(*row)
    return Sequential(
        stem=_activated(64, 7, 2),
        pool1=MaxPool(3, 2, ceil=True),
        narrow=_activated(64, 1),
        widen=_activated(192, 3),
        pool2=MaxPool(3, 2, ceil=True),
        **modules,
        mean=GlobalAveragePool(),
        classes=Dense(classes),
    )


def _module(near: int, middle: tuple[int, int], wide: tuple[int, int], pooled: int) -> Concatenate:
    return Concatenate(
        near=_activated(near, 1),
        middle=Sequential(_activated(middle[0], 1), _activated(middle[1], 3)),
        wide=Sequential(_activated(wide[0], 1), _activated(wide[1], 3)),
        pooled=Sequential(MaxPool(3, 1, 1), _activated(pooled, 1)),
    )


def _activated(filters: int, kernel: int, stride: int = 1) -> Sequential:
    convolution = Convolution(filters, kernel, stride, kernel // 2, bias=False)
    return Sequential(convolution=convolution, norm=BatchNorm(epsilon=1e-3), relu=ReLU())
