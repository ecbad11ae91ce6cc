"""`keras.ops`: nnc's functions of arrays under Keras' names, on arrays, operands, and on `keras.Input`s too."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc import numerics as n
from nnc.arguments import Count, checked
from nnc.core.values.dtype import F32, I64, AnyDType, dtype_of
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import as_operand
from nnc.dynamic.tree import flatten
from nnc.keras import activations, losses
from nnc.keras.engine.keras_tensor import KerasTensor, applied
from nnc.keras.layers.array_functions import OF_ARRAYS
from nnc.keras.layers.array_functions import ImageFunctions as image  # noqa: F401, N813  # as Keras calls it
from nnc.keras.loss_functions import as_single
from nnc.keras.metric_states import plain
from nnc.numerics.conversion import chosen_dtype
from nnc.ops.indexing import indexing
from nnc.vocabulary.answers import unknown_name
from nnc.vocabulary.keras_names import OPS


@checked
def cast(x: Any, dtype: AnyDType) -> Any:
    """x of another element type"""
    return as_operand(x).astype(dtype_of(dtype))


@checked
def convert_to_tensor(x: Any, dtype: AnyDType | None = None) -> Any:
    """An eager value; what NumPy has in 64 bits as f32."""
    value = as_single(x)
    return value if dtype is None else cast(value, dtype)


def convert_to_numpy(x: Any) -> Any:
    """An array of NumPy's."""
    return plain(x)


def shape(x: Any) -> tuple[int | None, ...]:
    """The sizes."""
    return tuple(x.shape if isinstance(x, ArrayOperand | KerasTensor) else plain(x).shape)


@checked
def one_hot(x: Any, num_classes: Count, axis: int = -1, dtype: AnyDType | None = None) -> Any:
    """1 at the place of each class."""
    hot = indexing.one_hot(as_operand(x).astype(I64), num_classes).astype(chosen_dtype(dtype, F32))
    return hot if axis in (-1, hot.ndim - 1) else n.moveaxis(hot, -1, int(axis))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The length along the axis."""
    return n.linalg.norm(as_operand(x), ord=ord, axis=axis, keepdims=keepdims)


def is_tensor(x: Any) -> bool:
    """Whether it is an operand."""
    return isinstance(x, ArrayOperand | KerasTensor)


OWN: dict[str, Callable[..., Any]] = {
    **OF_ARRAYS,
    **{function.__name__: function for function in (cast, convert_to_tensor, one_hot, norm)},
    **{name: function for name, function in activations.NAMES.items() if name != "linear"},
    **{
        name: getattr(losses, name)
        for name in ("binary_crossentropy", "categorical_crossentropy", "sparse_categorical_crossentropy")
    },
}
# Answered at once, of whatever they are asked.
DIRECT = {"convert_to_numpy": convert_to_numpy, "shape": shape, "is_tensor": is_tensor}


def _on_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which is a part of a model where it is called on `keras.Input`s."""

    @wraps(function)
    def of(*values: Any, **options: Any) -> Any:
        if any(isinstance(leaf, KerasTensor) for leaf in flatten((values, options))[0]):
            return applied(function, *values, **options)
        with np.errstate(over="ignore"):
            values = tuple(value.astype(np.float32) if _is_wide(value) else value for value in values)
        return function(*values, **options)

    return of


def _is_wide(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64


if not TYPE_CHECKING:
    # A type checker goes by what there is.
    def __getattr__(name: str) -> object:
        function = OWN.get(name, None if name.startswith("_") else getattr(n, name, None))
        if not callable(function):
            raise unknown_name("module 'nnc.keras.ops'", name, OPS, lambda: [*OWN, *dir(n)], "keras.ops.")
        return _on_tensors(function)

    # Those above stand under their names as functions of arrays alone.
    for _name in OWN:
        globals()[_name] = _on_tensors(OWN[_name])
