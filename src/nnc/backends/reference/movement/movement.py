"""Movement of elements: transpose, concatenate, embed a region in zeros."""

from __future__ import annotations

import math

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, widen, write
from nnc.ops.movement.movement import (
    CONCATENATE,
    EMBED,
    TRANSPOSE,
    ConcatenateAttrs,
    EmbedAttrs,
    TransposeAttrs,
    is_scattered,
)


def transpose(attrs: TransposeAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y's axis k = x's axis permutation[k]."""
    (x,) = inputs
    assert x is not None
    write(outputs[0], x.transpose(attrs.permutation))


def concatenate(attrs: ConcatenateAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = x₀, x₁, … one after another along the axis."""
    start = 0
    for x in inputs:
        assert x is not None
        stop = start + x.shape[attrs.axis]
        write(outputs[0][(slice(None),) * attrs.axis + (slice(start, stop),)], x)
        start = stop


def embed(attrs: EmbedAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y = zeros, then y.flat[offset + sum(i · strides)] += x[i…], in row-major order of y."""
    (x,) = inputs
    assert x is not None
    apart = is_scattered(x.shape, attrs.strides)
    values = x if apart else widen(x)
    flat = np.zeros(math.prod(attrs.shape), values.dtype)
    places: Array = np.full((), attrs.offset)
    indices: tuple[Array, ...] = np.indices(x.shape, sparse=True)
    for index, stride in zip(indices, attrs.strides, strict=True):
        places = places + index * stride
    if apart:
        flat[places] = values
    else:
        np.add.at(flat, places, values)
    write(outputs[0], flat.reshape(attrs.shape))


ROWS: Rows = {TRANSPOSE: transpose, CONCATENATE: concatenate, EMBED: embed}
