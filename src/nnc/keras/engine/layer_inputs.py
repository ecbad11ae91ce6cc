"""What layers of `nnc.keras` are called on, and shapes that they are built for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nnc import numerics as n
from nnc.arguments import shown
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.tree import flatten
from nnc.errors import ArgumentError
from nnc.keras.engine.feeding import is_numbers
from nnc.keras.engine.keras_tensor import KerasTensor
from nnc.ops.number import INTEGERS


def inputs_of(subject: str, values: tuple[Any, ...], arrays_alone: bool) -> tuple[Any, ...]:
    """The operands of a call, numbers and lists of them as arrays; ArgumentError for a text.

    Layers of this package take `arrays_alone`: anything else is one too.
    """
    values = tuple([_as_input(value) for value in values])
    if arrays_alone and not any(leaf is not None for leaf in flatten(values[:1])[0]):
        got = shown(values[0]) if values else "no arguments"
        raise ArgumentError(subject, got=got, need="arrays", origin=caller_origin())
    for leaf in flatten(values)[0]:
        if isinstance(leaf, str) or (arrays_alone and not _is_input(leaf)):
            got = "a text" if isinstance(leaf, str) else shown(leaf)
            raise ArgumentError(subject, got=got, need="arrays", origin=caller_origin())
    return values


def _as_input(value: Any) -> Any:
    if is_numbers(value) or isinstance(value, bool | int | float | np.generic):
        return n.asarray(value)
    return value


def _is_input(leaf: Any) -> bool:
    if leaf is None or isinstance(leaf, ArrayOperand | KerasTensor | bool | int | float | np.generic):
        return True
    return hasattr(leaf, "__array__") or hasattr(leaf, "__dlpack__")


def check_shapes(given: Any, known: bool) -> None:
    """ArgumentError for what is no shape of an input, nor several; unless it is to be `known` it may be None."""
    sizes, _ = flatten(given)
    odd = [size for size in sizes if size is not None and not isinstance(size, INTEGERS)]
    if odd or not isinstance(given, tuple | list | Mapping | None) or (known and given is None):
        got = shown(odd[0] if odd else given)
        raise ArgumentError("build", got=got, need="the shape of an input, or several", origin=caller_origin())


def batch_shape(value: Any) -> tuple[int | None, ...]:
    """The shape, whose first size is that of a batch."""
    shape = tuple(getattr(value, "shape", None) or np.shape(value))
    return (None, *shape[1:])
