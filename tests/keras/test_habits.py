"""What Keras users do beside the straight way: other data, frozen layers, interrupts, threads, steps of their own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc
from nnc import keras, onnx
from nnc.errors import ArgumentError, DataError, FormatError, MemoryLimitError, ShapeError, UsageError
from nnc.keras import layers, masks
from nnc.keras.tape import GradientTape

X = np.random.default_rng(0).random((33, 4), np.float32)
Y = X[:, :2] * 2.0


def small(**options: Any) -> Any:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(8, activation="relu"), layers.Dense(2)])
    model.compile("adam", "mse", metrics=["mae"], **options)
    return model


def unchanged(before: Any, model: Any) -> list[bool]:
    return [np.array_equal(old, new) for old, new in zip(before, model.get_weights(), strict=True)]


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (X.astype(np.float64), Y.astype(np.float64)),
        (X.tolist(), Y.tolist()),
        ((X * 9).astype(np.int64), Y),
        (X > 0.5, Y),
    ],
    ids=["f64", "lists", "i64", "bool"],
)
def test_arrays_of_all_kinds_are_fitted_with_a_smaller_last_batch(x: Any, y: Any) -> None:
    model = small()
    assert model.fit(x, y, verbose=0).history.keys() == {"loss", "mae"}
    assert model.predict(x, verbose=0).shape == (33, 2)
    assert model.history.epoch == [0]


class Numbered(keras.utils.Sequence):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < 4:
            raise IndexError(index)
        return X[index * 8 : index * 8 + 8], Y[index * 8 : index * 8 + 8]


class Unsized:
    """As a data set of TensorFlow's whose length is unknown."""

    def __iter__(self) -> Iterator[Any]:
        return iter([(X[:8], Y[:8]), (X[8:16], Y[8:16])])

    def __len__(self) -> int:
        raise TypeError("the length is unknown")


def endless() -> Iterator[Any]:
    while True:
        yield X[:8], Y[:8]


@pytest.mark.parametrize(
    ("source", "options"), [(Numbered(), {}), (Unsized(), {}), (endless(), {"steps_per_epoch": 3})]
)
def test_batches_come_from_all_kinds_of_sources(source: Any, options: Any) -> None:
    assert len(small().fit(source, epochs=2, verbose=0, **options).history["loss"]) == 2


def test_errors_name_the_input_and_what_fits() -> None:
    left, right = keras.Input((4,), name="left"), keras.Input((3,), name="right")
    model = keras.Model([left, right], layers.Dense(1)(layers.concatenate([left, right])))
    model.compile("sgd", "mse")
    with pytest.raises(ShapeError, match=r"'right' of shape \(1, 4\); need \(None, 3\)"):
        model.fit([X, X], Y[:, :1], verbose=0)
    with pytest.raises(DataError, match="5, 33 examples"):
        small().fit(X, Y[:5], verbose=0)
    with pytest.raises(ShapeError, match="4 dimensions"):
        layers.MaxPooling2D()(np.ones((2, 5, 3)))
    with pytest.raises(ArgumentError, match="a text"):
        layers.Dense(3)("words")
    with pytest.raises(ArgumentError, match="epochs="):
        small().fit(X, Y, epoch=3)
    with pytest.raises(ArgumentError, match="max_norm"):
        layers.Dense(3, kernel_constraint="maxnorm")
    with pytest.raises(ArgumentError, match="precision=nnc.bf16"):
        layers.Dense(3, dtype="float16")


def test_a_layer_that_was_not_made_says_how() -> None:
    class Bare(layers.Layer):
        def __init__(self) -> None:
            self.count = 3

    with pytest.raises(UsageError, match=r"super\(\).__init__\(\)"):
        Bare()(X)


def test_frozen_layers_keep_their_weights_and_a_frozen_model_is_fitted_to_no_avail() -> None:
    model = small()
    model.layers[0].trainable = False
    before = model.get_weights()
    model.fit(X, Y, verbose=0)
    assert unchanged(before, model) == [True, True, False, False]
    model.trainable, before = False, model.get_weights()
    model.fit(X, Y, verbose=0)
    assert all(unchanged(before, model))
    model.trainable = True
    model.fit(X, Y, verbose=0)
    assert not any(unchanged(before, model))


def test_a_model_goes_on_behind_an_interrupt_and_with_another_optimizer() -> None:
    class Interrupted(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 2:
                signal.raise_signal(signal.SIGINT)

    model = small()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, batch_size=4, verbose=0, callbacks=[Interrupted()])
    first = model.evaluate(X, Y, verbose=0)[0]
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(X, Y, epochs=20, verbose=0)
    assert model.evaluate(X, Y, verbose=0) < first


def test_a_loss_that_is_no_number_ends_the_training(capsys: pytest.CaptureFixture[str]) -> None:
    history = small().fit(X * np.nan, Y, epochs=3, verbose=0, callbacks=[keras.callbacks.TerminateOnNaN()])
    assert len(history.epoch) == 1
    assert "Invalid loss" in capsys.readouterr().err


def test_threads_predict_at_once() -> None:
    model, twin = small(), small()
    twin.set_weights(model.get_weights())
    wanted, wrong = model.predict(X, verbose=0), list[int]()

    def predict(number: int) -> None:
        if not np.array_equal(twin.predict(X, verbose=0), wanted):
            wrong.append(number)

    threads = [threading.Thread(target=predict, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_bytes_are_known_before_a_step_and_bounded() -> None:
    model = small()
    least = model.memory(X).arena
    assert 0 < least < model.memory(X, Y).arena < model.memory(X, Y, np.ones(33, np.float32)).arena + 1
    with pytest.raises(MemoryLimitError, match="need at least"):
        small(memory_limit=100).fit(X, Y, verbose=0)
    small(memory_limit=1 << 20).fit(X, Y, verbose=0)


class Own(keras.Model):
    """A step of its own, as Keras' guide has it."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.mean = layers.Dense(2), keras.metrics.Mean(name="loss")

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def train_step(self, data: Any) -> Any:
        x, y = data
        with GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.mean.update_state(loss)
        return {"loss": self.mean.result()}


class Doubled(Own):
    """A loss of its own, in Keras' step."""

    train_step = keras.Model.train_step

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, *rest: Any, **named: Any) -> Any:
        return 2 * super().compute_loss(x, y, y_pred, *rest, **named)


def test_a_loss_of_ones_own_is_that_of_fit_and_evaluate() -> None:
    once, twice = keras.Sequential([keras.Input((X.shape[1],)), layers.Dense(2)]), Doubled()
    once.compile(keras.optimizers.SGD(0.1), "mse")
    twice.compile(keras.optimizers.SGD(0.1), "mse")
    twice(X)
    twice.set_weights(once.get_weights())
    losses = [model.evaluate(X, Y, verbose=0) for model in (once, twice)]
    assert losses[1] == pytest.approx(2 * losses[0])
    assert twice.fit(X, Y, verbose=0, batch_size=len(X)).history["loss"][0] == pytest.approx(losses[1])


def test_a_step_of_ones_own_trains_and_its_model_is_read_again(tmp_path: Path) -> None:
    model = Own()
    model.compile(keras.optimizers.SGD(0.1), "mse")
    losses = model.fit(X, Y, epochs=9, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "own.keras")
    with pytest.raises(FormatError, match="custom_objects"):
        keras.models.load_model(tmp_path / "own.keras")
    again = keras.models.load_model(tmp_path / "own.keras", custom_objects={"Own": Own})
    np.testing.assert_array_equal(again.predict(X, verbose=0), model.predict(X, verbose=0))


def test_checkpoints_between_epochs_have_their_number(tmp_path: Path) -> None:
    checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / "at-{epoch}.keras", save_freq=2)
    small().fit(X, Y, epochs=2, verbose=0, callbacks=[checkpoint])
    assert sorted(path.name for path in tmp_path.glob("*.keras")) == ["at-1.keras", "at-2.keras"]


def test_a_seed_gives_the_same_numbers() -> None:
    for draw in (keras.random.normal, keras.random.uniform):
        first, second = (draw((3,), seed=7).tolist() for _ in range(2))
        assert first == second != draw((3,)).tolist()


def test_masks_are_forgotten_with_their_operands() -> None:
    embedding = layers.Embedding(5, 2, mask_zero=True)
    y = embedding(np.array([[1, 0]]))
    assert masks.mask_of(y).tolist() == [[True, False]]
    before = len(masks._OF_OPERANDS)
    del y
    assert len(masks._OF_OPERANDS) == before - 1


def test_a_model_of_keras_goes_to_onnx(tmp_path: Path) -> None:
    model = small()
    model.fit(X, Y, verbose=0)
    onnx.save(nnc.nn.Model(model, (4,)), tmp_path / "net.onnx")
    y = onnx.load(tmp_path / "net.onnx").run({"x": X})["y"]
    np.testing.assert_allclose(y, model.predict(X, verbose=0), rtol=1e-5, atol=1e-6)


def test_tensorboard_swallows_no_option(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="histogram_freq=1"):
        keras.callbacks.TensorBoard(tmp_path, histogram_freq=1)
    with pytest.raises(ArgumentError, match="histogramm_freq"):
        keras.callbacks.TensorBoard(tmp_path, histogramm_freq=1)
    with pytest.raises(ArgumentError, match="profile_batch=a ndarray"):
        keras.callbacks.TensorBoard(tmp_path, profile_batch=np.array([0, 1]))
    with pytest.raises(ArgumentError, match="profile_batch=.*nnc.profile"):
        keras.callbacks.TensorBoard(tmp_path, profile_batch=(5, 10))
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    board = keras.callbacks.TensorBoard(tmp_path, histogram_freq=0, write_graph=True, update_freq=2)
    model.fit(np.ones((8, 2)), np.ones((8, 1)), batch_size=2, epochs=1, callbacks=[board], verbose=0)
    (file,) = (tmp_path / "train").iterdir()
    assert file.read_bytes().count(b"batch_loss") == 2
    assert file.read_bytes().count(b"epoch_loss") == 1
