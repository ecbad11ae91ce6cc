"""nnc train images and nnc predict: a class for each folder, from end to end."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from nnc.nn import Model

pillow = pytest.importorskip("PIL.Image", reason="the extra data is not installed")
OPTIONS = ("--batch-size", "8", "--json")


@pytest.fixture
def pictures(folder: Path) -> Path:
    """Twelve red and twelve blue images with noise."""
    random = np.random.default_rng(0)
    for channel, name in enumerate(("red", "blue")):
        place = folder / "pictures" / name
        place.mkdir(parents=True)
        for number in range(12):
            pixels = random.integers(0, 120, (20, 24, 3), np.uint8)
            pixels[..., 2 * channel] += 130
            pillow.fromarray(pixels).save(place / f"{number:02}.png")
    return folder / "pictures"


def test_classes_are_learned_named_and_resumed_to_the_same_bits(call, pictures, monkeypatch) -> None:
    options = ("train", "images", pictures, "--epochs", "6", *OPTIONS)
    whole = json.loads(call(*options, "--checkpoint", "whole").out)
    assert (whole["test_accuracy"], whole["test_examples"], whole["updates"]) == (1.0, 6, 18)
    original = Model.training_pass

    def training_pass(model: Model, *batch: object, **named: object) -> object:
        if model.updates == 7:
            signal.raise_signal(signal.SIGINT)
        return original(model, *batch, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Model, "training_pass", training_pass)
        assert call(*options).code == 130
    assert json.loads(call(*options, "--resume").out)["sha256"] == whole["sha256"]
    files = [pictures / "red" / "00.png", pictures / "blue" / "05.png"]
    rows = json.loads(call("predict", "images", *files, "--json").out)["predictions"]
    assert [row["predicted"] for row in rows] == ["red", "blue"]
    assert call("predict", "images", files[0]).out.startswith(f"{files[0]}: red ")


def test_a_changed_folder_cannot_be_resumed(call, pictures) -> None:
    call("train", "images", pictures, "--epochs", "0")
    (pictures / "red" / "00.png").rename(pictures / "red" / "99.png")
    assert "need the same data" in call("train", "images", pictures, "--resume").complaint()


def test_images_that_cannot_be_read_stop_the_run_by_name(call, pictures) -> None:
    (pictures / "red" / "03.png").write_bytes(b"no image")
    assert "red/03.png" in call("train", "images", pictures, "--epochs", "1").err
    call("train", "images", pictures, "--epochs", "0", "--checkpoint", "images.safetensors")
    assert "absent.png: got no such file" in call("predict", "images", "absent.png").complaint()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent"], "no such file"),
        ([], "0 paths for images"),
        (["pictures/red"], "no images"),
        (["one"], "at least two classes"),
        (["pictures", "--target", "x"], "--target"),
    ],
    ids=str,
)
def test_what_is_no_folder_of_classes_is_refused(call, pictures, arguments: list[str], words: str) -> None:
    shutil.copytree(pictures / "red", pictures.parent / "one" / "red")
    assert words in call("train", "images", *arguments).complaint()
