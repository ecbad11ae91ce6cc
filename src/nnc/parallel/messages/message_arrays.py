"""Arrays as messages have them: in order, as bytes, and in parts that travel together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from nnc.core.values.tensor import as_array
from nnc.errors import ArgumentError
from nnc.parallel.messages.rank_sums import Array


def in_order(value: ArrayLike) -> Array:
    """A list, an eager value or an array as one whose elements lie one behind the other."""
    array = as_array(value)
    if array.dtype.kind in "OUSMm":
        raise ArgumentError("ranks", got=f"an array of {array.dtype}", need="numbers", fix="encode it as bytes (uint8)")
    return np.asarray(array, order="C")


def as_bytes(array: Array) -> Array:
    """A contiguous array as bytes, which MPI knows whatever the element type."""
    return array.reshape(-1).view(np.uint8)


def trips(arrays: Iterable[Array], most: int) -> Iterator[list[Array]]:
    """The arrays flat, long ones in parts: lists that take no more than `most` bytes together."""
    trip, taken = list[Array](), 0
    for array in arrays:
        flat, elements = array.reshape(-1), most // array.itemsize
        for begin in range(0, flat.size, elements):
            part = flat[begin : begin + elements]
            if trip and taken + part.nbytes > most:
                yield trip
                trip, taken = [], 0
            trip.append(part)
            taken += part.nbytes
    if trip:
        yield trip


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 1`, `ranks 1, 2`."""
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
