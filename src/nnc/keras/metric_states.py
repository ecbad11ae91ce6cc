"""What all metrics of `nnc.keras` have: numbers that they keep, and means of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from nnc.arguments import Size, checked
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.tensor import as_array
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.errors import DataError, ShapeError
from nnc.keras import initializers
from nnc.keras.named import Remembered, fresh_name, snake_case
from nnc.numerics.conversion import sizes_of

Array = NDArray[np.float64]


def plain(value: Any) -> NDArray[Any]:
    """An array of NumPy's; DataError for what is no numbers."""
    array = as_array(value.numpy() if isinstance(value, ArrayOperand) and hasattr(value, "numpy") else value)
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
    def door(*args: Any, **options: Any) -> Any:
        with np.errstate(all="ignore"):
            return method(*args, **options)

    return door


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
