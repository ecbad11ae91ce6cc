"""Which tokens of chats, prompts, texts and preferences are learned, and lines that are none of these."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.language.small_models import write_text_model

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")

from nnc.errors import DataError, FormatError
from nnc.language.architectures import open_files
from nnc.language.text.tokenizer import TextTokenizer, text_tokenizer
from nnc.language.tuning.training_text import Preference, TokenSequence, read_examples

CHAT = [
    {"role": "system", "content": "short"},
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "the in"},
    {"role": "user", "content": "c"},
    {"role": "assistant", "content": "hell"},
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> TextTokenizer:
    return text_tokenizer(open_files(write_text_model(tmp_path_factory.mktemp("models") / "a.gguf")))


def read(tmp_path: Path, tokenizer: TextTokenizer, *rows: Any) -> list[Any]:
    place = tmp_path / "data.jsonl"
    place.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return read_examples(place, tokenizer)


def learned(tokenizer: TextTokenizer, sequence: TokenSequence) -> str:
    return tokenizer.decode(sequence.tokens[sequence.learned].tolist(), special=True)


def test_answers_of_a_chat_are_learned_with_their_ends(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    (first,) = read(tmp_path, tokenizer, {"messages": CHAT})
    assert learned(tokenizer, first) == "the in<|im_end|>hell<|im_end|>"
    assert tokenizer.decode(first.tokens.tolist(), special=True).startswith("<|im_start|>system\nshort<|im_end|>")
    others = [
        {"from": {"assistant": "gpt", "user": "human"}.get(m["role"], m["role"]), "value": m["content"]} for m in CHAT
    ]
    (second,) = read(tmp_path, tokenizer, {"conversations": others})
    assert second.tokens.tolist() == first.tokens.tolist()


def test_completions_and_texts_end(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    completion, text = read(tmp_path, tokenizer, {"prompt": "hello", "completion": " the"}, {"text": "in the"})
    assert learned(tokenizer, completion) == " the<|im_end|>"
    assert learned(tokenizer, text) == "in the<|im_end|>"
    (tmp_path / "a.txt").write_text("hello the")
    (plain,) = read_examples(tmp_path / "a.txt", tokenizer)
    assert isinstance(plain, TokenSequence)
    assert learned(tokenizer, plain) == "hello the<|im_end|>"


def test_preferences_are_of_texts_or_of_messages(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    answers = [[*CHAT[:2], {"role": "assistant", "content": said}] for said in ("the", "in")]
    rows = (
        {"prompt": "hello", "chosen": " the", "rejected": " in"},
        {"prompt": CHAT[:2], "chosen": answers[0][2:], "rejected": answers[1][2:]},
        {"chosen": answers[0], "rejected": answers[1]},
    )
    found = read(tmp_path, tokenizer, *rows)
    assert all(isinstance(each, Preference) for each in found)
    texts = [(learned(tokenizer, each.chosen), learned(tokenizer, each.rejected)) for each in found]
    assert texts == [(" the<|im_end|>", " in<|im_end|>"), *[("the<|im_end|>", "in<|im_end|>")] * 2]
    assert found[1].chosen.tokens.tolist() == found[2].chosen.tokens.tolist()


def test_separators_of_unicode_do_not_end_a_line(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    rows = [json.dumps({"text": "a\u2028b"}, ensure_ascii=False), "", json.dumps({"text": "c"})]
    assert len(read(tmp_path, tokenizer, *rows)) == 2


WRONG: dict[str, tuple[tuple[Any, ...], str]] = {
    "no JSON": (({"text": "a"}, "{"), "line 2: got no JSON"),
    "a list": (([1],), "line 1: got list; need an object"),
    "deep": (("[" * 100_000,), "line 1: got no JSON"),
    "other keys": (({"input": "a"},), "got keys input; need messages, conversations"),
    "no answer": (({"messages": CHAT[:2]},), "line 1: got no answer of the assistant"),
    "no messages": (({"messages": []},), "no messages"),
    "no text": (({"messages": [{"role": "user", "content": 1}]},), "message 0 without texts"),
    "numbers": (({"prompt": 1, "completion": "a"},), "of other kinds"),
    "half of a pair": (({"text": "\ud800"},), "line 1: got half of a surrogate pair"),
    "two kinds": (
        ({"text": "a"}, {"prompt": "a", "chosen": "b", "rejected": "c"}),
        "preferences beside other examples",
    ),
    "nothing": ((), "no lines"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_line_that_is_no_example_is_named(name: str, tmp_path: Path, tokenizer: TextTokenizer) -> None:
    rows, match = WRONG[name]
    with pytest.raises(DataError, match=match):
        read(tmp_path, tokenizer, *rows)


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="no UTF-8"):
        read_examples(tmp_path / "a.jsonl", tokenizer)
    with pytest.raises(FormatError, match="directory"):
        read_examples(tmp_path, tokenizer)
