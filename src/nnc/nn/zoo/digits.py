"""A small network for 8 × 8 digits."""

from __future__ import annotations

from nnc.nn.combine import Sequential
from nnc.nn.layers import Convolution, Dense, Flatten, MaxPool, ReLU


def digits_network() -> Sequential:
    """A small convolutional network for 8 × 8 digits: two convolutions with pooling, one hidden layer."""
    return Sequential(
        conv1=Convolution(32),
        relu1=ReLU(),
        conv2=Convolution(32),
        relu2=ReLU(),
        pool=MaxPool(),
        conv3=Convolution(64),
        relu3=ReLU(),
        pool2=MaxPool(),
        flatten=Flatten(),
        hidden=Dense(128),
        relu4=ReLU(),
        classes=Dense(10),
    )
