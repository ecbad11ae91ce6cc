"""Layers and functions of arrays say at once which argument is wrong, in nnc's own errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnc import keras, nn
from nnc.errors import NncError

layers, X = keras.layers, np.ones((2, 3), np.float32)
functions: Any = keras.ops
WRONG: dict[str, Callable[[], object]] = {
    "standardize": lambda: layers.TextVectorization(standardize=-1),
    "split": lambda: layers.TextVectorization(split="whitespaces"),
    "list of words": lambda: layers.StringLookup(vocabulary=np.ones((2, 2))),
    "at least 3": lambda: layers.StringLookup(max_tokens=2, vocabulary=["a", "b"]),
    "StringLookup: got 1; need words": lambda: layers.StringLookup(vocabulary=[1, 2]),
    "got 1.5; need words": lambda: layers.StringLookup(vocabulary=["a"])([1.5]),
    "need whole numbers": lambda: layers.IntegerLookup(vocabulary=["a"]),
    "numbers": lambda: layers.Normalization(mean=1.0, variance="x"),
    "value_range": lambda: layers.RandomContrast(0.1, value_range=(0, 1, 2)),
    "fill_mode": lambda: layers.RandomRotation(0.1, "reflects"),
    "output_shape=a ndarray": lambda: layers.EinsumDense("ab,bc->ac", np.array(0.0)),
    "factor=a dict": lambda: layers.RandomContrast({}),
    "axis=a dict": lambda: layers.LayerNormalization({1: 2}),
    "noise_shape=": lambda: layers.Dropout(0.5, noise_shape=(2,))(X, training=True),
    "from_tensor_slices: got arrays of": lambda: keras.utils.Dataset.from_tensor_slices(3),
    "generator=3": lambda: keras.utils.Dataset.from_generator(3),  # type: ignore[arg-type]
    "extract_patches: got 1099511627776 parts": lambda: functions.image.extract_patches(
        np.ones((1, 4, 4, 1)), (1, 1 << 40)
    ),
    "approximate=": lambda: nn.GELU(np.ones(2)),  # type: ignore[arg-type]
    "one for each of 1 axes": lambda: functions.slice(X, [0, 0], [1]),
    "one window": lambda: keras.utils.timeseries_dataset_from_array(np.ones(4), None, 1 << 62),
}


def test_sizes_of_ngrams_may_be_an_integer_of_numpy() -> None:
    assert [*layers.TextVectorization(ngrams=np.int64(2)).sizes] == [1, 2]


def test_wrong_arguments_are_named() -> None:
    for words, call in WRONG.items():
        with pytest.raises(NncError, match=words):
            call()
