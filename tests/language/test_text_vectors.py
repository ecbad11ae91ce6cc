"""Vectors of texts: encoders give what transformers does, however texts are put together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.language.small_models import COLUMNS, ENCODERS, ROWS, TOKENS, cases, write_folder, write_small_gguf

pytest.importorskip("tokenizers", reason="the extra language is not installed")

from tokenizers import Tokenizer, models, pre_tokenizers, processors

from nnc import language
from nnc.errors import DataError, FormatError, UsageError
from nnc.language.architectures import open_encoder, open_files


def encoder_folder(folder: Path, name: str) -> Path:
    """A folder with a tokenizer of words, which stand between w1 and w2."""
    write_folder(folder, name)
    words = Tokenizer(models.WordLevel({f"w{word}": word for word in range(48)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(single="w1 $A w2", special_tokens=[("w1", 1), ("w2", 2)])
    words.save(str(folder / "tokenizer.json"))
    return folder


def hidden(folder: Path, size: int, backend: str = "reference") -> np.ndarray:
    files = open_encoder(folder)
    assert files is not None
    model = files.model(files.facts.context)
    model.backend = backend
    tokens, real = np.zeros((2, size), np.int32), np.zeros((2, size), np.bool_)
    tokens[1, : TOKENS.shape[1]], real[1, : TOKENS.shape[1]], real[0, :3] = TOKENS[0], True, True
    return np.asarray(model.predict((tokens, real))[1])


@pytest.mark.parametrize("backend", ["reference", "llvm"])
@pytest.mark.parametrize("name", ENCODERS)
def test_a_folder_gives_what_transformers_does(name: str, backend: str, tmp_path: Path) -> None:
    case = cases()[name]
    for size in (12, 16):
        made = hidden(write_folder(tmp_path / "model", name), size, backend)
        assert np.abs(made[ROWS, :COLUMNS] - np.array(case["logits"])).max() <= 1e-5 * case["largest"]


def test_vectors_are_means_or_first_tokens_whatever_stands_beside(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "model", "bert")
    texts = [" ".join(f"w{word % 40 + 3}" for word in range(size)) for size in (3, 40, 1, 15, 7)] * 5
    vectors = language.embed(folder, texts, backend="reference")
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)
    for place in (0, 1, 2):
        np.testing.assert_allclose(
            language.embed(folder, [texts[place]], backend="reference")[0], vectors[place], atol=1e-5
        )
    files = open_encoder(folder)
    assert files is not None
    model = files.model(64)
    model.backend = "reference"
    row = np.array([[1, 3, 4, 5, 2]], np.int32)
    states = np.asarray(model.predict((row, np.ones_like(row, np.bool_)))[0])
    np.testing.assert_allclose(vectors[0], states.mean(0) / np.linalg.norm(states.mean(0)), atol=1e-5)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    first = language.embed(folder, texts[:1], backend="reference")[0]
    np.testing.assert_allclose(first, states[0] / np.linalg.norm(states[0]), atol=1e-5)
    assert language.embed(folder, []).shape == (0, 16)


WRONG: dict[str, tuple[str, Any, str]] = {
    "another pooling": ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "another pooling; need one of"),
    "two poolings": (
        "1_Pooling/config.json",
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
        "another pooling",
    ),
    "a dense layer": ("modules.json", [{"type": "sentence_transformers.models.Dense"}], "a dense layer behind"),
    "an activation": ("config.json", {"hidden_act": "cube"}, "activation 'cube'"),
    "another width": ("config.json", {"hidden_size": 32}, r"need \[48, 32\]"),
    "more layers": ("config.json", {"num_hidden_layers": 3}, "tensors of 2 blocks; need those of 3"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_folder_that_does_not_fit_is_an_error(name: str, tmp_path: Path) -> None:
    file, held, match = WRONG[name]
    folder = encoder_folder(tmp_path / "model", "bert")
    if file == "config.json":
        held = {**cases()["bert"]["config"], **held}
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(json.dumps(held))
    with pytest.raises(FormatError, match=match):
        language.embed(folder, ["w3"])


def test_an_encoder_writes_no_texts_and_long_texts_are_refused(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "model", "roberta")
    with pytest.raises(UsageError, match="roberta, an encoder of texts; need a decoder.*nnc embed"):
        open_files(folder)
    # Two of the 64 places stand before those of texts.
    with pytest.raises(DataError, match="a text of 63 tokens; need 1 to 62"):
        language.embed(folder, ["w3 " * 61])
    with pytest.raises(UsageError, match="63 tokens; need at most 62"):
        language.embed(folder, ["w3"], context=63)
    assert open_encoder(write_small_gguf(tmp_path / "a.gguf", "qwen2")) is None
