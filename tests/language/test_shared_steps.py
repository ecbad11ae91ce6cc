"""Texts side by side have the scores that they have alone, bit by bit where weights lie in blocks."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.language.small_models import write_text_model

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")

from nnc import language
from nnc.errors import DataError
from nnc.language import LanguageModel
from nnc.language.kept_tokens import KeptTokens
from nnc.language.shared_steps import SharedSteps
from nnc.nn.inference.next_token import TokenChoice
from nnc.nn.steps.keys import CacheType

PROMPTS = ([3, 9, 4], [5, 6], [7, 3, 4, 4, 8, 9], [4])


@pytest.fixture(scope="module", params=["f32", "int8"])
def model(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> LanguageModel:
    folder = tmp_path_factory.mktemp("models")
    held: CacheType = request.param
    language.quantize(write_text_model(folder / "wide.gguf"), "q8_0", folder / "small.gguf")
    return language.load(folder / "small.gguf", context=64, cache=held)


def side_by_side(model: LanguageModel, count: int) -> tuple[list[list[np.ndarray]], SharedSteps]:
    """Scores of `count` texts whose tokens are chosen greedily, each on a thread."""
    shared = SharedSteps(model.tokens, count, 64)
    heard: list[list[np.ndarray]] = [[] for _ in range(count)]
    # All go on before the first step, else a quick thread may be through before the next one begins.
    shared._going.update(range(count))

    def work(row: int) -> None:
        kept, tokens = KeptTokens(model.tokens, 64, shared, row), list(PROMPTS[row])
        for _ in range(6 + row):
            heard[row].append(kept.scores(tokens))
            tokens.append(int(np.argmax(heard[row][-1])))
        kept.leave()

    threads = [threading.Thread(target=work, args=(row,)) for row in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return heard, shared


@pytest.mark.parametrize("count", [2, 4])
def test_scores_are_those_of_a_text_alone(model: LanguageModel, count: int) -> None:
    heard, shared = side_by_side(model, count)
    for row in range(count):
        kept, tokens = KeptTokens(model.tokens, 64), list(PROMPTS[row])
        for scores in heard[row]:
            np.testing.assert_array_equal(scores, kept.scores(tokens))
            tokens.append(int(np.argmax(scores)))
    assert shared.tokens > shared.steps


def test_an_error_of_a_step_reaches_each_text_and_nobody_waits_for_ever(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = SharedSteps(model.tokens, 2, 64)

    def fail(asked: object) -> None:
        raise DataError("step", got="nothing", need="something")

    monkeypatch.setattr(shared, "_one_by_one", fail)
    kept = KeptTokens(model.tokens, 64, shared, 1)
    kept.scores([3, 4])
    with pytest.raises(DataError, match="need something"):
        kept.scores([3, 4, 5])
    kept.leave()


def test_a_row_is_empty_for_the_next_text(model: LanguageModel) -> None:
    shared = SharedSteps(model.tokens, 2, 64)
    first = KeptTokens(model.tokens, 64, shared, 0)
    list(first.follow([3, 9, 4], 5, TokenChoice(), frozenset()))
    first.leave()
    second = KeptTokens(model.tokens, 64, shared, 0)
    assert second.tokens == []
    assert not any(tensor.numpy().any() for tensor in shared.rows[0].tensors.values())
