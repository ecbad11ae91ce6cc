"""Answers of a model stay within a grammar, however they are drawn, and end where it lets them."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.language.small_models import write_text_model
from tests.language.tuning.tuned_models import write_model

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")

from tokenizers import Tokenizer, decoders, models

from nnc import language
from nnc.errors import DataError, FormatError, UsageError
from nnc.language import LanguageModel
from nnc.language.architectures import open_files
from nnc.language.constraints.expressions import grammar_of_expression
from nnc.language.constraints.token_masks import ConstrainedChoice, TokenMasks
from nnc.language.text.token_bytes import token_bytes
from nnc.language.text.tokenizer import TextTokenizer, text_tokenizer
from nnc.nn.inference.next_token import TokenChoice

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 4}},
    "required": ["a"],
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    place = write_text_model(tmp_path_factory.mktemp("models") / "tiny.gguf", context=256)
    return language.load(place, context=200, backend="reference")


def test_answers_are_of_the_form(model: LanguageModel) -> None:
    for seed in range(4):
        text = model.generate("hello", 190, temperature=3.0, seed=seed, grammar=SCHEMA)
        assert isinstance(json.loads(text)["a"], int)
    pattern = re.compile(r"(the|in)( hello){1,3}[.!]")
    assert all(pattern.fullmatch(text) for text in model.generate(["a", "b"], 20, grammar=pattern))
    assert model.chat([{"role": "user", "content": "hello"}], 20, grammar='root ::= "ye" "s"') == "yes"
    assert model.generate("hello", 190, temperature=3.0, seed=1, grammar=SCHEMA) == model.generate(
        "hello", 190, temperature=3.0, seed=1, grammar=dict(SCHEMA)
    )


def test_a_form_that_is_none_is_an_error_before_anything_is_read(model: LanguageModel) -> None:
    with pytest.raises(FormatError, match="no rule root"):
        model.generate("hello", 4, grammar='a ::= "b"')
    with pytest.raises(FormatError, match="no JSON"):
        model.generate("hello", 4, grammar={"const": object()})


def test_answers_in_threads_are_each_their_own(model: LanguageModel) -> None:
    def answer(seed: int) -> str:
        return model.generate("hello", 190, temperature=3.0, seed=seed, grammar=SCHEMA)

    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(answer, range(4)))
    assert texts == [answer(seed) for seed in range(4)]


def test_bytes_of_tokens_are_those_of_texts(model: LanguageModel) -> None:
    vocabulary = token_bytes(model.tokenizer)
    for text in ("hello the in  🙂é\n", '{"a": 1}'):
        assert b"".join(vocabulary[token] for token in model.tokenizer.encode(text, start=False)).decode() == text
    assert vocabulary[2] == b""


def test_bytes_of_sentencepiece(tmp_path: Path) -> None:
    words = {"<unk>": 0, "</s>": 1, "\u2581a": 2, "b": 3, "<0xE2>": 4}
    encoder = Tokenizer(models.BPE(words, [], unk_token="<unk>", byte_fallback=True))
    encoder.add_special_tokens(["</s>"])
    encoder.add_tokens(["<tool>"])
    encoder.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    made = TextTokenizer(encoder, start=None, ends=frozenset([1]), template="", place="", prefixed=False)
    assert token_bytes(made) == [b"<unk>", b"", b" a", b"b", b"\xe2", b"<tool>"]
    with pytest.raises(UsageError, match="a decoder 'that is none'"):
        token_bytes(text_tokenizer(open_files(write_model(tmp_path / "words", 32, 48))))


def test_a_vocabulary_that_cannot_write_what_must_come_says_so() -> None:
    choice = ConstrainedChoice(TokenChoice(), TokenMasks(grammar_of_expression("ab"), [b"a", b"", b"c"], [1]))
    scores = np.array([0.0, 5.0, 9.0, 3.0])
    assert choice.pick(scores, choice.generator(0)) == 0
    assert not choice.ended()
    with pytest.raises(DataError, match="a place where no token fits"):
        choice.pick(scores, choice.generator(0))
    with pytest.raises(UsageError, match="without an end of texts"):
        TokenMasks(grammar_of_expression("a"), [b"a"], [])


def test_draws_are_of_the_allowed_alone() -> None:
    masks = TokenMasks(grammar_of_expression("[ab]{40}"), [b"a", b"b", b"c", b""], [3])
    choice = ConstrainedChoice(TokenChoice(temperature=1.0, top_k=1), masks)
    generator, tokens = choice.generator(0), []
    for _ in range(41):
        tokens.append(choice.pick(np.array([1.0, 2.0, 99.0, 98.0]), generator))
    assert tokens == [1] * 40 + [3]
