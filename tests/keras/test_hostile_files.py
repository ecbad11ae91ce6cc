"""Files of models that nobody should trust: each is a FormatError, and does nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nnc
from nnc import keras
from nnc.core.values.serialize import load_tensors, save_tensors

Facts = dict[str, Any]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    path = tmp_path / "model.keras"
    model.save(path)
    return path


def changed(path: Path, change: Callable[[Facts], object]) -> None:
    stored = load_tensors(path)
    facts = json.loads(stored.metadata["nnc.keras"])
    change(facts)
    save_tensors(path, dict(stored.tensors), {"nnc.keras": json.dumps(facts)})


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


CHANGES: dict[str, Callable[[Facts], object]] = {
    "no layers": lambda facts: facts.pop("layers"),
    "no version": lambda facts: facts.pop("version"),
    "another version": lambda facts: facts.update(version=99),
    "a layer that is none": lambda facts: facts.update(model=77),
    "a text for a number": lambda facts: facts.update(model="first"),
    "a layer in itself": lambda facts: facts["layers"][0].update(sequential=[{"layer": 0}]),
    "an unknown kind": lambda facts: facts.update(compiled=[{"shell": "ls"}] * 5),
    "an option that is none": lambda facts: facts["layers"][1]["made"]["options"].update(map=[["colour", 1]]),
    "an activation that is none": lambda facts: facts["layers"][1]["made"].update(args=[3, "rellu"]),
    "half of compile": lambda facts: facts.update(compiled=[]),
    "a huge layer": lambda facts: facts["layers"][1]["made"].update(args=[1 << 40]),
    "another size": lambda facts: facts["layers"][1]["made"].update(args=[2]),
    "an array of objects": lambda facts: facts.update(compiled=[{"array": [[1], 2], "of": "O"}] * 5),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_description_is_a_clear_error(saved: Path, name: str) -> None:
    changed(saved, CHANGES[name])
    with pytest.raises(nnc.errors.NncError, match="load_model|model.keras|expected|need"):
        keras.models.load_model(saved)


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "builtins.exec",
        "nnc.keras.models.save_model",
        "nnc.keras.engine.writing.write_model",
        "nnc.core.values.serialize.save_tensors",
        "nnc.keras.callbacks.CSVLogger",
        "nnc.keras.engine.nothing.Dense",
        "nnc.keras.ops._is_wide",
        "_operator.call",
    ],
)
@pytest.mark.parametrize("place", ["made", "function"])
def test_a_file_names_layers_and_functions_of_arrays_alone(saved: Path, tmp_path: Path, name: str, place: str) -> None:
    target = tmp_path / "target"
    value = {"made": {"of": name, "args": [str(target)], "options": {"map": []}}, "function": name}
    changed(saved, lambda facts: facts["layers"][1]["made"].update(args=[3, {place: value[place]}]))
    with pytest.raises(nnc.errors.FormatError, match="need a"):
        keras.models.load_model(saved)
    assert not target.exists()


def test_a_file_that_ends_early_is_a_clear_error(saved: Path) -> None:
    content = saved.read_bytes()
    for size in (0, 4, 100, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:size])
        with pytest.raises(nnc.errors.FormatError):
            keras.models.load_model(saved)


@pytest.mark.parametrize("text", ["", "{", nested(200_000), "[]", "null", "7"])
def test_a_description_that_is_none_is_a_clear_error(saved: Path, text: str) -> None:
    save_tensors(saved, dict(load_tensors(saved).tensors), {"nnc.keras": text})
    with pytest.raises(nnc.errors.FormatError):
        keras.models.load_model(saved)


def test_files_of_hdf5_are_told_as_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "model.h5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(600))
    with pytest.raises(nnc.errors.FormatError, match="HDF5"):
        keras.models.load_model(path)


def test_archives_of_keras_are_told_as_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    path.write_bytes(b"PK\x03\x04" + bytes(600))
    with pytest.raises(nnc.errors.FormatError, match="zip"):
        keras.models.load_model(path)
