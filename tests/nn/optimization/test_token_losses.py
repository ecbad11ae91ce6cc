"""Losses of language models: their formulas, labels that do not count, and pairs of answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nnc
from nnc import nn
from nnc.errors import DataError, ShapeError

RANDOM = np.random.default_rng(0)
LOGITS = RANDOM.standard_normal((2, 5, 7)).astype(np.float32)
LABELS = np.array([[3, -100, 6, 0, -1], [-100, 1, 1, -7, 2]], np.int32)


def likelihoods(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """log p of each label, 0 where it does not count."""
    wide = logits.astype(np.float64)
    logs = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    picked = np.take_along_axis(logs, np.maximum(labels, 0)[..., None], -1)[..., 0]
    return np.where(labels >= 0, picked, 0.0)


def test_the_mean_is_over_labels_that_count() -> None:
    loss = nn.TokenCrossEntropy()
    want = -likelihoods(LOGITS, LABELS).sum() / 6
    assert float(loss(LOGITS, LABELS).numpy()) == pytest.approx(want, rel=1e-6)
    assert float(loss(LOGITS, np.full_like(LABELS, -100)).numpy()) == 0.0


def test_gradients_do_not_reach_what_does_not_count() -> None:
    x = nnc.variable(LOGITS.astype(np.float64))
    gradient = nnc.grad(lambda logits: nn.TokenCrossEntropy()(logits, LABELS))(x).numpy()
    assert not gradient[LABELS < 0].any()
    place, step = (1, 2, 4), 1e-6
    values = []
    for sign in (1, -1):
        moved = LOGITS.astype(np.float64)
        moved[place] += sign * step
        values.append(-likelihoods(moved, LABELS).sum() / 6)
    assert gradient[place] == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-8)


def test_a_label_that_is_no_class_is_an_error_of_fit() -> None:
    model = nn.Model(nn.Dense(3), (4,), loss=nn.TokenCrossEntropy(), backend="reference")
    with pytest.raises(DataError, match="a label out of range; need integers below 3"):
        model.fit(np.ones((2, 4), np.float32), np.array([0, 3]))
    with pytest.raises(DataError, match="labels of float"):
        model.fit(np.ones((2, 4), np.float32), np.array([0.0, 1.0]))
    model.fit(np.ones((2, 4), np.float32), np.array([0, -100]), callbacks=[])


def test_preferences_are_the_formula() -> None:
    logits = RANDOM.standard_normal((3, 2, 5, 7)).astype(np.float32)
    labels = np.where(RANDOM.random((3, 2, 5)) < 0.3, -100, RANDOM.integers(0, 7, (3, 2, 5))).astype(np.int32)
    before = RANDOM.standard_normal((3, 2)).astype(np.float32)
    after = likelihoods(logits, labels).sum(-1)
    margin = (after - before)[:, 0] - (after - before)[:, 1]
    want = np.mean(np.log1p(np.exp(-0.3 * margin)))
    loss = nn.DirectPreference(0.3)
    assert float(loss([logits], [labels, before]).numpy()) == pytest.approx(want, rel=1e-5)
    assert float(loss([logits], [labels, after.astype(np.float32)]).numpy()) == pytest.approx(math.log(2), rel=1e-5)
    score = loss.score((nnc.variable(logits),), (nnc.variable(labels), nnc.variable(before)))
    assert float(score.numpy()) == (margin > 0).sum()


def test_preferences_are_of_pairs() -> None:
    with pytest.raises(ShapeError, match=r"need logits \[batch, 2, t, vocabulary\]"):
        nn.Model(nn.Dense(3), (4,), loss=nn.DirectPreference(), backend="reference").fit(np.ones((2, 4)), np.ones(2))
