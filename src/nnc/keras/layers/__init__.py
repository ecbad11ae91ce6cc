"""Layers under Keras' names: arguments, defaults and orders of weights are Keras'; images have channels last."""

from typing import TYPE_CHECKING

from nnc.keras.engine.keras_tensor import Input as Input
from nnc.keras.engine.network import InputLayer as InputLayer
from nnc.keras.layers import (
    cells,
    convolutional,
    convolutional_recurrent,
    core,
    image_layers,
    merging,
    normalizing,
    number_layers,
    pools,
    recurrent_units,
    word_layers,
    wrappers,
)
from nnc.keras.layers.cells import *
from nnc.keras.layers.convolutional import *
from nnc.keras.layers.convolutional_recurrent import *
from nnc.keras.layers.core import *
from nnc.keras.layers.image_layers import *
from nnc.keras.layers.merging import *
from nnc.keras.layers.normalizing import *
from nnc.keras.layers.number_layers import *
from nnc.keras.layers.pools import *
from nnc.keras.layers.recurrent_units import *
from nnc.keras.layers.word_layers import *
from nnc.keras.layers.wrappers import *
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.keras_names import LAYERS

# Keras' own second names.
MaxPool1D, MaxPool2D, MaxPool3D = MaxPooling1D, MaxPooling2D, MaxPooling3D
AvgPool1D, AvgPool2D, AvgPool3D = AveragePooling1D, AveragePooling2D, AveragePooling3D
GlobalAvgPool1D, GlobalAvgPool2D, GlobalAvgPool3D = (
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalAveragePooling3D,
)
GlobalMaxPool1D, GlobalMaxPool2D, GlobalMaxPool3D = GlobalMaxPooling1D, GlobalMaxPooling2D, GlobalMaxPooling3D
Convolution1D, Convolution2D, Convolution2DTranspose = Conv1D, Conv2D, Conv2DTranspose
SECOND_NAMES = (
    "MaxPool1D", "MaxPool2D", "MaxPool3D", "AvgPool1D", "AvgPool2D", "AvgPool3D", "GlobalAvgPool1D",
    "GlobalAvgPool2D", "GlobalAvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D",
    "Convolution1D", "Convolution2D",
    "Convolution2DTranspose",
)  # fmt: skip

__all__ = [
    "Input", "InputLayer", *SECOND_NAMES, *convolutional.__all__, *core.__all__, *merging.__all__, *normalizing.__all__,
    *pools.__all__, *recurrent_units.__all__, *image_layers.__all__, *word_layers.__all__, *number_layers.__all__,
    *cells.__all__, *convolutional_recurrent.__all__, *wrappers.__all__,
]  # fmt: skip

if not TYPE_CHECKING:
    # A type checker goes by what there is.
    def __getattr__(name: str) -> object:
        raise unknown_name("module 'nnc.keras.layers'", name, LAYERS, lambda: __all__, "keras.layers.")
