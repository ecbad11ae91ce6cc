"""DenseNet-121 and 201 (Huang et al. 2017): each layer sees the features of all before it in its block."""

from __future__ import annotations

from nnc.nn.layers import AveragePool, BatchNorm, Convolution, Dense, GlobalAveragePool, Identity, MaxPool, ReLU
from nnc.nn.layers.combine import Concatenate, Sequential
from nnc.nn.layers.layer import Layer

GROWTH = 32


def densenet121(classes: int = 1000) -> Sequential:
    """7,978,856 parameters with 1,000 classes."""
    return _densenet((6, 12, 24, 16), classes)


def densenet201(classes: int = 1000) -> Sequential:
    """20,013,928 parameters with 1,000 classes."""
    return _densenet((6, 12, 48, 32), classes)


def _densenet(sizes: tuple[int, ...], classes: int) -> Sequential:
    blocks: dict[str, Layer] = {}
    channels = 2 * GROWTH
    for position, layers in enumerate(sizes, 1):
        for layer in range(layers):
            blocks[f"block{position}_{layer}"] = _dense_layer()
        channels += layers * GROWTH
        if position < len(sizes):
            channels //= 2
            blocks[f"transition{position}"] = Sequential(
                norm=BatchNorm(), relu=ReLU(), convolution=Convolution(channels, 1, bias=False), pool=AveragePool(2)
            )
    return Sequential(
        stem=Convolution(2 * GROWTH, 7, 2, 3, bias=False),
        stem_norm=BatchNorm(),
        stem_relu=ReLU(),
        stem_pool=MaxPool(3, 2, 1),
        **blocks,
        norm=BatchNorm(),
        relu=ReLU(),
        mean=GlobalAveragePool(),
        classes=Dense(classes),
    )


def _dense_layer() -> Concatenate:
    new = Sequential(
        norm1=BatchNorm(),
        relu1=ReLU(),
        narrow=Convolution(4 * GROWTH, 1, bias=False),
        norm2=BatchNorm(),
        relu2=ReLU(),
        grow=Convolution(GROWTH, 3, padding=1, bias=False),
    )
    return Concatenate(before=Identity(), new=new)
