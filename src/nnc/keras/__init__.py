"""Keras' names, with Keras' meaning: `from nnc import keras`.

    model = keras.Sequential([keras.Input((28, 28)), keras.layers.Flatten(), keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(x, y, epochs=5, validation_split=0.1)

Arguments, defaults, formulas, orders of weights and of figures are Keras' (docs/how-to/from-keras.md); layers are
`nn.Module`s, so all of nnc takes them: `nn.Model(model, shape)`, `nnc.compile(model)`, `nnc.onnx`. A step of `fit` is
one compiled program.
"""

from typing import TYPE_CHECKING

from nnc.faces import face, homes
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.keras_names import KERAS

if TYPE_CHECKING:
    from nnc.keras import activations as activations
    from nnc.keras import backend as backend
    from nnc.keras import callbacks as callbacks
    from nnc.keras import config as config
    from nnc.keras import constraints as constraints
    from nnc.keras import datasets as datasets
    from nnc.keras import initializers as initializers
    from nnc.keras import layers as layers
    from nnc.keras import losses as losses
    from nnc.keras import metrics as metrics
    from nnc.keras import models as models
    from nnc.keras import ops as ops
    from nnc.keras import optimizers as optimizers
    from nnc.keras import random as random
    from nnc.keras import regularizers as regularizers
    from nnc.keras import saving as saving
    from nnc.keras import tape as tape
    from nnc.keras import utils as utils
    from nnc.keras.engine.base_layer import Layer as Layer
    from nnc.keras.engine.keras_tensor import Input as Input
    from nnc.keras.engine.keras_tensor import KerasTensor as KerasTensor
    from nnc.keras.engine.network import Model as Model
    from nnc.keras.engine.network import Sequential as Sequential
    from nnc.keras.engine.variables import Variable as Variable
    from nnc.keras.initializers import Initializer as Initializer
    from nnc.keras.losses import Loss as Loss
    from nnc.keras.metrics import Metric as Metric
    from nnc.keras.optimizers.base_optimizer import Optimizer as Optimizer

_HOMES = homes({
    "nnc.keras.engine.base_layer": "Layer",
    "nnc.keras.initializers": "Initializer initializers",
    "nnc.keras.engine.keras_tensor": "Input KerasTensor",
    "nnc.keras.losses": "Loss losses",
    "nnc.keras.metrics": "Metric metrics",
    "nnc.keras.engine.network": "Model Sequential",
    "nnc.keras.optimizers.base_optimizer": "Optimizer",
    "nnc.keras.engine.variables": "Variable",
    "nnc.keras.activations": "activations",
    "nnc.keras.backend": "backend",
    "nnc.keras.callbacks": "callbacks",
    "nnc.keras.config": "config",
    "nnc.keras.constraints": "constraints",
    "nnc.keras.datasets": "datasets",
    "nnc.keras.layers": "layers",
    "nnc.keras.models": "models",
    "nnc.keras.ops": "ops",
    "nnc.keras.optimizers": "optimizers",
    "nnc.keras.random": "random",
    "nnc.keras.regularizers": "regularizers",
    "nnc.keras.saving": "saving",
    "nnc.keras.tape": "tape",
    "nnc.keras.utils": "utils",
})  # fmt: skip
__all__ = list(_HOMES)

if not TYPE_CHECKING:
    # A type checker reads the imports above instead, so that a name that is not there stays an error.
    __getattr__, __dir__ = face(
        _HOMES, globals(), lambda name, names: unknown_name("module 'nnc.keras'", name, KERAS, names, "keras.")
    )
