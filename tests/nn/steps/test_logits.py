"""Losses of logits behind probabilities are warned of."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from nnc import nn

X = np.ones((4, 3), np.float32)
LABELS, SIGNS = np.zeros(4, np.int64), np.zeros((4, 1), np.float32)


@pytest.mark.parametrize(
    ("layers", "loss", "targets", "function"),
    [
        (nn.Sequential(nn.Dense(4), nn.Softmax()), nn.SoftmaxCrossEntropy(), LABELS, "softmax"),
        (nn.Dense(4, activation="softmax"), nn.SmoothedCrossEntropy(), LABELS, "softmax"),
        (nn.Sequential(nn.Dense(1), nn.Sigmoid()), nn.BinaryCrossEntropy(), SIGNS, "sigmoid"),
    ],
)
def test_probabilities_before_a_loss_of_logits(
    layers: nn.Layer, loss: nn.Loss, targets: np.ndarray, function: str
) -> None:
    model = nn.Model(layers, (3,), loss=loss)
    with pytest.warns(UserWarning, match=f"got the output of {function}; need logits.*leave {function} out"):
        model.train_on_batch(X, targets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.train_on_batch(X, targets)
        model.predict(X)


@pytest.mark.parametrize(
    ("layers", "loss", "targets"),
    [
        (nn.Dense(4), nn.SoftmaxCrossEntropy(), LABELS),
        (nn.Sequential(nn.Dense(4), nn.LogSoftmax()), nn.SoftmaxCrossEntropy(), LABELS),
        (nn.Sequential(nn.Softmax(), nn.Dense(4)), nn.SoftmaxCrossEntropy(), LABELS),
        (nn.Sequential(nn.Dense(1), nn.Sigmoid()), nn.MeanSquaredError(), SIGNS),
    ],
)
def test_what_is_right_is_not_warned_of(layers: nn.Layer, loss: nn.Loss, targets: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.Model(layers, (3,), loss=loss).train_on_batch(X, targets)
