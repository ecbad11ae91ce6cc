"""`fit(report=…)`: a page with curves, the step's memory and the time of layers; training is the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnc import nn
from nnc.core.values.dtype import I32
from nnc.core.values.recorder import PROFILER
from nnc.errors import UsageError
from nnc.nn.data import DataFrame

X = np.random.default_rng(0).random((48, 6), dtype=np.float32)
Y = (X.sum(1) > 3).astype(np.int32)


def model() -> nn.Model:
    return nn.Model(nn.Sequential(hidden=nn.Dense(8), act=nn.ReLU(), head=nn.Dense(2)), (6,))


def data_of(path: Path) -> Any:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_page_has_curves_memory_and_time_and_training_is_the_same(tmp_path: Path) -> None:
    plain, told = model(), model()
    expected = plain.fit(X, Y, epochs=2, batch_size=8)
    history = told.fit(X, Y, epochs=2, batch_size=8, report=tmp_path / "run.html", validation_data=(X, Y))
    assert history["loss"] == expected["loss"]
    assert all(np.array_equal(told.tensors()[path].numpy(), one.numpy()) for path, one in plain.tensors().items())
    data = data_of(tmp_path / "run.html")
    assert dict(data["curves"])["loss"] == history["loss"]
    assert "val_score" in dict(data["curves"])
    assert data["maps"][0]["arena"] == told.training_step(8).compiled.memory().arena
    layers = [row[0] for row in data["tables"][0][2]]
    assert {"hidden", "head"} <= set(layers)
    runs = {bar[4] for bar in data["bars"]}
    assert runs <= {step[0] for step in data["maps"][0]["steps"]}
    assert PROFILER.recorders == ()


def test_a_training_that_breaks_off_leaves_a_page_and_no_profile(tmp_path: Path) -> None:
    def fail(progress: nn.Progress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        model().fit(X, Y, callbacks=[fail], report=str(tmp_path / "run.html"))
    assert data_of(tmp_path / "run.html")["curves"] == []
    assert PROFILER.recorders == ()


def test_batches_of_several_sizes_have_a_page_too(tmp_path: Path) -> None:
    model().fit([(X[:5], Y[:5]), (X[:7], Y[:7])], epochs=2, report=tmp_path / "run.html")
    assert len(data_of(tmp_path / "run.html")["curves"][0][1]) == 2


def test_a_page_that_cannot_be_written_is_refused_before_the_first_update(tmp_path: Path) -> None:
    told = model()
    for place in (tmp_path / "missing" / "run.html", tmp_path):
        with pytest.raises(UsageError, match="need"):
            told.fit(X, Y, epochs=1, report=place)
    assert told.updates == 0
    assert PROFILER.recorders == ()
    assert list(tmp_path.iterdir()) == []


def test_frames_and_open_sizes_have_a_page(tmp_path: Path) -> None:
    frame = DataFrame({"x": X, "y": Y}, seed=1).shuffle().batch(8).examples("x", "y")
    model().fit(frame, epochs=2, report=tmp_path / "frame.html")
    data = data_of(tmp_path / "frame.html")
    assert (len(data["maps"]), len(data["curves"][0][1])) == (1, 2)
    tokens = [np.arange(2 * steps, dtype=np.int32).reshape(2, steps) % 5 for steps in (3, 5, 8, 2, 7)]
    layer = nn.Sequential(nn.Embedding(5, 4), nn.Dense(5))
    nn.Model(layer, (nn.UpTo(8),), input_dtype=I32).fit([(row, row) for row in tokens], report=tmp_path / "open.html")
    data = data_of(tmp_path / "open.html")
    assert np.isfinite(dict(data["curves"])["loss"]).all()
    assert data["bars"]
