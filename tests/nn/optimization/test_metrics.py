"""Metrics: by hand on small numbers; batches of any size give the same."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from nnc import nn
from nnc.errors import ArgumentError, ShapeError
from nnc.nn.optimization.metrics import METRICS, SHORT, Tally, metrics_of

LOGITS = np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0], [0.0, 3.0, 1.0], [1.0, 0.5, 0.0]])
LABELS = np.array([0, 1, 1, 2])
ONE_LOGIT = np.array([[1.0], [-1.0], [2.0], [-2.0], [0.5]])
YES = np.array([1, 0, 0, 1, 1])
NUMBERS, WANTED = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 3.0, 2.0])
ROWS = np.log(np.exp(LOGITS).sum(1)) - LOGITS[np.arange(4), LABELS]
CASES = [
    ("accuracy", LOGITS, LABELS, 0.5),
    ("cross_entropy", LOGITS, LABELS, ROWS.mean()),
    ("perplexity", LOGITS, LABELS, np.exp(ROWS.mean())),
    ("binary_accuracy", ONE_LOGIT, YES, 3 / 5),
    ("precision", ONE_LOGIT, YES, 2 / 3),
    ("recall", ONE_LOGIT, YES, 2 / 3),
    ("f1", ONE_LOGIT, YES, 2 / 3),
    ("recall", np.hstack([-ONE_LOGIT, ONE_LOGIT]), YES, 2 / 3),
    ("auc", ONE_LOGIT, YES, 1 / 3),
    ("auc", np.hstack([-ONE_LOGIT, ONE_LOGIT]), YES, 1 / 3),
    ("auc", np.zeros((5, 1)), YES, 1 / 2),
    ("mean_absolute_error", NUMBERS, WANTED, 1.0),
    ("mean_squared_error", NUMBERS, WANTED, 5 / 3),
    ("root_mean_squared_error", NUMBERS, WANTED, np.sqrt(5 / 3)),
    ("mean_absolute_percentage_error", NUMBERS, WANTED, 100 * (1 / 3 + 1) / 3),
    ("r2", NUMBERS, WANTED, 1 - 5 / 2),
    ("cosine_similarity", np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 0.0], [1.0, 0.0]]), (1 + 0.5**0.5) / 2),
]


def figure(metric: nn.Metric, output: NDArray[np.float64], target: NDArray[np.generic], size: int) -> float:
    tally = Tally((metric,))
    for start in range(0, len(output), size):
        tally.add(output[start : start + size], target[start : start + size])
    return tally.values()[metric.name]


@pytest.mark.parametrize(("name", "output", "target", "wanted"), CASES)
def test_a_metric_is_that_of_its_formula(
    name: str, output: NDArray[np.float64], target: NDArray[np.generic], wanted: float
) -> None:
    for size in (1, 2, len(output)):
        assert figure(METRICS[name], output, target, size) == pytest.approx(wanted)


def test_every_metric_has_a_case() -> None:
    assert {name for name, *_ in CASES} | set(SHORT) == set(METRICS)


def test_the_best_k() -> None:
    wanted = [(1, 0.5), (2, 0.75), (3, 1.0)]
    assert [figure(nn.top_k(k), LOGITS, LABELS, 4) for k, _ in wanted] == [share for _, share in wanted]


def test_no_spread_and_no_positives_are_no_division_by_zero() -> None:
    assert figure(METRICS["r2"], NUMBERS, np.ones(3), 3) == 0.0
    assert figure(METRICS["f1"], -np.ones((3, 1)), np.zeros(3), 3) == 0.0


@pytest.mark.parametrize(("name", "output", "target", "wanted"), CASES)
def test_outputs_that_are_not_finite_are_no_warning(
    name: str, output: NDArray[np.float64], target: NDArray[np.float64], wanted: float
) -> None:
    """A training that went to infinity ended with NumPy's warning, and the area under the curve with a ValueError."""
    for outputs in (np.full_like(output, np.nan), np.full_like(output, np.inf), np.where(output > 0, 1e308, -1e308)):
        tally = Tally((METRICS[name],))
        for _ in range(2):
            tally.add(outputs, target)
        assert isinstance(tally.values()[METRICS[name].name], float)
    assert np.isnan(METRICS["auc"].result(METRICS["auc"].sums(ONE_LOGIT * np.nan, YES)))


def test_names_that_are_none_and_shapes_that_do_not_fit_are_told() -> None:
    with pytest.raises(ArgumentError, match=r"'acuracy'.*did you mean 'accuracy'"):
        metrics_of(["acuracy"])
    with pytest.raises(ShapeError, match="a target for each output"):
        figure(METRICS["r2"], NUMBERS, np.ones(4), 4)
    with pytest.raises(ShapeError, match="one logit, or two"):
        figure(METRICS["f1"], LOGITS, LABELS, 4)


def test_evaluation_gives_metrics_of_all_examples() -> None:
    net = nn.Model(nn.Dense(3), (3,), backend="reference")
    found = net.evaluate(LOGITS, LABELS, 3, metrics=["accuracy", nn.top_k(3)])
    assert found.metrics == {"accuracy": found.score, "top_3": 1.0}
