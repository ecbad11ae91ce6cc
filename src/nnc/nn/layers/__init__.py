"""Layers, one file per family."""

from nnc.nn.layers.activation import (
    ELU,
    GELU,
    GLU,
    SELU,
    Clamp,
    GELUTanh,
    Hardsigmoid,
    Hardswish,
    LeakyReLU,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
)
from nnc.nn.layers.attention import CrossAttention, FeedForward, MultiHeadAttention, TransformerBlock
from nnc.nn.layers.batch_norm import BatchNorm
from nnc.nn.layers.convolution import Convolution, Convolution1D, Convolution3D
from nnc.nn.layers.dense import Dense
from nnc.nn.layers.embedding import Embedding, PositionEmbedding
from nnc.nn.layers.normalization import GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from nnc.nn.layers.pooling import (
    AveragePool,
    AveragePool1D,
    AveragePool3D,
    GlobalAveragePool,
    MaxPool,
    MaxPool1D,
    MaxPool3D,
)
from nnc.nn.layers.random import ChannelDropout, Dropout, GaussianNoise
from nnc.nn.layers.recurrent import GRU, LSTM, RNN
from nnc.nn.layers.shape import Flatten, Identity, PadChannels
from nnc.nn.layers.upsampling import ConvolutionTranspose, ConvolutionTranspose3D, Upsample

__all__ = [
    "LeakyReLU",
    "PReLU",
    "ELU",
    "SELU",
    "SiLU",
    "Softplus",
    "Mish",
    "Hardswish",
    "Hardsigmoid",
    "Softsign",
    "LogSoftmax",
    "GLU",
    "GELU",
    "GRU",
    "LSTM",
    "AveragePool1D",
    "AveragePool3D",
    "Convolution1D",
    "Convolution3D",
    "MaxPool1D",
    "MaxPool3D",
    "RNN",
    "AveragePool",
    "BatchNorm",
    "Clamp",
    "Convolution",
    "ConvolutionTranspose",
    "ConvolutionTranspose3D",
    "CrossAttention",
    "ChannelDropout",
    "Dense",
    "Dropout",
    "GaussianNoise",
    "Embedding",
    "FeedForward",
    "Flatten",
    "GELUTanh",
    "GlobalAveragePool",
    "GroupNorm",
    "Identity",
    "InstanceNorm",
    "LayerNorm",
    "MaxPool",
    "MultiHeadAttention",
    "PadChannels",
    "PositionEmbedding",
    "RMSNorm",
    "ReLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "TransformerBlock",
    "Upsample",
]
