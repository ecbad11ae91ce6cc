"""Training by a library: the bits of our own updates, and weights that a library for predictions reads."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from tests.export.compiled_c import Array, aligned_bytes, checked, run, shared

from nnc import export, nn
from nnc.errors import UsageError
from nnc.nn.data import load_digits

BATCH, UPDATES, RATE = 64, 200, 5e-3


def small_model() -> nn.Model:
    layers = nn.Sequential(nn.Flatten(), nn.Dense(64), nn.BatchNorm(), nn.ReLU(), nn.Dropout(0.1), nn.Dense(10))
    return nn.Model(layers, (8, 8, 1), optimizer=nn.Adam(RATE))


def first_state(code: ctypes.CDLL, library: export.CLibrary) -> Array:
    state = aligned_bytes(library.state_bytes)
    given = (ctypes.c_ubyte * library.state_bytes).in_dll(code, f"{library.name}_initial_state")
    state[:] = np.frombuffer(given, np.uint8)
    return state


def test_digits_are_learned_by_a_library_with_the_bits_of_our_own_updates(tmp_path: Path) -> None:
    model, digits = small_model(), load_digits()
    train = export.library(model, "learn", function="train", batch=BATCH)
    predict = export.library(model, "tell", function="apply", batch=len(digits.test.labels))
    learn, tell = shared(train, tmp_path), shared(predict, tmp_path)
    state = first_state(learn, train)
    held = digits.test.inputs, digits.test.labels

    def accuracy() -> float:
        (scores,) = run(tell, predict, held[0], state=state[: predict.state_bytes])
        return float((scores.argmax(axis=1) == held[1]).mean())

    assert accuracy() < 0.4
    rate = np.array([RATE], np.float32)
    examples, labels = digits.train.inputs, digits.train.labels
    for update in range(UPDATES):
        rows = np.arange(update * BATCH, (update + 1) * BATCH) % len(labels)
        x, y = np.ascontiguousarray(examples[rows]), labels[rows].astype(np.int32)
        loss, score = run(learn, train, x, y, rate, state=state)
        assert (float(loss), float(score)) == model.train_on_batch(x, y)
    assert accuracy() >= 0.95
    weights = np.concatenate([model.parameters[path].numpy().reshape(-1) for path in sorted(model.parameters)])
    assert (
        weights.tobytes()
        == np.concatenate(
            [
                state[row.offset : row.offset + row.nbytes].view(np.float32)
                for row in sorted(train.state, key=lambda row: row.name)
                if row.name in model.parameters
            ]
        ).tobytes()
    )


def test_a_recorded_update_is_met(tmp_path: Path) -> None:
    made = export.library(small_model(), "learn", function="train", batch=4)
    assert checked(made, tmp_path, "gcc") == "learn: the recorded answers\n"


def test_an_update_of_a_limited_arena_is_a_library_of_that_arena(tmp_path: Path) -> None:
    layers = nn.Sequential(*(nn.Dense(64) for _ in range(8)), nn.Dense(10))
    free = nn.Model(layers, (64,))
    limit = free.training_step(64).compiled.memory().arena * 3 // 4
    limited = nn.Model(layers, (64,), memory_limit=limit)
    made = export.library(limited, "limited", function="train", batch=64)
    assert made.plan_bytes <= limit
    assert checked(made, tmp_path, "gcc") == "limited: the recorded answers\n"


def test_what_is_no_update_is_refused() -> None:
    scaled = nn.Model(nn.Dense(2), (4,), loss_scale=nn.LossScale())
    with pytest.raises(UsageError, match="loss_scale"):
        export.library(scaled, "scaled", function="train")
