"""Data that comes in batches: what `keras.utils.image_dataset_from_directory` and its like give, for `fit`.

It has the methods that programs call on a `tf.data.Dataset`; elements are arrays of NumPy's, or tuples of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from nnc.arguments import Count, Seed, Size, checked
from nnc.dynamic.transforms.randomness import next_counter
from nnc.dynamic.tree import flatten, map_leaves
from nnc.errors import DataError
from nnc.keras.metric_states import plain
from nnc.nn.state.generators import generator_for


class Dataset:
    """Elements one after another, as often as they are asked for.

    >>> from nnc import keras
    >>> data = keras.utils.Dataset.from_tensor_slices((np.arange(5), np.arange(5) * 2)).batch(2)
    >>> [x.tolist() for x, y in data]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, elements: Callable[[], Iterator[Any]], count: int = 0, class_names: Any = None) -> None:
        self.elements, self.count, self.class_names = elements, count, class_names

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """The rows of arrays."""
        arrays = map_leaves(plain, tensors)
        counts = {leaf.shape[:1] for leaf in flatten(arrays)[0]}
        if len(counts) != 1 or not all(counts):
            raise DataError("from_tensor_slices", got=f"arrays of {sorted(counts)} rows", need="as many in each")
        ((count,),) = counts
        return Dataset(lambda: (_row(arrays, row) for row in range(count)), count)

    @staticmethod
    @checked
    def from_generator(generator: Callable[[], Any], **unused: Any) -> Dataset:
        """What a generator gives."""
        return Dataset(lambda: iter(generator()))

    @staticmethod
    @checked
    def range(count: Size) -> Dataset:
        """0, 1, …, count - 1"""
        return Dataset(lambda: map(np.int64, range(count)), count)

    def __iter__(self) -> Iterator[Any]:
        return self.elements()

    def __len__(self) -> int:
        if not self.count:
            raise TypeError("how many elements there are is not known")
        return self.count

    def cardinality(self) -> int:
        """How many elements there are, -2 where that is not known."""
        return self.count or -2

    def _with(self, elements: Callable[[], Iterator[Any]], count: int) -> Dataset:
        return Dataset(elements, count, self.class_names)

    def map(self, function: Callable[..., Any], num_parallel_calls: Any = None) -> Dataset:
        """The function of each element, of the parts of a tuple."""
        return self._with(
            lambda: (function(*row) if isinstance(row, tuple) else function(row) for row in self), self.count
        )

    def filter(self, function: Callable[..., Any]) -> Dataset:
        """The elements of which the function is true."""
        return self._with(
            lambda: (row for row in self if (function(*row) if isinstance(row, tuple) else function(row))), 0
        )

    @checked
    def batch(self, batch_size: Count, drop_remainder: bool = False, num_parallel_calls: Any = None) -> Dataset:
        """Elements in arrays of `batch_size`."""
        whole = self.count // batch_size if drop_remainder else -(-self.count // batch_size)
        return self._with(lambda: _batches(iter(self), batch_size, drop_remainder), whole)

    def unbatch(self) -> Dataset:
        """The rows of each element."""
        return self._with(lambda: (_row(batch, row) for batch in self for row in range(len(flatten(batch)[0][0]))), 0)

    @checked
    def shuffle(self, buffer_size: Count, seed: Seed | None = None, reshuffle_each_iteration: bool = True) -> Dataset:
        """Elements in another order each time, each drawn from `buffer_size` of them."""
        return self._with(lambda: _shuffled(iter(self), buffer_size, seed), self.count)

    @checked
    def take(self, count: Size) -> Dataset:
        """The first elements."""
        return self._with(lambda: islice(iter(self), count), min(self.count, count))

    @checked
    def skip(self, count: Size) -> Dataset:
        """Elements behind the first ones."""
        return self._with(lambda: islice(iter(self), count, None), max(self.count - count, 0))

    @checked
    def repeat(self, count: Count | None = None) -> Dataset:
        """All elements again and again, or `count` times."""

        def again() -> Iterator[Any]:
            turn = 0
            while count is None or turn < count:
                yield from self
                turn += 1

        return self._with(again, self.count * (count or 0))

    def cache(self, filename: str = "") -> Dataset:
        """Elements that are kept from the first time on."""
        kept: list[Any] = []

        def elements() -> Iterator[Any]:
            if not kept:
                kept.extend(self)
            return iter(kept)

        return self._with(elements, self.count)

    def prefetch(self, buffer_size: Any = None) -> Dataset:
        """The elements as they are: steps are not waited for here."""
        return self

    def enumerate(self, start: int = 0) -> Dataset:
        """(number, element)"""
        return self._with(lambda: enumerate(iter(self), start), self.count)

    def as_numpy_iterator(self) -> Iterator[Any]:
        """The elements as arrays of NumPy's."""
        return (map_leaves(plain, row) for row in self)


def _row(arrays: Any, row: int) -> Any:
    return map_leaves(lambda leaf: plain(leaf)[row], arrays)


def _batches(rows: Iterator[Any], size: int, drop: bool) -> Iterator[Any]:
    while chosen := list(islice(rows, size)):
        if len(chosen) < size and drop:
            return
        _, structure = flatten(chosen[0])
        leaves = [flatten(row)[0] for row in chosen]
        yield structure.unflatten([np.stack([plain(leaf) for leaf in parts]) for parts in zip(*leaves, strict=True)])


def _shuffled(rows: Iterator[Any], size: int, seed: int | None) -> Iterator[Any]:
    draws = generator_for(int(next_counter()) if seed is None else int(seed), "keras.shuffle")
    held = list(islice(rows, size))
    for row in rows:
        place = int(draws.integers(len(held)))
        held[place], row = row, held[place]
        yield row
    for place in draws.permutation(len(held)):
        yield held[place]
