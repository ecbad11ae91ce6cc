"""What texts begin with alike is read once and lies in memory once, and each text is the one that it is alone."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.language.small_models import write_text_model

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")

from nnc import language
from nnc.errors import DataError, UsageError
from nnc.language import LanguageModel
from nnc.language.kept_tokens import KeptTokens
from nnc.language.serving.kept_rows import KeptRows
from nnc.language.serving.requests import GenerationRequest
from nnc.language.serving.worker import AnsweringWorker, Finish
from nnc.language.shared_steps import SharedSteps
from nnc.nn.generation import generate
from nnc.nn.steps.generation_caches import Pages
from nnc.nn.steps.keys import CacheType
from nnc.ops.sequence.cached_attention import PAGE

CONTEXT = 1024
DRAWN = np.random.default_rng(0).integers(3, 60, 900).tolist()
# Two pages and a part of a third one.
SYSTEM = DRAWN[:600]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    language.quantize(write_text_model(folder / "wide.gguf", context=CONTEXT), "q8_0", folder / "small.gguf")
    return folder / "small.gguf"


@pytest.fixture(scope="module", params=["f32", "bf16", "int8", "int4"])
def model(place: Path, request: pytest.FixtureRequest) -> LanguageModel:
    held: CacheType = request.param
    return language.load(place, context=CONTEXT, cache=held)


def rows_of(model: LanguageModel, count: int, prefix: int = 0) -> tuple[KeptRows, SharedSteps]:
    shared = SharedSteps(model.tokens, count, CONTEXT, prefix)
    return KeptRows([KeptTokens(model.tokens, CONTEXT, shared, row) for row in range(count)]), shared


def pages_of(shared: SharedSteps) -> list[Pages]:
    """Those of each row."""
    pages = [row.pages for row in shared.rows if row.pages is not None]
    assert len(pages) == len(shared.rows)
    return pages


def used(shared: SharedSteps) -> int:
    """Pages that some row has."""
    pages = pages_of(shared)
    users = pages[0].users
    assert sum(len(row.rows[0]) for row in pages) == sum(users)
    return sum(count > 0 for count in users)


def test_texts_side_by_side_have_a_prefix_once_and_the_scores_that_they_have_alone(model: LanguageModel) -> None:
    held, shared = rows_of(model, 4, prefix=512)
    texts = [[*SYSTEM, *DRAWN[start : start + length]] for start, length in ((7, 9), (20, 300), (50, 1), (9, 40))]
    heard: list[list[np.ndarray]] = [[] for _ in texts]
    at_their_ends = threading.Barrier(5)

    def work(place: int) -> None:
        tokens = list(texts[place])
        _, kept = held.take(tokens, len(tokens) + 5)
        for count in range(5):
            heard[place].append(kept.scores(tokens, least=1 if count else 2))
            tokens.append(int(np.argmax(heard[place][-1])))
        kept.leave()
        at_their_ends.wait(60)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    at_their_ends.wait(60)
    # The second text has two pages of its own, the others one.
    assert used(shared) == 2 + 5
    assert held.reused >= 3 * 600
    for text, scores in zip(texts, heard, strict=True):
        alone, tokens = KeptTokens(model.tokens, CONTEXT), list(text)
        for count, row in enumerate(scores):
            np.testing.assert_array_equal(row, alone.scores(tokens, least=1 if count else 2))
            tokens.append(int(np.argmax(row)))


def test_a_batch_with_one_prefix_has_the_tokens_of_each_prompt_alone(model: LanguageModel) -> None:
    prompts = [SYSTEM, [*SYSTEM, 5, 6, 7], [*SYSTEM, *DRAWN[:290]]]
    together = generate(model.tokens, prompts, 6)
    assert together == [generate(model.tokens, prompt, 6) for prompt in prompts]
    assert generate(model.tokens, prompts[0], 5, beams=3) == generate(model.tokens, [prompts[0], [4]], 5, beams=3)[0]


def test_a_text_goes_on_from_a_file_in_either_kind_of_caches(model: LanguageModel, tmp_path: Path) -> None:
    alone, row = KeptTokens(model.tokens, CONTEXT), rows_of(model, 2)[0].take(SYSTEM, 700)[1]
    expected = alone.scores(SYSTEM, least=2)
    np.testing.assert_array_equal(row.scores(SYSTEM, least=2), expected)
    for source in (alone, row):
        source.save(tmp_path / "kept.safetensors", "this")
        for other in (KeptTokens(model.tokens, CONTEXT), rows_of(model, 2)[0].take([], 0)[1]):
            other.load(tmp_path / "kept.safetensors", "this")
            np.testing.assert_array_equal(other.scores([*SYSTEM, 4]), alone.scores([*SYSTEM, 4]))


@pytest.fixture(scope="module")
def plain(place: Path) -> LanguageModel:
    return language.load(place, context=CONTEXT)


def test_another_text_never_writes_into_pages_of_several(plain: LanguageModel) -> None:
    held, shared = rows_of(plain, 3)
    rows = []
    for number in range(2):
        row, kept = held.take([*SYSTEM, number], 620)
        kept.scores([*SYSTEM, number], least=2)
        rows.append((row, kept))
    held.give_back(rows[1][0], whole=True)
    # The row of the second text has the first text's pages, and now another text from the 301st token on.
    other = [*SYSTEM[:300], 1, 2, 3]
    row, kept = held.take(other, 900)
    assert row == rows[1][0]
    np.testing.assert_array_equal(kept.scores(other, least=2), KeptTokens(plain.tokens, CONTEXT).scores(other, least=2))
    first = rows[0][1]
    alone = KeptTokens(plain.tokens, CONTEXT)
    alone.scores([*SYSTEM, 0], least=2)
    np.testing.assert_array_equal(first.scores([*SYSTEM, 0, 8]), alone.scores([*SYSTEM, 0, 8]))
    assert used(shared) == 3 + 3


def test_pages_of_old_texts_go_when_a_text_needs_them_and_who_finds_none_waits(plain: LanguageModel) -> None:
    # Room for one text of 1,024 tokens, or for two whose first 768 are the same.
    held, shared = rows_of(plain, 2, prefix=768)
    assert {tensor.shape[1] for tensor in shared.rows[0].tensors.values()} == {5 * PAGE + 1}
    row, kept = held.take(DRAWN[:300], 600)
    kept.scores(DRAWN[:300], least=2)
    held.give_back(row, whole=True)
    assert used(shared) == 3
    other = DRAWN[300:700]
    row, kept = held.take(other, 1000)
    assert used(shared) == 4
    assert [len(pages.rows[0]) for pages in pages_of(shared)].count(0) == 1
    kept.scores(other, least=2)
    taken: list[int] = []

    def wait() -> None:
        taken.append(held.take(DRAWN[:600], 1000)[0])

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.1)
    assert not taken
    held.give_back(row, whole=True)
    thread.join(30)
    assert len(taken) == 1


def test_a_prompt_that_no_row_has_room_for_is_refused_and_others_are_answered(plain: LanguageModel) -> None:
    worker = AnsweringWorker(plain, 8, 2)
    worker.start()

    async def answer(text: str) -> list[object]:
        return [part async for _, part in worker.parts([GenerationRequest(text, length=2)])]

    # More tokens than all pages have.
    long = "a b c d " * 400
    assert len(plain.tokens_of(long)) > 2 * CONTEXT
    try:
        with pytest.raises(DataError, match="need at most 1024, the context"):
            asyncio.run(asyncio.wait_for(answer(long), 60))
        assert isinstance(asyncio.run(asyncio.wait_for(answer("hello"), 60))[-1], Finish)
    finally:
        worker.stop()


def test_the_statement_is_what_pages_take(place: Path, plain: LanguageModel) -> None:
    alone = language.memory(place, context=CONTEXT).cache
    for rows, prefix in ((4, 512), (8, 600), (2, 1024)):
        stated = language.memory(place, context=CONTEXT, batch=rows, prefix=prefix).cache
        shared = rows_of(plain, rows, prefix)[1]
        assert stated == sum(tensor.spec.nbytes for tensor in shared.rows[0].tensors.values())
        assert stated == plain.memory(CONTEXT, rows, prefix).cache
        assert stated < rows * alone


@pytest.mark.parametrize(("context", "rows", "paged"), [(1024, 4, True), (1000, 3, True), (1000, 4, False)])
def test_rows_without_a_prefix_take_what_columns_would(place: Path, context: int, rows: int, paged: bool) -> None:
    model = language.load(place, context=context)
    stated = model.memory(context, rows)
    shared = SharedSteps(model.tokens, rows, context)
    assert (shared.rows[0].pages is not None) is paged
    held = shared.rows[0].tensors.values()
    taken = sum(tensor.spec.nbytes for tensor in held) * (1 if paged else 4)
    # Behind all pages there is one column.
    assert taken <= stated.cache + sum(tensor.spec.nbytes // tensor.shape[1] for tensor in held) * paged


def test_what_cannot_have_pages_says_so(place: Path) -> None:
    windowed = language.load(place, context=CONTEXT, window=16)
    with pytest.raises(UsageError, match="prefix: got a window of 16"):
        SharedSteps(windowed.tokens, 2, CONTEXT, 512)
    assert SharedSteps(windowed.tokens, 2, CONTEXT).rows[0].pages is None
    with pytest.raises(UsageError, match="need a context of at least 512"):
        SharedSteps(windowed.tokens, 2, 300, 256)
    with pytest.raises(UsageError, match=r"a prefix of 1,025 tokens in a context of 1,024; need at most the context"):
        language.memory(place, context=CONTEXT, batch=2, prefix=CONTEXT + 1)
