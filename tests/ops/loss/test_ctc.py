"""Connectionist temporal classification: against the sum over all alignments, torch's numbers, gradients, edges."""

from __future__ import annotations

import math
from itertools import groupby, product

import numpy as np
import pytest
from tests.ops.eager import Array, Eager, check_gradients

import nnc
from nnc import ops
from nnc.dynamic import DynamicGraph
from nnc.errors import AttributeValueError, DTypeError, IndexRangeError, ShapeError

# Importing the package puts its backends into the dispatcher.
assert nnc.__name__ == "nnc"

DRAW = np.random.default_rng(8)
X = np.log(DRAW.dirichlet(np.ones(3), (7, 5)))
LABELS = np.array([[1, 2], [1, 1], [2, -9], [-9, -9], [2, 2], [1, 2], [1, -9]])
LENGTHS, COUNTS = np.array([5, 5, 4, 3, 2, 0, 0]), np.array([2, 2, 1, 0, 2, 1, 0])

TORCH_LOSS, TORCH_SLOPES = (
    5.842893436095767,
    [
        0.16559915398124936,
        -0.21681220006476,
        -0.3045895670747119,
        -0.060527293578588666,
        -0.35610135574991125,
        -0.33451771771920424,
    ],
)


def cost(x: Array, labels: list[int], blank: int) -> float:
    """-ln of the sum over all alignments, each tried."""
    total = 0.0
    for alignment in product(range(x.shape[1]), repeat=len(x)):
        if [label for label, _ in groupby(alignment) if label != blank] == labels:
            total += math.exp(sum(x[step, label] for step, label in enumerate(alignment)))
    return -math.log(total) if total else math.inf


def on(backend: str, x: Array, **options: object) -> Array:
    graph = DynamicGraph(backend)
    given = [graph.constant(one) for one in (x, LABELS, LENGTHS, COUNTS)]
    return ops.ctc_loss(*given, **options).numpy()  # type: ignore[arg-type]  # options by name


@pytest.mark.parametrize("backend", ["reference", "llvm"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_the_cost_is_the_sum_over_all_alignments(backend: str, dtype: type[np.floating], tolerance: float) -> None:
    wanted = [
        cost(x[:length], labels[:count].tolist(), 0)
        for x, labels, length, count in zip(X, LABELS, LENGTHS, COUNTS, strict=True)
    ]
    np.testing.assert_allclose(on(backend, X.astype(dtype)), wanted, rtol=tolerance)
    free = on(backend, X.astype(dtype), zero_infinity=True)
    np.testing.assert_allclose(free, [0.0 if math.isinf(one) else one for one in wanted], rtol=tolerance)


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_a_case_of_torch(backend: str) -> None:
    """torch.nn.functional.ctc_loss(log_softmax(z), …, reduction="none"), and its gradient by z, of torch 2.13."""
    z = np.sin(np.arange(24.0)).reshape(1, 6, 4)
    graph = DynamicGraph(backend)
    x, labels = graph.variable(z), graph.constant(np.array([[1, 3, 3]]))
    loss = ops.ctc_loss(ops.log_softmax(x), labels, graph.constant([6]), graph.constant([3]), 2)
    assert loss.item() == pytest.approx(TORCH_LOSS, rel=1e-12)
    (slope,) = graph.backward([loss], [x])
    np.testing.assert_allclose(slope.numpy()[0, :, 3], TORCH_SLOPES, rtol=1e-10)


def test_gradients_of_first_and_second_order() -> None:
    def function(given: list[Eager]) -> list[Eager]:
        others = [Eager(one[:3]) for one in (LABELS, LENGTHS, COUNTS)]
        return [ops.ctc_loss(given[0], *others)]

    check_gradients(function, [X[:3]])


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_what_cannot_be_teaches_nothing(backend: str) -> None:
    graph = DynamicGraph(backend)
    x, labels = graph.variable(X[:1, :1]), graph.constant(np.array([[1, 2]]))
    loss = ops.ctc_loss(x, labels, graph.constant([1]), graph.constant([2]))
    (slope,) = graph.backward([loss], [x])
    assert loss.item() == math.inf
    assert not slope.numpy().any()


@pytest.mark.parametrize("backend", ["reference", "llvm"])
@pytest.mark.parametrize(
    ("labels", "length", "count"), [([3, 1], 5, 2), ([1, -1], 5, 2), ([1, 2], 6, 2), ([1, 2], 5, 3)]
)
def test_labels_and_lengths_outside_their_range_are_errors(
    backend: str, labels: list[int], length: int, count: int
) -> None:
    graph = DynamicGraph(backend)
    given = [graph.constant(np.array(one)) for one in ([labels], [length], [count])]
    with pytest.raises(IndexRangeError, match="ctc_loss"):
        ops.ctc_loss(graph.constant(X[:1]), *given).numpy()


def test_what_does_not_fit_is_named() -> None:
    graph = DynamicGraph()
    x, labels, lengths, counts = (graph.constant(one) for one in (X, LABELS, LENGTHS, COUNTS))
    with pytest.raises(ShapeError, match=r"need x\[n, t, c\] with t ≥ 1"):
        ops.ctc_loss(x, labels, lengths, ops.reshape(counts, (7, 1)))
    with pytest.raises(DTypeError, match="integers"):
        ops.ctc_loss(x, x, lengths, counts)
    with pytest.raises(AttributeValueError, match="0 ≤ blank < 3"):
        ops.ctc_loss(x, labels, lengths, counts, 3)
    none = [graph.constant(one[:0]) for one in (X, LABELS, LENGTHS, COUNTS)]
    assert ops.ctc_loss(*none).shape == (0,)
