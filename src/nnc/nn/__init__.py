"""L5: models made of layers, trained, evaluated, saved and used."""

from nnc.nn.checkpoint import Position, load_checkpoint, read_position, save_checkpoint
from nnc.nn.combine import Sequential
from nnc.nn.fit import Progress, fit, position_of
from nnc.nn.layer import Layer, ParameterSpec, Scope
from nnc.nn.layers import (
    GELU,
    AveragePool,
    Convolution,
    Dense,
    Flatten,
    MaxPool,
    ReLU,
    Sigmoid,
    Softmax,
    Tanh,
)
from nnc.nn.losses import Loss, MeanSquaredError, SoftmaxCrossEntropy
from nnc.nn.model import Evaluation, Model, ModelMemory
from nnc.nn.optimizers import Adam, Optimizer, StochasticGradientDescent
from nnc.nn.schedules import Constant, Cosine, Schedule

__all__ = [
    "GELU",
    "Adam",
    "AveragePool",
    "Constant",
    "Convolution",
    "Cosine",
    "Dense",
    "Evaluation",
    "Flatten",
    "Layer",
    "Loss",
    "MaxPool",
    "MeanSquaredError",
    "Model",
    "ModelMemory",
    "Optimizer",
    "ParameterSpec",
    "Position",
    "Progress",
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
