"""What users hand over by mistake: a typed error that says where, and a model that nothing of it reached."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from nnc import nn
from nnc.errors import ArgumentError, ArityError, DataError, DTypeError, FormatError, NncError, ShapeError
from nnc.nn.data import Batches, Examples

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((40, 3)).astype(np.float32)
Y = X.sum(1, keepdims=True)
LABELS = RANDOM.integers(0, 4, 40)


def broken(values: np.ndarray, row: int, value: float) -> np.ndarray:
    found = values.copy()
    found[row] = value
    return found


def numbers(loss: nn.Loss | None = None, rate: float | nn.RateSchedule = 0.01) -> nn.Model:
    optimizer = nn.SGD(rate)
    return nn.Model(
        nn.Dense(1), (3,), loss=loss or nn.MeanSquaredError(), optimizer=optimizer, seed=1, backend="reference"
    )


def classes() -> nn.Model:
    return nn.Model(nn.Dense(4), (3,), optimizer=nn.SGD(0.01), seed=1, backend="reference")


Fault = tuple[Callable[[], nn.Model], Callable[[nn.Model], object], type[NncError], str]
FAULTS: dict[str, Fault] = {
    "an input is no number": (numbers, lambda m: m.fit(broken(X, 5, math.nan), Y), DataError, "inputs in row 5"),
    "an input is infinite": (numbers, lambda m: m.fit(broken(X, 7, math.inf), Y), DataError, "inputs in row 7"),
    "a target is no number": (numbers, lambda m: m.fit(X, broken(Y, 9, math.nan)), DataError, "targets in row 9"),
    "a target of a batch is no number": (
        numbers,
        lambda m: m.train_on_batch(X, broken(Y, 9, math.nan)),
        DataError,
        "targets in row 9",
    ),
    "batches of numbers that are none": (
        numbers,
        lambda m: m.fit(Batches(Examples("rows", broken(X, 39, math.nan), Y), 4)),
        DataError,
        "inputs in row 39",
    ),
    "a label of a data set is too large": (
        classes,
        lambda m: m.fit(Examples("rows", X, broken(LABELS, 39, 4)), batch_size=4),
        DataError,
        "label 4 in row 39",
    ),
    "a validation label is too large": (
        classes,
        lambda m: m.fit(X, LABELS, validation_data=(X, broken(LABELS, 3, 9))),
        DataError,
        "validation_data: got label 9 in row 3",
    ),
    "validation without examples": (
        numbers,
        lambda m: m.fit(X, Y, validation_data=(X[:0], Y[:0])),
        DataError,
        "validation_data: got no examples",
    ),
    "inputs are texts": (numbers, lambda m: m.fit(X.astype(str), Y), DTypeError, "fit, inputs: got <U"),
    "inputs are complex": (numbers, lambda m: m.predict(X.astype(complex)), DTypeError, "predict, inputs: got complex"),
    "targets are dates": (
        numbers,
        lambda m: m.fit(X, np.zeros(40, "M8[s]")),
        DTypeError,
        "fit, targets: got datetime64",
    ),
    "a chance above one": (
        lambda: numbers(nn.BinaryCrossEntropy()),
        lambda m: m.fit(X, broken(np.abs(Y * 0), 2, 1.5)),
        DataError,
        "targets in row 2 that are out of range; need finite numbers ≥ 0 and ≤ 1",
    ),
    "a count below zero": (
        lambda: numbers(nn.PoissonLoss()),
        lambda m: m.evaluate(X, broken(np.abs(Y), 4, -1)),
        DataError,
        "targets in row 4 that are out of range; need finite numbers ≥ 0$",
    ),
    "accuracy of numbers": (
        numbers,
        lambda m: m.fit(X, Y, metrics=["accuracy"]),
        ShapeError,
        "need a class, a whole number, for each row of logits",
    ),
    "r2 of classes": (classes, lambda m: m.fit(X, LABELS, metrics=["r2"]), ShapeError, "a target for each output"),
    "the class of a callback": (
        numbers,
        lambda m: m.fit(X, Y, callbacks=[nn.StopOnNaN]),  # type: ignore[list-item]  # the mistake
        ArgumentError,
        r"make one of it: StopOnNaN\(…\)",
    ),
    "an optimizer by name": (
        numbers,
        lambda m: setattr(m, "optimizer", "adam"),
        ArgumentError,
        "need an Optimizer",
    ),
    "no batch is a batch": (numbers, lambda m: m.fit([None]), ArityError, "a batch that is None"),  # type: ignore[list-item]
    "three things are no pair": (
        numbers,
        lambda m: m.fit([(X, Y, Y)]),  # type: ignore[list-item]  # the mistake
        ArityError,
        "a tuple of 3",
    ),
    "rates from high to low": (
        numbers,
        lambda m: nn.find_rate(m, X, Y, low=1.0, high=0.1),
        ArgumentError,
        "need low < high",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_it_is_an_error_before_anything_is_trained(name: str) -> None:
    make, use, kind, text = FAULTS[name]
    model = make()
    before = model.state_dict()
    with pytest.raises(kind, match=text):
        use(model)
    after = model.state_dict()
    assert model.updates == 0
    assert all((after[path] == before[path]).all() for path in before)


class Schedule(nn.RateSchedule):
    def __init__(self, *rates: float) -> None:
        self.rates = rates

    def rate(self, step: int) -> float:
        return self.rates[step - 1]


@pytest.mark.parametrize("rate", [-1.0, math.nan, math.inf])
def test_a_schedule_gives_no_rate_that_is_none(rate: float) -> None:
    model = numbers(rate=Schedule(0.1, 0.1, rate))
    with pytest.raises(ArgumentError, match=f"Schedule: got rate {rate} at step 3; need a finite rate ≥ 0"):
        model.fit(X, Y, batch_size=10)
    assert model.updates == 2
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("make", [nn.CSVLog, nn.JSONLog, nn.TensorBoardLog, nn.LastCheckpoint, nn.BestCheckpoints])
def test_what_cannot_be_written_is_told_before_training(make: Callable[[Path], nn.Callback], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    model = numbers()
    with pytest.raises(FormatError, match="need a place that can be written to"):
        model.fit(X, Y, callbacks=[make(tmp_path / "file" / "below")])
    assert model.updates == 0


def test_logs_make_the_folder_that_they_lie_in(tmp_path: Path) -> None:
    numbers().fit(X, Y, callbacks=[nn.CSVLog(tmp_path / "a" / "log.csv"), nn.JSONLog(tmp_path / "b" / "log.jsonl")])
    assert (tmp_path / "a" / "log.csv").read_text().startswith("epoch,loss,score")
    assert (tmp_path / "b" / "log.jsonl").read_text().startswith('{"epoch": 1')


def test_a_table_of_other_columns_is_not_mixed_with_these(tmp_path: Path) -> None:
    log, model = nn.CSVLog(tmp_path / "log.csv"), numbers()
    model.fit(X, Y, callbacks=[log])
    whole = (tmp_path / "log.csv").read_bytes()
    with pytest.raises(FormatError, match="columns epoch, loss, score; need epoch, loss, score, r2"):
        model.fit(X, Y, metrics=["r2"], callbacks=[log])
    assert (tmp_path / "log.csv").read_bytes() == whole


def test_a_callback_that_raises_leaves_whole_updates_and_training_goes_on() -> None:
    def batches() -> Batches:
        return Batches(Examples("rows", X, Y), 10, seed=3)

    whole, model, source = numbers(), numbers(), batches()
    whole.fit(batches(), epochs=2)

    class Raising(nn.Callback):
        def on_batch_end(self, run: nn.Run, progress: nn.Progress) -> None:
            if run.model.updates in (1, 3):
                raise RuntimeError("callback")

        def on_epoch_end(self, run: nn.Run, row: Mapping[str, float]) -> None:
            raise RuntimeError("callback")

    for _ in range(4):
        with pytest.raises(RuntimeError, match="callback"):
            model.fit(source, epochs=2 - source.state().epoch, callbacks=[Raising()])
    assert (model.updates, whole.updates) == (8, 8)
    assert model.predict(X).tobytes() == whole.predict(X).tobytes()


def test_one_optimizer_serves_two_models() -> None:
    shared = nn.Adam(0.01)
    both, alone = [
        [nn.Model(nn.Dense(1), (3,), loss=nn.MeanSquaredError(), optimizer=one, backend="reference") for one in pair]
        for pair in ((shared, shared), (nn.Adam(0.01), nn.Adam(0.01)))
    ]
    for pair in (both, alone):
        for _ in range(3):
            pair[0].train_on_batch(X, Y)
            pair[1].train_on_batch(X[::2], -Y[::2])
    for ours, theirs in zip(both, alone, strict=True):
        assert ours.predict(X).tobytes() == theirs.predict(X).tobytes()


def test_a_prediction_beside_a_fit_is_of_one_moment() -> None:
    """Both outputs are the same weight times one: in between two updates they are equal."""
    net = nn.Sequential(shared=nn.Dense(1, bias=False), twice=nn.Lambda(lambda x: x + x * 0.0))
    model = nn.Model(net, (3,), loss=nn.MeanSquaredError(), optimizer=nn.SGD(0.001), backend="reference")
    ones = np.ones((8, 3), np.float32)
    trainer = threading.Thread(target=lambda: model.fit(X, Y, epochs=30, batch_size=4))
    states = [model.predict(ones)]
    trainer.start()
    while trainer.is_alive():
        states.append(model.predict(ones))
    trainer.join()
    assert all((state == state[0]).all() for state in states)
    assert model.updates == 300
