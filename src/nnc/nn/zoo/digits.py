"""Small networks for digits: one for 8 × 8 pixels, and LeNet-5 (LeCun et al. 1998) for 28 × 28."""

from __future__ import annotations

from nnc.nn.layers import AveragePool, Convolution, Dense, Flatten, MaxPool, ReLU, Tanh
from nnc.nn.layers.combine import Sequential


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


def lenet5(classes: int = 10) -> Sequential:
    """61,706 parameters with 10 classes: as it is built today, where each filter sees all channels."""
    return Sequential(
        conv1=Convolution(6, 5),
        tanh1=Tanh(),
        pool1=AveragePool(),
        conv2=Convolution(16, 5, padding=0),
        tanh2=Tanh(),
        pool2=AveragePool(),
        flatten=Flatten(),
        hidden1=Dense(120),
        tanh3=Tanh(),
        hidden2=Dense(84),
        tanh4=Tanh(),
        classes=Dense(classes),
    )
