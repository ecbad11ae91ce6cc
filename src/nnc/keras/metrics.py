"""Metrics under Keras' names: figures from sums over examples in 64 bits, `update_state`, `result`, `reset_state`.

Outputs are probabilities, as in Keras: a threshold is 0.5, unless a metric is told another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Count, Finite, Range, Size, checked
from nnc.core.precautions.origin import caller_origin
from nnc.errors import ArgumentError, DataError, ShapeError
from nnc.keras import losses
from nnc.keras.metric_states import Array as Array
from nnc.keras.metric_states import BinaryIoU as BinaryIoU
from nnc.keras.metric_states import F1Score as F1Score
from nnc.keras.metric_states import FBetaScore as FBetaScore
from nnc.keras.metric_states import Figure, beside, plain, real
from nnc.keras.metric_states import IoU as IoU
from nnc.keras.metric_states import Mean as Mean
from nnc.keras.metric_states import MeanIoU as MeanIoU
from nnc.keras.metric_states import MeanMetricWrapper as MeanMetricWrapper
from nnc.keras.metric_states import Metric as Metric
from nnc.keras.metric_states import OneHotMeanIoU as OneHotMeanIoU
from nnc.keras.metric_states import Sum as Sum
from nnc.keras.named import named, snake_case

# A curve has a beginning, an end and a place between them; each keeps two numbers.
Thresholds: TypeAlias = Annotated[int, Range(3, 1 << 20)]


def _matched(y_true: Any, y_pred: Any) -> tuple[Array, Array]:
    t, y = real(y_true), real(y_pred)
    if t.ndim == y.ndim - 1 and y.shape[-1] == 1:
        t = t[..., None]
    elif y.ndim == t.ndim - 1 and t.shape[-1] == 1:
        y = y[..., None]
    if t.shape != y.shape or not t.ndim or not t.shape[-1]:
        got, need = f"y_true {t.shape}, y_pred {y.shape}", "the same shape, of one axis at least and elements along it"
        raise ShapeError("metric", got=got, need=need, origin=caller_origin())
    return t.astype(np.float64), y.astype(np.float64)


def _classes(y_true: Any, y_pred: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    t, y = real(y_true), real(y_pred)
    t = t[..., 0] if t.ndim and t.ndim == y.ndim and t.shape[-1] == 1 else t
    if not y.ndim or not y.shape[-1] or t.shape != y.shape[:-1]:
        got, need = f"y_true {t.shape}, y_pred {y.shape}", "a class for each row"
        raise ShapeError("metric", got=got, need=need, origin=caller_origin())
    if t.size and not (t.min() >= 0 and t.max() < y.shape[-1]):
        got, need = "a class outside of the outputs", f"0 to {y.shape[-1] - 1}"
        raise DataError("metric", got=got, need=need, origin=caller_origin())
    return t.astype(np.int64), y


@checked
def binary_accuracy(y_true: Any, y_pred: Any, threshold: Finite = 0.5) -> Array:
    """The share of elements on the right side of the threshold."""
    t, y = _matched(y_true, y_pred)
    return np.asarray(np.mean(t == (y > threshold), axis=-1))


@checked
def categorical_accuracy(y_true: Any, y_pred: Any) -> Array:
    """1 where the largest of both is the same class."""
    t, y = _matched(y_true, y_pred)
    return np.asarray(t.argmax(-1) == y.argmax(-1), np.float64)


@checked
def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Array:
    """1 where the largest is that of the class."""
    t, y = _classes(y_true, y_pred)
    return np.asarray(t == y.argmax(-1), np.float64)


def _within(t: NDArray[Any], y: NDArray[Any], k: int) -> Array:
    own = np.take_along_axis(y, t[..., None], -1)
    return np.asarray((y > own).sum(-1) < k, np.float64)


@checked
def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: Count = 5) -> Array:
    """1 where the class is among the k largest."""
    t, y = _matched(y_true, y_pred)
    return _within(t.argmax(-1), y, k)


@checked
def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: Count = 5) -> Array:
    """The same of numbers of classes."""
    return _within(*_classes(y_true, y_pred), k)


class _Wrapped(MeanMetricWrapper):
    """A row of the tables below: the mean of one function."""

    function: Callable[..., Any]

    def __init_subclass__(cls, of: Callable[..., Any]) -> None:
        super().__init_subclass__()
        cls.function = staticmethod(of)

    def __init__(self, name: str | None = None, dtype: Any = None, **options: Any) -> None:
        super().__init__(type(self).function, name or snake_case(type(self).__name__), dtype, **options)


class BinaryAccuracy(_Wrapped, of=binary_accuracy):
    """The share of elements on the right side of `threshold`."""

    def __init__(self, name: str | None = None, dtype: Any = None, threshold: Finite = 0.5) -> None:
        super().__init__(name, dtype, threshold=threshold)


class CategoricalAccuracy(_Wrapped, of=categorical_accuracy):
    """The share of examples whose largest output is the class, of shares of classes."""


class SparseCategoricalAccuracy(_Wrapped, of=sparse_categorical_accuracy):
    """The share of examples whose largest output is the class."""


class Accuracy(_Wrapped, of=lambda t, y: np.mean(np.equal(*_matched(t, y)), axis=-1)):
    """The share of elements that are equal."""


class TopKCategoricalAccuracy(_Wrapped, of=top_k_categorical_accuracy):
    """The share of examples whose class is among the k largest."""

    def __init__(self, k: Count = 5, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name, dtype, k=k)


class SparseTopKCategoricalAccuracy(_Wrapped, of=sparse_top_k_categorical_accuracy):
    """The same of numbers of classes."""

    def __init__(self, k: Count = 5, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name, dtype, k=k)


class MeanSquaredError(_Wrapped, of=losses.mean_squared_error):
    """mean (y_pred - y_true)²"""


class MeanAbsoluteError(_Wrapped, of=losses.mean_absolute_error):
    """mean |y_pred - y_true|"""


class MeanAbsolutePercentageError(_Wrapped, of=losses.mean_absolute_percentage_error):
    """100 · mean |y_pred - y_true| / |y_true|"""


class MeanSquaredLogarithmicError(_Wrapped, of=losses.mean_squared_logarithmic_error):
    """mean (ln(1 + y_pred) - ln(1 + y_true))²"""


class CosineSimilarity(_Wrapped, of=losses.cosine_similarity):
    """The cosine of both along the axis."""

    def __init__(self, name: str | None = None, dtype: Any = None, axis: int = -1) -> None:
        super().__init__(name, dtype, axis=axis)


class KLDivergence(_Wrapped, of=losses.kl_divergence):
    """Σ y_true · ln(y_true / y_pred)"""


class Poisson(_Wrapped, of=losses.poisson):
    """mean y_pred - y_true · ln y_pred"""


class BinaryCrossentropy(_Wrapped, of=losses.binary_crossentropy):
    """The loss as a figure."""


class CategoricalCrossentropy(_Wrapped, of=losses.categorical_crossentropy):
    """The loss as a figure."""


class SparseCategoricalCrossentropy(_Wrapped, of=losses.sparse_categorical_crossentropy):
    """The loss as a figure."""


class RootMeanSquaredError(Mean):
    """√ mean (y_pred - y_true)²"""

    def __init__(self, name: str = "root_mean_squared_error", dtype: Any = None) -> None:
        super().__init__(name, dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:  # type: ignore[override]
        """One more batch."""
        t, y = _matched(y_true, y_pred)
        super().update_state((y - t) ** 2, sample_weight)

    def result(self) -> Any:
        """The root."""
        return Figure(np.sqrt(super().result()))


class R2Score(Metric):
    """1 - Σ (y - t)² / Σ (t - mean t)², on the mean over outputs."""

    def __init__(self, name: str = "r2_score", dtype: Any = None) -> None:
        super().__init__(name, dtype)
        self.reset_state()

    def reset_state(self) -> None:
        """Begin anew."""
        self.sums: Array = np.zeros((4, 1))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """One more batch."""
        t, y = (values.reshape(len(values), -1) for values in _matched(y_true, y_pred))
        w = np.ones_like(t) if sample_weight is None else beside(real(sample_weight), t)
        parts = (w, w * t, w * t * t, w * (y - t) ** 2)
        self.sums = self.sums + np.array([part.sum(0) for part in parts])

    def result(self) -> Any:
        """The score."""
        count, total, squares, errors = self.sums
        spread = squares - total * total / np.maximum(count, 1e-300)
        return Figure(np.mean(np.where(spread > 0, 1.0 - errors / np.where(spread > 0, spread, 1.0), 0.0)))


class _Confusion(Metric):
    """Σ weight of true and false positives and negatives, at a threshold."""

    def __init__(
        self, thresholds: Finite | Sequence[Finite] | None = None, top_k: Count | None = None,
        class_id: Size | None = None, name: str | None = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(name or snake_case(type(self).__name__), dtype)
        if top_k is not None or not isinstance(thresholds, float | int | None):
            fix = "one metric for each threshold"
            raise ArgumentError(self.name, got="top_k or several thresholds", need="one number", fix=fix)
        self.threshold, self.class_id = 0.5 if thresholds is None else float(thresholds), class_id
        self.counts = self.add_weight((4,))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """One more batch."""
        t, y = _matched(y_true, y_pred)
        w = np.ones_like(t) if sample_weight is None else beside(real(sample_weight), t)
        if self.class_id is not None:
            if not t.ndim or self.class_id >= t.shape[-1]:
                got = f"class_id={self.class_id} of outputs {list(t.shape)}"
                raise ShapeError(self.name, got=got, need="a class of the last axis", origin=caller_origin())
            t, y, w = t[..., self.class_id], y[..., self.class_id], w[..., self.class_id]
        yes, true = y > self.threshold, t > 0.5
        self.counts.assign_add([(w * which).sum() for which in (yes & true, yes & ~true, ~yes & true, ~yes & ~true)])


class _Count(_Confusion):
    """The count at a place of the table."""

    place: int

    def __init_subclass__(cls, place: int) -> None:
        super().__init_subclass__()
        cls.place = place

    def result(self) -> Any:
        """The count."""
        return Figure(self.counts.value[self.place])


class TruePositives(_Count, place=0):
    """How many are rightly positive."""


class FalsePositives(_Count, place=1):
    """How many are wrongly positive."""


class FalseNegatives(_Count, place=2):
    """How many are missed."""


class TrueNegatives(_Count, place=3):
    """How many are rightly left out."""


def _ratio(part: float, whole: float) -> Figure:
    return Figure(part / whole if whole else 0.0)


class Precision(_Confusion):
    """true positives / all that are called positive"""

    def result(self) -> Any:
        """The share."""
        return _ratio(self.counts.value[0], self.counts.value[:2].sum())


class Recall(_Confusion):
    """true positives / all that are positive"""

    def result(self) -> Any:
        """The share."""
        return _ratio(self.counts.value[0], self.counts.value[0] + self.counts.value[2])


class AUC(Metric):
    """The area under the receiver operating characteristic, by trapezoids between `num_thresholds` thresholds.

    With curve="PR" that under precision over recall, between which true positives are a line (Davis & Goadrich 2006).
    """

    def __init__(
        self, num_thresholds: Thresholds = 200, curve: str = "ROC", name: str = "auc", dtype: Any = None,
        from_logits: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(name, dtype)
        if curve not in ("ROC", "PR"):
            raise ArgumentError("AUC", got=f"curve={curve!r}", need='"ROC" or "PR"', origin=caller_origin())
        self.curve = curve
        steps = np.arange(1, num_thresholds - 1) / (num_thresholds - 1)
        self.thresholds = np.array([-1e-7, *steps, 1.0 + 1e-7])
        self.from_logits = from_logits
        self.positives, self.negatives = (self.add_weight((num_thresholds,)) for _ in range(2))
        self.all = self.add_weight((2,))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """One more batch."""
        t, y = (values.reshape(-1) for values in _matched(y_true, y_pred))
        y = 1.0 / (1.0 + np.exp(-y)) if self.from_logits else y
        w = np.ones_like(t) if sample_weight is None else beside(real(sample_weight), plain(y_pred)).reshape(-1)
        above = y[None] > self.thresholds[:, None]
        self.positives.assign_add((above * (w * (t > 0.5))).sum(1))
        self.negatives.assign_add((above * (w * (t <= 0.5))).sum(1))
        self.all.assign_add([(w * (t > 0.5)).sum(), (w * (t <= 0.5)).sum()])

    def result(self) -> Any:
        """The area."""
        if self.curve == "PR":
            return Figure(_area_of_precision(self.positives.value, self.negatives.value, self.all.value[0]))
        right, wrong = (
            self.positives.value / max(self.all.value[0], 1e-7),
            self.negatives.value / max(self.all.value[1], 1e-7),
        )
        return Figure(np.sum((wrong[:-1] - wrong[1:]) * (right[:-1] + right[1:]) / 2))


def _area_of_precision(right: Array, wrong: Array, positives: float) -> float:
    """Σ of ∫ precision d recall between thresholds, where true positives grow linearly with all that is above."""
    above = right + wrong
    new, more = right[:-1] - right[1:], above[:-1] - above[1:]
    slope = np.divide(new, more, out=np.zeros_like(new), where=more > 0)
    rest = right[1:] - slope * above[1:]
    both = (above[:-1] > 0) & (above[1:] > 0)
    ratio = np.divide(above[:-1], above[1:], out=np.ones_like(new), where=both)
    return float(np.sum(slope * (new + rest * np.log(ratio))) / max(positives, 1e-7))


NAMES: dict[str, type[Metric]] = {
    snake_case(kind.__name__): kind
    for kind in (
        BinaryAccuracy, CategoricalAccuracy, SparseCategoricalAccuracy, TopKCategoricalAccuracy,
        SparseTopKCategoricalAccuracy, MeanSquaredError, MeanAbsoluteError, MeanAbsolutePercentageError,
        MeanSquaredLogarithmicError, CosineSimilarity, KLDivergence, Poisson, BinaryCrossentropy,
        CategoricalCrossentropy, SparseCategoricalCrossentropy, RootMeanSquaredError, Precision, Recall,
    )
} | {
    "mse": MeanSquaredError, "mae": MeanAbsoluteError, "mape": MeanAbsolutePercentageError,
    "msle": MeanSquaredLogarithmicError, "rmse": RootMeanSquaredError, "auc": AUC, "AUC": AUC, "r2_score": R2Score,
    "Precision": Precision, "Recall": Recall, "kl_divergence": KLDivergence, "f1_score": F1Score,
}  # fmt: skip
# What depends on the outputs and the loss.
_ACCURACIES = (BinaryAccuracy, CategoricalAccuracy, SparseCategoricalAccuracy)
_ENTROPIES = (BinaryCrossentropy, CategoricalCrossentropy, SparseCategoricalCrossentropy)
OF_OUTPUTS: dict[str, tuple[Any, Any, Any]] = {
    "accuracy": _ACCURACIES, "acc": _ACCURACIES, "crossentropy": _ENTROPIES, "ce": _ENTROPIES,
}  # fmt: skip


def get(value: Any) -> Metric:
    """The metric of that name, the object itself, or the mean of a function of (y_true, y_pred)."""
    if isinstance(value, Metric):
        return value
    if isinstance(value, str):
        return named("metric", value, NAMES)(name=value)
    if isinstance(value, type) and issubclass(value, Metric):
        return value()
    if callable(value):
        return MeanMetricWrapper(value)
    need = 'a name such as "accuracy", a Metric, or a function of (y_true, y_pred)'
    raise ArgumentError("compile", got=f"metric {value!r}", need=need, origin=caller_origin())


def of_outputs(value: Any, y_true: Any, y_pred: Any) -> Metric:
    """`get`, where "accuracy" is that of these outputs and targets, as Keras chooses it."""
    if not isinstance(value, str) or value not in OF_OUTPUTS:
        return get(value)
    t, y = plain(y_true), plain(y_pred)
    binary, shares, sparse = OF_OUTPUTS[value]
    is_sparse = t.ndim < y.ndim or t.shape[-1] == 1
    chosen: Metric = (binary if y.shape[-1:] == (1,) or y.ndim < 2 else sparse if is_sparse else shares)(name=value)
    return chosen
