"""What requests begin with alike is read once, and each answer is the one that it would be alone."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from tests.language.serving.test_application import Endless, ask, running
from tests.language.small_models import write_text_model

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")
pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from nnc import language
from nnc.language import LanguageModel
from nnc.language.kept_tokens import KeptTokens
from nnc.language.serving.kept_rows import KeptRows
from nnc.language.serving.waiting_line import BusyError, WaitingLine
from nnc.language.shared_steps import SharedSteps

SYSTEM = "hello the in the hello the in the"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    place = write_text_model(tmp_path_factory.mktemp("models") / "tiny.gguf", kind="q8_0", context=128)
    return language.load(place, context=128, backend="reference")


def rows_of(model: LanguageModel, count: int) -> tuple[KeptRows, list[KeptTokens]]:
    shared = SharedSteps(model.tokens, count, model.context)
    rows = [KeptTokens(model.tokens, model.context, shared, row) for row in range(count)]
    return KeptRows(rows), rows


def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens each step reads from now on."""
    counts: list[int] = []
    read = KeptTokens._read

    def noted(kept: KeptTokens, tokens: Any, start: int, stop: int) -> Any:
        counts.append(stop - start)
        return read(kept, tokens, start, stop)

    monkeypatch.setattr(KeptTokens, "_read", noted)
    return counts


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_system_prompt_is_read_once(model: LanguageModel, slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [
        {
            "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}],
            "max_tokens": 1, "temperature": 1.0, "seed": place,
        }
        for place, text in enumerate(("he", "in", "the", "hello", "o"))
    ]  # fmt: skip
    alone = [model.chat(body["messages"], 1, temperature=1.0, seed=body["seed"]) for body in bodies]  # type: ignore[arg-type]  # of this dictionary
    counts = reads(monkeypatch)
    app = language.application(model, "tiny", slots=slots)

    async def one_after_the_other() -> list[Any]:
        async with running(app):
            replies = [await ask(app, "/v1/chat/completions", body) for body in bodies]
            return [*replies, await ask(app, "/metrics")]

    *replies, metrics = asyncio.run(one_after_the_other())
    assert [reply.json()["choices"][0]["message"]["content"] for reply in replies] == alone
    whole = len(model.tokenizer.chat(bodies[0]["messages"]))  # type: ignore[arg-type]
    assert counts[0] == whole
    assert max(counts[1:]) < whole / 2
    assert "nnc_reused_tokens_total 0" not in metrics.body.decode()


def test_turns_of_a_chat_are_read_once(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [{"role": "user", "content": "hello the"}]
    first = model.chat(messages, 4)
    longer = [*messages, {"role": "assistant", "content": first}, {"role": "user", "content": "in"}]
    alone, read = model.chat(longer, 4), len(model.tokenizer.chat(messages))
    counts = reads(monkeypatch)
    app = language.application(model, "tiny")

    async def both() -> list[str]:
        async with running(app):
            bodies = [{"messages": each, "max_tokens": 4, "temperature": 0} for each in (messages, longer)]
            replies = [(await ask(app, "/v1/chat/completions", body)).json() for body in bodies]
        return [reply["choices"][0]["message"]["content"] for reply in replies]

    assert asyncio.run(both()) == [first, alone]
    together = [count for count in counts if count > 1]
    assert together[1] <= len(model.tokenizer.chat(longer)) - read + len(model.tokenizer.encode("<|im_start|>a"))


def test_what_is_copied_has_the_bits_of_what_is_read(model: LanguageModel) -> None:
    tokens = model.tokenizer.encode(SYSTEM)
    held, rows = rows_of(model, 2)
    first, kept = held.take(tokens)
    alone = kept.scores(tokens, least=2)
    second, other = held.take([*tokens, 5, 6])
    assert (first != second, other.tokens, held.reused) == (True, tokens, len(tokens))
    again = KeptTokens(model.tokens, model.context)
    np.testing.assert_array_equal(other.scores([*tokens, 5, 6], least=2), again.scores([*tokens, 5, 6], least=2))
    np.testing.assert_array_equal(rows[first].scores([*tokens[:-1], tokens[-1]], least=2), alone)


def test_rows_that_begin_alike_are_taken_first_and_others_when_they_were_given_back_first(model: LanguageModel) -> None:
    held, _ = rows_of(model, 3)
    texts = [model.tokenizer.encode(text) for text in ("hello the in", "in the he", "o o o o")]
    for tokens in texts:
        row, kept = held.take(tokens)
        kept.scores(tokens, least=2)
        held.give_back(row, whole=True)
    row, kept = held.take(texts[1])
    assert (row, kept.tokens) == (1, texts[1])
    held.give_back(row, whole=True)
    # Of the others the first was not used for the longest time.
    assert held.take([9, 9])[0] == 0


def test_a_row_that_failed_is_emptied(model: LanguageModel) -> None:
    held, _ = rows_of(model, 2)
    tokens = model.tokenizer.encode(SYSTEM)
    row, kept = held.take(tokens)
    kept.scores(tokens, least=2)
    held.give_back(row, whole=False)
    assert (kept.tokens, kept.begun(tokens)) == ([], 0)
    assert not any(tensor.numpy().any() for tensor in kept._caches.tensors.values())


def test_what_was_written_is_read_again_as_a_lone_run_reads_it(model: LanguageModel) -> None:
    held, _ = rows_of(model, 1)
    tokens = model.tokenizer.encode("hello the")
    row, kept = held.take(tokens)
    kept.scores(tokens, least=2)
    kept.scores([*tokens, 7])
    held.give_back(row, whole=True)
    assert held.take([*tokens, 7, 8])[1].tokens == tokens


def test_a_line_is_bounded_left_and_ended() -> None:
    line = WaitingLine[str](3)
    line.put(["a", "b"])
    with pytest.raises(BusyError, match="2 requests that wait; need less than 3"):
        line.put(["c", "d"])
    assert (line.remove("a"), line.remove("a"), len(line)) == (True, False, 1)
    line.put(["c", "d"])
    assert line.take() == "b"
    taken: list[str | None] = []
    threads = [threading.Thread(target=lambda: taken.append(line.take())) for _ in range(4)]
    for thread in threads[:2]:
        thread.start()
        thread.join()
    for thread in threads[2:]:
        thread.start()
    assert line.end() == []
    for thread in threads[2:]:
        thread.join(timeout=10)
    assert taken == ["c", "d", None, None]


def test_a_client_that_leaves_while_it_waits_makes_room(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LanguageModel, "continued", lambda *_, **__: Endless())
    body = {"prompt": "he"}

    async def leave() -> list[str]:
        app = language.application(model, "tiny", waiting=1)
        async with running(app):
            first = asyncio.create_task(ask(app, "/v1/completions", body))
            await asyncio.sleep(0.05)
            seen = []
            for _ in range(2):
                # Each waits for the first one, and leaves: the next has its place.
                assert (await ask(app, "/v1/completions", body, leave_after=0.05)).status == 499
                seen.append((await ask(app, "/health")).json()["waiting"])
        assert (await first).status == 503
        return seen

    assert asyncio.run(leave()) == [0, 0]
