"""Rows of floats as bytes of a format, and back; formats by the numbers that files have for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from nnc.core.values import blocks
from nnc.core.values.blocks import FORMATS
from nnc.language.architectures.weight_sources import PLAIN

# `general.file_type` of llama.cpp.
FILE_TYPES: Mapping[str, int] = MappingProxyType(
    {
        "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q2_k": 10, "q3_k": 12, "q4_k": 15,
        "q5_k": 17, "q6_k": 18,
    }
)  # fmt: skip

# Of the inputs of a matrix.
Weights = NDArray[np.float64]
Write = Callable[[NDArray[np.float32]], NDArray[np.uint8]]
Read = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


def block_writer(to: str) -> Write:
    """What gives the bytes of rows of floats in a format of blocks, or as plain numbers."""
    return ways_of(to)[0]


def ways_of(to: str, importance: Weights | None = None) -> tuple[Write, Read]:
    """How rows of floats become bytes of a format, errors weighted by importance, and how these are read."""
    if to in FORMATS:
        return lambda values: blocks.quantize(values, to, importance), lambda data: blocks.dequantize(data, to)
    dtype = PLAIN[to]
    return (
        lambda values: np.ascontiguousarray(values, dtype).view(np.uint8),
        lambda data: np.asarray(data.view(dtype), np.float32),
    )
