"""What `torch.utils.data` has beside loaders: in which order examples come, and data sets that are not one by one.

DataLoader(data, batch_size=8, sampler=WeightedRandomSampler(weights, num_samples=100))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import chain, islice
from typing import Any, Generic

import numpy as np

from nnc.arguments import Count, checked, explained
from nnc.core.values.tensor import as_array
from nnc.errors import DataError
from nnc.nn.data.loader import Dataset, Item, SizedExamples
from nnc.numerics.generator import Generator, drawing

__all__ = [
    "BatchSampler", "ConcatDataset", "IterableDataset", "RandomSampler", "SequentialSampler", "SubsetRandomSampler",
    "WeightedRandomSampler",
]  # fmt: skip


class IterableDataset(Generic[Item]):
    """A base for data sets that are read from front to end: they have `__iter__`."""

    def __iter__(self) -> Iterator[Item]:
        """All examples in order."""
        raise DataError(type(self).__name__, got="no __iter__", need="def __iter__(self)")


@explained
class ConcatDataset(Dataset[Item]):
    """The examples of several data sets, one after the other.

    >>> len(ConcatDataset([[1, 2], [3]]))
    3
    """

    def __init__(self, datasets: Iterable[SizedExamples[Item]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise DataError("ConcatDataset", got="no data sets", need="one or more")

    def __len__(self) -> int:
        return sum(map(len, self.datasets))

    def __getitem__(self, position: int) -> Item:
        """The example at a position of all."""
        place = position + len(self) if position < 0 else position
        for dataset in self.datasets:
            if 0 <= place < len(dataset):
                return dataset[place]
            place -= len(dataset)
        raise IndexError(position)


class Sampler(Generic[Item]):
    """A base for orders of one's own: `__iter__` gives positions, `__len__` says how many."""

    def __init__(self, data_source: Sized | None = None) -> None:
        """`data_source` is what older programs of PyTorch give."""

    def __iter__(self) -> Iterator[Item]:
        raise DataError(type(self).__name__, got="no __iter__", need="def __iter__(self)")


@checked
class SequentialSampler:
    """Positions in order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __len__(self) -> int:
        return len(self.data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))


@checked
class RandomSampler:
    """Positions in an order drawn anew for each loop, by `nnc.seed` or a generator; with `replacement` any of them."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: Count | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self.num_samples = len(data_source) if num_samples is None else num_samples

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        draw, count = drawing(self.generator), len(self.data_source)
        if self.replacement:
            return iter(draw.integers(0, count, self.num_samples).tolist())
        rounds = -(-self.num_samples // max(count, 1))
        return iter(np.concatenate([draw.permutation(count) for _ in range(rounds)])[: self.num_samples].tolist())


@checked
class SubsetRandomSampler:
    """These positions in an order drawn anew for each loop."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        values = as_array(indices)
        if values.dtype.kind not in "iu" and values.size:
            raise DataError("SubsetRandomSampler", got=f"positions of {values.dtype}", need="integers")
        self.indices, self.generator = [int(index) for index in values.reshape(-1)], generator

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        return (self.indices[place] for place in drawing(self.generator).permutation(len(self.indices)).tolist())


@checked
class WeightedRandomSampler:
    """Positions drawn with probabilities as these weights, one for each example.

    >>> nnc.seed(0)
    >>> list(WeightedRandomSampler([0.0, 1.0], num_samples=3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Any,  # noqa: ANN401  # numbers in any kind of array
        num_samples: Count,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        given = as_array(weights)
        if given.dtype.kind not in "fiub":
            raise DataError("WeightedRandomSampler", got=f"weights of {given.dtype}", need="real numbers")
        values = np.asarray(given, np.float64).reshape(-1)
        if not values.size or not (values >= 0).all() or not 0 < values.max() < np.inf:
            need = "finite numbers ≥ 0 that are not all 0"
            raise DataError("WeightedRandomSampler", got="these weights", need=need)
        # By a power of two, which rounds nothing: the sum of the largest is infinite.
        scaled = np.ldexp(values, -np.frexp(values.max())[1])
        self.shares, self.num_samples = scaled / scaled.sum(), num_samples
        if not replacement and num_samples > (most := np.count_nonzero(self.shares)):
            got, need = f"num_samples={num_samples}", f"at most {most} without replacement"
            raise DataError("WeightedRandomSampler", got=got, need=need)
        self.replacement, self.generator = replacement, generator

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        draw = drawing(self.generator)
        return iter(draw.choice(len(self.shares), self.num_samples, self.replacement, self.shares).tolist())


@checked
class BatchSampler:
    """The positions of a sampler, `batch_size` at a time."""

    def __init__(self, sampler: Iterable[int], batch_size: Count, drop_last: bool = False) -> None:
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]  # of those that know it
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        positions = iter(self.sampler)
        for first in positions:
            batch = list(chain([first], islice(positions, self.batch_size - 1)))
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch
