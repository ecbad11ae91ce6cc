"""Losses, metrics, optimizers and schedules give the numbers that Keras 3.15 gave (JAX backend) for the same arrays.

`keras_numbers.json` has them by name; inputs are drawn here as they were there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnc import keras
from nnc.keras import losses, metrics
from nnc.keras import optimizers as opt
from nnc.keras.metric_states import plain

EXPECTED = json.loads((Path(__file__).parent / "keras_numbers.json").read_text(encoding="utf-8"))
random = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return random.standard_normal(shape).astype("float32")


p = np.abs(drawn(6, 4))
p = (p / p.sum(-1, keepdims=True)).astype("float32")
classes = np.array([0, 1, 2, 3, 1, 0])
shares = np.eye(4, dtype="float32")[classes]
w = np.array([1, 0.5, 2, 0, 1, 3], "float32")
y = drawn(6, 4)
b = (y > 0).astype("float32")
q = np.clip(np.abs(drawn(6, 4)) / 3, 0, 1)
other = drawn(6, 4)

LOSSES: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "mse": (losses.MeanSquaredError, b, y),
    "mae": (losses.MeanAbsoluteError, b, y),
    "mape": (losses.MeanAbsolutePercentageError, b + 1, y),
    "msle": (losses.MeanSquaredLogarithmicError, b, q),
    "huber": (losses.Huber, b, y),
    "logcosh": (losses.LogCosh, b, y),
    "poisson": (losses.Poisson, b, q),
    "kld": (losses.KLDivergence, p, q),
    "hinge": (losses.Hinge, b, y),
    "sqh": (losses.SquaredHinge, b, y),
    "cathinge": (losses.CategoricalHinge, shares, y),
    "cos": (losses.CosineSimilarity, b, y),
    "bce": (losses.BinaryCrossentropy, b, q),
    "focal": (losses.BinaryFocalCrossentropy, b, q),
    "cce": (losses.CategoricalCrossentropy, shares, p),
    "scce": (losses.SparseCategoricalCrossentropy, classes, p),
}
METRICS: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "acc": (metrics.BinaryAccuracy, b, q),
    "cat": (metrics.CategoricalAccuracy, shares, p),
    "sp": (metrics.SparseCategoricalAccuracy, classes, p),
    "top2": (lambda: metrics.SparseTopKCategoricalAccuracy(k=2), classes, p),
    "ktop2": (lambda: metrics.TopKCategoricalAccuracy(k=2), shares, p),
    "rmse": (metrics.RootMeanSquaredError, b, y),
    "r2": (metrics.R2Score, other, y),
    "prec": (metrics.Precision, b, q),
    "rec": (metrics.Recall, b, q),
    "auc": (metrics.AUC, b, q),
    "mae": (metrics.MeanAbsoluteError, b, y),
    "cosm": (metrics.CosineSimilarity, b, y),
    "tp": (metrics.TruePositives, b, q),
}
S = opt.schedules
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: opt.SGD(0.1),
    "mom": lambda: opt.SGD(0.1, momentum=0.9),
    "nest": lambda: opt.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: opt.Adam(0.1),
    "ams": lambda: opt.Adam(0.1, amsgrad=True),
    "adamw": lambda: opt.AdamW(0.1, weight_decay=0.01),
    "nadam": lambda: opt.Nadam(0.1),
    "adamax": lambda: opt.Adamax(0.1),
    "rms": lambda: opt.RMSprop(0.1),
    "rmsc": lambda: opt.RMSprop(0.1, momentum=0.5, centered=True),
    "adagrad": lambda: opt.Adagrad(0.1),
    "adadelta": lambda: opt.Adadelta(1.0),
    "lion": lambda: opt.Lion(0.1),
    "clipn": lambda: opt.SGD(0.1, clipnorm=0.5),
    "clipg": lambda: opt.SGD(0.1, global_clipnorm=0.5),
    "clipv": lambda: opt.SGD(0.1, clipvalue=0.2),
    "sched": lambda: opt.SGD(S.ExponentialDecay(0.1, 2, 0.5)),
    "pw": lambda: opt.SGD(S.PiecewiseConstantDecay([1, 2], [0.1, 0.01, 0.001])),
    "cosd": lambda: opt.SGD(S.CosineDecay(0.1, 3, alpha=0.1)),
}
SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "exp": S.ExponentialDecay(0.1, 10, 0.5, staircase=True),
    "inv": S.InverseTimeDecay(0.1, 10, 0.5),
    "poly": S.PolynomialDecay(0.1, 10, 0.01, power=2.0),
    "cos": S.CosineDecay(0.01, 10, alpha=0.1, warmup_target=0.1, warmup_steps=5),
    "cosr": S.CosineDecayRestarts(0.1, 5),
    "cosr1": S.CosineDecayRestarts(0.1, 5, t_mul=1.0, m_mul=0.5),
}


def updates(make: Callable[[], Any]) -> list[float]:
    """Two weights behind four updates."""
    optimizer, generator = make(), np.random.default_rng(1)
    weights = [keras.Variable(np.array([1.0, -2.0, 3.0], "float32")), keras.Variable(np.array([[0.5]], "float32"))]
    for step in range(4):
        slopes = [generator.standard_normal(3) * 10.0**-step, generator.standard_normal((1, 1))]
        optimizer.apply([keras.Variable(slope.astype("float32")) for slope in slopes], weights)
    return [value for weight in weights for value in weight.numpy().ravel().tolist()]


def rows() -> Iterator[tuple[str, Callable[[], list[float]]]]:
    for name, (kind, t, x) in LOSSES.items():
        yield f"loss {name}", lambda kind=kind, t=t, x=x: [kind()(t, x).item()]
        yield f"loss w {name}", lambda kind=kind, t=t, x=x: [kind()(t, x, sample_weight=w).item()]
    for name, (made, t, x) in METRICS.items():
        yield f"metric {name}", lambda made=made, t=t, x=x: [float(made()(t, x))]
        yield f"metric w {name}", lambda made=made, t=t, x=x: [twice(made(), t, x)]
    yield "bce logits", lambda: [losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.1)(b, y).item()]
    yield (
        "cce logits",
        lambda: [losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)(shares, y).item()],
    )
    yield "scce logits", lambda: [losses.SparseCategoricalCrossentropy(from_logits=True)(classes, y, w).item()]
    for name, make in OPTIMIZERS.items():
        yield f"opt {name}", lambda make=make: updates(make)
    for name, schedule in SCHEDULES.items():
        yield f"sched {name}", lambda schedule=schedule: [schedule(step) for step in (0, 1, 4, 5, 9, 12, 17)]


def twice(metric: Any, t: Any, x: Any) -> float:
    """Of all examples, and of three with weights."""
    metric.update_state(t, x)
    metric.update_state(t[:3], x[:3], sample_weight=w[:3])
    return float(plain(metric.result()))


ROWS = dict(rows())


@pytest.mark.parametrize("name", ROWS)
def test_numbers_are_those_of_keras(name: str) -> None:
    np.testing.assert_allclose(ROWS[name](), EXPECTED[name], rtol=2e-5, atol=2e-6)
