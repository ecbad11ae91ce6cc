"""Shuffled batches whose order is a function of the seed, and which can go on from any point."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked, explained
from nnc.classes import dataclass
from nnc.core.precautions.shield import Shield
from nnc.errors import DataError
from nnc.nn.data.data_set import DataSet, Examples, rows_of


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """`inputs[b, ...]` and `labels[b]`: copies, free to be changed; tuples of them where the examples have tuples."""

    inputs: NDArray[np.generic]
    labels: NDArray[np.generic]
    count: int

    def __len__(self) -> int:
        return self.count


@checked
@dataclass(frozen=True, slots=True)
class BatchState:
    """The next batch: of which seed, in which epoch, after how many examples of that epoch.

    Three integers, so `dataclasses.asdict` gives JSON and `BatchState(**fields)` reads it back.
    """

    seed: int
    epoch: int = 0
    position: int = 0


@runtime_checkable
class BatchSource(Protocol):
    """What `fit` draws from: batches in epochs, and a place among them that can be taken up again.

    The place is a `BatchState`, whose position counts examples by steps of `size`, or batches where `size` is 1.
    """

    @property
    def size(self) -> int:
        """How far a batch moves the position on."""
        ...

    def __len__(self) -> int:
        """The number of batches in an epoch; 0 where nobody knows."""
        ...

    def state(self) -> BatchState:
        """Of which batch it is the turn."""
        ...

    def restore(self, state: BatchState) -> None:
        """Go on from there."""
        ...

    def next_batch(self) -> Batch:
        """The batch whose turn it is: the same one until `advance`."""
        ...

    def advance(self) -> None:
        """Go on to the batch after it."""
        ...

    def close(self) -> None:
        """End what works ahead; the place stays."""
        ...


@explained
@checked
class Batches:
    """`batch[k] = data[order(seed, epoch)[k * size : (k + 1) * size]]`, epoch after epoch.

    They stand somewhere in the data, and whoever draws from them moves them on: two models that are to see the same
    batches take one object each. One `for` loop gives what is left of the current epoch; the next loop gives the next
    epoch. The last batch of an epoch is smaller when `size` does not divide the data set, or left out by `drop_last`.

    >>> data = DataSet("five", np.zeros((5, 1), np.float32), np.arange(5, dtype=np.int32), tuple("abcde"))
    >>> batches = Batches(data, 2, seed=1)
    >>> [len(batch) for batch in batches], batches.state()
    ([2, 2, 1], BatchState(seed=1, epoch=1, position=0))
    """

    def __init__(self, data: DataSet | Examples, size: int, *, seed: int = 0, drop_last: bool = False) -> None:
        if size < 1:
            raise DataError("batches", got=f"batch size {size}", need="a batch size of 1 or more")
        usable = len(data) - len(data) % size if drop_last else len(data)
        if usable == 0:
            raise DataError(
                "batches",
                got=f"batch size {size}, {len(data)} examples in {data.name}, drop_last={drop_last}",
                need="at least one batch in an epoch",
                fix="take a smaller batch size, or keep the last batch." if len(data) else "",
            )
        self._data = data
        self._size = size
        self._usable = usable
        self.restore(BatchState(seed))

    @property
    def examples(self) -> DataSet | Examples:
        """What they are drawn from."""
        return self._data

    @property
    def size(self) -> int:
        """Examples per batch; the last one of an epoch may have fewer."""
        return self._size

    def __len__(self) -> int:
        """The number of batches in a whole epoch."""
        return -(-self._usable // self._size)

    def __iter__(self) -> Iterator[Batch]:
        epoch = self._state.epoch
        while self._state.epoch == epoch:
            batch = self.next_batch()
            self.advance()
            yield batch

    def state(self) -> BatchState:
        """The state from which the next batch comes; after the last batch of an epoch it names the next epoch."""
        return self._state

    def restore(self, state: BatchState) -> None:
        """Goes on from `state`, exactly as the batches it was taken from; raises `DataError` if that cannot be."""
        if (
            min(state.seed, state.epoch, state.position) < 0
            or state.position >= self._usable
            or state.position % self._size
        ):
            raise DataError(
                "batches",
                got=str(state),
                need=f"seed and epoch of 0 or more, a position below {self._usable} that {self._size} divides",
                fix="resume with the data set and batch size that the state was saved with.",
            )
        order = epoch_order(state.seed, state.epoch, len(self._data))
        with Shield():
            self._state, self._order = state, order

    def next_batch(self) -> Batch:
        """The batch that `state` names: the same one until `advance`."""
        rows = self._order[self._state.position : self._end()]
        inputs, labels = rows_of(self._data.inputs, rows), rows_of(self._data.labels, rows)
        return Batch(inputs, labels, len(rows))  # type: ignore[arg-type]  # tuples are for those who gave some

    def advance(self) -> None:
        """Go on to the batch after the next one."""
        state, end = self._state, self._end()
        if end == self._usable:
            self.restore(BatchState(state.seed, state.epoch + 1))
        else:
            self._state = BatchState(state.seed, state.epoch, end)

    def close(self) -> None:
        """Nothing works ahead here."""

    def _end(self) -> int:
        return min(self._state.position + self._size, self._usable)


def epoch_order(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """The order of `count` examples in an epoch: its own random stream for each seed and epoch."""
    keyed = np.random.SeedSequence(seed, spawn_key=(epoch,))
    return np.random.Generator(np.random.PCG64(keyed)).permutation(count)
