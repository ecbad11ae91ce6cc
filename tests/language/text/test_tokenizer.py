"""Tokenizers of folders and of files are the same, and say what ends a text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.language.small_models import TEMPLATE, text_values, write_folder, write_text_model

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")

from nnc.errors import DataError, FormatError, UsageError
from nnc.language.architectures import open_files
from nnc.language.gguf import read_gguf, write_gguf
from nnc.language.text import slow_rules
from nnc.language.text.gguf_vocabulary import tokenizer_of
from nnc.language.text.tokenizer import TextTokenizer, text_tokenizer


def of_folder(folder: Path, *, start: bool = False) -> TextTokenizer:
    write_folder(folder, "qwen2")
    write_gguf(folder / "words.gguf", text_values(), [])  # type: ignore[arg-type]  # plain values
    tokenizer_of(read_gguf(folder / "words.gguf")).save(str(folder / "tokenizer.json"))
    if start:
        held = json.loads((folder / "tokenizer.json").read_text())
        held["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<|im_start|>": {"id": "<|im_start|>", "ids": [1], "tokens": ["<|im_start|>"]}},
        }
        (folder / "tokenizer.json").write_text(json.dumps(held))
    settings = {"bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>"}, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 7]}))
    return text_tokenizer(open_files(folder))


def test_a_folder_has_the_tokens_of_the_file(tmp_path: Path) -> None:
    own = text_tokenizer(open_files(write_text_model(tmp_path / "a.gguf")))
    other = of_folder(tmp_path / "folder")
    text = "hello the <|im_end|> é"
    assert other.encode(text) == own.encode(text)
    assert other.decode(other.encode(text)) == "hello the  é"
    assert other.decode(other.encode(text), special=True) == text
    assert (own.ends, other.ends) == ({0, 2}, {0, 2, 7})
    chat = [{"role": "user", "content": "hi"}]
    assert own.chat(chat) == other.chat(chat)


def test_a_text_begins_with_the_start_token_once(tmp_path: Path) -> None:
    made = of_folder(tmp_path / "folder", start=True)
    assert made.encode("hello")[0] == 1
    assert made.encode("hello", start=False) == made.encode("hello")[1:]
    assert made.encode("<|im_start|>hello").count(1) == 1


def test_what_cannot_be_encoded_is_an_error(tmp_path: Path) -> None:
    made = text_tokenizer(open_files(write_text_model(tmp_path / "a.gguf")))
    with pytest.raises(DataError, match="surrogate"):
        made.encode("\ud800")
    with pytest.raises(DataError, match="token -1"):
        made.decode([-1])
    assert made.decode([2**32 - 1]) == ""
    made.template = None
    with pytest.raises(UsageError, match="without a template"):
        made.chat([{"role": "user", "content": "hi"}])


@pytest.mark.parametrize("content", [None, "", "{}", "[" * 100_000])
def test_a_tokenizer_that_is_none_is_an_error(content: str | None, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "folder", "qwen2")
    if content is not None:
        (folder / "tokenizer.json").write_text(content)
    with pytest.raises(FormatError, match=r"tokenizer\.json"):
        text_tokenizer(open_files(folder))


GROWING = {
    "replacements": {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}] * 5}},
    "replacements one in another": {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Sequence", "normalizers": [
            {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 100}] * 100}},
    "a template": {"post_processor": {"type": "TemplateProcessing", "pair": [], "special_tokens": {},
        "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 2000}},
    "a decoder": {"decoder": {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100}] * 3}},
}  # fmt: skip


@pytest.mark.parametrize("rules", GROWING)
def test_rules_that_make_a_text_endless_are_refused(tmp_path: Path, rules: str) -> None:
    """A file of 5 KB was loaded for ever: its first letter became 10^15."""
    of_folder(tmp_path)
    place = tmp_path / "tokenizer.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), **GROWING[rules]}))
    with pytest.raises(FormatError, match=r"a text may become [0-9,]+ times as long; need at most 1,024"):
        text_tokenizer(open_files(tmp_path))


def test_an_expression_that_gives_up_is_an_error(tmp_path: Path) -> None:
    """The package panics, which is no Exception: it passed every `except Exception`."""
    of_folder(tmp_path)
    place = tmp_path / "tokenizer.json"
    slow = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}
    place.write_text(json.dumps({**json.loads(place.read_text()), "normalizer": slow}))
    tokenizer = text_tokenizer(open_files(tmp_path))
    with pytest.raises(DataError, match="encode: got a text on which a rule of its file fails .*retry-limit"):
        tokenizer.encode("a" * 60 + "b")


def of_rule(folder: Path, **changed: object) -> TextTokenizer:
    of_folder(folder)
    place = folder / "tokenizer.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), **changed}))
    return text_tokenizer(open_files(folder))


def test_rules_that_take_too_long_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On 200,000 letters this expression took a minute, in which nothing could be interrupted."""
    monkeypatch.setattr(slow_rules, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(slow_rules, "LETTER_SECONDS", 0.0)
    tokenizer = of_rule(
        tmp_path / "slow", normalizer={"type": "Replace", "pattern": {"Regex": "a*b|a"}, "content": "a"}
    )
    assert tokenizer.encode("hello") == text_tokenizer(open_files(tmp_path / "slow")).encode("hello")
    with pytest.raises(DataError, match="rules that are not done"):
        tokenizer.encode("a" * 12_000)
    with pytest.raises(DataError, match="has not come back"):
        tokenizer.encode("hello")
    with pytest.raises(DataError, match="decode: got a tokenizer that has not come back"):
        tokenizer.decode([3])


def test_rules_of_unknown_expressions_give_what_they_give(tmp_path: Path) -> None:
    known = of_rule(tmp_path / "known")
    other = of_rule(tmp_path / "other", normalizer={"type": "Replace", "pattern": {"Regex": "q+x"}, "content": "q"})
    text = "hello the in " * 40
    assert other.places(text) == known.places(text)
    assert other.decode(other.encode(text)) == known.decode(known.encode(text))
    with pytest.raises(DataError, match="encode: got a text on which a rule of its file fails .*retry-limit"):
        of_rule(
            tmp_path / "panic", normalizer={"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}
        ).encode("a" * 300 + "b")


def test_a_text_that_is_done_leaves_another_given_up(tmp_path: Path) -> None:
    tokenizer = of_rule(tmp_path / "slow", normalizer={"type": "Replace", "pattern": {"Regex": "q+x"}, "content": "q"})
    rules = slow_rules.SlowRules(tokenizer.encoder)

    def work() -> str:
        # As another thread does whose text takes too long.
        rules.given_up = True
        return "done"

    assert rules.run("encode", 1000, work, work) == "done"
    with pytest.raises(DataError, match="has not come back"):
        rules.run("encode", 1, work, work)
