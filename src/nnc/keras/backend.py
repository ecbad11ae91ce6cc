"""`keras.backend`: what `keras.config` says, and the functions of `keras.ops`, where Keras 2 had them."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from nnc.keras import ops
from nnc.keras.config import backend as backend
from nnc.keras.config import epsilon as epsilon
from nnc.keras.config import floatx as floatx
from nnc.keras.config import image_data_format as image_data_format
from nnc.keras.config import set_epsilon as set_epsilon
from nnc.keras.config import set_floatx as set_floatx
from nnc.keras.config import set_image_data_format as set_image_data_format
from nnc.keras.named import forget_names


def clear_session(free_memory: bool = True) -> None:
    """Number layers from the first again, and free the memory of models that nobody holds."""
    forget_names()
    if free_memory:
        gc.collect()


if not TYPE_CHECKING:
    # A type checker goes by what there is.
    def __getattr__(name: str) -> object:
        return getattr(ops, name)
