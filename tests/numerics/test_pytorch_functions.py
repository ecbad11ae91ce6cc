"""PyTorch's functions and methods, each as PyTorch computes it: the answers were taken from torch 2.13."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import nnc
from nnc.errors import ArgumentError, AttributeValueError, OutOfMemoryError, ShapeError, UsageError

X = [[3.0, 1.0, 2.0], [9.0, 7.0, 8.0]]
ROWS: list[tuple[str, Callable[[], object], object]] = [
    ("amax", lambda: x().amax((0, 1)), 9.0),
    ("logsumexp", lambda: x().logsumexp(dim=1, keepdim=True), [[3.4076], [9.4076]]),
    ("index_select", lambda: x().index_select(1, nnc.tensor([2, 0])), [[2.0, 3.0], [8.0, 9.0]]),
    ("narrow", lambda: x().narrow(1, 1, 2), [[1.0, 2.0], [7.0, 8.0]]),
    ("select", lambda: x().select(1, -1), [2.0, 8.0]),
    ("kthvalue", lambda: x().kthvalue(2, dim=1).indices, [2, 2]),
    ("mode", lambda: nnc.tensor([[1, 2, 2], [3, 3, 1]]).mode().values, [2, 3]),
    ("unfold", lambda: nnc.arange(5).unfold(0, 2, 2), [[0, 1], [2, 3]]),
    ("diag_embed", lambda: nnc.tensor([1, 2]).diag_embed(-1), [[0, 0, 0], [1, 0, 0], [0, 2, 0]]),
    ("diag_embed of rows", lambda: nnc.diag_embed([[True], [False]], 1), [[[0, 1], [0, 0]], [[0, 0], [0, 0]]]),
    ("diag_embed of nothing", lambda: nnc.diag_embed(nnc.zeros(0), 2), [[0, 0], [0, 0]]),
    ("block_diag", lambda: nnc.block_diag(nnc.ones((1, 2)), nnc.ones(1)), [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    ("scatter", lambda: nnc.zeros((2, 3)).scatter(1, nnc.tensor([[0], [2]]), 1.0), [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
    ("scatter_add", lambda: nnc.zeros(2).scatter_add(0, nnc.tensor([0, 1, 1]), nnc.arange(3.0)), [0.0, 3.0]),
    ("scatter_reduce", lambda: reduced("amax"), [3.0, 9.0]),
    ("scatter_reduce of a mean", lambda: reduced("mean"), [2.5, 8.0]),
    ("index_add", lambda: nnc.zeros(2).index_add(0, nnc.tensor([0, 1, 1]), nnc.ones(3), alpha=2), [2.0, 4.0]),
    ("index_copy", lambda: x().index_copy(0, nnc.tensor([0]), nnc.zeros((1, 3))), [[0.0, 0.0, 0.0], X[1]]),
    ("index_fill", lambda: x().index_fill(1, nnc.tensor([0, 1]), 5.0), [[5.0, 5.0, 2.0], [5.0, 5.0, 8.0]]),
    ("masked_scatter", lambda: x().masked_scatter(x() > 7, nnc.tensor([1.0, 2.0])), [X[0], [1.0, 7.0, 2.0]]),
    ("nonzero", lambda: (x() > 7).nonzero(as_tuple=False), [[1, 0], [1, 2]]),
    ("std by dim", lambda: x().std(dim=1), [1.0, 1.0]),
    ("std by axis", lambda: x().std(axis=1), [0.8165, 0.8165]),
    ("var", lambda: nnc.var(x(), dim=1, unbiased=False), [0.6667, 0.6667]),
    ("repeat of a row", lambda: nnc.arange(2).repeat(2, 2), [[0, 1, 0, 1], [0, 1, 0, 1]]),
    ("repeat of each", lambda: nnc.arange(2).repeat(2), [0, 0, 1, 1]),
    ("repeat_interleave", lambda: nnc.arange(2).repeat_interleave(nnc.tensor([1, 2])), [0, 1, 1]),
    ("div", lambda: nnc.tensor([7.0, -7.0]).div(2, rounding_mode="trunc"), [3.0, -3.0]),
    ("div of large ones", lambda: nnc.tensor([1e30]).div(2, rounding_mode="trunc"), [5e29]),
    ("bucketize", lambda: nnc.bucketize(nnc.tensor([3, 6]), nnc.tensor([1, 3, 5]), right=True), [2, 3]),
    ("histc", lambda: nnc.histc(x(), bins=3), [3.0, 0.0, 3.0]),
    ("einsum of a list", lambda: nnc.einsum("ij,kj->ik", [x(), x()]), [[14.0, 50.0], [50.0, 194.0]]),
    ("searchsorted", lambda: nnc.searchsorted(nnc.tensor([1, 3, 5]), nnc.tensor([3]), right=True), [2]),
    ("index_add_", lambda: in_place(lambda y: y.index_add_(0, nnc.tensor([0, 0]), x() * 0 + 1))[0], [5.0, 3.0, 4.0]),
    ("masked_fill_", lambda: in_place(lambda y: y.masked_fill_(y > 2, 0.0))[0], [0.0, 1.0, 2.0]),
    ("scatter_", lambda: in_place(lambda y: y.scatter_(1, nnc.tensor([[0]]), 4.0))[0], [4.0, 1.0, 2.0]),
    ("uniform_", lambda: in_place(lambda y: y.uniform_(2.0, 2.0))[0], [2.0, 2.0, 2.0]),
]  # fmt: skip


def x() -> nnc.Variable:
    return nnc.tensor(X)


def reduced(rule: str) -> object:
    places = nnc.tensor([0, 1, 0, 1])
    return nnc.tensor([2.0, 50.0]).scatter_reduce(0, places, nnc.tensor([3.0, 7.0, 2.0, 9.0]), rule, include_self=False)


def in_place(change: Callable[[nnc.Variable], object]) -> nnc.Variable:
    y = nnc.tensor(X)
    assert change(y) is y
    return y


@pytest.mark.parametrize(("call", "want"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_answers_are_pytorch_s(call: Callable[[], object], want: object) -> None:
    got: object = call()
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4)


def test_gradients_flow_through_places() -> None:
    rows = nnc.tensor([0, 1, 1])

    def pooled(values: nnc.Variable) -> nnc.Variable:
        return (nnc.zeros(2).index_add(0, rows, values) * nnc.tensor([1.0, 10.0])).sum()

    assert nnc.grad(pooled)(nnc.ones(3)).tolist() == [1.0, 10.0, 10.0]
    assert nnc.compile(pooled)(nnc.ones(3)).item() == 21.0


def test_places_of_jax() -> None:
    x = nnc.tensor([1.0, 5.0, 2.0])
    twice = nnc.tensor([0, 0, 2])
    assert x.at[twice].max(nnc.tensor([7.0, 3.0, 0.0])).tolist() == [7.0, 5.0, 2.0]
    least = nnc.compile(lambda x, places: x.at[places].min(nnc.tensor([-1.0, 3.0, 0.0])))
    assert least(x, twice).tolist() == [-1.0, 5.0, 0.0]
    assert x.at[twice].subtract(1.0).tolist() == [-1.0, 5.0, 1.0]
    assert x.at[1].divide(2.0).at[2].power(3).at[0].apply(nnc.exp).tolist() == pytest.approx([2.71828, 2.5, 8.0])
    assert x.at[7].get(mode="fill", fill_value=-1).item() == -1
    assert x.at[nnc.tensor([-1, 9])].get(mode="clip").tolist() == [1.0, 2.0]
    assert x.at[1:].get().tolist() == [5.0, 2.0]


@pytest.mark.parametrize(
    ("refused", "error", "text"),
    [
        (lambda: x().nonzero(), UsageError, "as_tuple=False for PyTorch's rows"),
        (lambda: x().narrow(1, 2, 5), AttributeValueError, "narrow"),
        (lambda: x().kthvalue(0), AttributeValueError, "1 ≤ k ≤ 3"),
        (lambda: x().scatter(1, nnc.tensor([0]), 1.0), ShapeError, "scatter"),
        (lambda: x().scatter_reduce(1, nnc.tensor([[0]]), x(), "median"), AttributeValueError, "amax"),
        (lambda: x().div(2, rounding_mode="up"), AttributeValueError, "rounding_mode='up'"),
        (lambda: x().repeat((2,)), ShapeError, r"nnc\.tile"),
        (lambda: x().repeat({}), ArgumentError, "repeat: got repeats=a dict"),
        (lambda: x().repeat(np.array([0, 0])), ArgumentError, "repeat: got repeats=an array"),
        (lambda: nnc.histc(x(), bins=0), AttributeValueError, "histc"),
        (lambda: nnc.histc(x(), min=np.float32(0.5), max=-1e308), AttributeValueError, "histc"),
    ],
    ids=range(11),
)
def test_errors(refused: Callable[[], object], error: type[UsageError], text: str) -> None:
    with pytest.raises(error, match=text):
        refused()


def test_whole_arrays_are_repeated_as_by_numpy_in_one_copy() -> None:
    random = np.random.default_rng(0)
    for _ in range(60):
        shape, times = (
            tuple(random.integers(low, 4, random.integers(0, most)).tolist()) for low, most in ((0, 6), (0, 7))
        )
        values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        np.testing.assert_array_equal(nnc.tile(values, times).numpy(), np.tile(values, times))
    with pytest.raises(OutOfMemoryError):
        nnc.tile(nnc.ones((2, 3)), (98, 121, 116, 101, 115))  # parts of it were computed for half a minute
    with pytest.raises(ShapeError, match=r"tile: got \(-1,\); need numbers ≥ 0"):
        nnc.tile([1, 2], -1)


def test_the_most_frequent_of_nothing_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"mode: got f32\[2, 0\]; need an element along axis -1"):
        nnc.zeros((2, 0)).mode()
