"""Windows over arrays, as NumPy's `np.lib.stride_tricks` names them."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from nnc.core.precautions.origin import caller_origin
from nnc.errors import ArgumentError, ShapeError
from nnc.numerics.conversion import AnyArray, Array, Axes, as_array, place_of
from nnc.numerics.pytorch.selecting import unfold

__all__ = ["sliding_window_view"]


def sliding_window_view(x: AnyArray, window_shape: int | Sequence[int], axis: Axes = None) -> Array:
    """y[…, i, …, j] = x[…, i + j, …]: all windows along the axes, whose places are new last axes; a copy, not a view.

    >>> nnc.lib.stride_tricks.sliding_window_view(nnc.arange(5), 3).tolist()
    [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    """
    array = as_array(x)
    sizes = [operator.index(size) for size in _each(window_shape)]
    axes = list(range(array.ndim)) if axis is None else [place_of(NAME, place, array.ndim) for place in _each(axis)]
    if len(sizes) != len(axes):
        got = f"{len(sizes)} sizes for {len(axes)} axes of {array.spec}"
        raise ArgumentError(NAME, got=got, need="a size for each axis", origin=caller_origin())
    for size, place in zip(sizes, axes, strict=True):
        if not 0 < size <= array.shape[place]:
            need = f"sizes from 1 to those of the array (axis {place}: {array.shape[place]})"
            raise ShapeError(NAME, got=f"a window of {size}", need=need, origin=caller_origin())
        array = unfold(array, place, size, 1)
    return array.twin() if not sizes else array


NAME = "sliding_window_view"


def _each(values: Axes) -> Sequence[int]:
    """One number, or several."""
    return [values] if not hasattr(values, "__iter__") else list(values)  # type: ignore[list-item, arg-type]
