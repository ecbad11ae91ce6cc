"""Folders become GGUF files of the same network, tokenizer and texts; what such files do not say is an error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.language.small_models import TEMPLATE, TOKENS, cases, decoders, vocabulary, write_folder

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from tokenizers import decoders as tokens_decoders

from nnc import language
from nnc.errors import FormatError, UsageError
from nnc.language.architectures import ModelFiles, open_files
from nnc.language.gguf import read_gguf, write_gguf
from nnc.language.text.gguf_vocabulary import WHOLE_KEY
from nnc.language.text.tokenizer import text_tokenizer

# Networks that metadata and tensors of GGUF files say as a whole.
CONVERTED = [name for name in decoders() if name not in ("phi3", "llama_yarn", "gemma2", "gemma3")]


def text_folder(folder: Path, name: str) -> Path:
    """A folder of a case with a tokenizer of bytes; a network of fewer tokens never gives the others."""
    write_folder(folder, name)
    words = {token: number for number, token in enumerate(vocabulary())}
    encoder = Tokenizer(models.BPE(words, [("h", "e"), ("l", "l")]))
    encoder.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    encoder.decoder = tokens_decoders.ByteLevel()
    encoder.add_special_tokens(
        [AddedToken(token, special=True) for token in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
    )
    encoder.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "<|im_end|>", "bos_token": "<|endoftext|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def logits(files: ModelFiles) -> np.ndarray:
    model = files.model(64)
    model.backend = "reference"
    return np.asarray(model.predict(TOKENS)[0])


@pytest.mark.parametrize("name", CONVERTED)
def test_a_folder_and_its_file_are_the_same_network(name: str, tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "model", name)
    report = language.quantize(folder, "f32", tmp_path / "a.gguf")
    assert report.error == 0.0
    want = logits(open_files(folder))
    made = logits(open_files(tmp_path / "a.gguf"))
    assert np.abs(made - want).max() <= 1e-5 * np.abs(want).max()


def test_texts_are_the_same_in_both_forms_of_a_vocabulary(tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "model", "llama_biases")
    language.quantize(folder, "f16", tmp_path / "a.gguf")
    file = read_gguf(tmp_path / "a.gguf")
    assert file.text("tokenizer.ggml.pre") == "gpt-2"
    plain = {key: value for key, value in file.metadata.items() if key != WHOLE_KEY}
    write_gguf(tmp_path / "b.gguf", plain, [])
    chat = [{"role": "user", "content": "hello"}]
    want = text_tokenizer(open_files(folder))
    files = open_files(tmp_path / "a.gguf")
    for made in (text_tokenizer(files), text_tokenizer(replace(files, gguf=read_gguf(tmp_path / "b.gguf")))):
        for text in ("hello é🙂 <|im_end|>x", "  the\n\nin"):
            assert made.encode(text) == want.encode(text)
        assert made.chat(chat) == want.chat(chat)
        assert (made.start, made.end, made.ends) == (want.start, want.end, want.ends)


def test_what_metadata_does_not_say_is_an_error(tmp_path: Path) -> None:
    for name, field in (("llama_yarn", "rotary"), ("gemma2", "scale"), ("phi3", "rotary")):
        with pytest.raises(UsageError, match=f"whose {field} no GGUF file of ours says"):
            language.quantize(text_folder(tmp_path / name, name), "f16", tmp_path / "a.gguf")
    folder = text_folder(tmp_path / "qwen2", "qwen2")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(FormatError, match=r"no tokenizer\.json"):
        language.quantize(folder, "f16", tmp_path / "a.gguf")
    assert not (tmp_path / "a.gguf").exists()


def test_a_folder_is_put_in_blocks(tmp_path: Path) -> None:
    folder = text_folder(tmp_path / "model", "qwen2")
    config = {**cases()["qwen2"]["config"]}
    assert config["hidden_size"] == 16
    report = language.quantize(folder, "q4_k", tmp_path / "a.gguf")
    # Rows of 16 and 24 weights are no whole blocks.
    assert set(report.formats) == {"f16", "f32"}
    assert 0 < report.error < 1e-3
