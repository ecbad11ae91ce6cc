"""`keras.utils`: one-hot labels, seeds, splits, and data sets by number."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import Count, Seed, checked
from nnc.core.values.tensor import as_array
from nnc.dynamic.transforms.randomness import seed as set_seed
from nnc.errors import DataError
from nnc.keras.engine.stored import register_keras_serializable as register_keras_serializable


@checked
def to_categorical(x: ArrayLike, num_classes: Count | None = None) -> NDArray[np.float32]:
    """1 at the place of each class: y[…, classes] of f32.

    >>> from nnc import keras
    >>> keras.utils.to_categorical([0, 2])
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    classes = as_array(x).astype(np.int64)
    if classes.ndim > 1 and classes.shape[-1] == 1:
        classes = classes[..., 0]
    count = int(num_classes or (classes.max() + 1 if classes.size else 0))
    if classes.size and not 0 <= classes.min() <= classes.max() < count:
        raise DataError("to_categorical", got=f"classes {classes.min()} to {classes.max()}", need=f"0 to {count - 1}")
    return np.eye(count, dtype=np.float32)[classes]


@checked
def set_random_seed(seed: Seed) -> None:
    """Begin the random numbers of nnc, NumPy and Python anew."""
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    set_seed(seed % (1 << 31))


def normalize(x: ArrayLike, axis: int = -1, order: int = 2) -> NDArray[Any]:
    """x / |x| along the axis"""
    values = as_array(x).astype(np.float64)
    lengths = np.linalg.norm(values, order, axis, keepdims=True)
    return np.asarray(values / np.where(lengths == 0, 1.0, lengths), np.float32)


@checked
def pad_sequences(
    sequences: Any,
    maxlen: Count | None = None,
    dtype: str = "int32",
    padding: str = "pre",
    truncating: str = "pre",
    value: float = 0.0,
) -> NDArray[Any]:
    """Lists of various lengths as one array [count, maxlen]: filled up, and cut, before or behind.

    >>> from nnc import keras
    >>> keras.utils.pad_sequences([[1, 2, 3], [4]], maxlen=2)
    array([[2, 3],
           [0, 4]], dtype=int32)
    """
    rows = [list(row) for row in sequences]
    length = max(map(len, rows), default=0) if maxlen is None else maxlen
    filled = np.full((len(rows), length), value, dtype)
    for place, row in enumerate(rows):
        kept = row[-length:] if truncating == "pre" else row[:length]
        if kept and padding == "pre":
            filled[place, -len(kept) :] = kept
        elif kept:
            filled[place, : len(kept)] = kept
    return filled


class PyDataset:
    """Batches by number: subclasses say `__len__`, and `__getitem__(number)`, (x, y) or (x, y, sample_weight)."""

    def __init__(self, workers: int = 1, use_multiprocessing: bool = False, max_queue_size: int = 10) -> None:
        self.workers = workers

    def __len__(self) -> int:
        raise DataError(type(self).__name__, got="no __len__", need="def __len__(self): how many batches there are")

    def __getitem__(self, index: int) -> Any:
        raise DataError(type(self).__name__, got="no __getitem__", need="def __getitem__(self, index): a batch")

    def __iter__(self) -> Iterator[Any]:
        """The batches of an epoch: what any number indexes would have no end."""
        for place in range(len(self)):
            yield self[place]

    def on_epoch_end(self) -> None:
        """After each epoch."""


Sequence = PyDataset
