"""Layers, one file per family."""

from nnc.nn.layers.activation import GELU, ReLU, Sigmoid, Softmax, Tanh
from nnc.nn.layers.batch_norm import BatchNorm
from nnc.nn.layers.convolution import Convolution
from nnc.nn.layers.dense import Dense
from nnc.nn.layers.normalization import GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from nnc.nn.layers.pooling import AveragePool, MaxPool
from nnc.nn.layers.shape import Flatten

__all__ = [
    "GELU",
    "AveragePool",
    "BatchNorm",
    "Convolution",
    "Dense",
    "Flatten",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "MaxPool",
    "RMSNorm",
    "ReLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
]
