"""Drafts: texts are those without them, whoever proposes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.language.small_models import write_text_model

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")

from nnc import language
from nnc.errors import UsageError
from nnc.language import LanguageModel
from nnc.language.kept_tokens import AHEAD, Drafts, KeptTokens
from nnc.language.speculation import DraftModel, RepeatedRuns
from nnc.nn.inference.next_token import TokenChoice


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text_model(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="module")
def model(place: Path) -> LanguageModel:
    return language.load(place, context=64)


class Known:
    """Proposes a text that is known, with every `wrong`th token another one."""

    def __init__(self, tokens: list[int], wrong: int) -> None:
        self._tokens, self._wrong, self.asked = tokens, wrong, 0

    def propose(self, tokens: Sequence[int], count: int) -> list[int]:
        self.asked += 1
        places = range(len(tokens), min(len(tokens) + count, len(self._tokens)))
        return [self._tokens[place] ^ (place % self._wrong == 0) for place in places]


def text(model: LanguageModel, choice: TokenChoice, drafts: Drafts | None = None, length: int = 40) -> list[int]:
    prompt = model.tokenizer.encode("hello the")
    kept = KeptTokens(model.tokens, 64)
    return [*prompt, *kept.follow(prompt, length, choice, frozenset({2}), drafts)]


@pytest.mark.parametrize("choice", [TokenChoice(), TokenChoice(temperature=1.5, seed=3)], ids=["best", "drawn"])
@pytest.mark.parametrize("wrong", [1, 2, 3, 5, 1000])
def test_a_text_is_the_one_without_drafts(model: LanguageModel, choice: TokenChoice, wrong: int) -> None:
    plain = text(model, choice)
    drafts = Known(plain, wrong)
    assert text(model, choice, drafts) == plain
    # Where all is foreseen, so many more tokens come of each reading.
    assert wrong < 1000 or drafts.asked <= len(plain) // (AHEAD + 1) + AHEAD + 1
    assert text(model, choice, RepeatedRuns()) == plain
    assert text(model, choice, DraftModel(KeptTokens(model.tokens, 64))) == plain


def test_what_was_read_of_wrong_drafts_is_not_taken_for_the_text(model: LanguageModel) -> None:
    prompt = model.tokenizer.encode("hello the")
    plain = text(model, TokenChoice())
    kept = KeptTokens(model.tokens, 64)
    left = kept.follow(prompt, 40, TokenChoice(), frozenset(), Known(plain, 2))
    for _ in range(5):
        next(left)
    left.close()
    fresh = KeptTokens(model.tokens, 64)
    np.testing.assert_allclose(kept.scores(plain[:12]), fresh.scores(plain[:12]), atol=1e-5)


def test_repeated_runs_say_what_followed_the_longest_one() -> None:
    runs = RepeatedRuns()
    assert runs.propose([1, 2, 3], 3) == []
    assert runs.propose([1, 2, 3, 4, 5, 1, 2], 3) == [3, 4, 5]
    assert runs.propose([1, 2, 3, 4, 5, 1, 2, 9, 3, 1, 2], 2) == [9, 3]
    assert runs.propose([1, 2, 3, 4, 5, 1, 2, 9, 3, 4], 2) == [5, 1]
    assert runs.propose([7], 3) == []


def test_a_file_or_the_text_itself_proposes(place: Path, model: LanguageModel) -> None:
    plain = model.generate("hello the in", 30)
    for draft in ("ngram", place):
        assert language.load(place, context=64, draft=draft).generate("hello the in", 30) == plain


def test_a_draft_of_another_vocabulary_is_refused(model: LanguageModel) -> None:
    other = LanguageModel(model.files, model.tokenizer, model.tokens)
    other.tokens = SimpleNamespace(outputs=(SimpleNamespace(shape=(64, 7)),))
    with pytest.raises(UsageError, match="vocabulary of 7 tokens"):
        LanguageModel(model.files, model.tokenizer, model.tokens, other)
