from __future__ import annotations

import numpy as np
import pytest

import nnc
from nnc.core.values.dtype import I32
from nnc.dynamic import DynamicGraph
from nnc.errors import DataError, ShapeError
from nnc.nn import (
    CTC,
    CrossEntropyLoss,
    Dense,
    GaussianLikelihood,
    L1Loss,
    MeanSquaredError,
    Model,
    MSELoss,
    SoftmaxCrossEntropy,
)


def test_cross_entropy_and_right_answers() -> None:
    graph = DynamicGraph(backend="reference")
    logits = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 1.0, 1.0], [0.0, 1.0, 5.0]])
    labels = np.array([0, 2, 0, 2], np.int32)
    loss = SoftmaxCrossEntropy()
    assert (loss.target_dtype, loss.target_shape((4, 3))) == (I32, (4,))
    value = loss.build(graph.constant(logits), graph.constant(labels)).item()
    want = np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(4), labels])
    assert value == pytest.approx(want)
    assert loss.score(graph.constant(logits), graph.constant(labels)).item() == 3.0


def test_mean_squared_error() -> None:
    graph = DynamicGraph(backend="reference")
    output, target = np.arange(6.0).reshape(3, 2), np.ones((3, 2))
    loss = MeanSquaredError()
    assert (loss.target_dtype, loss.target_shape((3, 2))) == (None, (3, 2))
    assert loss.build(graph.constant(output), graph.constant(target)).item() == np.mean((output - 1) ** 2)
    assert loss.score(graph.constant(output), graph.constant(target)).item() == 3 * np.mean((output - 1) ** 2)


def test_a_sequence_of_labels_costs_what_torch_says() -> None:
    """torch.nn.functional.ctc_loss(x.log_softmax(-1).transpose(0, 1), labels, [5, 5], [3, 1], reduction="none")"""
    graph = DynamicGraph(backend="reference")
    x = np.random.default_rng(0).standard_normal((2, 5, 4)).astype(np.float32)
    labels, loss = np.array([[1, 2, 2], [3, 0, 0]], np.int32), CTC(3)
    assert loss.target_shape((2, 5, 4)) == (2, 3)
    np.testing.assert_allclose(
        loss.each(graph.constant(x), graph.constant(labels)).numpy(), [6.2867064, 4.6977544], rtol=1e-5
    )
    model = Model(Dense(4), (5, 3), loss=loss, backend="reference")
    with pytest.raises(DataError, match="7"):
        model.train_on_batch(x[..., :3], np.array([[1, 7, 0], [1, 0, 0]], np.int32))
    for row, told in (([1, 0, 2], "a label behind a blank"), ([2, 2, 2], "more labels than 4 steps hold in row 1")):
        with pytest.raises(DataError, match=told):
            Model(Dense(4), (4, 3), loss=loss).train_on_batch(x[:, :4, :3], np.array([[1, 2, 3], row]))


def test_a_mean_and_a_variance_are_learnt_as_torch_says() -> None:
    """torch.nn.functional.gaussian_nll_loss(m[:, :3], y, m[:, 3:].exp())"""
    graph, random = DynamicGraph(backend="reference"), np.random.default_rng(0)
    random.standard_normal((2, 5, 4))
    m, y = random.standard_normal((4, 6)), random.standard_normal((4, 3))
    loss = GaussianLikelihood()
    assert loss.target_shape((4, 6)) == (4, 3)
    assert loss.build(graph.constant(m), graph.constant(y)).item() == pytest.approx(2.808169908293396)
    with pytest.raises(ShapeError, match="means and as many variances"):
        loss.target_shape((4, 5))


def test_losses_are_called_on_arrays_eager_and_traced_values() -> None:
    random = np.random.default_rng(0)
    logits, labels = random.standard_normal((4, 3)).astype(np.float32), np.array([0, 2, 1, 1])
    want = np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(4), labels])
    x = nnc.variable(logits)
    loss = CrossEntropyLoss()(x, labels)
    assert loss.item() == pytest.approx(want, rel=1e-5)
    (slope,) = (nnc.grad(lambda x: SoftmaxCrossEntropy()(x, labels))(x),)
    loss.backward()
    np.testing.assert_array_equal(x.grad, slope)
    assert nnc.compile(lambda x, y: CrossEntropyLoss()(x, y))(logits, labels).item() == pytest.approx(want, rel=1e-5)
    assert MSELoss()(logits, logits + 2).item() == pytest.approx(4.0)
    assert L1Loss()(logits, logits + 2).item() == pytest.approx(2.0)
    with pytest.raises(ShapeError, match=r"MSELoss: got a target of f32\[4\]; need \(4, 3\)"):
        MSELoss()(logits, logits[:, 0])
    for wrong in (3, -1):
        with pytest.raises(DataError, match="CrossEntropyLoss: got a label out of range; need 0 to 2"):
            CrossEntropyLoss()(logits, np.array([0, 0, 0, wrong]))


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u8", "f4"])
def test_labels_of_any_type_and_order_are_looked_at(dtype: str) -> None:
    logits = nnc.tensor(np.zeros((2, 3, 4), np.float32))
    right = np.array([[3, 0, 1], [2, 2, 3]], dtype)
    assert SoftmaxCrossEntropy()(logits, right).item() == pytest.approx(np.log(4.0))
    for wrong in (4, -1, -(1 << 7)) if right.dtype.kind != "u" else (4, 255):
        labels = right.copy()
        labels[1, 1] = wrong
        for given in (nnc.tensor(labels), nnc.tensor(np.ascontiguousarray(labels.T)).T):
            with pytest.raises(DataError, match="a label out of range; need 0 to 3"):
                SoftmaxCrossEntropy()(logits, given)
