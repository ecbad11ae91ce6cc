"""What `fit`, `evaluate` and `predict` are given, as batches (x, y, weights): arrays, or an iterable of batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import shown
from nnc.core.precautions.origin import caller_origin
from nnc.dynamic.transforms.randomness import next_counter
from nnc.dynamic.tree import flatten, map_leaves
from nnc.errors import ArgumentError, DataError, UsageError
from nnc.keras.metric_states import plain, real, single
from nnc.nn.state.generators import generator_for

Batch = tuple[Any, Any, Any]


def is_numbers(value: Any) -> bool:
    """Whether it is a list of numbers, or of lists of them, which stands for one array."""
    if not isinstance(value, list | tuple):
        return False
    return all(isinstance(leaf, int | float | np.generic) for leaf in flatten(value)[0])


def is_arrays(x: Any) -> bool:
    """Whether it is arrays in memory, and no source of batches."""
    if isinstance(x, list | tuple):
        return bool(x) and (all(map(is_arrays, x)) or all(isinstance(value, int | float) for value in x))
    if isinstance(x, Mapping):
        return all(map(is_arrays, x.values()))
    return hasattr(x, "shape") or hasattr(x, "__array__")


class Arrays:
    """Batches of arrays in memory, in another order in each epoch where it is asked for."""

    def __init__(self, x: Any, y: Any, weights: Any, batch_size: int, shuffle: bool) -> None:
        self.x, self.y, self.weights = _inputs(x), _arrays(y), _arrays(weights)
        self.batch_size, self.shuffle = batch_size, shuffle
        counts = {
            len(leaf) if leaf.ndim else 0 for leaf in flatten((self.x, self.y, self.weights))[0] if leaf is not None
        }
        if len(counts) != 1 or not max(counts):
            got = f"arrays of {', '.join(map(str, sorted(counts)))} examples"
            raise DataError("fit", got=got, need="as many in each, and one at least", origin=caller_origin())
        self.count = counts.pop()

    def __len__(self) -> int:
        return math.ceil(self.count / self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        order: Any = None
        if self.shuffle:
            order = generator_for(int(next_counter()), "keras.fit").permutation(self.count)
        for start in range(0, self.count, self.batch_size):
            stop = min(start + self.batch_size, self.count)
            chosen = slice(start, stop) if order is None else order[start:stop]
            yield self.at(chosen)

    def at(self, chosen: Any) -> Batch:
        """The examples at these places."""
        return map_leaves(lambda leaf: None if leaf is None else leaf[chosen], (self.x, self.y, self.weights))  # type: ignore[no-any-return]

    def split(self, share: float) -> tuple[Arrays, Arrays]:
        """All but the last part, and that."""
        at = math.floor(self.count * (1.0 - share))
        if not 0 < at < self.count:
            got = f"validation_split={share} of {self.count} examples"
            raise DataError("fit", got=got, need="examples on both sides", origin=caller_origin())
        parts = self.at(slice(0, at)), self.at(slice(at, None))
        before, behind = (Arrays(*part, self.batch_size, self.shuffle) for part in parts)
        behind.shuffle = False
        return before, behind


class Batches:
    """Batches of an iterable: tuples (x,), (x, y) or (x, y, weights); of a `keras.utils.PyDataset` by number."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self._rest: Iterator[Any] | None = None

    def __len__(self) -> int:
        """How many there are; 0 where the source does not know."""
        try:
            return len(self.source)
        except TypeError:
            return 0

    def __iter__(self) -> Iterator[Batch]:
        source = self.source
        if hasattr(source, "__getitem__") and hasattr(source, "__len__") and not isinstance(source, list | tuple):
            rows: Iterable[Any] = (source[place] for place in range(len(source)))
        else:
            # A generator goes on where it stands.
            rows = source
        for row in rows:
            yield _batch(row)
        if hasattr(source, "on_epoch_end"):
            source.on_epoch_end()


def _batch(row: Any) -> Batch:
    parts = row if isinstance(row, tuple | list) else (row,)
    if not 1 <= len(parts) <= 3:
        got, need = f"a batch of {len(parts)}", "(x,), (x, y) or (x, y, sample_weight)"
        raise DataError("fit", got=got, need=need, origin=caller_origin())
    x, y, weights = (*parts, None, None)[:3]
    return _inputs(x), _arrays(y), _arrays(weights)


def parts_of(data: Any) -> Batch:
    """(x, y, weights) of x, (x,), (x, y) or (x, y, weights)."""
    parts = data if isinstance(data, tuple | list) else (data,)
    if not 1 <= len(parts) <= 3:
        got = f"{len(parts)} parts"
        raise DataError("fit", got=got, need="x, (x, y) or (x, y, sample_weight)", origin=caller_origin())
    return (*parts, None, None)[:3]


def packed(x: Any, y: Any, weights: Any) -> Any:
    """What a step is told of a batch: x alone where it has no targets, as Keras has it."""
    if y is None:
        return (x,) if isinstance(x, tuple | list) else x
    return (x, y) if weights is None else (x, y, weights)


def check_examples(x: Any) -> Any:
    """The inputs; DataError where they have no examples."""
    if any(not getattr(leaf, "ndim", 0) for leaf in flatten(x)[0]):
        raise DataError("fit", got=f"x={shown(x)}", need="arrays [examples, …]", origin=caller_origin())
    return x


def _inputs(x: Any) -> Any:
    return check_examples(_arrays(x))


def _arrays(value: Any) -> Any:
    """The arrays in it; None where it is not given."""
    if value is None:
        return None
    return map_leaves(single, np.asarray(value) if is_numbers(value) else value)


def source_of(x: Any, y: Any, weights: Any, batch_size: int | None, shuffle: bool) -> Arrays | Batches:
    """Batches of what was given."""
    if is_arrays(x) or isinstance(x, int | float):
        return Arrays(x, y, weights, batch_size or 32, shuffle)
    if isinstance(x, list) and x and not isinstance(x[0], tuple | dict):
        return Arrays(np.asarray(x), y, weights, batch_size or 32, shuffle)
    if y is not None:
        raise ArgumentError("fit", got="y beside batches", need="batches (x, y) alone", origin=caller_origin())
    if isinstance(x, Mapping) or (not hasattr(x, "__iter__") and not hasattr(x, "__getitem__")):
        got, need = f"x={type(x).__name__}", "arrays, or an iterable of batches"
        raise ArgumentError("fit", got=got, need=need, origin=caller_origin())
    return Batches(x)


def class_weights(y: Any, chosen: Any) -> NDArray[np.float32]:
    """The weight of each example by its class."""
    if not isinstance(chosen, Mapping):
        need = "a dictionary {class: weight}"
        raise ArgumentError("class_weight", got=shown(chosen), need=need, origin=caller_origin())
    classes = plain(y)
    if classes.ndim > 1 and classes.shape[-1] > 1:
        classes = classes.argmax(-1)
    classes = classes.reshape(len(classes), -1)[:, 0].astype(np.int64)
    weights = real([chosen.get(int(number), 1.0) for number in classes])
    with np.errstate(over="ignore"):
        return weights.astype(np.float32)


def joined(results: list[Any]) -> Any:
    """Outputs of batches one behind the other."""
    if not results:
        raise UsageError("predict", got="no batches", need="one at least", origin=caller_origin())
    leaves = [flatten(result)[0] for result in results]
    _, structure = flatten(results[0])
    whole = structure.unflatten([np.concatenate(parts) for parts in zip(*leaves, strict=True)])
    return list(whole) if isinstance(whole, tuple) else whole
