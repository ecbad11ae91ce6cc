"""Windows of the last tokens and sinks: caches of these alone, and the tokens that caches of all would give."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from tests.language.small_models import write_text_model

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")

from nnc import language, nn
from nnc.core.values.dtype import F32, I32, TOLERANCE
from nnc.errors import UsageError
from nnc.language import LanguageModel
from nnc.language.kept_tokens import KeptTokens
from nnc.language.serving.kept_rows import KeptRows
from nnc.language.shared_steps import SharedSteps
from nnc.nn.generation import generate
from nnc.nn.steps import kept_heads
from nnc.nn.steps.keys import CacheType
from nnc.nn.zoo.decoder import Decoder

CONTEXT, WINDOW, SINKS = 1024, 16, 4
HELD = WINDOW + SINKS + kept_heads.BESIDE_WINDOW
TOKENS = np.random.default_rng(0).integers(3, 60, 900).tolist()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    language.quantize(write_text_model(folder / "wide.gguf", context=CONTEXT), "q8_0", folder / "small.gguf")
    return folder / "small.gguf"


def loaded(place: Path, held: CacheType = "f32") -> LanguageModel:
    return language.load(place, context=CONTEXT, window=WINDOW, sinks=SINKS, cache=held)


@pytest.fixture(scope="module")
def model(place: Path) -> LanguageModel:
    return loaded(place)


@pytest.mark.parametrize("held", ["f32", "int4"])
def test_tokens_are_those_of_caches_of_all_tokens(
    place: Path, held: CacheType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def numbers() -> tuple[list[np.ndarray], list[list[int]], int]:
        model = loaded(place, held)
        kept = KeptTokens(model.tokens, CONTEXT)
        # On by one token, back by few, and back by more than is held.
        scores = [kept.scores(TOKENS[:count]) for count in (700, 701, 702, 650, 100, 900)]
        return scores, generate(model.tokens, [TOKENS[:700], TOKENS[:3], TOKENS[5:605]], 8), model.memory().cache

    scores, tokens, cache = numbers()
    monkeypatch.setattr(kept_heads, "columns_kept", lambda form, capacity: capacity)
    others, expected, whole = numbers()
    # The table's bound on values of size 1. Steps of other columns add up in another order, and scores, which are sums
    # of terms as large as the largest, are each up to 1e-4 from what 64 bits give, whichever the columns.
    np.testing.assert_allclose(scores, others, rtol=0, atol=TOLERANCE[F32].absolute * np.abs(others).max())
    assert tokens == expected
    assert cache * CONTEXT == whole * HELD


def test_layers_of_a_window_keep_no_more_and_the_statement_says_so() -> None:
    layer = Decoder(32, 16, layers=2, heads=2, hidden=16, window=(8, 0))
    model = nn.Model(layer, (nn.UpTo(CONTEXT),), input_dtype=I32)
    assert model.memory(1, "generate", CONTEXT).cache == 2 * 16 * 4 * (8 + kept_heads.BESIDE_WINDOW + CONTEXT)
    assert model.memory(1, "generate", 256).cache == 2 * 2 * 16 * 4 * 256


def test_a_text_goes_on_from_a_file(model: LanguageModel, tmp_path: Path) -> None:
    kept, later = (KeptTokens(model.tokens, CONTEXT) for _ in range(2))
    kept.scores(TOKENS[:700])
    kept.save(tmp_path / "kept.safetensors", "this")
    later.load(tmp_path / "kept.safetensors", "this")
    for count in (701, 730):
        np.testing.assert_array_equal(later.scores(TOKENS[:count]), kept.scores(TOKENS[:count]))


def test_rows_side_by_side_have_the_scores_that_they_have_alone(model: LanguageModel) -> None:
    shared = SharedSteps(model.tokens, 4, CONTEXT)
    rows = [KeptTokens(model.tokens, CONTEXT, shared, row) for row in range(4)]
    texts = [TOKENS[row : row + length] for row, length in enumerate((700, 560, 90, 600))]
    before = [row.scores(text, least=2) for row, text in zip(rows, texts, strict=True)]
    # The last one waits meanwhile, and still holds its text.
    shared._going.update(range(3))
    heard: dict[int, list[np.ndarray]] = {row: [] for row in range(3)}

    def work(row: int) -> None:
        heard[row] = [rows[row].scores([*texts[row], *TOKENS[:count]]) for count in range(1, 6)]
        rows[row].leave()

    threads = [threading.Thread(target=work, args=(row,)) for row in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    heard[3] = [rows[3].scores([*texts[3], 7])]
    for row, text in enumerate(texts):
        alone = KeptTokens(model.tokens, CONTEXT)
        np.testing.assert_array_equal(before[row], alone.scores(text, least=2))
        for count, scores in enumerate(heard[row], 1):
            more = TOKENS[:count] if row < 3 else [7]
            np.testing.assert_array_equal(scores, alone.scores([*text, *more]))


def test_what_was_written_over_is_read_again(model: LanguageModel) -> None:
    shared = SharedSteps(model.tokens, 2, CONTEXT)
    rows = [KeptTokens(model.tokens, CONTEXT, shared, row) for row in range(2)]
    held = KeptRows(rows)
    row, kept = held.take(TOKENS[:800])
    kept.scores(TOKENS[:800], least=2)
    held.give_back(row, whole=True)
    # The window of its first 300 tokens is gone, that of the first 700 is still there.
    for count, known in ((300, 0), (700, 700)):
        asked = [*TOKENS[:count], 5, 6]
        number, other = held.take(asked)
        assert len(other.tokens) == known
        alone = KeptTokens(model.tokens, CONTEXT).scores(asked, least=2)
        np.testing.assert_array_equal(other.scores(asked, least=2), alone)
        held.give_back(number, whole=True)


def test_nobody_waits_for_a_text_that_wrote_over_what_they_have_in_common(model: LanguageModel) -> None:
    shared = SharedSteps(model.tokens, 2, CONTEXT)
    held = KeptRows([KeptTokens(model.tokens, CONTEXT, shared, row) for row in range(2)])
    _, first = held.take(TOKENS[:800])
    first.scores(TOKENS[:800], least=2)
    taken: list[KeptTokens] = []
    thread = threading.Thread(target=lambda: taken.append(held.take([*TOKENS[:300], 5, 6])[1]), daemon=True)
    thread.start()
    # The first text goes on all the time.
    thread.join(60)
    assert [other.tokens for other in taken] == [[]]


def test_sinks_need_a_window(place: Path) -> None:
    for door in (language.load, language.memory):
        with pytest.raises(UsageError, match="a window of last ones beside them"):
            door(place, sinks=4)
