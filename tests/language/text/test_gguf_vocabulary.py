"""Vocabularies of GGUF files cut text as llama.cpp does, and those that are none are errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.language.small_models import text_values

pytest.importorskip("tokenizers", reason="the extra language is not installed")

from nnc.errors import FormatError
from nnc.language.gguf import GgufFile, read_gguf, write_gguf
from nnc.language.text.gguf_vocabulary import starts_text, tokenizer_of

AWKWARD = (
    "hello the in", "  two  spaces   ", "\n\n\t", "1234567890", "🎉 👩‍👩‍👧‍👦", "日本語", "e\u0301 é", "don't I'LL",
    "<|im_start|>user\nhi<|im_end|>", "a<|im_end|>b", "<|im_start", "\x00\x01", "", "𝔘𝔫𝔦", "trailing ",
)  # fmt: skip


def file_of(place: Path, values: dict[str, object]) -> GgufFile:
    write_gguf(place, values, [])  # type: ignore[arg-type]  # plain values
    return read_gguf(place)


@pytest.mark.parametrize("text", AWKWARD)
def test_bytes_that_are_merged_give_the_text_back(text: str, tmp_path: Path) -> None:
    made = tokenizer_of(file_of(tmp_path / "a.gguf", text_values()))
    tokens = made.encode(text, add_special_tokens=False).ids
    assert made.decode(tokens, skip_special_tokens=False) == text


def test_merges_and_control_tokens_are_those_of_the_file(tmp_path: Path) -> None:
    made = tokenizer_of(file_of(tmp_path / "a.gguf", text_values()))
    assert made.encode("hello the<|im_end|>").tokens == ["hell", "o", "Ġthe", "<|im_end|>"]
    assert made.decode(made.encode("<|im_start|>hello").ids) == "hello"


PIECES = ("<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "h", "i", "hi", "▁hi", "▁h")


def pieces(**changed: object) -> dict[str, object]:
    kinds = np.array([2, 3, 3, *[6] * 256, *[1] * 6], np.int32)
    scores = np.array([0.0, 0.0, 0.0, *[0.0] * 256, -5.0, -6.0, -7.0, -1.0, -0.5, -3.0], np.float32)
    return text_values(model="llama", pre=None, tokens=PIECES, token_type=kinds, scores=scores, merges=None, **changed)


def test_pieces_are_merged_by_score_and_unknown_characters_are_bytes(tmp_path: Path) -> None:
    file = file_of(tmp_path / "a.gguf", pieces())
    made = tokenizer_of(file)
    assert made.encode("hi hi").tokens == ["▁hi", "▁hi"]
    assert made.encode("hi é").tokens == ["▁hi", "▁", "<0xC3>", "<0xA9>"]
    assert made.decode(made.encode("hi é").ids) == "hi é"
    assert starts_text(file)
    without = tokenizer_of(file_of(tmp_path / "b.gguf", pieces(add_space_prefix=False)))
    assert without.encode("hi hi").tokens == ["hi", "▁hi"]


def test_the_likeliest_pieces_are_taken_of_a_unigram(tmp_path: Path) -> None:
    values = {**pieces(), "tokenizer.ggml.model": "t5"}
    assert tokenizer_of(file_of(tmp_path / "a.gguf", values)).encode("hi hi").tokens == ["▁hi", "▁hi"]


WRONG = {
    "no vocabulary": ({"model": None}, "no tokenizer"),
    "unknown": ({"model": "words"}, "kind 'words'; need one of gpt2"),
    "a number": ({"model": 3}, "kind 3"),
    "no tokens": ({"tokens": None}, "no tokens"),
    "numbers": ({"tokens": np.zeros(3, np.int32)}, "need an array of texts"),
    "a token twice": ({"tokens": ("a", "a")}, "a token twice"),
    "few kinds": ({"token_type": np.zeros(3, np.int32)}, "kinds of 3 tokens"),
    "an unknown merge": ({"merges": ("q zz",)}, "a merge 'q zz'"),
    "no space": ({"merges": ("qq",)}, "a merge 'qq'"),
    "unknown cuts": ({"pre": "spiral"}, "cut as 'spiral'"),
    "no scores": ({"model": "llama"}, "0 scores"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_vocabulary_that_does_not_fit_is_an_error(name: str, tmp_path: Path) -> None:
    changes, match = WRONG[name]
    with pytest.raises(FormatError, match=match):
        tokenizer_of(file_of(tmp_path / "a.gguf", text_values(**changes)))
