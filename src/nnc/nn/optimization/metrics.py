"""Metrics: figures that people follow, from sums over examples, so that batches of any size give the same.

metric = result(sum over batches of sums(output, target))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, replace
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Count, checked
from nnc.classes import dataclass
from nnc.core.precautions.named_functions import HoldsFunctions
from nnc.errors import ArgumentError, ShapeError

__all__ = ["Metric", "METRICS", "top_k"]

Array = NDArray[np.float64]
# A number of each example or element.
Each = Callable[[NDArray[np.generic], NDArray[np.generic]], Array]

# Of the area under the curve: probabilities in one bin count as equal.
AREA_BINS = 10_000


@dataclass(frozen=True, slots=True)
class Metric(HoldsFunctions):
    """`sums` gives a vector that adds up over batches, and `result` the figure; whether more of it is better."""

    name: str
    sums: Callable[[NDArray[np.generic], NDArray[np.generic]], Array]
    result: Callable[[Array], float]
    rises: bool = False


@dataclass(slots=True, eq=False)
class Tally:
    """Sums of several metrics over the batches seen so far; those of outputs that are not finite are no warning."""

    metrics: tuple[Metric, ...]
    totals: dict[str, Array] = field(default_factory=dict)

    def clear(self) -> None:
        """Begin anew."""
        self.totals.clear()

    def add(self, output: NDArray[np.generic], target: object) -> None:
        """One more batch."""
        wanted = np.asarray(target[0] if isinstance(target, tuple) else target)
        for metric in self.metrics:
            with np.errstate(all="ignore"):
                sums, before = metric.sums(output, wanted), self.totals.get(metric.name)
                self.totals[metric.name] = sums if before is None else before + sums

    def values(self) -> dict[str, float]:
        """The figures by name."""
        with np.errstate(all="ignore"):
            return {metric.name: metric.result(self.totals[metric.name]) for metric in self.metrics}


def _mean_of(name: str, each: Each, rises: bool) -> Metric:
    """The mean of a number per example or element."""

    return Metric(name, partial(_sum_and_count, each), _mean, rises)


def _sum_and_count(each: Each, output: NDArray[np.generic], target: NDArray[np.generic]) -> Array:
    numbers = each(output, target)
    return np.array([numbers.sum(dtype=np.float64), numbers.size])


def _mean(sums: Array) -> float:
    return float(sums[0] / sums[1])


def _root_mean(sums: Array) -> float:
    return float(np.sqrt(_mean(sums)))


def _exponential_mean(sums: Array) -> float:
    return float(np.exp(_mean(sums)))


def _matched(output: NDArray[np.generic], target: NDArray[np.generic]) -> tuple[Array, Array]:
    """Both as f64 of the output's shape: axes of size 1 at the end may be there or not."""
    if output.size != target.size:
        got = f"outputs {list(output.shape)}, targets {list(target.shape)}"
        raise ShapeError("metric", got=got, need="a target for each output")
    return output.astype(np.float64), target.reshape(output.shape).astype(np.float64)


def _of_classes(output: NDArray[np.generic], target: NDArray[np.generic]) -> None:
    """ShapeError unless there is a class for each row of logits."""
    if output.shape[:-1] != target.shape or target.dtype.kind not in "biu":
        got = f"outputs {list(output.shape)}, targets {target.dtype}{list(target.shape)}"
        raise ShapeError("metric", got=got, need="a class, a whole number, for each row of logits")


def _right(output: NDArray[np.generic], target: NDArray[np.generic]) -> Array:
    _of_classes(output, target)
    return np.asarray(output.argmax(-1) == target, np.float64)


def _right_sign(output: NDArray[np.generic], target: NDArray[np.generic]) -> Array:
    y, t = _matched(output, target)
    return np.asarray((y > 0.0) == (t > 0.5), np.float64)


def _difference(output: NDArray[np.generic], target: NDArray[np.generic]) -> Array:
    y, t = _matched(output, target)
    return y - t


def _distance(output: NDArray[np.generic], target: NDArray[np.generic]) -> Array:
    return np.abs(_difference(output, target))


def _squared_difference(output: NDArray[np.generic], target: NDArray[np.generic]) -> Array:
    return np.square(_difference(output, target))


def _percentage(output: NDArray[np.generic], target: NDArray[np.generic]) -> Array:
    y, t = _matched(output, target)
    return 100.0 * np.abs(y - t) / np.maximum(np.abs(t), np.finfo(np.float64).eps)


def _cosine(output: NDArray[np.generic], target: NDArray[np.generic]) -> Array:
    y, t = _matched(output, target)
    norms = np.linalg.norm(y, axis=-1) * np.linalg.norm(t, axis=-1)
    return np.asarray((y * t).sum(-1) / np.maximum(norms, 1e-12))


def _surprise(output: NDArray[np.generic], target: NDArray[np.generic]) -> Array:
    """ln sum_c e^y[c] - y[target]."""
    _of_classes(output, target)
    y = output.astype(np.float64)
    y -= y.max(-1, keepdims=True)
    return np.asarray(np.log(np.exp(y).sum(-1)) - np.take_along_axis(y, target[..., None].astype(np.int64), -1)[..., 0])


def _squares(output: NDArray[np.generic], target: NDArray[np.generic]) -> Array:
    """[n, Σt, Σt², Σ(y - t)²]"""
    y, t = _matched(output, target)
    return np.array([t.size, t.sum(), (t * t).sum(), ((y - t) ** 2).sum()])


def _r2(sums: Array) -> float:
    count, total, squares, errors = sums
    spread = squares - total * total / count
    return float(1.0 - errors / spread) if spread else 0.0


def _confusion(output: NDArray[np.generic], target: NDArray[np.generic]) -> Array:
    """[true positives, false positives, false negatives] of class 1: two logits, or one that is above 0."""
    yes = output.argmax(-1).reshape(-1) == 1 if output.ndim > target.ndim and output.shape[-1] == 2 else None
    y = np.greater(output.reshape(-1), 0) if yes is None else yes
    t = np.greater(target.reshape(-1), 0)
    if y.size != t.size:
        got = f"outputs {list(output.shape)}, targets {list(target.shape)}"
        raise ShapeError("metric", got=got, need="one logit, or two, for each target")
    return np.array([(y & t).sum(), (y & ~t).sum(), (~y & t).sum()], np.float64)


def _precision(counts: Array) -> float:
    return _ratio(counts[0], counts[0] + counts[1])


def _recall(counts: Array) -> float:
    return _ratio(counts[0], counts[0] + counts[2])


def _f1(counts: Array) -> float:
    return _ratio(2 * counts[0], 2 * counts[0] + counts[1] + counts[2])


def _probabilities(output: NDArray[np.generic], target: NDArray[np.generic]) -> Array:
    """[positives, negatives] by bin of the probability of class 1: of two logits, or of one."""
    two = output.ndim > target.ndim and output.shape[-1] == 2
    logits = output.astype(np.float64)
    logit = (logits[..., 1] - logits[..., 0] if two else logits).reshape(-1)
    t = np.greater(target.reshape(-1), 0)
    if logit.size != t.size:
        got = f"outputs {list(output.shape)}, targets {list(target.shape)}"
        raise ShapeError("metric", got=got, need="one logit, or two, for each target")
    shares = 0.5 + 0.5 * np.tanh(logit / 2)
    if np.isnan(shares).any():
        return np.full((2, AREA_BINS), np.nan)
    places = np.minimum((AREA_BINS * shares).astype(np.int64), AREA_BINS - 1)
    return np.array([np.bincount(places[which], minlength=AREA_BINS) for which in (t, ~t)], np.float64)


def _area(bins: Array) -> float:
    """The share of pairs of a positive and a negative where the positive is above; half of those in one bin."""
    positives, negatives = bins
    above = positives.sum() - positives.cumsum() + positives / 2
    return _ratio(float((negatives * above).sum()), float(positives.sum() * negatives.sum()))


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


ROWS = (
    _mean_of("accuracy", _right, True),
    _mean_of("binary_accuracy", _right_sign, True),
    _mean_of("mean_absolute_error", _distance, False),
    _mean_of("mean_squared_error", _squared_difference, False),
    _mean_of("mean_absolute_percentage_error", _percentage, False),
    _mean_of("cosine_similarity", _cosine, True),
    _mean_of("cross_entropy", _surprise, False),
    Metric(
        "root_mean_squared_error",
        partial(_sum_and_count, _squared_difference),
        _root_mean,
    ),
    Metric(
        "perplexity",
        partial(_sum_and_count, _surprise),
        _exponential_mean,
    ),
    Metric("r2", _squares, _r2, True),
    Metric("precision", _confusion, _precision, True),
    Metric("recall", _confusion, _recall, True),
    Metric("auc", _probabilities, _area, True),
    Metric("f1", _confusion, _f1, True),
)
# Keras' short names, which histories then have too.
SHORT = {"mae": "mean_absolute_error", "mse": "mean_squared_error", "mape": "mean_absolute_percentage_error"}
METRICS = MappingProxyType(
    {row.name: row for row in ROWS}
    | {short: replace(row, name=short) for short, name in SHORT.items() for row in ROWS if row.name == name}
)


@checked
def top_k(k: Count) -> Metric:
    """The share of examples whose class is among the `k` largest logits."""

    return _mean_of(f"top_{k}", partial(_among_first, k), True)


def _among_first(k: int, output: NDArray[np.generic], target: NDArray[np.generic]) -> Array:
    _of_classes(output, target)
    own = np.take_along_axis(output, target[..., None].astype(np.int64), -1)
    return np.asarray(np.greater(output, own).sum(-1) < k, np.float64)


@checked
def metrics_of(values: Iterable[str | Metric]) -> tuple[Metric, ...]:
    """Metrics, some by name."""
    metrics = []
    for value in values:
        if isinstance(value, Metric):
            metrics.append(value)
        elif value in METRICS:
            metrics.append(METRICS[value])
        else:
            close = get_close_matches(str(value), METRICS, n=1)
            fix = f"did you mean {close[0]!r}?" if close else ""
            raise ArgumentError("metrics", got=repr(value), need=f"one of {', '.join(METRICS)}, or a Metric", fix=fix)
    return tuple(metrics)
