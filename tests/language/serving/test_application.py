"""A model behind HTTP answers as it does alone, whoever asks beside; what cannot be answered is refused by name."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.language.small_models import write_text_model

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")
pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from nnc import language
from nnc.language import LanguageModel
from nnc.language.serving.requests import GenerationRequest
from nnc.language.serving.worker import AnsweringWorker, EndingError

Application = Callable[..., Awaitable[None]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    place = write_text_model(tmp_path_factory.mktemp("models") / "tiny.gguf")
    return language.load(place, context=64, backend="reference")


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[Any]:
        lines = [line.removeprefix("data: ") for line in self.body.decode().split("\n\n") if line]
        assert lines.pop() == "[DONE]"
        return [json.loads(line) for line in lines]


@asynccontextmanager
async def running(app: Application) -> AsyncIterator[None]:
    """The application between its start and its end."""
    inward, outward = asyncio.Queue[Any](), asyncio.Queue[Any]()
    life = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}}, inward.get, outward.put))
    await inward.put({"type": "lifespan.startup"})
    assert (await outward.get())["type"] == "lifespan.startup.complete"
    yield
    await inward.put({"type": "lifespan.shutdown"})
    assert (await outward.get())["type"] == "lifespan.shutdown.complete"
    await life


async def ask(
    app: Application, path: str, body: object = None, *, leave_behind: int = 1 << 30, leave_after: float | None = None
) -> Reply:
    """One request; the client is gone behind so many parts of the answer, or after so many seconds."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    inward = asyncio.Queue[Any]()
    await inward.put({"type": "http.request", "body": content, "more_body": False})
    if leave_after is not None:
        asyncio.get_running_loop().call_later(leave_after, inward.put_nowait, {"type": "http.disconnect"})
    status, parts = 0, []

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))
        if len(parts) > leave_behind:
            await inward.put({"type": "http.disconnect"})

    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"", "headers": [],
        "http_version": "1.1", "scheme": "http", "root_path": "", "server": ("test", 80), "client": ("test", 1),
        "asgi": {"version": "3.0", "spec_version": "2.0"},
    }  # fmt: skip
    await app(scope, inward.get, send)
    return Reply(status, b"".join(parts))


def asked(app: Application, *requests: tuple[str, object]) -> list[Reply]:
    """All requests at the same time."""

    async def all_of_them() -> list[Reply]:
        async with running(app):
            return list(await asyncio.gather(*(ask(app, path, body) for path, body in requests)))

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_each_answer_is_that_of_a_lone_run(model: LanguageModel, slots: int) -> None:
    bodies = [
        {"prompt": "hello the", "max_tokens": 6, "temperature": heat, "seed": seed, "stream": seed % 2 == 1}
        for seed, heat in enumerate((0, 1.5, 0, 2.0, 3.0, 0.5))
    ]
    app = language.application(model, "tiny", slots=slots)
    replies = asked(app, *(("/v1/completions", body) for body in bodies))
    for body, reply in zip(bodies, replies, strict=True):
        alone = model.generate("hello the", 6, temperature=body["temperature"] or None, seed=body["seed"])
        events = reply.events() if body["stream"] else [reply.json()]
        assert reply.status == 200
        assert "".join(event["choices"][0]["text"] for event in events) == alone
        assert events[-1]["choices"][0]["finish_reason"] in ("stop", "length")
        assert all(event["choices"][0]["logprobs"] is None for event in events)


def test_messages_are_answered_whole_and_in_events(model: LanguageModel) -> None:
    chat = {"messages": [{"role": "user", "content": "he"}], "max_tokens": 5, "temperature": 0}
    path = "/v1/chat/completions"
    whole, streamed = asked(language.application(model, "tiny"), (path, chat), (path, {**chat, "stream": True}))
    answer = model.chat(chat["messages"], 5)  # type: ignore[arg-type]  # of this dictionary
    assert whole.json()["choices"][0]["message"] == {"role": "assistant", "content": answer}
    assert whole.json()["object"] == "chat.completion"
    usage = whole.json()["usage"]
    assert usage["prompt_tokens"] == len(model.tokenizer.chat(chat["messages"]))  # type: ignore[arg-type]
    assert (usage["completion_tokens"], whole.json()["choices"][0]["finish_reason"]) == (5, "length")
    assert streamed.events()[-1]["choices"][0]["finish_reason"] == "length"
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in streamed.events()) == answer


def test_the_model_and_the_counts_are_told(model: LanguageModel) -> None:
    models, health = asked(language.application(model, "tiny"), ("/v1/models", None), ("/health", None))
    assert models.json()["data"][0]["id"] == "tiny"
    assert health.json() == {"status": "ok", "waiting": 0}


WRONG = {
    "no JSON": (b"{", "no object of JSON"),
    "a list": ([], "no object of JSON"),
    "deep": (b"[" * 100_000, "no object of JSON"),
    "no prompt": ({}, "no prompt"),
    "a long prompt": ({"prompt": "in" * 99}, "a prompt of 99 tokens"),
    "no tokens": ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
    "a text": ({"prompt": "a", "max_tokens": "5"}, "max_tokens"),
    "a cold one": ({"prompt": "a", "temperature": -1}, "temperature"),
    "many answers": ({"prompt": "a", "n": 17}, "n that is no such integer"),
    "many prompts": ({"prompt": ["a"] * 9, "n": 2}, "18 answers"),
    "no prompts": ({"prompt": []}, "no prompt"),
    "tokens": ({"prompt": [1, 2]}, "no prompt"),
    "a billion tokens": ({"prompt": "a", "max_tokens": 10**9}, "1000000000 more; need at most 64"),
    "no number": (b'{"prompt": "a", "temperature": NaN}', "temperature"),
    "endless heat": (b'{"prompt": "a", "temperature": Infinity}', "temperature"),
    "a stream of 1": ({"prompt": "a", "stream_options": 1}, "stream_options"),
    "all likely ones": ({"prompt": "a", "logprobs": 1000}, "logprobs"),
    "an unknown form": ({"prompt": "a", "response_format": {"type": "xml"}}, "json_schema"),
    "a wrong form": ({"prompt": "a", "response_format": "json_object"}, "response_format"),
    "an unknown keyword": (
        {"prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"schema": {"if": 1}}}},
        "if",
    ),
    "a wrong grammar": ({"prompt": "a", "grammar": "root ::= ("}, "grammar"),
    "two forms": ({"prompt": "a", "grammar": 'root ::= "a"', "response_format": {"type": "json_object"}}, "one or"),
    "tools": ({"prompt": "a", "tools": [1]}, "tools"),
    "stops": ({"prompt": "a", "stop": [""]}, "other stops"),
    "a large seed": ({"prompt": "a", "seed": 2**63}, "seed"),
    "a surrogate": (b'{"prompt": "\\ud800"}', "surrogate"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_answered_is_refused(name: str, model: LanguageModel) -> None:
    body, match = WRONG[name]
    for stream in (False, True):
        given = {**body, "stream": stream} if isinstance(body, dict) else body
        (reply,) = asked(language.application(model, "tiny"), ("/v1/completions", given))
        assert reply.status == 400
        assert match in reply.json()["error"]["message"]
        assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
        assert reply.json()["error"]["type"] == "invalid_request_error"


def test_bodies_without_end_and_messages_that_are_none_are_refused(model: LanguageModel) -> None:
    large, none = asked(
        language.application(model, "tiny"),
        ("/v1/completions", b" " * (1 << 21)),
        ("/v1/chat/completions", {"messages": [{"role": "user"}]}),
    )
    assert large.status == 413
    assert none.status == 400


def test_as_many_wait_as_may(model: LanguageModel) -> None:
    body = {"prompt": "he", "max_tokens": 3, "temperature": 0}
    replies = asked(language.application(model, "tiny", waiting=2), *[("/v1/completions", body)] * 8)
    statuses = sorted(reply.status for reply in replies)
    assert set(statuses) == {200, 429}
    assert statuses.count(200) >= 2
    assert len({reply.json()["choices"][0]["text"] for reply in replies if reply.status == 200}) == 1


class Endless:
    """A stream of pieces."""

    shares = ()

    def __init__(self, count: int = 1 << 30) -> None:
        self.reason, self.read, self.written, self._left = "stop", 1, 0, count

    def __iter__(self) -> Endless:
        return self

    def __next__(self) -> str:
        time.sleep(0.001)
        self._left -= 1
        if self._left < 0:
            raise StopIteration
        return "a"


def test_many_clients_that_come_and_go_get_what_they_get_alone(model: LanguageModel) -> None:
    """A soak in small: benchmarks/serving.py runs it for as long as is wanted."""
    generator = random.Random(0)
    bodies = [
        {
            "prompt": generator.choice(["hello the", "in", "he he", "hello the in the hello"]),
            "max_tokens": generator.randint(1, 12),
            "temperature": generator.choice([0, 1.0, 2.0]),
            "seed": generator.randint(0, 5),
            "stream": generator.random() < 0.5,
        }
        for _ in range(40)
    ]
    leaving = [generator.random() < 0.3 for _ in bodies]
    app = language.application(model, "tiny", waiting=64, slots=4)

    async def all_of_them() -> tuple[list[Reply], str]:
        async with running(app):
            asks = [
                ask(app, "/v1/completions", body, leave_behind=1 if gone else 1 << 30)
                for body, gone in zip(bodies, leaving, strict=True)
            ]
            replies = list(await asyncio.gather(*asks))
            metrics = ""
            # Answers that nobody reads any more end behind their next token.
            for _ in range(1000):
                metrics = (await ask(app, "/metrics")).body.decode()
                if "nnc_answering 0" in metrics:
                    break
                await asyncio.sleep(0.01)
            return replies, metrics

    replies, metrics = asyncio.run(all_of_them())
    for body, gone, reply in zip(bodies, leaving, replies, strict=True):
        if gone:
            continue
        alone = model.generate(
            body["prompt"], body["max_tokens"], temperature=body["temperature"] or None, seed=body["seed"]
        )
        events = reply.events() if body["stream"] else [reply.json()]
        assert "".join(event["choices"][0]["text"] for event in events) == alone
    assert "nnc_answering 0" in metrics
    assert "nnc_slots 4" in metrics


@pytest.mark.parametrize("waiting", [1, 8])
def test_a_server_of_many_slots_ends_at_once(model: LanguageModel, waiting: int) -> None:
    worker = AnsweringWorker(model, waiting, slots=4)
    worker.start()
    worker.stop()
    assert not any(thread.is_alive() for thread in worker._threads)
    assert worker.waiting <= 0

    async def late() -> None:
        async for _ in worker.parts([GenerationRequest("in", 1)]):
            pass

    with pytest.raises(EndingError, match="a server that ends"):
        asyncio.run(late())


def test_a_prompt_is_encoded_once(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    app, encoded = language.application(model, "tiny"), []
    encode = type(model.tokenizer).encode
    monkeypatch.setattr(
        type(model.tokenizer),
        "encode",
        lambda own, *values, **named: encoded.append(values) or encode(own, *values, **named),
    )

    async def answer() -> Reply:
        async with running(app):
            return await ask(app, "/v1/completions", {"prompt": "he", "max_tokens": 2})

    assert asyncio.run(answer()).status == 200
    assert encoded == [("he",)]


def test_an_answer_that_nobody_reads_is_given_up(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    app = language.application(model, "tiny")
    monkeypatch.setattr(LanguageModel, "continued", lambda *_, **__: Endless())

    async def leave() -> tuple[Reply, Reply]:
        async with running(app):
            left = await ask(app, "/v1/completions", {"prompt": "he", "stream": True}, leave_behind=2)
            monkeypatch.setattr(LanguageModel, "continued", lambda *_, **__: Endless(1))
            return left, await ask(app, "/v1/completions", {"prompt": "he"})

    left, after = asyncio.run(leave())
    assert b"[DONE]" not in left.body
    assert after.json()["choices"][0]["text"] == "a"


def test_the_end_of_the_server_ends_what_is_answered(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    app = language.application(model, "tiny")
    monkeypatch.setattr(LanguageModel, "continued", lambda *_, **__: Endless())

    async def end() -> list[Reply]:
        async with running(app):
            pending = [asyncio.create_task(ask(app, "/v1/completions", {"prompt": "he"})) for _ in range(3)]
            await asyncio.sleep(0.05)
        return list(await asyncio.gather(*pending))

    for reply in asyncio.run(end()):
        assert (reply.status, "a server that ends" in reply.json()["error"]["message"]) == (503, True)
