from __future__ import annotations

import json
from dataclasses import asdict
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnc.errors import DataError
from nnc.nn.data import Batches, BatchState, DataSet
from nnc.nn.data.batches import epoch_order


def numbered(count: int) -> DataSet:
    """Each example's input is its own number, so a batch tells which rows it took."""
    return DataSet("numbered", np.arange(count, dtype=np.float32)[:, None], np.zeros(count, np.int32), ("only",))


def rows(batches: Batches) -> list[list[int]]:
    """What one loop gives: the rows of each batch."""
    return [batch.inputs[:, 0].astype(int).tolist() for batch in batches]


def flat(epoch: list[list[int]]) -> list[int]:
    return [row for batch in epoch for row in batch]


def test_an_epoch_takes_every_example_once() -> None:
    batches = Batches(numbered(10), 3, seed=5)
    for _ in range(3):
        epoch = rows(batches)
        assert [len(batch) for batch in epoch] == [3, 3, 3, 1]
        assert sorted(flat(epoch)) == list(range(10))


def test_drop_last_leaves_out_the_smaller_batch() -> None:
    batches = Batches(numbered(10), 3, drop_last=True)
    assert [len(batch) for batch in rows(batches)] == [3, 3, 3]
    assert len(batches) == 3
    assert len(Batches(numbered(10), 3)) == 4
    assert batches.state() == BatchState(0, 1, 0)


def test_inputs_and_labels_stay_together() -> None:
    data = DataSet("pairs", np.arange(8, dtype=np.float32), np.arange(8, dtype=np.int32), tuple("abcdefgh"))
    for batch in Batches(data, 3):
        assert np.array_equal(batch.inputs, batch.labels)


def test_order_depends_on_seed_and_epoch_alone() -> None:
    orders = [tuple(epoch_order(seed, epoch, 20)) for seed in range(4) for epoch in range(4)]
    assert len(set(orders)) == len(orders)
    assert orders[0] == tuple(epoch_order(0, 0, 20))


def test_order_is_the_one_of_saved_checkpoints() -> None:
    assert epoch_order(0, 0, 8).tolist() == [5, 3, 0, 1, 2, 4, 7, 6]
    assert epoch_order(7, 3, 8).tolist() == [3, 6, 7, 2, 5, 0, 1, 4]


def test_batches_are_copies() -> None:
    data = numbered(4)
    for batch in Batches(data, 2):
        batch.inputs[:] = -1
    assert data.inputs[:, 0].tolist() == [0, 1, 2, 3]


@given(
    count=st.integers(1, 12),
    size=st.integers(1, 14),
    taken=st.integers(0, 30),
    seed=st.integers(0, 2**63),
    drop=st.booleans(),
)
def test_resume_is_exact(count: int, size: int, taken: int, seed: int, drop: bool) -> None:
    if drop and size > count:
        return
    straight = Batches(numbered(count), size, seed=seed, drop_last=drop)
    epochs = [rows(straight) for _ in range(34)]
    interrupted = Batches(numbered(count), size, seed=seed, drop_last=drop)
    before = 0
    while before < taken:
        before += sum(1 for _ in islice(interrupted, taken - before))
    saved = json.loads(json.dumps(asdict(interrupted.state())))

    resumed = Batches(numbered(count), size, seed=1, drop_last=drop)
    resumed.restore(BatchState(**saved))
    every_batch = [batch for epoch in epochs for batch in epoch]
    end = taken + 2 * len(straight) - taken % len(straight)
    assert rows(resumed) + rows(resumed) == every_batch[taken:end]


def test_state_after_the_last_batch_names_the_next_epoch() -> None:
    batches = Batches(numbered(4), 2, seed=9)
    states = [batches.state() for _ in batches]
    assert states == [BatchState(9, 0, 2), BatchState(9, 1, 0)]


def test_a_state_does_not_move() -> None:
    batches = Batches(numbered(4), 2)
    start = batches.state()
    first = rows(batches)
    batches.restore(start)
    assert rows(batches) == first
    assert start == BatchState(0, 0, 0)


@pytest.mark.parametrize("size", [0, -1])
def test_batch_size_must_be_positive(size: int) -> None:
    with pytest.raises(DataError, match=f"got batch size {size}; need a batch size of 1 or more"):
        Batches(numbered(4), size)


def test_an_epoch_without_batches_is_refused() -> None:
    with pytest.raises(DataError, match="need at least one batch in an epoch. Fix: take a smaller batch size"):
        Batches(numbered(4), 5, drop_last=True)
    with pytest.raises(DataError, match="need at least one batch in an epoch"):
        Batches(numbered(0), 5)


@pytest.mark.parametrize(
    "state", [BatchState(-1), BatchState(0, -1), BatchState(0, 0, -2), BatchState(0, 0, 1), BatchState(0, 0, 4)]
)
def test_a_state_that_fits_nothing_is_refused(state: BatchState) -> None:
    with pytest.raises(DataError, match="Fix: resume with the data set and batch size"):
        Batches(numbered(4), 2).restore(state)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(DataError, match="seed and epoch of 0 or more"):
        Batches(numbered(4), 2, seed=-1)
