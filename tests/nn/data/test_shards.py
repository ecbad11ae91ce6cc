from __future__ import annotations

import numpy as np
import pytest

from nnc.errors import DataError
from nnc.nn.data.batches import Batches
from nnc.nn.data.data_set import Examples
from nnc.nn.data.shards import Shards


def batches(count: int = 11, size: int = 4) -> Batches:
    values = np.arange(count, dtype=np.float32)
    return Batches(Examples("numbers", values[:, None], values), size, seed=3)


def test_ranks_have_the_rows_of_a_batch_together_and_each_row_once() -> None:
    whole, parts = batches(), [Shards(batches(), rank, 3) for rank in range(3)]
    for _ in range(len(whole)):
        batch = whole.next_batch()
        own = [part.next_batch() for part in parts]
        assert np.array_equal(np.concatenate([part.labels for part in own]), batch.labels)
        assert [len(part) for part in own] == [1, 1, 2] if len(batch) == 4 else True
        for source in (whole, *parts):
            source.advance()
    assert {part.state() for part in parts} == {whole.state()}


def test_a_training_goes_on_with_another_number_of_ranks() -> None:
    source = Shards(batches(), 0, 2)
    source.advance()
    other = Shards(batches(), 0, 1)
    other.restore(source.state())
    assert np.array_equal(other.next_batch().labels[:2], source.next_batch().labels)


def test_a_batch_smaller_than_the_ranks_is_refused() -> None:
    source = Shards(batches(5, 4), 0, 2)
    source.advance()
    with pytest.raises(DataError, match="a batch of 1 for 2 ranks"):
        source.next_batch()
