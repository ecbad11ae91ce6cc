"""Loaders as PyTorch has them: batches of a data set of single examples, as eager values.

    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    for inputs, labels in loader: ...

`Batches` beside them goes on from exactly where it stood; a loader begins each `for` loop anew. Orders are drawn by
`nnc.seed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from nnc.arguments import Count, Seed, Size, checked, shown
from nnc.core.values.tensor import as_array
from nnc.dynamic import eager
from nnc.dynamic.transforms.randomness import next_counter
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, DataError

Item = TypeVar("Item", covariant=True)
Collate = Callable[[list[Any]], Any]


class SizedExamples(Protocol[Item]):
    """What a loader draws from: a number of examples by position."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def __getitem__(self, position: int, /) -> Item:
        """The example at a position."""
        ...


class Dataset(Generic[Item]):
    """A base for data sets of one's own, which have `__len__` and `__getitem__`."""

    def __getitem__(self, position: int) -> Item:
        """The example at a position."""
        raise DataError(type(self).__name__, got="no __getitem__", need="def __getitem__(self, position)")

    def __len__(self) -> int:
        """How many examples there are."""
        raise DataError(type(self).__name__, got="no __len__", need="def __len__(self)")

    def __iter__(self) -> Iterator[Item]:
        """All examples in order."""
        return (self[position] for position in range(len(self)))


class TensorDataset(Dataset[tuple[Variable, ...]]):
    """Arrays side by side: example i is (a[i], b[i], …)."""

    def __init__(self, *tensors: ArrayLike | Variable) -> None:
        self.tensors = tuple(entry if isinstance(entry, Variable) else eager.tensor(entry) for entry in tensors)
        lengths = {entry.shape[:1] for entry in self.tensors}
        if len(lengths) != 1 or lengths == {()}:
            got, need = str([entry.shape for entry in self.tensors]), "arrays of one length"
            raise DataError("TensorDataset", got=got, need=need)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def __getitem__(self, position: Any) -> tuple[Variable, ...]:  # noqa: ANN401  # whatever indexes arrays
        """The example at a position, or examples at several."""
        return tuple(entry[position] for entry in self.tensors)


class Subset(Dataset[Item]):
    """The examples at these positions of another data set."""

    def __init__(self, dataset: SizedExamples[Item], indices: Sequence[int]) -> None:
        try:
            self.dataset, self.indices = dataset, [int(index) for index in indices]
        except (TypeError, ValueError):
            raise ArgumentError("Subset", got=shown(indices), need="integers") from None

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, position: int) -> Item:
        """The example at a position among these."""
        return self.dataset[self.indices[position]]


@checked
def random_split(
    dataset: SizedExamples[Item], lengths: Sequence[int | float], seed: Seed | None = None
) -> list[Subset[Item]]:
    """Parts of these lengths, or shares that add up to 1, drawn at random by `nnc.seed` or by `seed`."""
    count = len(dataset)
    sizes = [int(length) for length in lengths]
    if lengths and abs(sum(lengths) - 1.0) < 1e-6 and any(isinstance(length, float) for length in lengths):
        sizes = [int(count * length) for length in lengths]
        for place in range(count - sum(sizes)):
            sizes[place % len(sizes)] += 1
    if sum(sizes) != count or min(sizes, default=0) < 0:
        got, need = f"lengths {list(lengths)} of {count} examples", f"lengths that add up to {count}, or shares to 1"
        raise DataError("random_split", got=got, need=need)
    order = _generator(seed).permutation(count)
    ends = np.cumsum([0, *sizes])
    return [Subset(dataset, order[begin:end].tolist()) for begin, end in pairwise(ends)]


@checked
class DataLoader(Generic[Item]):
    """Batches of a data set: `collate_fn` of the examples, or arrays of them along a new first axis.

    `num_workers`, `pin_memory` and `persistent_workers` change nothing: examples are made where they are asked for.
    """

    def __init__(
        self,
        dataset: SizedExamples[Item],
        batch_size: Count = 1,
        shuffle: bool = False,
        num_workers: Size = 0,
        collate_fn: Collate | None = None,
        drop_last: bool = False,
        pin_memory: bool = False,
        persistent_workers: bool = False,
    ) -> None:
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.collate_fn = collate_fn

    def __len__(self) -> int:
        """How many batches a loop gives."""
        count = len(self.dataset)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        count = len(self.dataset)
        order = _generator(None).permutation(count) if self.shuffle else np.arange(count)
        for place in range(len(self)):
            yield self._batch(order[place * self.batch_size : (place + 1) * self.batch_size])

    def _batch(self, positions: np.ndarray[Any, np.dtype[np.int64]]) -> Any:  # noqa: ANN401  # what collates give
        dataset: object = self.dataset
        if self.collate_fn is None and isinstance(dataset, TensorDataset):
            return list(dataset[positions])
        examples = [self.dataset[position] for position in positions.tolist()]
        return collated(examples) if self.collate_fn is None else self.collate_fn(examples)


def collated(examples: Sequence[Any]) -> Any:  # noqa: ANN401  # as the examples are nested
    """Arrays of the examples along a new first axis, nested as each of them is; texts as a list."""
    first = examples[0]
    if isinstance(first, Mapping):
        return {key: collated([example[key] for example in examples]) for key in first}
    if isinstance(first, tuple | list):
        return [collated(list(column)) for column in zip(*examples, strict=True)]
    if isinstance(first, str | bytes):
        return list(examples)
    arrays = [as_array(example.numpy() if isinstance(example, Variable) else example) for example in examples]
    if any(array.shape != arrays[0].shape for array in arrays):
        got, fix = f"examples of shapes {sorted({array.shape for array in arrays})}", "collate_fn= that pads them"
        raise DataError("DataLoader", got=got, need="examples of one shape", fix=fix)
    made = np.stack(arrays)
    # Python's numbers as elsewhere: floats in f32.
    return eager.tensor(made.astype(np.float32) if isinstance(first, float) else made)


def _generator(seed: int | None) -> np.random.Generator:
    return np.random.default_rng(int(next_counter()) if seed is None else seed)
