"""Vectors of texts: encoders give what transformers does, however texts are put together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.language.small_models import COLUMNS, ENCODERS, ROWS, TOKENS, cases, weights, write_folder, write_small_gguf

pytest.importorskip("tokenizers", reason="the extra language is not installed")

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from nnc import language
from nnc.errors import DataError, FormatError, UsageError
from nnc.language.architectures import open_encoder, open_files
from nnc.language.gguf import TensorSource, write_gguf
from nnc.language.text.tokenizer import text_tokenizer


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


NAMES = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
# A word, and a piece within a word, as vocabularies of BERT have them; files of GGUF mark the words instead.
SPECIAL, LETTERS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), "abcdefghij"
PIECES = [*SPECIAL, *LETTERS, *(f"##{each}" for each in LETTERS), "head", "##bed", "face", ",", "the"]


def encoder_gguf(path: Path, name: str, tokenizer: dict[str, Any], **more: Any) -> Path:
    """A file as llama.cpp's conversion writes it: roberta without the two places before those of texts."""
    config = cases()[name]["config"]
    values = {
        "general.architecture": "bert",
        "bert.embedding_length": config["hidden_size"],
        "bert.block_count": config["num_hidden_layers"],
        "bert.attention.head_count": config["num_attention_heads"],
        "bert.attention.causal": False,
        "bert.attention.layer_norm_epsilon": float(config["layer_norm_eps"]),
        "bert.feed_forward_length": config["intermediate_size"],
        "bert.context_length": config["max_position_embeddings"],
        **{f"tokenizer.ggml.{key}": value for key, value in tokenizer.items()},
        **more,
    }
    tensors = []
    for stored, array in weights(name).items():
        theirs, _, kind = stored.removeprefix(f"{config['model_type'].replace('xlm-', '')}.").rpartition(".")
        layer, theirs = re.match(r"(?:encoder\.layer\.(\d+)\.)?(.*)", theirs).groups()  # type: ignore[union-attr]
        if theirs in NAMES:
            own = NAMES[theirs] if layer is None else f"blk.{layer}.{NAMES[theirs]}"
            first = config["pad_token_id"] + 1 if name != "bert" and own == "position_embd" else 0
            tensors.append(TensorSource.of(f"{own}.{kind}", array[first:]))
    write_gguf(path, values, tensors)
    return path


def word_pieces() -> dict[str, Any]:
    pieces = [*PIECES, *(f"[unused{number}]" for number in range(48 - len(PIECES)))]
    tokens = [each if each[0] == "[" else each[2:] if each[:2] == "##" else f"▁{each}" for each in pieces]
    kinds = np.array([3 if each in SPECIAL else 1 for each in pieces], np.int32)
    return {"model": "bert", "tokens": tuple(tokens), "token_type": kinds, "seperator_token_id": 3}


def test_the_encoder_of_a_gguf_file_gives_what_its_folder_does(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model", "bert")
    pieces = {piece: number for number, piece in enumerate(PIECES)}
    words = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    words.normalizer, words.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    words.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    words.save(str(folder / "tokenizer.json"))
    texts = ["The faced, headbed a", "Äbc", "zebra", "head" * 3]
    path = encoder_gguf(tmp_path / "a.gguf", "bert", word_pieces())
    files = open_encoder(path)
    assert files is not None
    encode = text_tokenizer(files).encode_whole
    assert [encode(text) for text in texts] == [words.encode(text).ids for text in texts]
    np.testing.assert_array_equal(language.embed(path, texts), language.embed(folder, texts))
    first = encoder_gguf(tmp_path / "b.gguf", "bert", word_pieces(), **{"bert.pooling_type": 2})
    assert np.abs(language.embed(first, texts) - language.embed(path, texts)).max() > 1e-3
    with pytest.raises(FormatError, match=r"pooling 3; need 1 \(mean\) or 2"):
        language.embed(encoder_gguf(tmp_path / "c.gguf", "bert", word_pieces(), **{"bert.pooling_type": 3}), texts)
    with pytest.raises(UsageError, match="bert, an encoder of texts; need a decoder.*nnc embed"):
        open_files(path)


def test_capitals_count_where_the_vocabulary_has_some(tmp_path: Path) -> None:
    held = word_pieces()
    path = encoder_gguf(tmp_path / "a.gguf", "bert", {**held, "tokens": ("▁The", *held["tokens"][1:])})
    files = open_encoder(path)
    assert files is not None
    assert text_tokenizer(files).encode_whole("The the THE") == [2, 0, PIECES.index("the"), 1, 3]
    twice = {**held, "tokens": (*held["tokens"][:-1], "##a"), "token_type": held["token_type"]}
    files = open_encoder(
        encoder_gguf(tmp_path / "b.gguf", "bert", {**twice, "tokens": (*twice["tokens"][:-1], "▁##a")})
    )
    assert files is not None
    with pytest.raises(FormatError, match="a piece twice"):
        text_tokenizer(files)


def test_places_of_a_gguf_file_are_those_of_texts_and_its_ends_are_named(tmp_path: Path) -> None:
    folder = encoder_folder(tmp_path / "model", "roberta")
    # GGUF files do not say which one; the usual one is meant.
    (folder / "config.json").write_text(json.dumps({**cases()["roberta"]["config"], "hidden_act": "gelu"}))
    tokens = tuple(f"▁w{word}" for word in range(48))
    scores = np.zeros(48, np.float32)
    frame = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
    held = {"model": "t5", "tokens": tokens, "scores": scores, **frame}
    path = encoder_gguf(tmp_path / "a.gguf", "roberta", held)
    texts = ["w3 w40", "w7"]
    np.testing.assert_array_equal(language.embed(path, texts), language.embed(folder, texts))


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
