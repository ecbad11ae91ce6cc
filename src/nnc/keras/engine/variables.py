"""`keras.Variable`: a leaf that is trained, `keras.Variable([1.0, 2.0])`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from nnc.arguments import Size, checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import F32, AnyDType
from nnc.core.values.tensor import as_array
from nnc.dynamic import eager
from nnc.dynamic import variable as variables
from nnc.errors import DataError
from nnc.nn.modules.module import layer_parameter
from nnc.numerics.conversion import chosen_dtype


@checked
def Variable(  # noqa: N802  # as Keras calls it
    initializer: ArrayLike,
    shape: Sequence[Size] | None = None,
    dtype: AnyDType | None = None,
    trainable: bool = True,
    name: str | None = None,
) -> variables.Variable:
    """A value that is trained, or with `trainable=False` one that is kept.

    >>> from nnc import keras
    >>> keras.Variable([1.0, 2.0]).shape
    (2,)
    """
    values = initializer(shape) if callable(initializer) else initializer
    if values is None:
        raise DataError("Variable", got="None", need="real numbers", origin=caller_origin())
    given, kind = as_array(values), chosen_dtype(dtype, F32)
    if given.dtype.kind not in "biuf":
        raise DataError("Variable", got=f"an array of {given.dtype}", need="real numbers", origin=caller_origin())
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.ascontiguousarray(given, kind.numpy)
    return layer_parameter(array) if trainable else eager.tensor(array)
