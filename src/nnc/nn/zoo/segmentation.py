"""U-Net (Ronneberger et al. 2015) with same padding and batch normalization: one class per pixel."""

from __future__ import annotations

from nnc.nn.layers import BatchNorm, Convolution, ConvolutionTranspose, Identity, MaxPool, ReLU
from nnc.nn.layers.combine import Concatenate, Sequential


def unet(classes: int = 2, width: int = 64, depth: int = 4) -> Sequential:
    """31,037,698 parameters for pictures of 3 channels and 2 classes; sizes must divide by 2 ** depth."""
    return Sequential(body=_level(width, depth), classes=Convolution(classes, 1))


def _level(width: int, depth: int) -> Sequential:
    """Two convolutions; below them, beside what they found, a level of half the size; two convolutions more."""
    if not depth:
        return _double(width)
    below = Sequential(pool=MaxPool(), level=_level(2 * width, depth - 1), up=ConvolutionTranspose(width))
    return Sequential(down=_double(width), join=Concatenate(skip=Identity(), below=below), up=_double(width))


def _double(width: int) -> Sequential:
    return Sequential(
        convolution1=Convolution(width, bias=False),
        norm1=BatchNorm(),
        relu1=ReLU(),
        convolution2=Convolution(width, bias=False),
        norm2=BatchNorm(),
        relu2=ReLU(),
    )
