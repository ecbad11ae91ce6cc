"""The losses against their formulas, at the ends of their range, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from tests.ops.eager import Eager, check_gradients, gradients

from nnc.core.values.dtype import BF16, F16, F32, F64, I32, TOLERANCE, DType
from nnc.dynamic import DynamicGraph
from nnc.errors import AttributeValueError, DTypeError, ShapeError, UsageError
from nnc.ops.elementwise.pointwise import affine, sigmoid
from nnc.ops.loss.loss import (
    LABEL_DISTRIBUTION,
    LabelDistributionAttrs,
    LossReduction,
    binary_cross_entropy,
    categorical_cross_entropy,
    mean_squared_error,
    sigmoid_binary_cross_entropy,
    smooth_l1,
)
from nnc.ops.movement.broadcast import reduce_sum
from nnc.ops.normalization.softmaxes import softmax, softmax_cross_entropy
from nnc.ops.operand import apply

GENERATOR = np.random.default_rng(5)
X, T = GENERATOR.standard_normal((3, 2, 4)), GENERATOR.standard_normal((3, 2, 4))
P, Q = GENERATOR.uniform(0.05, 0.95, (3, 4)), GENERATOR.uniform(0, 1, (3, 4))
LABELS = Eager(np.array([2, 0, 3], np.int32))


def test_mean_squared_error() -> None:
    np.testing.assert_allclose(mean_squared_error(Eager(X), Eager(T)).array, ((X - T) ** 2).mean((1, 2)))
    total = mean_squared_error(Eager(X), Eager(T), reduction=LossReduction.SUM)
    np.testing.assert_allclose(total.array, ((X - T) ** 2).sum((1, 2)))


def test_smooth_l1_joins_a_square_and_a_line() -> None:
    x = Eager(np.array([[0.0], [0.1], [-0.5], [0.5], [3.0], [-3.0]]))
    zero = Eager(np.zeros((6, 1)))
    np.testing.assert_allclose(smooth_l1(x, zero, beta=0.5).array, [0, 0.01, 0.25, 0.25, 2.75, 2.75])
    (slope,) = gradients([smooth_l1(x, zero, beta=0.5)], [Eager(np.ones(6))], [x])
    np.testing.assert_allclose(slope.array[:, 0], [0, 0.2, -1, 1, 1, -1])


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_binary_cross_entropy(weight: float) -> None:
    want = -(weight * Q * np.log(P) + (1 - Q) * np.log(1 - P))
    np.testing.assert_allclose(binary_cross_entropy(Eager(P), Eager(Q), positive_weight=weight).array, want.mean(1))
    logits = Eager(np.log(P / (1 - P)))
    loss, probability = sigmoid_binary_cross_entropy(
        logits, Eager(Q), positive_weight=weight, reduction=LossReduction.SUM
    )
    np.testing.assert_allclose(loss.array, want.sum(1))
    np.testing.assert_allclose(probability.array, P)


def test_a_wrong_certainty_costs_much_and_still_learns() -> None:
    x, target = Eager(np.array([[0.0], [1.0], [0.0]])), Eager(np.array([[1.0], [0.0], [0.0]]))
    loss = binary_cross_entropy(x, target)
    np.testing.assert_allclose(loss.array, [1022 * math.log(2), 53 * math.log(2), 0])
    (slope,) = gradients([loss], [Eager(np.ones(3))], [x])
    np.testing.assert_allclose(slope.array[:, 0], [-(2.0**1000), 2.0**53, 1])


LOGITS = np.array([[-80.0], [-30.0], [-20.0], [-5.0], [0.0], [3.0]])


@pytest.mark.parametrize("backend", ["llvm", "reference"])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_a_confident_wrong_answer_learns_in_every_type(backend: str, dtype: DType) -> None:
    graph = DynamicGraph(backend=backend)
    x, target = graph.variable(LOGITS.astype(dtype.numpy)), graph.constant(np.ones((6, 1), dtype.numpy))
    loss = binary_cross_entropy(sigmoid(x), target)
    want = np.log1p(np.exp(-LOGITS))
    np.testing.assert_allclose(loss.numpy(), want[:, 0], rtol=TOLERANCE[dtype].relative)
    (slope,) = graph.backward([reduce_sum(loss)], [x])
    np.testing.assert_allclose(slope.numpy(), -1 / (1 + np.exp(LOGITS)), rtol=TOLERANCE[dtype].relative)


@pytest.mark.parametrize("backend", ["llvm", "reference"])
@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16])
def test_the_gradient_at_the_ends_is_finite_and_points_the_right_way(backend: str, dtype: DType) -> None:
    graph = DynamicGraph(backend=backend)
    x = graph.variable(np.array([[0.0], [1.0]], dtype.numpy))
    target = graph.constant(np.array([[1.0], [0.0]], dtype.numpy))
    (slope,) = graph.backward([reduce_sum(binary_cross_entropy(x, target, positive_weight=2.0))], [x])
    assert np.isfinite(slope.numpy().astype(np.float64)).all()
    assert slope.numpy()[0, 0] < -1000
    assert slope.numpy()[1, 0] > 1000


@pytest.mark.parametrize("backend", ["llvm", "reference"])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_a_confident_wrong_class_learns_in_every_type(backend: str, dtype: DType) -> None:
    graph = DynamicGraph(backend=backend)
    x = graph.variable(np.array([[0.0, 60.0, 1.0]], dtype.numpy))
    loss = categorical_cross_entropy(softmax(x), graph.constant(np.array([0], np.int32)))
    np.testing.assert_allclose(loss.numpy(), 60.0, rtol=TOLERANCE[dtype].relative)
    (slope,) = graph.backward([reduce_sum(loss)], [x])
    np.testing.assert_allclose(slope.numpy()[0, :2], [-1, 1], rtol=TOLERANCE[dtype].relative)


def test_far_logits_do_not_overflow() -> None:
    x = Eager(np.array([[1000.0], [-1000.0], [1000.0], [-1000.0]]))
    target = Eager(np.array([[1.0], [1.0], [0.0], [0.0]]))
    loss, _ = sigmoid_binary_cross_entropy(x, target)
    np.testing.assert_allclose(loss.array, [0, 1000, 1000, 0])
    by_x, by_target = gradients([loss], [Eager(np.ones(4))], [x, target])
    np.testing.assert_allclose(by_x.array[:, 0], [0, -1, 1, 0])
    np.testing.assert_allclose(by_target.array[:, 0], [-1000, 1000, -1000, 1000])


def test_categorical_cross_entropy_of_labels_and_of_distributions() -> None:
    p = P / P.sum(1, keepdims=True)
    rows = np.arange(3)
    np.testing.assert_allclose(categorical_cross_entropy(Eager(p), LABELS).array, -np.log(p[rows, LABELS.array]))
    one_hot = Eager(np.eye(4)[LABELS.array])
    for smoothing in (0.0, 0.1, 1.0):
        wanted = (1 - smoothing) * one_hot.array + smoothing / 4
        for target in (LABELS, one_hot):
            loss = categorical_cross_entropy(Eager(p), target, smoothing=smoothing)
            np.testing.assert_allclose(loss.array, -(wanted * np.log(p)).sum(1))


def test_categorical_cross_entropy_of_softmax_is_softmax_cross_entropy() -> None:
    x = Eager(X[:, 0])
    ones = Eager(np.ones(3))
    (one,) = gradients([categorical_cross_entropy(softmax(x), LABELS)], [ones], [x])
    (other,) = gradients([softmax_cross_entropy(x, LABELS)[0]], [ones], [x])
    np.testing.assert_allclose(one.array, other.array, atol=1e-12)


def test_labels_outside_the_classes_give_nan() -> None:
    labels = Eager(np.array([-1, 4, 1], np.int32))
    loss = categorical_cross_entropy(Eager(P), labels).array
    assert np.isnan(loss[:2]).all()
    assert np.isfinite(loss[2])
    spread = apply(LABEL_DISTRIBUTION, LabelDistributionAttrs(4, 0.2, F32), labels).array
    np.testing.assert_allclose(spread, [[np.nan] * 4, [np.nan] * 4, [0.05, 0.85, 0.05, 0.05]], rtol=1e-6)


def test_gradients_of_the_functions() -> None:
    check_gradients(lambda v: [binary_cross_entropy(sigmoid(v[0]), sigmoid(v[1]), positive_weight=2.0)], [X, T])
    check_gradients(lambda v: [*sigmoid_binary_cross_entropy(v[0], v[1], positive_weight=2.0)], [X, T])
    check_gradients(lambda v: [categorical_cross_entropy(softmax(v[0]), softmax(v[1]), smoothing=0.1)], [X, T])
    check_gradients(lambda v: [smooth_l1(affine(v[0], 0.1), v[1]), mean_squared_error(*v)], [X, T])


x = Eager(P)
BAD: tuple[tuple[str, type[UsageError], Callable[[], object]], ...] = (
    ("shapes", ShapeError, lambda: mean_squared_error(x, Eager(P[:2]))),
    ("no batch", ShapeError, lambda: mean_squared_error(Eager(np.array(1.0)), Eager(np.array(1.0)))),
    ("integers", DTypeError, lambda: smooth_l1(LABELS, LABELS)),
    ("mixed types", DTypeError, lambda: binary_cross_entropy(x, Eager(P.astype(np.float32)))),
    ("beta", AttributeValueError, lambda: smooth_l1(x, x, beta=0.0)),
    ("weight", AttributeValueError, lambda: binary_cross_entropy(x, x, positive_weight=-1.0)),
    ("nan weight", AttributeValueError, lambda: sigmoid_binary_cross_entropy(x, x, positive_weight=math.nan)),
    ("smoothing", AttributeValueError, lambda: categorical_cross_entropy(x, LABELS, smoothing=1.5)),
    ("label shape", ShapeError, lambda: categorical_cross_entropy(x, Eager(np.zeros((3, 4), np.int32)))),
    ("distribution shape", ShapeError, lambda: categorical_cross_entropy(x, Eager(P[:, :2]))),
    ("truth values", DTypeError, lambda: categorical_cross_entropy(x, Eager(np.ones(3, np.bool_)))),
    ("no classes", ShapeError, lambda: categorical_cross_entropy(Eager(np.ones((3, 0))), LABELS)),
    ("classes", AttributeValueError, lambda: apply(LABEL_DISTRIBUTION, LabelDistributionAttrs(0, 0.0, F32), LABELS)),
    ("type", AttributeValueError, lambda: apply(LABEL_DISTRIBUTION, LabelDistributionAttrs(3, 0.0, I32), LABELS)),
)


@pytest.mark.parametrize(("error", "call"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_refusals(error: type[UsageError], call: Callable[[], object]) -> None:
    with pytest.raises(error, match="need"):
        call()
