"""What all metrics of `nnc.keras` have: numbers that they keep, means of them, and scores from counts of classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from nnc.arguments import Count, Positive, Probability, Size, checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.tensor import as_array
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.errors import DataError, ShapeError, SymbolError
from nnc.keras import initializers
from nnc.keras.named import Remembered, fresh_name, snake_case
from nnc.numerics.conversion import sizes_of

Array = NDArray[np.float64]
Average: TypeAlias = Literal["micro", "macro", "weighted"] | None


def plain(value: Any) -> NDArray[Any]:
    """An array of NumPy's; DataError for what is no numbers."""
    array = as_array(value.cpu().numpy() if isinstance(value, ArrayOperand) and hasattr(value, "numpy") else value)
    if array.dtype.kind in "OUSMm":
        fix = "np.asarray(x, np.float32) of numbers, or words by a dictionary"
        raise DataError("keras", got=f"an array of {array.dtype}", need="numbers", fix=fix, origin=caller_origin())
    return array


def single(value: Any) -> NDArray[Any]:
    """The same that models take: 64-bit floats are f32."""
    values = plain(value)
    with np.errstate(over="ignore"):
        return values.astype(np.float32) if values.dtype == np.float64 else values


def real(value: Any) -> NDArray[Any]:
    """The same of real numbers alone."""
    array = plain(value)
    if array.dtype.kind == "c":
        raise DataError("keras", got=f"an array of {array.dtype}", need="real numbers", origin=caller_origin())
    return array


class MetricState(NDArrayOperatorsMixin):
    """A number, or an array, that a metric keeps: `assign`, `assign_add`, and all that arrays of NumPy do."""

    def __init__(self, value: Any) -> None:
        self.start = np.array(value, np.float64)
        self.value = self.start.copy()

    def assign(self, value: Any) -> None:
        """Hold this from now on."""
        self.value = beside(real(value), self.value).copy()

    def assign_add(self, value: Any) -> None:
        """Add to it."""
        self.value = self.value + beside(real(value), self.value)

    def numpy(self) -> Array:
        """What it holds."""
        return self.value

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return np.array(self.value, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(*[plain(x.value if isinstance(x, MetricState) else x) for x in inputs], **options)

    def __float__(self) -> float:
        return float(self.value)


def _unwarned(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def wrapper(*args: Any, **options: Any) -> Any:
        with np.errstate(all="ignore"):
            try:
                return method(*args, **options)
            except SymbolError as error:
                error.fix = "model.compile(…, run_eagerly=True), or update it in train_step"
                raise

    return wrapper


class Metric(Remembered):
    """A figure over all examples since `reset_state`: subclasses say `update_state` and `result`.

    What is beyond 64 bits is infinite, without NumPy's warnings.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in {"update_state", "result"} & vars(cls).keys():
            setattr(cls, name, _unwarned(vars(cls)[name]))

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        self.name = name or fresh_name(snake_case(type(self).__name__))

    @checked
    def add_weight(
        self,
        shape: Sequence[Size] | Size = (),
        initializer: Any = "zeros",
        dtype: Any = None,
        name: str | None = None,
        **unused: Any,
    ) -> MetricState:
        """What the metric keeps, which `reset_state` gives its first value again."""
        draw = initializers.get("zeros" if initializer is None else initializer)
        assert draw is not None
        state = MetricState(draw(sizes_of(shape)))
        self._states.append(state)
        return state

    @property
    def _states(self) -> list[MetricState]:
        known: list[MetricState] = vars(self).setdefault("_kept", [])
        return known

    add_variable = add_weight

    @property
    def variables(self) -> list[MetricState]:
        """What the metric keeps."""
        return list(self._states)

    def reset_state(self) -> None:
        """Begin anew."""
        for state in self._states:
            state.value = state.start.copy()

    reset_states = property(lambda self: self.reset_state)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """One more batch."""
        raise NotImplementedError

    def result(self) -> Any:
        """The figure."""
        raise NotImplementedError

    def __call__(self, *values: Any, **options: Any) -> Any:
        """One more batch, and the figure since."""
        self.update_state(*values, **options)
        return self.result()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}>"


class Figure(np.float64):
    """A number that also says `.numpy()`, as arrays do."""

    def numpy(self) -> np.float64:
        """The number."""
        return np.float64(self)


class Mean(Metric):
    """Σ weight · value / Σ weight

    >>> from nnc import keras
    >>> mean = keras.metrics.Mean()
    >>> mean.update_state([1.0, 3.0])
    >>> float(mean.result())
    2.0
    """

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name, dtype)
        self.total, self.count = self.add_weight(), self.add_weight()

    def update_state(self, values: Any, sample_weight: Any = None) -> None:  # type: ignore[override]  # as Keras has it
        """More values, each with a weight."""
        numbers = real(values).astype(np.float64)
        weights = np.ones_like(numbers) if sample_weight is None else beside(real(sample_weight), numbers)
        self.total.assign_add((numbers * weights).sum())
        self.count.assign_add(weights.sum())

    def result(self) -> Any:
        """The mean; 0 of nothing."""
        return Figure(float(self.total) / float(self.count) if float(self.count) else 0.0)


class Sum(Mean):
    """Σ weight · value"""

    def result(self) -> Any:
        """The sum."""
        return Figure(float(self.total))


def beside(weights: NDArray[Any], numbers: Array) -> Array:
    """A weight for each number, of one for each example."""
    while weights.ndim > numbers.ndim and weights.shape[-1] == 1:
        weights = weights[..., 0]
    wide = weights.reshape((*weights.shape, *(1,) * (numbers.ndim - weights.ndim)))
    try:
        return np.broadcast_to(wide, numbers.shape).astype(np.float64)
    except ValueError:
        got, need = f"weights {weights.shape}", f"a weight for each of {numbers.shape}, or for each example"
        raise ShapeError("sample_weight", got=got, need=need, origin=caller_origin()) from None


class MeanMetricWrapper(Mean):
    """The mean of a function of (y_true, y_pred), which gives a number for each example, or one for all."""

    def __init__(self, fn: Callable[..., Any], name: str | None = None, dtype: Any = None, **options: Any) -> None:
        super().__init__(name or getattr(fn, "__name__", "metric"), dtype)
        self.fn, self.fn_options = fn, options

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:  # type: ignore[override]
        """One more batch."""
        super().update_state(self.fn(y_true, y_pred, **self.fn_options), sample_weight)


class FBetaScore(Metric):
    """(1 + β²) · precision · recall / (β² · precision + recall) of each class, or a mean of them.

    A row's class is its largest output; with a threshold it has each class whose output is above that.

    >>> from nnc import keras
    >>> score = keras.metrics.F1Score(threshold=0.5)
    >>> score.update_state([[1, 0], [0, 1]], [[0.9, 0.2], [0.8, 0.7]])
    >>> score.result().round(3).tolist()
    [0.667, 1.0]
    """

    def __init__(
        self,
        average: Average = None,
        beta: Positive = 1.0,
        threshold: Probability | None = None,
        name: str = "fbeta_score",
        dtype: Any = None,
    ) -> None:
        super().__init__(name, dtype)
        self.average, self.beta, self.threshold = average, beta, threshold
        self.counts: Any = None

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """One more batch of rows [examples, classes]."""
        t, y = real(y_true).astype(np.float64), real(y_pred).astype(np.float64)
        if t.ndim != 2 or t.shape != y.shape:
            got = f"y_true {t.shape}, y_pred {y.shape}"
            raise ShapeError(type(self).__name__, got=got, need="[examples, classes] both", origin=caller_origin())
        largest = (y == y.max(-1, keepdims=True)) & (np.abs(y) > 1e-9)
        y = (largest if self.threshold is None else y > self.threshold).astype(np.float64)
        w = 1.0 if sample_weight is None else real(sample_weight).reshape(-1, 1)
        axis = None if self.average == "micro" else 0
        rows = [t * y, (1 - t) * y, t * (1 - y), t]
        new = np.stack([np.atleast_1d((row * w).sum(axis)) for row in rows])
        if self.counts is None:
            self.counts = self.add_weight(new.shape)
        self.counts.assign_add(new)

    def result(self) -> Any:
        """The score of each class, or their mean."""
        if self.counts is None:
            return Figure(0.0)
        right, wrong, missed, own = self.counts.value
        precision, recall = right / (right + wrong + 1e-7), right / (right + missed + 1e-7)
        square = self.beta**2
        scores = (1 + square) * precision * recall / (square * precision + recall + 1e-7)
        if self.average == "weighted":
            return Figure((scores * own / (own.sum() + 1e-7)).sum())
        return scores if self.average is None else Figure(scores.mean())


class F1Score(FBetaScore):
    """`FBetaScore` with β = 1."""

    def __init__(
        self, average: Average = None, threshold: Probability | None = None, name: str = "f1_score", dtype: Any = None
    ) -> None:
        super().__init__(average, 1.0, threshold, name, dtype)


class _Unions(Metric):
    """Intersections over unions by a table of classes and what they were taken for."""

    def __init__(self, num_classes: Count, name: str, dtype: Any, ignore_class: Size | None = None) -> None:
        super().__init__(name, dtype)
        self.num_classes, self.ignore_class = num_classes, ignore_class
        self.table = self.add_weight((num_classes, num_classes))

    def classes(self, y_true: Any, y_pred: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """The class of each element, and what it is taken for."""
        return plain(y_true).reshape(-1).astype(np.int64), plain(y_pred).reshape(-1).astype(np.int64)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """One more batch."""
        t, y = self.classes(y_true, y_pred)
        w = np.ones(t.shape) if sample_weight is None else np.broadcast_to(real(sample_weight), t.shape).reshape(-1)
        kept = np.ones(t.shape, bool) if self.ignore_class is None else t != self.ignore_class
        t, y, w = t[kept], y[kept], w[kept]
        if t.shape != y.shape or (
            t.size and not (min(t.min(), y.min()) >= 0 and max(t.max(), y.max()) < self.num_classes)
        ):
            got, need = f"y_true {t.shape}, y_pred {y.shape}", f"as many classes 0 to {self.num_classes - 1}"
            raise DataError(type(self).__name__, got=got, need=need, origin=caller_origin())
        new = np.zeros((self.num_classes, self.num_classes))
        np.add.at(new, (t, y), w)
        self.table.assign_add(new)

    def shares(self) -> tuple[Array, Array]:
        """The intersection over the union of each class, and whether it was met."""
        table = self.table.value
        both = np.diagonal(table)
        whole = table.sum(0) + table.sum(1) - both
        return both / np.maximum(whole, 1e-300), whole > 0


class MeanIoU(_Unions):
    """The mean, over classes that were met, of intersection / union, of whole numbers y_true and y_pred."""

    def __init__(
        self, num_classes: Count, name: str = "mean_io_u", dtype: Any = None, ignore_class: Size | None = None
    ) -> None:
        super().__init__(num_classes, name, dtype, ignore_class)

    def result(self) -> Any:
        """The mean."""
        shares, met = self.shares()
        return Figure(shares[met].mean() if met.any() else 0.0)


class OneHotMeanIoU(MeanIoU):
    """`MeanIoU` of rows: the class is the largest element of each."""

    def classes(self, y_true: Any, y_pred: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        return plain(y_true).argmax(-1).reshape(-1), plain(y_pred).argmax(-1).reshape(-1)


class IoU(_Unions):
    """The mean of intersection / union over the classes `target_class_ids`."""

    def __init__(
        self, num_classes: Count, target_class_ids: Sequence[Size], name: str = "io_u", dtype: Any = None
    ) -> None:
        super().__init__(num_classes, name, dtype)
        self.target_class_ids = list(target_class_ids)

    def result(self) -> Any:
        """The mean."""
        shares, met = self.shares()
        chosen = [place for place in self.target_class_ids if met[place]]
        return Figure(shares[chosen].mean() if chosen else 0.0)


class BinaryIoU(IoU):
    """`IoU` of two classes: 1 is what is at or above the threshold."""

    def __init__(
        self,
        target_class_ids: Sequence[Size] = (0, 1),
        threshold: Probability = 0.5,
        name: str = "binary_io_u",
        dtype: Any = None,
    ) -> None:
        super().__init__(2, target_class_ids, name, dtype)
        self.threshold = threshold

    def classes(self, y_true: Any, y_pred: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        return super().classes(y_true, plain(y_pred) >= self.threshold)
