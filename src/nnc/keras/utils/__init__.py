"""`keras.utils`: one-hot labels, seeds, padded lists, images, and data sets by number or as they come."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnc.arguments import Count, Positive, Seed, checked
from nnc.core.values.dtype import dtype_of
from nnc.dynamic.transforms.randomness import seed as set_seed
from nnc.errors import DataError, IndexRangeError, MemoryLimitError, ShapeError
from nnc.keras.engine.stored import get_custom_objects as get_custom_objects
from nnc.keras.engine.stored import register_keras_serializable as register_keras_serializable
from nnc.keras.metric_states import real
from nnc.keras.utils.batched_data import Dataset as Dataset
from nnc.keras.utils.image_files import array_to_img as array_to_img
from nnc.keras.utils.image_files import image_dataset_from_directory as image_dataset_from_directory
from nnc.keras.utils.image_files import img_to_array as img_to_array
from nnc.keras.utils.image_files import load_img as load_img
from nnc.keras.utils.image_files import save_img as save_img
from nnc.keras.utils.image_files import timeseries_dataset_from_array as timeseries_dataset_from_array

Side: TypeAlias = Literal["pre", "post"]
# Beside labels that are larger an array of ones and zeros is the wrong thing.
MOST_CLASSES = 1 << 31


@checked
def to_categorical(x: ArrayLike, num_classes: Count | None = None) -> NDArray[np.float32]:
    """1 at the place of each class: y[…, classes] of f32.

    >>> from nnc import keras
    >>> keras.utils.to_categorical([0, 2])
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    given = real(x)
    if given.ndim > 1 and given.shape[-1] == 1:
        given = given[..., 0]
    most = MOST_CLASSES if num_classes is None else num_classes
    # Of Python's: beside f16 and u8 NumPy has no place for the most.
    least, last = (given.min().item(), given.max().item()) if given.size else (0, 0)
    if not 0 <= least <= last < most:
        raise DataError("to_categorical", got=f"classes {least} to {last}", need=f"0 to {most - 1}")
    classes = given.astype(np.int64)
    count = (classes.max() + 1 if classes.size else 0) if num_classes is None else num_classes
    try:
        hot = np.zeros((*classes.shape, count), np.float32)
    except (MemoryError, ValueError):
        got = f"{classes.size} labels of {count} classes"
        raise MemoryLimitError("to_categorical", got=got, need="an array that this machine can hold") from None
    np.put_along_axis(hot, classes[..., None], 1.0, -1)
    return hot


@checked
def set_random_seed(seed: Seed) -> None:
    """Begin the random numbers of nnc, NumPy and Python anew."""
    random.seed(int(seed))
    np.random.seed(seed % (1 << 32))
    set_seed(seed % (1 << 31))


@checked
def normalize(x: ArrayLike, axis: int = -1, order: Positive = 2) -> NDArray[Any]:
    """x / |x| along the axis, |x| = (Σ |x|^order)^(1 / order)"""
    values = np.atleast_1d(real(x)).astype(np.float64)
    if not -values.ndim <= axis < values.ndim:
        raise IndexRangeError("normalize", got=f"axis={axis}", need=f"one of {values.ndim} axes")
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(values, order, axis, keepdims=True)
        return np.asarray(values / np.where(lengths == 0, 1.0, lengths), np.float32)


@checked
def pad_sequences(
    sequences: Iterable[Any],
    maxlen: Count | None = None,
    dtype: str = "int32",
    padding: Side = "pre",
    truncating: Side = "pre",
    value: float = 0.0,
) -> NDArray[Any]:
    """Lists of various lengths as one array [count, maxlen]: filled up, and cut, before or behind.

    >>> from nnc import keras
    >>> keras.utils.pad_sequences([[1, 2, 3], [4]], maxlen=2)
    array([[2, 3],
           [0, 4]], dtype=int32)
    """
    rows = [real(row) for row in sequences]
    if any(row.ndim != 1 for row in rows):
        raise ShapeError("pad_sequences", got="what is no list of lists", need="a list of numbers for each sequence")
    length = max(map(len, rows), default=0) if maxlen is None else maxlen
    kind = dtype_of(dtype).numpy
    try:
        filled = np.full((len(rows), length), _as_kind(np.float64(value), kind), kind)
    except (MemoryError, ValueError):
        got = f"{len(rows)} sequences of {length}"
        raise MemoryLimitError("pad_sequences", got=got, need="an array that this machine can hold") from None
    for place, row in enumerate(rows):
        kept = row[-length:] if truncating == "pre" else row[:length]
        own = slice(length - len(kept), None) if padding == "pre" else slice(len(kept))
        filled[place, own] = _as_kind(kept, kind)
    return filled


def _as_kind(values: Any, kind: np.dtype[Any]) -> NDArray[Any]:
    """Numbers of another element type; DataError where an integer cannot be one of them."""
    array = np.asarray(values)
    if kind.kind in "iu" and array.size:
        ends = np.iinfo(kind)
        if not (float(array.min()) >= ends.min and float(array.max()) <= ends.max):
            raise DataError("pad_sequences", got=f"{array.min()} to {array.max()}", need=f"numbers of {kind}")
    with np.errstate(over="ignore"):
        return array.astype(kind)


class PyDataset:
    """Batches by number: subclasses say `__len__`, and `__getitem__(number)`, (x, y) or (x, y, sample_weight)."""

    @checked
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
