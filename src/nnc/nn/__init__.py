"""L5: models made of layers, trained, evaluated, saved and used."""

from nnc.nn.checkpoint import Position, load_checkpoint, position_of, read_position, save_checkpoint
from nnc.nn.combine import Sequential
from nnc.nn.fit import Progress, fit
from nnc.nn.layer import Layer, ParameterSpec, Scope
from nnc.nn.layers import (
    GELU,
    AveragePool,
    BatchNorm,
    Convolution,
    Dense,
    Flatten,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    MaxPool,
    ReLU,
    RMSNorm,
    Sigmoid,
    Softmax,
    Tanh,
)
from nnc.nn.losses import Loss, MeanSquaredError, SoftmaxCrossEntropy
from nnc.nn.model import Evaluation, Model, ModelMemory
from nnc.nn.optimizers import Adagrad, Adam, AdamW, Lamb, Lion, Optimizer, RMSProp, StochasticGradientDescent
from nnc.nn.schedules import Constant, Cosine, Schedule

__all__ = [
    "GELU",
    "Adagrad",
    "Adam",
    "AdamW",
    "AveragePool",
    "BatchNorm",
    "Constant",
    "Convolution",
    "Cosine",
    "Dense",
    "Evaluation",
    "Flatten",
    "GroupNorm",
    "InstanceNorm",
    "Lamb",
    "Layer",
    "LayerNorm",
    "Lion",
    "Loss",
    "MaxPool",
    "MeanSquaredError",
    "Model",
    "ModelMemory",
    "Optimizer",
    "ParameterSpec",
    "Position",
    "Progress",
    "RMSNorm",
    "RMSProp",
    "ReLU",
    "Schedule",
    "Scope",
    "Sequential",
    "Sigmoid",
    "Softmax",
    "SoftmaxCrossEntropy",
    "StochasticGradientDescent",
    "Tanh",
    "fit",
    "load_checkpoint",
    "position_of",
    "read_position",
    "save_checkpoint",
]
