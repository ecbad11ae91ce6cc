"""Functions of `nnc.nn.functional` against their formulas in NumPy, in f64, and eager against compiled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import nnc
import nnc.nn.functional as F
from nnc.errors import ArgumentError

RNG = np.random.default_rng(6)
X, Y = (RNG.standard_normal((5, 4)) for _ in range(2))
Z = RNG.standard_normal((5, 4))
P = 1 / (1 + np.exp(-X))
LABELS = np.array([0, 3, 1, 2, 3])
SOFT = np.exp(X) / np.exp(X).sum(1, keepdims=True)
LOGS = np.log(SOFT)
PICKED = -LOGS[np.arange(5), LABELS]
NEAR, FAR = (np.linalg.norm(X - other + 1e-6, axis=-1) for other in (Y, Z))
HUBER = np.where(np.abs(X - Y) <= 1, (X - Y) ** 2 / 2, np.abs(X - Y) - 0.5)

ROWS: dict[str, tuple[Callable[[], nnc.Variable], object]] = {
    "softmax": (lambda: F.softmax(X, dim=0), np.exp(X) / np.exp(X).sum(0)),
    "log_softmax": (lambda: F.log_softmax(X, dim=1), LOGS),
    "silu": (lambda: F.silu(X), X * P),
    "leaky_relu": (lambda: F.leaky_relu(X, 0.2), np.where(X > 0, X, 0.2 * X)),
    "elu": (lambda: F.elu(X), np.where(X > 0, X, np.exp(X) - 1)),
    "normalize": (lambda: F.normalize(X, dim=1), X / np.linalg.norm(X, axis=1, keepdims=True)),
    "one_hot": (lambda: F.one_hot(LABELS, 4), np.eye(4)[LABELS]),
    "cosine_similarity": (
        lambda: F.cosine_similarity(X, Y),
        (X * Y).sum(1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Y, axis=1),
    ),
    "mse_loss": (lambda: F.mse_loss(X, Y), ((X - Y) ** 2).mean()),
    "l1_loss": (lambda: F.l1_loss(X, Y, reduction="sum"), np.abs(X - Y).sum()),
    "huber_loss": (lambda: F.huber_loss(X, Y, reduction="none"), HUBER),
    "smooth_l1_loss": (lambda: F.smooth_l1_loss(X, Y), HUBER.mean()),
    "cross_entropy": (lambda: F.cross_entropy(X, LABELS), PICKED.mean()),
    "cross_entropy each": (lambda: F.cross_entropy(X, LABELS, reduction="none"), PICKED),
    "cross_entropy smoothed": (
        lambda: F.cross_entropy(X, LABELS, label_smoothing=0.1),
        (0.9 * PICKED - 0.1 * LOGS.mean(1)).mean(),
    ),
    "cross_entropy of shares": (lambda: F.cross_entropy(X, SOFT), -(LOGS * SOFT).sum(1).mean()),
    "nll_loss": (lambda: F.nll_loss(LOGS, LABELS), PICKED.mean()),
    "logits": (
        lambda: F.binary_cross_entropy_with_logits(X, SOFT),
        -(SOFT * np.log(P) + (1 - SOFT) * np.log1p(-P)).mean(),
    ),
    "probabilities": (
        lambda: F.binary_cross_entropy(P, SOFT),
        -(SOFT * np.log(P) + (1 - SOFT) * np.log1p(-P)).mean(),
    ),
    "triplet": (lambda: F.triplet_margin_loss(X, Y, Z), np.maximum(NEAR - FAR + 1, 0).mean()),
    # PyTorch's place of `swap`, before the reduction.
    "triplet swapped": (
        lambda: F.triplet_margin_loss(X, Y, Z, 1.0, 2.0, 1e-6, True, reduction="sum"),
        np.maximum(NEAR - np.minimum(FAR, np.linalg.norm(Y - Z + 1e-6, axis=-1)) + 1, 0).sum(),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_functions_are_their_formulas(name: str) -> None:
    make, wanted = ROWS[name]
    np.testing.assert_allclose(make().numpy(), wanted, rtol=1e-9, atol=1e-12)


def test_classes_are_axis_1_of_images() -> None:
    scores, labels = RNG.standard_normal((2, 3, 4, 4)), RNG.integers(0, 3, (2, 4, 4))
    rows = F.cross_entropy(np.moveaxis(scores, 1, -1).reshape(-1, 3), labels.reshape(-1))
    np.testing.assert_allclose(F.cross_entropy(scores, labels).item(), rows.item(), rtol=1e-12)


def test_gradients_and_programs_go_through_them() -> None:
    of = nnc.value_and_grad(lambda x: F.cross_entropy(F.dropout(x, 0.5, training=False), LABELS))
    loss, slope = of(X.astype(np.float32))
    again, compiled = nnc.compile(of)(X.astype(np.float32))
    np.testing.assert_allclose(slope.numpy(), (SOFT - np.eye(4)[LABELS]) / 5, atol=1e-6)
    np.testing.assert_allclose(again.item(), loss.item(), rtol=1e-5)
    np.testing.assert_allclose(compiled.numpy(), slope.numpy(), rtol=1e-5)


def test_dropout_keeps_the_mean() -> None:
    nnc.seed(0)
    dropped = F.dropout(np.ones((100, 100), np.float32), 0.25).numpy()
    assert np.unique(dropped).round(4).astype(np.float64).round(4).tolist() == [0.0, 1.3333]
    assert abs(dropped.mean() - 1) < 0.05


def test_other_words_are_answered() -> None:
    with pytest.raises(ArgumentError, match="'mean' or 'sum' or 'none'"):
        F.mse_loss(X, Y, reduction="max")
    with pytest.raises(AttributeError, match=r"nn\.BatchNorm\(\)"):
        F.BatchNormalization
