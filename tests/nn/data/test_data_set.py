from __future__ import annotations

import numpy as np
import pytest

from nnc.errors import DataError
from nnc.nn.data import DataSet, Examples


def data_set(inputs: tuple[int, ...] = (3, 2), labels: tuple[int, ...] = (0, 1, 0)) -> DataSet:
    return DataSet("small", np.zeros(inputs, np.float32), np.array(labels, np.int32), ("no", "yes"))


def test_length_and_repr_hide_the_values() -> None:
    assert len(data_set()) == 3
    assert repr(data_set()) == "DataSet('small', inputs=float32[3, 2], labels=int32[3], 2 classes)"


def test_select_keeps_order_and_name() -> None:
    rows = data_set().select([1, 1, 0])
    assert rows.labels.tolist() == [1, 1, 0]
    assert rows.name == "small"
    assert data_set().select(slice(1), "first").name == "first"


def test_an_empty_data_set_is_allowed() -> None:
    assert len(data_set((0, 2), ())) == 0


@pytest.mark.parametrize(("inputs", "labels"), [((2, 2), (0, 1, 0)), ((), (0,))])
def test_lengths_must_agree(inputs: tuple[int, ...], labels: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"data set small: got inputs=.*labels\[n\] of the same n"):
        data_set(inputs, labels)


@pytest.mark.parametrize("labels", [(0, 1, 2), (-1, 0, 1)])
def test_labels_must_be_classes(labels: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="need labels from 0 to 1"):
        data_set(labels=labels)


def test_examples_are_split_at_random_or_in_order() -> None:
    whole = Examples("ten", np.arange(10)[:, None], np.arange(10))
    first, rest = whole.split(0.7, seed=2)
    assert (len(first), len(rest)) == (7, 3)
    assert sorted([*first.labels, *rest.labels]) == list(range(10))  # type: ignore[misc]  # arrays
    again, _ = whole.split(0.7, seed=2)
    assert np.array_equal(first.inputs, again.inputs)
    early, late = whole.split(0.5, shuffle=False)
    assert (list(early.labels), list(late.labels)) == ([0, 1, 2, 3, 4], [5, 6, 7, 8, 9])
    with pytest.raises(DataError, match="0 of 10 examples; need some on either side"):
        whole.split(0.0)
