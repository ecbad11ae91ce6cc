from __future__ import annotations

import itertools
import signal

import numpy as np
import pytest

from nnc import nn
from nnc.backends.reference.backend import NumpyKernel
from nnc.errors import ArgumentError, ArityError, AttributeValueError, DataError, ShapeError, UsageError
from nnc.nn.data import Batches, BatchState, DataSet


def setting(count: int = 10, size: int = 4) -> tuple[nn.Model, Batches]:
    inputs = np.random.default_rng(0).standard_normal((count, 3)).astype(np.float32)
    data = DataSet("some", inputs, (inputs[:, 0] > 0).astype(np.int32), ("a", "b"))
    model = nn.Model(nn.Dense(2), (3,), optimizer=nn.SGD(0.5), backend="reference")
    return model, Batches(data, size, seed=2)


def test_every_update_is_told() -> None:
    model, batches = setting()
    told: list[nn.Progress] = []
    assert model.fit(batches, epochs=2, callbacks=[told.append]).complete
    assert model.updates == 6
    assert [(one.epoch, one.batch, one.examples, one.epoch_done) for one in told] == [
        (0, 1, 4, False),
        (0, 2, 8, False),
        (0, 3, 10, True),
        (1, 1, 4, False),
        (1, 2, 8, False),
        (1, 3, 10, True),
    ]
    assert {(one.epochs, one.batches) for one in told} == {(2, 3)}
    assert all(0.0 <= one.score <= 1.0 for one in told)
    assert told[-1].loss < told[2].loss


def test_progress_is_a_mean_over_examples() -> None:
    model, batches = setting()
    twin, other = setting()
    told: list[nn.Progress] = []
    model.fit(batches, epochs=1, callbacks=[told.append])
    results = [(twin.train_on_batch(batch.inputs, batch.labels), len(batch)) for batch in other]
    assert told[-1].loss == pytest.approx(sum(loss * size for (loss, _), size in results) / 10)
    assert told[-1].score == pytest.approx(sum(right for (_, right), _ in results) / 10)


def test_a_stop_is_clean_and_training_can_be_taken_up() -> None:
    model, batches = setting()
    assert not model.fit(batches, epochs=2, stop=lambda: model.updates == 2).complete
    assert batches.state() == BatchState(2, 0, 8)
    told: list[nn.Progress] = []
    assert model.fit(batches, epochs=2, callbacks=[told.append]).complete
    assert [(one.epoch, one.batch, one.examples) for one in told[:2]] == [(0, 3, 2), (1, 1, 4)]
    twin, other = setting()
    twin.fit(other, epochs=2)
    np.testing.assert_array_equal(model.parameters["weight"].numpy(), twin.parameters["weight"].numpy())


def test_a_stop_after_the_last_update_is_an_end() -> None:
    model, batches = setting()
    assert model.fit(batches, epochs=1, stop=lambda: model.updates == 3).complete
    assert model.updates == 3


def test_a_second_fit_with_the_same_batches_trains_as_much_again() -> None:
    model, batches = setting()
    told: list[nn.Progress] = []
    assert model.fit(batches, epochs=2).complete
    assert model.fit(batches, epochs=1, callbacks=[told.append]).complete
    assert model.updates == 9
    assert [(one.epoch, one.epochs, one.batch) for one in told] == [(2, 3, 1), (2, 3, 2), (2, 3, 3)]
    twin, other = setting()
    twin.fit(other, epochs=3)
    np.testing.assert_array_equal(model.parameters["weight"].numpy(), twin.parameters["weight"].numpy())


def test_batches_that_another_model_was_trained_on_train_too() -> None:
    model, batches = setting()
    model.fit(batches, epochs=2)
    other, _ = setting()
    assert other.fit(batches, epochs=2).complete
    assert other.updates == 6


def test_batches_are_counted_whatever_was_trained_before() -> None:
    model, batches = setting()
    model.fit(batches, epochs=1)
    _, others = setting(size=5)
    told: list[nn.Progress] = []
    model.fit(others, epochs=1, callbacks=[told.append])
    assert [one.batch for one in told] == [1, 2]


def test_no_epochs_are_no_training() -> None:
    model, batches = setting()
    assert model.fit(batches, epochs=0).complete
    assert model.updates == 0
    with pytest.raises(AttributeValueError, match="epochs=-1"):
        model.fit(batches, epochs=-1)


def test_the_position_is_where_the_next_batch_is() -> None:
    model, batches = setting()
    model.fit(batches, epochs=5, stop=lambda: model.updates == 4)
    assert nn.position_of(model, batches) == nn.Position(4, BatchState(2, 1, 4), 4, draws=4, sizes=((4, 0), (2, 0)))


def trained(model: nn.Model, batches: Batches) -> dict[str, bytes]:
    """The bits of everything when two epochs are done."""
    model.fit(batches, epochs=2 - batches.state().epoch)
    tensors = {**model.tensors(), **model.states}
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()} | {"updates": bytes([model.updates])}


@pytest.mark.parametrize("kernel", [1, 3, 7, 12, 20, 31])
def test_an_interrupt_within_an_update_waits_for_its_end(monkeypatch: pytest.MonkeyPatch, kernel: int) -> None:
    model, batches = setting()
    wanted = trained(*setting())
    model.training_step(4).compiled.allocate()
    run, runs = NumpyKernel.run, itertools.count(1)

    def press_and_run(self: NumpyKernel, *operands: object) -> None:
        if next(runs) == kernel:
            signal.raise_signal(signal.SIGINT)
        run(self, *operands)

    with monkeypatch.context() as patch:
        patch.setattr(NumpyKernel, "run", press_and_run)
        with pytest.raises(KeyboardInterrupt):
            model.fit(batches, epochs=2)
    state = batches.state()
    assert model.updates == 3 * state.epoch + state.position // 4 > 0
    assert trained(model, batches) == wanted


def test_an_error_of_the_listener_leaves_the_position_behind_the_update() -> None:
    model, batches = setting()

    def fail(progress: nn.Progress) -> None:
        if model.updates == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        model.fit(batches, epochs=2, callbacks=[fail])
    assert (model.updates, batches.state()) == (2, BatchState(2, 0, 8))
    assert trained(model, batches) == trained(*setting())


def test_an_update_that_fails_leaves_the_position_before_it() -> None:
    model, batches = setting()
    with pytest.raises(UsageError):
        model.train_on_batch(np.zeros((4, 5)), np.zeros(4), done=batches.advance)
    assert (model.updates, batches.state()) == (0, BatchState(2))


# ---- what can be trained on


X = np.random.default_rng(3).standard_normal((12, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)


def weights(model: nn.Model) -> np.ndarray:
    return np.array(model.parameters["weight"].numpy())


def test_any_iterable_of_pairs_is_a_source() -> None:
    pairs = [(X[:4], Y[:4]), (X[4:], Y[4:])]
    one, other = setting()[0], setting()[0]
    history = one.fit(pairs, epochs=3)
    for _ in range(3):
        for x, y in pairs:
            other.train_on_batch(x, y)
    np.testing.assert_array_equal(weights(one), weights(other))
    assert (len(history), history.complete, one.updates) == (3, True, 6)


def test_a_generator_is_one_epoch() -> None:
    model, _ = setting()
    assert model.fit(pair for pair in [(X, Y)]).complete
    with pytest.raises(DataError, match=r"no batches in epoch 2.*begins again"):
        model.fit((pair for pair in [(X, Y)]), epochs=2)
    with pytest.raises(DataError, match="no batches in epoch 1"):
        model.fit([])
    with pytest.raises(ArityError, match="pairs"):
        model.fit([X, X, X])
    assert model.updates == 2


def test_a_history_has_a_row_per_epoch_with_validation_and_metrics() -> None:
    model, _ = setting()
    history = model.fit(X, Y, epochs=3, batch_size=5, validation_data=(X, Y), metrics=["accuracy"])
    assert list(history.rows[0]) == ["epoch", "loss", "score", "accuracy", "val_loss", "val_score", "val_accuracy"]
    assert history["accuracy"] == history["score"]
    assert history["val_accuracy"][-1] == model.evaluate(X, Y).score
    assert history["epoch"] == [1, 2, 3]
    with pytest.raises(ArgumentError, match="'valid'; need one of epoch, loss"):
        history["valid"]


def test_validation_data_are_looked_at_before_the_first_epoch() -> None:
    model, _ = setting()
    with pytest.raises(ShapeError, match="validation_data: got 12 examples and 11 targets"):
        model.fit(X, Y, validation_data=(X, Y[:11]))
    assert model.updates == 0


# ---- gradients that wait


@pytest.mark.parametrize("options", [{}, {"clip_norm": 0.1}, {"clip_value": 0.01}, {"nan_guard": True}])
def test_accumulated_batches_are_one_batch(options: dict[str, float]) -> None:
    one, other = (nn.Model(nn.Dense(2), (3,), seed=1, backend="reference", **options) for _ in range(2))  # type: ignore[arg-type]  # by name
    for _ in range(3):
        one.train_on_batch(X, Y)
        for rows in (slice(0, 5), slice(5, 12)):
            other.backward(X[rows], Y[rows])
        other.apply_gradients()
    np.testing.assert_allclose(weights(one), weights(other), rtol=1e-5, atol=1e-6)
    assert other.updates == 3
    assert not any(tensor.numpy().any() for tensor in other.gradients.values())


def test_accumulating_training_is_that_of_larger_batches() -> None:
    one, batches = setting(12, 2)
    other, larger = setting(12, 6)
    told: list[nn.Progress] = []
    one.fit(batches, epochs=2, accumulate=3, callbacks=[told.append])
    other.fit(larger, epochs=2)
    np.testing.assert_allclose(weights(one), weights(other), rtol=1e-5, atol=1e-6)
    assert one.updates == other.updates == 4
    assert [(row.batch, row.examples) for row in told] == [(3, 6), (6, 12)] * 2


def test_an_accumulation_that_breaks_off_has_not_happened() -> None:
    model, batches = setting(12, 2)
    pass_of, calls = model.training_pass, itertools.count(1)

    def fail(*args: object, **options: object) -> object:
        if next(calls) == 5:
            raise ZeroDivisionError
        return pass_of(*args, **options)  # type: ignore[arg-type]  # as given

    model.training_pass = fail  # type: ignore[method-assign, assignment]  # for this test
    with pytest.raises(ZeroDivisionError):
        model.fit(batches, epochs=2, accumulate=3)
    assert (model.updates, batches.state()) == (1, BatchState(2, 0, 6))
    model.fit(batches, epochs=2, accumulate=3)
    twin, others = setting(12, 2)
    twin.fit(others, epochs=2, accumulate=3)
    np.testing.assert_array_equal(weights(model), weights(twin))


def test_no_gradients_are_no_update() -> None:
    model, _ = setting()
    with pytest.raises(UsageError, match="a call of backward before"):
        model.apply_gradients()
    model.backward(X, Y)
    assert model.gradients["weight"].numpy().any()
    model.zero_gradients()
    with pytest.raises(UsageError, match="no gradients"):
        model.apply_gradients()


def test_gradients_wait_in_memory_that_is_stated() -> None:
    model, _ = setting()
    stated = model.memory(4, "backward")
    assert stated.gradients == 4 * (3 * 2 + 2)


def test_gradients_beyond_a_value_are_clipped() -> None:
    model = nn.Model(nn.Dense(2), (3,), optimizer=nn.SGD(1.0, momentum=0.0), clip_value=1e-3, backend="reference")
    before = weights(model)
    model.train_on_batch(X, Y)
    assert np.abs(weights(model) - before).max() == pytest.approx(1e-3, rel=1e-3)


# ---- another optimizer


def test_another_rate_keeps_state_and_programs() -> None:
    model, _ = setting()
    model.train_on_batch(X, Y)
    step, momentum = model.training_step(12), model.states["weight.momentum"].numpy().tobytes()
    model.optimizer = model.optimizer.at_rate(0.0)
    before = weights(model)
    assert model.states["weight.momentum"].numpy().tobytes() == momentum
    model.train_on_batch(X, Y)
    np.testing.assert_array_equal(weights(model), before)
    assert model.training_step(12) is step


def test_another_kind_of_optimizer_begins_anew() -> None:
    model, _ = setting()
    for _ in range(4):
        model.train_on_batch(X, Y)
    fresh = nn.Model(nn.Dense(2), (3,), optimizer=nn.Adam(0.1), backend="reference")
    fresh.load_state_dict(model.state_dict())
    model.optimizer = nn.Adam(0.1)
    for one in (model, fresh):
        one.train_on_batch(X, Y)
        one.train_on_batch(X, Y)
    np.testing.assert_array_equal(weights(model), weights(fresh))
    assert (model.updates, model.since) == (6, 4)


def test_what_is_left_out_stays_as_it_is_from_then_on() -> None:
    model, _ = setting()
    model.optimizer = nn.Adam(0.1).without("w*")
    before = weights(model)
    model.train_on_batch(X, Y)
    np.testing.assert_array_equal(weights(model), before)
    assert model.parameters["bias"].numpy().any()
    model.optimizer = nn.Adam(0.1)
    model.train_on_batch(X, Y)
    assert not np.array_equal(weights(model), before)


def test_a_history_of_other_rows_is_refused_where_it_is_made() -> None:
    with pytest.raises(ArgumentError, match="rows=True"):
        nn.History(True)  # type: ignore[arg-type]  # what is tried


def test_figures_are_read_as_keras_has_them() -> None:
    x = np.random.default_rng(0).standard_normal((8, 2)).astype(np.float32)
    model = nn.Model(nn.Dense(1), (2,))
    model.compile("adam", "mse", metrics=["mae"])
    history = model.fit(x, x[:, :1], 4, 2)
    assert history.history["mae"] == history["mae"]
    assert len(history.history["loss"]) == 2
    assert nn.History().history == {}
    assert "mae" in history
    assert "val_loss" not in history
    assert "loss" not in nn.History()
    for figures in (history, nn.History()):
        with pytest.raises(TypeError, match="not iterable"):
            list(figures)  # type: ignore[call-overload]  # what is tried
    loss, score, error = model.evaluate(x, x[:, :1])
    assert (loss, error) == (
        score,
        model.evaluate(x, x[:, :1], metrics=["mean_absolute_error"]).metrics["mean_absolute_error"],
    )


def test_a_validation_split_keeps_the_last_examples_back() -> None:
    draw = np.random.default_rng(0)
    x, y = draw.standard_normal((10, 3)).astype(np.float32), np.arange(10) % 2
    split, given = (nn.Model(nn.Dense(2), (3,)) for _ in range(2))
    kept = split.fit(x, y, 4, 2, validation_split=0.3)
    wanted = given.fit(x[:7], y[:7], 4, 2, validation_data=(x[7:], y[7:]))
    for name in ("loss", "val_loss", "val_score"):
        assert kept[name] == wanted[name]
    for options, match in (
        ({"validation_split": 0.3, "validation_data": (x, y)}, "beside validation_data"),
        ({"validation_split": 1.0}, "validation_split=1.0 of 10 examples; need an example to train on"),
        ({"validation_split": 1.5}, "validation_split=1.5"),
    ):
        with pytest.raises(UsageError, match=match):
            split.fit(x, y, 4, **options)
    with pytest.raises(UsageError, match="without arrays"):
        split.fit([(x, y)], validation_split=0.5)
