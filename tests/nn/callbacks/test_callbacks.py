"""Callbacks: told in order, free to stop and to change the optimizer; what they keep is on disk."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from nnc import nn
from nnc.errors import ArgumentError, FormatError, UsageError
from nnc.nn.data import Batches, Examples

X = np.random.default_rng(0).standard_normal((24, 3)).astype(np.float32)
Y = X.sum(1, keepdims=True)


def model(rate: float = 0.1, **options: object) -> nn.Model:
    optimizer = nn.SGD(rate)
    return nn.Model(nn.Dense(1), (3,), loss=nn.MeanSquaredError(), optimizer=optimizer, backend="reference", **options)  # type: ignore[arg-type]  # by name


class Script(nn.Callback):
    """Gives each epoch the validation loss of a script."""

    def __init__(self, *values: float) -> None:
        self.values = list(values)

    def on_epoch_end(self, run: nn.Run, row: Mapping[str, float]) -> None:
        run.history.rows[-1]["val_loss"] = self.values[round(row["epoch"]) - 1]


def test_callbacks_are_told_in_order() -> None:
    told: list[str] = []

    class Telling(nn.Callback):
        def on_train_begin(self, run: nn.Run) -> None:
            told.append(f"begin {run.last}")

        def on_batch_end(self, run: nn.Run, progress: nn.Progress) -> None:
            told.append(f"batch {progress.batch} of {progress.batches}")

        def on_epoch_end(self, run: nn.Run, row: Mapping[str, float]) -> None:
            told.append(f"epoch {row['epoch']:g}: {', '.join(row)}")

        def on_train_end(self, run: nn.Run) -> None:
            told.append("end")

    model().fit(X, Y, batch_size=12, validation_data=(X, Y), metrics=["r2"], callbacks=[Telling()])
    rows = "epoch 1: epoch, loss, score, r2, val_loss, val_score, val_r2"
    assert told == ["begin 1", "batch 1 of 2", "batch 2 of 2", rows, "end"]


def test_training_ends_when_validation_gets_no_better_and_the_best_weights_come_back() -> None:
    net, states = model(), list[bytes]()

    class Note(nn.Callback):
        def on_epoch_end(self, run: nn.Run, row: Mapping[str, float]) -> None:
            states.append(net.parameters["weight"].numpy().tobytes())

    early = nn.EarlyStopping(patience=2)
    history = net.fit(X, Y, epochs=9, callbacks=[Script(3, 1, 2, math.nan, 0), Note(), early])
    assert (len(history), history.complete) == (4, False)
    assert history.reason == "val_loss was best with 1, 2 epochs ago"
    assert net.parameters["weight"].numpy().tobytes() == states[1]


def test_a_figure_that_is_no_number_from_the_first_epoch_on_stops_training_too() -> None:
    nothing = [math.nan] * 6
    assert len(model().fit(X, Y, epochs=6, callbacks=[Script(*nothing), nn.EarlyStopping(patience=2)])) == 3
    late = [math.nan, 3, 2, math.nan]
    assert len(model().fit(X, Y, epochs=4, callbacks=[Script(*late), nn.EarlyStopping(patience=2)])) == 4


def test_a_score_is_better_when_it_is_larger() -> None:
    history = model().fit(X, Y, epochs=5, callbacks=[Script(1, 2, 3, 2, 2), nn.EarlyStopping("score", 0)])
    assert history["score"] == sorted(history["score"], reverse=True)
    assert len(history) == 2


def test_a_monitor_that_is_not_there_is_told_with_what_is() -> None:
    with pytest.raises(ArgumentError, match=r"monitor='val_loss'; need one of epoch, loss, score"):
        model().fit(X, Y, callbacks=[nn.EarlyStopping()])


def test_checkpoints_of_the_best_epochs_stay(tmp_path: Path) -> None:
    net, keeper = model(), nn.BestCheckpoints(tmp_path / "best", keep=2)
    net.fit(X, Y, epochs=5, callbacks=[Script(5, 3, 4, 6, 2), keeper])
    assert sorted(path.name for path in (tmp_path / "best").iterdir()) == [
        "epoch-0002.safetensors",
        "epoch-0005.safetensors",
    ]
    assert keeper.best.name == "epoch-0005.safetensors"
    other = model()
    assert nn.load_checkpoint(keeper.best, other).updates == net.updates
    assert other.predict(X).tobytes() == net.predict(X).tobytes()


def test_no_epoch_has_no_best_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no epoch"):
        nn.BestCheckpoints(tmp_path).best


def test_logs_have_a_line_per_epoch_and_go_on(tmp_path: Path) -> None:
    net, table, lines = model(), tmp_path / "log.csv", tmp_path / "log.jsonl"
    logs = [nn.CSVLog(table), nn.JSONLog(lines, updates=True)]
    first = net.fit(X, Y, epochs=2, batch_size=12, callbacks=logs)
    net.fit(X, Y, epochs=1, batch_size=12, callbacks=logs)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows[:2]] == first["loss"]
    assert len(rows) == 3
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert len(found) == 3 + 6
    assert [row["update"] for row in found if "update" in row] == [1, 2, 3, 4, 5, 6]


def test_training_stops_after_a_loss_that_is_no_number(tmp_path: Path) -> None:
    broken = np.array(X)
    broken[0] = np.inf
    net = model()
    with np.errstate(all="ignore"):
        history = net.fit([(X, Y), (broken, Y), (X, Y)], callbacks=[nn.StopOnNaN(), nn.JSONLog(tmp_path / "a", True)])
    assert net.updates == 2
    assert history.reason.startswith("the loss was")
    assert json.loads((tmp_path / "a").read_text().splitlines()[-1])["loss"] is None


def test_the_rate_falls_on_a_plateau_and_state_goes_on() -> None:
    net = model(0.01)
    reduce = nn.ReduceOnPlateau(factor=0.5, patience=2, least=0.004)
    net.fit(X, Y, epochs=6, callbacks=[Script(1, 1, 1, 1, 1, 1), reduce])
    assert net.optimizer.rate == 0.004
    assert net.states["weight.momentum"].numpy().any()
    assert net.since == 0
    scheduled = model()
    scheduled.optimizer = nn.SGD(nn.Constant(0.1))
    with pytest.raises(UsageError, match="plain rate"):
        scheduled.fit(X, Y, epochs=3, callbacks=[Script(1, 1, 1), nn.ReduceOnPlateau(patience=1)])


def test_progress_is_printed() -> None:
    out = io.StringIO()
    model().fit(X, Y, epochs=2, callbacks=[nn.PrintedProgress(out)])
    assert [line.split()[:3] for line in out.getvalue().splitlines()] == [
        ["epoch", "1/2", "loss"],
        ["epoch", "2/2", "loss"],
    ]


def test_a_rate_is_found_on_a_copy() -> None:
    net = model()
    before = net.predict(X).tobytes()
    sweep = nn.find_rate(net, X, Y, low=1e-4, high=100.0, steps=60, batch_size=12)
    assert net.predict(X).tobytes() == before
    assert 1e-3 < sweep.best < 1.0
    assert len(sweep.rates) == len(sweep.losses) < 60
    assert list(sweep.rates) == sorted(sweep.rates)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_moves_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnc.nn.callbacks.progress_bar.PAUSE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen, file, asked = Terminal(), io.StringIO(), io.StringIO()
    bars = [nn.ProgressBar(screen), nn.ProgressBar(file), nn.ProgressBar(asked, always=True)]
    model().fit(X, Y, epochs=2, batch_size=12, callbacks=bars)
    assert file.getvalue() == ""
    assert [line.split()[:2] for line in asked.getvalue().splitlines()] == [["epoch", "1/2"], ["epoch", "2/2"]]
    assert "\x1b" not in asked.getvalue()
    assert "\r\x1b[32m" + "━" * 10 + "\x1b[0m" + "─" * 10 + "  epoch 1/2  1/2  loss" in screen.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    model().fit(X, Y, epochs=2, batch_size=12, callbacks=[nn.ProgressBar(plain)])
    assert "\x1b[32m" not in plain.getvalue()
    assert "━" in plain.getvalue()


def test_a_last_checkpoint_takes_training_up_again_to_the_same_bits(tmp_path: Path) -> None:
    def batches() -> Batches:
        return Batches(Examples("rows", X, Y), 10, seed=1)

    whole, broken, resumed = model(), model(), model()
    whole.fit(batches(), epochs=3)
    path = tmp_path / "runs" / "last.safetensors"

    def interrupt(progress: nn.Progress) -> None:
        if broken.updates == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken.fit(batches(), epochs=3, callbacks=[interrupt, nn.LastCheckpoint(path)])
    rest = batches()
    rest.restore(nn.load_checkpoint(path, resumed).batches)
    resumed.fit(rest, epochs=2)
    assert resumed.updates == whole.updates == 9
    assert resumed.predict(X).tobytes() == whole.predict(X).tobytes()


def test_a_last_checkpoint_may_be_written_between_epochs(tmp_path: Path) -> None:
    seen: list[int] = []
    keeper = nn.LastCheckpoint(tmp_path / "a.safetensors", updates=2)

    def look(progress: nn.Progress) -> None:
        seen.append(nn.read_position(tmp_path / "a.safetensors").updates if net.updates > 1 else 0)

    net = model()
    net.fit(X, Y, batch_size=5, callbacks=[keeper, look])
    assert seen == [0, 2, 2, 4, 4]


def test_each_callback_is_told_of_the_end_whatever_another_one_raises() -> None:
    told: list[str] = []

    class Loud(nn.Callback):
        def on_train_begin(self, run: nn.Run) -> None:
            told.append("begin")

        def on_train_end(self, run: nn.Run) -> None:
            told.append("end")
            raise ValueError("end")

    class Refusing(nn.Callback):
        def on_train_begin(self, run: nn.Run) -> None:
            raise KeyError("begin")

        def on_train_end(self, run: nn.Run) -> None:
            told.append("never begun")

    net = model()
    with pytest.raises(ValueError, match="end"):
        net.fit(X, Y, callbacks=[Loud(), Loud(), Refusing()])
    assert (told, net.updates) == (["begin", "begin", "end", "end"], 0)


LOGS: dict[str, Callable[[Path], nn.Callback]] = {
    "CSVLog": nn.CSVLog,
    "JSONLog": nn.JSONLog,
    "TensorBoardLog": nn.TensorBoardLog,
    "LastCheckpoint": nn.LastCheckpoint,
    "BestCheckpoints": lambda folder: nn.BestCheckpoints(folder, "loss"),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_disk_that_gets_full_is_an_error_of_ours_and_leaves_no_half_records(name: str, tmp_path: Path) -> None:
    """No file may grow by more than 9 bytes over what the first epoch wrote: to writers the same as a full disk."""
    resource, place = pytest.importorskip("resource"), tmp_path / "log"

    def sizes() -> dict[Path, int]:
        return {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}

    callback, net = LOGS[name](place), model()
    net.fit(X, Y, epochs=1, callbacks=[callback] if name.endswith("Log") else [])
    before, limits = sizes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(before.values(), default=0) + 9, limits[1]))
    try:
        with pytest.raises(UsageError, match="file too large"):
            net.fit(X, Y, epochs=99, callbacks=[callback])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {path: sizes()[path] for path in before} == before
    assert net.updates > 1


def test_progress_that_nobody_can_read_is_an_error_of_ours() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full")
    for callback in (nn.PrintedProgress, lambda file: nn.ProgressBar(file, always=True)):
        with full.open("w") as file:
            with pytest.raises(FormatError, match="/dev/full: got no space left on device"):
                model().fit(X, Y, callbacks=[callback(file)])
            with contextlib.suppress(OSError):
                file.close()


@pytest.mark.parametrize("log", [nn.CSVLog, nn.JSONLog])
def test_a_log_on_a_full_device_is_an_error_of_ours(log: Callable[[Path], nn.Callback]) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full")
    with pytest.raises(FormatError, match="/dev/full: got "):
        model().fit(X, Y, callbacks=[log(full)])
