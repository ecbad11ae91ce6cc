"""`keras.Variable`: a leaf that is trained, `keras.Variable([1.0, 2.0])`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nnc.core.values.tensor import as_array
from nnc.dynamic import eager
from nnc.dynamic import variable as variables
from nnc.nn.modules.module import layer_parameter


def Variable(  # noqa: N802  # as Keras calls it
    initializer: ArrayLike, shape: Any = None, dtype: Any = None, trainable: bool = True, name: str | None = None
) -> variables.Variable:
    """A value that is trained, or with `trainable=False` one that is kept.

    >>> from nnc import keras
    >>> keras.Variable([1.0, 2.0]).shape
    (2,)
    """
    values = initializer(shape) if callable(initializer) else initializer
    array = np.ascontiguousarray(as_array(values), np.float32 if dtype is None else str(dtype))
    return layer_parameter(array) if trainable else eager.tensor(array)
