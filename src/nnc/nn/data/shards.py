"""The part of each batch that one of several ranks trains on."""

from __future__ import annotations

import numpy as np

from nnc.errors import DataError
from nnc.nn.data.batches import Batch, BatchSource, BatchState
from nnc.nn.data.data_set import rows_of


class Shards:
    """Of each batch of `source` the rows of this rank, one rank's behind the other's, in parts as equal as can be.

    All ranks draw the same batches, so the place among them is that of the source, whatever the number of ranks: a
    training goes on with another.
    """

    def __init__(self, source: BatchSource, rank: int, ranks: int) -> None:
        self._source, self._rank, self._ranks = source, rank, ranks

    @property
    def size(self) -> int:
        """How far a batch of all ranks moves the position on."""
        return self._source.size

    def __len__(self) -> int:
        return len(self._source)

    def state(self) -> BatchState:
        """Of which batch of all ranks it is the turn."""
        return self._source.state()

    def restore(self, state: BatchState) -> None:
        """Go on from there."""
        self._source.restore(state)

    def next_batch(self) -> Batch:
        """This rank's rows; DataError where there are fewer rows than ranks."""
        batch = self._source.next_batch()
        begin, end = (len(batch) * rank // self._ranks for rank in (self._rank, self._rank + 1))
        if len(batch) < self._ranks:
            fix = "a larger batch size, or drop_last"
            got = f"a batch of {len(batch)} for {self._ranks} ranks"
            raise DataError("fit", got=got, need="an example for each rank", fix=fix)
        own = np.arange(begin, end)
        return Batch(rows_of(batch.inputs, own), rows_of(batch.labels, own), len(own))  # type: ignore[arg-type]  # so there

    def advance(self) -> None:
        """Go on to the batch after it."""
        self._source.advance()

    def close(self) -> None:
        """End what works ahead; the place stays."""
        self._source.close()
