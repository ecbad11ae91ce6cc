"""Arguments of constructors: a wrong one is told of by the name of the class, whichever base asks for it."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnc import keras
from nnc.errors import ArgumentError, FormatError, NncError, ShapeError

WRONG = np.ones(2)


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        (keras.layers.Add, {"name": WRONG}, "Add: got name="),
        (keras.layers.Dense, {"units": 2, "name": WRONG}, "Dense: got name="),
        (keras.layers.Dense, {"units": 2.5}, "Dense: got units="),
        (keras.losses.MeanSquaredError, {"name": WRONG}, "MeanSquaredError: got name="),
        (keras.optimizers.Adam, {"lr": 0.1}, "Fix: learning_rate="),
        (keras.optimizers.Nadam, {"beta1": 0.5}, "Fix: beta_1="),
        (keras.metrics.Mean, {"nam": "x"}, "Mean: got nam="),
        (keras.regularizers.L2, {"l2": WRONG}, "L2: got l2="),
    ],
)
def test_wrong_arguments_are_told_of(kind: Callable[..., Any], options: dict[str, Any], told: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        kind(**options)
    assert told in str(caught.value)
    assert "test_arguments.py" in str(caught.value)


def test_signatures_are_those_of_constructors() -> None:
    assert list(inspect.signature(keras.layers.Add).parameters)[:2] == ["name", "trainable"]
    assert "units" in inspect.signature(keras.layers.Dense).parameters
    assert "values" in inspect.signature(keras.layers.Dense(2)).parameters


def test_constructors_of_users_take_what_they_say() -> None:
    class Own(keras.layers.Layer):
        def __init__(self, units: int = 2, **options: Any) -> None:
            super().__init__(**options)
            self.units = units

    assert Own(units=2.5).units == 2.5  # type: ignore[arg-type]  # what the hint says is the user's business
    with pytest.raises(ArgumentError, match=r"unknown="):
        Own(unknown=1)


def test_logs_that_cannot_be_written_are_told_of(tmp_path: Path) -> None:
    """Python's OSError came out of a full disk."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    (tmp_path / "file").write_text("x")
    for callback in (keras.callbacks.CSVLogger("/dev/full"), keras.callbacks.TensorBoard(tmp_path / "file")):
        with pytest.raises(FormatError):
            model.fit(np.ones((2, 2)), np.ones((2, 1)), verbose=0, callbacks=[callback])


@pytest.mark.parametrize("given", ["text", [[1.0], [1.0, 2.0]], object()])
def test_losses_of_what_is_no_array_are_told_of(given: Any) -> None:
    with pytest.raises(NncError):
        keras.losses.MeanSquaredError()(given, given)


@pytest.mark.parametrize("given", [None, "text", [], {"a": [1.0]}, object()])
def test_what_is_no_array_is_told_of(given: Any) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    y = np.ones((2, 1))
    for call in (
        model, model.layers[0], model.predict, lambda x: model.fit(x, y, verbose=0), lambda x: model.test_on_batch(x, y)
    ):  # fmt: skip
        with pytest.raises(NncError):
            call(given)


def test_weights_begin_as_real_numbers() -> None:
    """An imaginary part was lost, with NumPy's warning."""

    class Turned(keras.initializers.Initializer):
        def values(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
            return np.full(shape, 1j)

    with pytest.raises(ArgumentError, match="Turned: got values of complex128; need real numbers"):
        Turned()((2,))


def test_numbers_beyond_an_element_type_are_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert keras.utils.normalize([1e308, 1e300]).tolist() == [0.0, 0.0]
        assert keras.utils.to_categorical(np.float16(0.9)).tolist() == [1.0]
        assert keras.random.uniform((2,), np.float32(0.5), 1e308, seed=1).shape == (2,)


@pytest.mark.parametrize("kind", ["mse", "rmse", "r2_score", "precision", "recall", "auc", "accuracy"])
def test_figures_beyond_64_bits_are_no_warning(kind: str) -> None:
    metric = keras.metrics.BinaryAccuracy() if kind == "accuracy" else keras.metrics.get(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            metric.update_state([[0.0], [1.0]], [[1e308], [1e308]], sample_weight=[1e308, 1e308])
        assert not math.isfinite(metric.result()) or 0.0 <= metric.result() <= 1.0


def test_a_class_that_outputs_do_not_have_is_told_of() -> None:
    with pytest.raises(ShapeError, match=r"class_id=2 of outputs \[1, 2\]"):
        keras.metrics.Precision(class_id=2).update_state([[1, 0]], [[1, 0]])


@pytest.mark.parametrize("weights", [np.ones(2), [1.0, 2.0], {0: "text"}, {0: 2j}, {0: None}])
def test_weights_of_classes_are_real_numbers_by_class(weights: Any) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    x, y = np.ones((2, 2)), np.zeros((2, 1))
    for call in (model.train_on_batch, lambda *given, **told: model.fit(*given, verbose=0, **told)):
        with pytest.raises(NncError):
            call(x, y, class_weight=weights)
    assert math.isfinite(model.train_on_batch(x, y, class_weight={0: 2.0}))


def test_shares_of_no_classes_are_told_of() -> None:
    with pytest.raises(NncError, match="an axis of classes"):
        keras.losses.categorical_crossentropy(1.0, 1.0, label_smoothing=0.1)


def test_of_no_classes_there_is_no_entropy() -> None:
    none = np.ones((2, 0))
    assert keras.losses.categorical_crossentropy(none, none, label_smoothing=0.1).tolist() == [0.0, 0.0]


def test_no_input_is_refused() -> None:
    given = keras.Input((3,))
    model = keras.Model(given, keras.layers.Dense(2)(given))
    with pytest.raises(ArgumentError, match="got None; need an array for each input"):
        model.test_step(None)
