"""Loaders as PyTorch has them: batches of a data set of single examples, as eager values.

    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    for inputs, labels in loader: ...

`Batches` beside them goes on from exactly where it stood; a loader begins each `for` loop anew. Orders are drawn by
`nnc.seed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from nnc.arguments import Count, Seed, Size, checked, shown
from nnc.core.precautions.named_functions import HoldsFunctions
from nnc.core.values.tensor import as_array
from nnc.dynamic import eager
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, DataError
from nnc.numerics.generator import Generator, drawing

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
    dataset: SizedExamples[Item],
    lengths: Sequence[int | float],
    generator: Generator | None = None,
    *,
    seed: Seed | None = None,
) -> list[Subset[Item]]:
    """Parts of these lengths, or shares that add up to 1, drawn at random by `nnc.seed`, a generator or `seed`."""
    count = len(dataset)
    sizes = [int(length) for length in lengths]
    if lengths and abs(sum(lengths) - 1.0) < 1e-6 and any(isinstance(length, float) for length in lengths):
        sizes = [int(count * length) for length in lengths]
        for place in range(count - sum(sizes)):
            sizes[place % len(sizes)] += 1
    if sum(sizes) != count or min(sizes, default=0) < 0:
        got, need = f"lengths {list(lengths)} of {count} examples", f"lengths that add up to {count}, or shares to 1"
        raise DataError("random_split", got=got, need=need)
    order = (drawing(generator) if seed is None else np.random.default_rng(seed)).permutation(count)
    ends = np.cumsum([0, *sizes])
    return [Subset(dataset, order[begin:end].tolist()) for begin, end in pairwise(ends)]


@checked
class DataLoader(HoldsFunctions, Generic[Item]):
    """Batches of a data set: `collate_fn` of the examples, or arrays of them along a new first axis.

    Positions are those of a `sampler`, or lists of them from a `batch_sampler`; shuffled, they are drawn by `nnc.seed`
    or a `generator`. Of a data set that has `__iter__` alone, examples come as it gives them. Without a batch size
    (None) each example comes alone. What says how workers run changes nothing: examples are made where they are asked
    for.
    """

    def __init__(
        self,
        dataset: Any,  # noqa: ANN401  # a SizedExamples, or what can be gone through
        batch_size: Count | None = 1,
        shuffle: bool | None = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        num_workers: Size = 0,
        collate_fn: Collate | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        prefetch_factor: Count | None = None,
        persistent_workers: bool = False,
        generator: Generator | None = None,
    ) -> None:
        if (sampler is not None or batch_sampler is not None) and shuffle:
            got, need = "shuffle beside a sampler", "one of them: a sampler says the order"
            raise ArgumentError("DataLoader", got=got, need=need)
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, bool(shuffle), drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.collate_fn, self.generator = collate_fn, generator

    def __len__(self) -> int:
        """How many batches a loop gives."""
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]  # of those that know it
        count = len(self.dataset if self.sampler is None else self.sampler)  # type: ignore[arg-type]  # of those that do
        size = self.batch_size or 1
        return count // size if self.drop_last else -(-count // size)

    def __iter__(self) -> Iterator[Any]:
        if not hasattr(self.dataset, "__getitem__"):
            yield from self._gone_through()
            return
        for positions in self._batches():
            if self.batch_size is None and self.batch_sampler is None:
                yield from (self._converted(self.dataset[position]) for position in positions)
            else:
                yield self._batch(positions)

    def _batches(self) -> Iterator[Sequence[int]]:
        """Positions of each batch."""
        if self.batch_sampler is not None:
            yield from map(list, self.batch_sampler)
            return
        if self.sampler is not None:
            order = [int(position) for position in self.sampler]
        else:
            count = len(self.dataset)
            order = (drawing(self.generator).permutation(count) if self.shuffle else np.arange(count)).tolist()
        size = self.batch_size or 1
        for place in range(0, len(order), size):
            if len(order) - place >= size or not self.drop_last:
                yield order[place : place + size]

    def _gone_through(self) -> Iterator[Any]:
        """Batches of a data set that has no positions."""
        examples = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self._converted, examples)
            return
        for first in examples:
            batch = [first, *islice(examples, self.batch_size - 1)]
            if len(batch) == self.batch_size or not self.drop_last:
                yield self._collated(batch)

    def _batch(self, positions: Sequence[int]) -> Any:  # noqa: ANN401  # what collates give
        if self.collate_fn is None and isinstance(self.dataset, TensorDataset):
            return list(self.dataset[np.array(positions, np.int64)])
        return self._collated([self.dataset[position] for position in positions])

    def _collated(self, examples: list[Any]) -> Any:  # noqa: ANN401  # what collates give
        return collated(examples) if self.collate_fn is None else self.collate_fn(examples)

    def _converted(self, example: Any) -> Any:  # noqa: ANN401  # what collates give
        """An example alone."""
        return example if self.collate_fn is None else self.collate_fn(example)


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
