"""Loaders of single examples: orders, batches, what collates, splits."""

from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc.errors import ArgumentError, DataError
from nnc.nn.data import DataLoader, Dataset, TensorDataset, random_split

X, Y = np.arange(20.0, dtype=np.float32).reshape(10, 2), np.arange(10)


class Squares(Dataset[dict[str, object]]):
    def __len__(self) -> int:
        return 5

    def __getitem__(self, position: int) -> dict[str, object]:
        return {
            "x": X[position],
            "y": position**2,
            "share": 0.5,
            "name": f"n{position}",
            "pair": (1, nnc.tensor([2.0])),
        }


def test_batches_go_through_all_examples_in_order_or_shuffled() -> None:
    loader = DataLoader(TensorDataset(X, Y), batch_size=4)
    assert len(loader) == 3
    np.testing.assert_array_equal(np.concatenate([y.numpy() for _, y in loader]), Y)
    nnc.seed(0)
    shuffled = DataLoader(TensorDataset(X, Y), batch_size=4, shuffle=True, drop_last=True)
    orders = [np.concatenate([y.numpy() for _, y in shuffled]).tolist() for _ in range(2)]
    assert len(shuffled) == 2
    assert len(set(orders[0])) == 8
    assert orders[0] != orders[1]
    nnc.seed(0)
    assert np.concatenate([y.numpy() for _, y in shuffled]).tolist() == orders[0]


def test_examples_are_collated_as_they_are_nested() -> None:
    batch = next(iter(DataLoader(Squares(), batch_size=3)))
    assert {name: getattr(value, "shape", value) for name, value in batch.items() if name != "pair"} == {
        "x": (3, 2),
        "y": (3,),
        "share": (3,),
        "name": ["n0", "n1", "n2"],
    }
    assert (batch["share"].dtype, batch["y"].dtype) == (nnc.f32, nnc.i64)
    assert [part.shape for part in batch["pair"]] == [(3,), (3, 1)]
    assert next(iter(DataLoader(Squares(), collate_fn=len))) == 1


def test_parts_are_disjoint_and_of_the_lengths_asked_for() -> None:
    train, test = random_split(TensorDataset(X, Y), [7, 3], seed=1)
    labels = [int(part[place][1]) for part in (train, test) for place in range(len(part))]
    assert (len(train), len(test), sorted(labels)) == (7, 3, Y.tolist())
    assert [len(part) for part in random_split(TensorDataset(X, Y), [0.75, 0.25])] == [8, 2]
    with pytest.raises(DataError, match="add up to 10"):
        random_split(TensorDataset(X, Y), [7, 2])


def test_what_fits_no_batch_is_refused() -> None:
    with pytest.raises(DataError, match="one length"):
        TensorDataset(X, Y[:3])
    with pytest.raises(DataError, match="collate_fn="):
        next(iter(DataLoader([np.zeros(1), np.zeros(2)], batch_size=2)))
    with pytest.raises(DataError, match="def __getitem__"):
        Dataset()[0]


@pytest.mark.parametrize(
    ("word", "fix"),
    [
        ("multiprocessing_context", "leave it out"),
        ("in_order", "leave it out"),
        ("pin_memory_device", "leave it out"),
    ],
)
def test_other_arguments_of_pytorch_s_loader_name_our_form(word: str, fix: str) -> None:
    with pytest.raises(ArgumentError, match=f"DataLoader: got {word}=; .* Fix: {fix}"):
        DataLoader([1, 2], **{word: 1})


def test_workers_change_nothing() -> None:
    data = TensorDataset(nnc.arange(10))
    alone, together = DataLoader(data, 4), DataLoader(data, 4, num_workers=2, pin_memory=True, persistent_workers=True)
    assert [batch[0].tolist() for batch in alone] == [batch[0].tolist() for batch in together]
