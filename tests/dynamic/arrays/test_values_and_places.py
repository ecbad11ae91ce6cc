"""`max`, `min` and `sort` in PyTorch's words give elements and places, in NumPy's elements alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc
from nnc.errors import ShapeError, UsageError

X = np.array([[1.0, 5.0, 2.0], [7.0, 3.0, 7.0]], np.float32)


@pytest.mark.parametrize("x", [nnc.tensor(X), nnc.tensor(X, requires_grad=True)])
def test_pytorch_s_words_give_elements_and_places(x: Any) -> None:
    for call in (x.max, lambda *args, **named: nnc.max(x, *args, **named)):
        values, places = call(dim=1)
        assert (values.tolist(), places.tolist()) == ([5.0, 7.0], [1, 0])
        assert call(dim=-1, keepdim=True)[1].tolist() == [[1], [0]]
        assert call(1, keepdim=True).indices.shape == (2, 1)
    values, places = x.max(1)
    assert (values.tolist(), places.tolist()) == ([5.0, 7.0], [1, 0])
    _, predicted = nnc.max(x, 1)
    assert predicted.tolist() == [1, 0]
    low, where = nnc.min(x, 0)
    assert (low.tolist(), where.tolist()) == ([1.0, 3.0, 2.0], [0, 1, 0])
    best = x.max(1).indices.view(1, 2)
    least = x.min(1).values
    assert (best.tolist(), least.tolist()) == ([[1, 0]], [1.0, 3.0])
    ordered, order = nnc.sort(x, descending=True)
    assert (ordered.tolist(), order.tolist()) == ([[5.0, 2.0, 1.0], [7.0, 7.0, 3.0]], [[1, 2, 0], [0, 2, 1]])
    ordered, order = x.sort(dim=0)
    assert order.tolist() == [[0, 1, 0], [1, 0, 1]]
    assert nnc.max(x, nnc.zeros_like(x) + 4.0).tolist() == [[4.0, 5.0, 4.0], [7.0, 4.0, 7.0]]


def test_numpy_s_words_give_elements_alone() -> None:
    x = nnc.tensor(X)
    first, second = x.max(axis=1)
    assert (first.item(), second.item()) == (5.0, 7.0)
    first, second = nnc.sort(x, axis=1)
    assert second.tolist() == [3.0, 7.0, 7.0]
    rows = x.max(1)
    first, second = rows
    assert second.item() == 7.0
    assert x.max(axis=1)[0].item() == 5.0
    assert x.max().item() == 7.0
    assert nnc.sort(x, None).shape == (6,)
    top, where = nnc.compile(lambda x: x.max(1).indices * 1)(x), nnc.vmap(lambda row: row.max(dim=0).indices)(x)
    assert top.tolist() == where.tolist() == [1, 0]


def test_what_reads_two_ways_is_refused() -> None:
    x = nnc.tensor(X)
    with pytest.raises(UsageError, match=r"Fix: x\.max\(dim=1\)\[0\] for PyTorch's elements"):
        x.max(1)[0]
    with pytest.raises(UsageError, match="need a word for the axis"):
        _low, _high = nnc.sort(nnc.tensor([2.0, 1.0]))


def test_gradients_go_to_the_element_that_is_named() -> None:
    x = nnc.variable([[3.0, 3.0, 1.0]])
    x.max(dim=1).values.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[1.0, 0.0, 0.0]]


def test_parts_are_of_sizes_in_pytorch_s_words_and_so_many_in_others() -> None:
    x = nnc.tensor(X)
    assert [part.shape for part in x.split(2, 1)] == [part.shape for part in nnc.split(x, 2, dim=1)] == [(2, 2), (2, 1)]
    assert [part.shape for part in x.split([1, 2], dim=-1)] == [(2, 1), (2, 2)]
    assert [part.shape for part in x.split(3, axis=1)] == [(2, 1)] * 3
    assert [part.shape for part in x.split([1], axis=1)] == [(2, 1), (2, 2)]
    assert [part.shape for part in nnc.split(x, 3, axis=1)] == [(2, 1)] * 3
    for wrong in (([1, 1], 1), (0,), (-1,), ([-1, 4], 1)):
        with pytest.raises(ShapeError, match="split: got"):
            x.split(*wrong)
    with pytest.raises(ShapeError, match="split: got"):
        x.split(2, axis=1)
