"""Importance of inputs by texts: the mean square of what a matrix is multiplied with, and blocks that follow it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.language.small_models import write_text_model
from tests.language.test_folder_conversion import text_folder

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")

from nnc import language
from nnc.core.values.blocks import dequantize, quantize
from nnc.errors import DataError
from nnc.language.architectures import open_files
from nnc.language.calibration import importance_of
from nnc.language.gguf import read_gguf
from nnc.language.text.tokenizer import text_tokenizer

TEXT = "hello the in " * 5


def squares(place: Path) -> np.ndarray:
    """norm(table[tokens])² of the first block, its mean over tokens."""
    file = read_gguf(place)
    table, norm = (file.bytes(f"{name}.weight").view(np.float32) for name in ("token_embd", "blk.0.attn_norm"))
    tokens = text_tokenizer(open_files(place)).encode(TEXT)
    x = table[tokens].astype(np.float64)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * norm[0]
    return (x**2).mean(0)


def test_importance_is_the_mean_square_of_inputs(tmp_path: Path) -> None:
    place = write_text_model(tmp_path / "a.gguf")
    files = open_files(place)
    tokens = text_tokenizer(files).encode(TEXT)
    (tmp_path / "a.txt").write_text(TEXT)
    # All tokens of the text are read, in one row of which some places are empty; the end behind it is not.
    importance = importance_of(files, tmp_path / "a.txt", len(tokens) + 2, "reference")
    np.testing.assert_allclose(importance["block0.attention.key"], squares(place), rtol=1e-4)
    assert importance["block0.feed_forward.narrow"].shape == (64,)
    assert "block0.attention.query" in importance


def test_errors_of_blocks_count_by_importance(tmp_path: Path) -> None:
    place = write_text_model(tmp_path / "a.gguf")
    (tmp_path / "a.txt").write_text(TEXT)
    for output, texts in (("plain.gguf", None), ("weighed.gguf", tmp_path / "a.txt")):
        language.quantize(place, "q4_1", tmp_path / output, calibration=texts, backend="reference")
    name = "blk.0.attn_k.weight"
    values = read_gguf(place).bytes(name).view(np.float32)
    weights = importance_of(open_files(place), tmp_path / "a.txt", backend="reference")["block0.attention.key"]
    errors = {}
    for output in ("plain", "weighed"):
        data = read_gguf(tmp_path / f"{output}.gguf").bytes(name)
        errors[output] = float((weights * (dequantize(data, "q4_1") - values) ** 2).sum())
    assert (read_gguf(tmp_path / "weighed.gguf").bytes(name) == quantize(values, "q4_1", weights)).all()
    assert errors["weighed"] < 0.95 * errors["plain"]


def test_folders_and_experts_are_weighed_too(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"prompt": "!#", "chosen": "$%%%", "rejected": "&$"}')
    folder = text_folder(tmp_path / "model", "mixtral")
    report = language.quantize(
        folder, "q8_0", tmp_path / "a.gguf", calibration=tmp_path / "a.jsonl", backend="reference"
    )
    assert report.error < 0.01
    names = importance_of(open_files(tmp_path / "a.gguf"), tmp_path / "a.jsonl", backend="reference").keys()
    assert {"block1.feed_forward.expert3.narrow", "block0.feed_forward.router", "head"} <= names


def test_texts_without_a_token_to_read_are_an_error(tmp_path: Path) -> None:
    place = write_text_model(tmp_path / "a.gguf")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(DataError, match="nothing is learned"):
        language.quantize(place, "q4_1", tmp_path / "b.gguf", calibration=tmp_path / "a.txt")
    assert not (tmp_path / "b.gguf").exists()
