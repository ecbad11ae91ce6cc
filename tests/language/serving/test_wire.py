"""Fields of OpenAI's interface in requests, and what its clients read of the answers."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from tests.language.serving.test_application import asked
from tests.language.small_models import write_text_model

pytest.importorskip("tokenizers", reason="the extra language is not installed")
pytest.importorskip("jinja2", reason="the extra language is not installed")
pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from nnc import language
from nnc.language import LanguageModel
from nnc.nn.model.model import Model

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return write_text_model(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="module")
def model(place: Any) -> LanguageModel:
    return language.load(place, context=64, backend="reference")


def replies(model: LanguageModel, *requests: tuple[str, object], slots: int = 1) -> list[Any]:
    return asked(language.application(model, "tiny", slots=slots), *requests)


@pytest.mark.parametrize("slots", [1, 3])
def test_several_answers_are_those_of_seeds_that_follow(model: LanguageModel, slots: int) -> None:
    body = {"prompt": ["he", "in"], "n": 2, "max_tokens": 5, "temperature": 2.0, "seed": 7}
    whole, streamed = replies(model, (TEXT, body), (TEXT, {**body, "stream": True}), slots=slots)
    alone = [model.generate(prompt, 5, temperature=2.0, seed=seed) for prompt in ("he", "in") for seed in (7, 8)]
    choices = whole.json()["choices"]
    assert [(each["index"], each["text"]) for each in choices] == list(enumerate(alone))
    texts = [""] * 4
    for event in streamed.events():
        (choice,) = event["choices"]
        texts[choice["index"]] += choice["text"]
    assert texts == alone
    usage = whole.json()["usage"]
    # Each prompt is read for both of its answers, and counts once.
    assert usage["prompt_tokens"] == sum(len(model.tokenizer.encode(prompt)) for prompt in ("he", "in"))
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_the_last_event_counts_tokens_where_that_is_asked_for(model: LanguageModel) -> None:
    body = {"messages": [{"role": "user", "content": "he"}], "max_tokens": 4, "temperature": 0, "stream": True}
    plain, counted, whole = replies(
        model,
        (CHAT, body),
        (CHAT, {**body, "stream_options": {"include_usage": True}}),
        (CHAT, {**body, "stream": False}),
    )
    assert all(event["choices"] for event in plain.events())
    *events, last = counted.events()
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert (last["choices"], last["usage"]) == ([], whole.json()["usage"])
    assert all("usage" not in event for event in events)


def test_log_probabilities_are_those_of_the_model(model: LanguageModel) -> None:
    message = [{"role": "user", "content": "he"}]
    body = {"messages": message, "max_tokens": 4, "temperature": 0, "logprobs": True, "top_logprobs": 3}
    # Servers of their own: of a prompt that was read before only the last token is read, with other rounding.
    (whole,), (streamed,), (text,) = (
        replies(model, request)
        for request in (
            (CHAT, body),
            (CHAT, {**body, "stream": True}),
            (TEXT, {"prompt": "he", "max_tokens": 3, "logprobs": 2}),
        )
    )
    stream = model.stream(message, 4, logprobs=3)
    assert "".join(stream) == whole.json()["choices"][0]["message"]["content"]
    told = whole.json()["choices"][0]["logprobs"]["content"]
    assert [each["logprob"] for each in told] == [each.logprob for each in stream.shares]
    assert len(told) == 4
    for each in told:
        assert len(each["top_logprobs"]) == 3
        assert each["logprob"] == each["top_logprobs"][0]["logprob"] <= 0
        assert each["bytes"] is None or bytes(each["bytes"]).decode() == each["token"]
    pieces = [event["choices"][0]["logprobs"]["content"] for event in streamed.events()[1:]]
    assert [part for piece in pieces for part in piece] == told
    held = text.json()["choices"][0]["logprobs"]
    assert len(held["tokens"]) == len(held["token_logprobs"]) == len(held["top_logprobs"]) == 3
    # Tokens that are parts of characters have one text.
    assert all(1 <= len(each) <= 2 for each in held["top_logprobs"])


def test_shares_sum_to_1_and_are_of_the_scores_before_anything_is_drawn(model: LanguageModel) -> None:
    vocabulary = model.tokens.outputs[0].shape[-1]
    stream = model.stream("he", 6, temperature=3.0, seed=1, logprobs=vocabulary)
    list(stream)
    for share in stream.shares:
        assert np.exp([each for _, each in share.likeliest]).sum() == pytest.approx(1)
        assert dict(share.likeliest)[share.token] == share.logprob


@pytest.mark.parametrize("chat", [True, False])
def test_answers_are_of_a_form(model: LanguageModel, *, chat: bool) -> None:
    prompt: dict[str, object] = {"messages": [{"role": "user", "content": "he"}]} if chat else {"prompt": "he"}
    schema = {
        "type": "object",
        "properties": {"a": {"type": "boolean"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    forms = (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}},
        {"grammar": 'root ::= "yes" | "no"'},
        {"response_format": {"type": "text"}},
    )
    rows = [
        (CHAT if chat else TEXT, {**prompt, "max_tokens": 40, "temperature": 1.5, "seed": 3, **each}) for each in forms
    ]
    held = [reply.json()["choices"][0] for reply in replies(model, *rows)]
    texts = [each["message"]["content"] if chat else each["text"] for each in held]
    assert isinstance(json.loads(texts[0])["a"], bool)
    assert texts[1] in ("yes", "no")


def test_any_object_of_json(model: LanguageModel) -> None:
    body = {"prompt": "he", "max_tokens": 60, "temperature": 1.0, "response_format": {"type": "json_object"}}
    held = [
        reply.json()["choices"][0] for reply in replies(model, *((TEXT, {**body, "seed": seed}) for seed in range(4)))
    ]
    for each in held:
        assert each["text"].startswith("{")
        if each["finish_reason"] == "stop":
            assert isinstance(json.loads(each["text"]), dict)


def test_a_text_that_stops_is_no_part_of_the_answer(model: LanguageModel) -> None:
    alone = model.generate("he", 12, temperature=2.0, seed=5)
    stop = alone[2:4]
    (reply,) = replies(model, (TEXT, {"prompt": "he", "max_tokens": 12, "temperature": 2.0, "seed": 5, "stop": stop}))
    assert reply.json()["choices"][0]["text"] == alone[: alone.index(stop)]
    assert reply.json()["choices"][0]["finish_reason"] == "stop"


def test_without_a_length_as_much_comes_as_has_room(model: LanguageModel) -> None:
    prompt = "in" * 50
    (reply,) = replies(model, (TEXT, {"prompt": prompt, "temperature": 0}))
    assert reply.json()["choices"][0]["text"] == model.generate(prompt, 14)


def test_contents_of_parts_and_roles(model: LanguageModel) -> None:
    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "e"}]
    body = {"max_tokens": 3, "temperature": 0}
    told, plain = [{"role": "developer", "content": "in"}, {"role": "user", "content": parts}], [
        {"role": "system", "content": "in"}, {"role": "user", "content": "he"}
    ]  # fmt: skip
    one, other = replies(model, (CHAT, {**body, "messages": told}), (CHAT, {**body, "messages": plain}))
    assert one.json()["choices"] == other.json()["choices"]


MESSAGES = {
    "an image": ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, "'image_url'"),
    "another role": ({"role": "robot", "content": "he"}, "another role"),
    "a tool": ({"role": "tool", "content": "he"}, "another role"),
    "no role": ({"content": "he"}, "another role"),
    "no content": ({"role": "user"}, "without texts"),
    "a number": ({"role": "user", "content": 3}, "without texts"),
    "a part of no kind": ({"role": "user", "content": ["he"]}, "without texts"),
    "a list": (["user", "he"], "that is none"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_that_are_none_are_refused(name: str, model: LanguageModel) -> None:
    message, match = MESSAGES[name]
    (reply,) = replies(model, (CHAT, {"messages": [message]}))
    assert (reply.status, reply.json()["error"]["param"]) == (400, "messages")
    assert match in reply.json()["error"]["message"]


def test_log_probabilities_without_their_flag_are_refused(model: LanguageModel) -> None:
    (reply,) = replies(model, (CHAT, {"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2}))
    assert (reply.status, reply.json()["error"]["param"]) == (400, "top_logprobs")


def test_vectors_are_those_of_embed(place: Any, model: LanguageModel) -> None:
    texts = ["he", "in the hello"]
    body = {"model": "tiny", "input": texts}
    plain, encoded = replies(model, ("/v1/embeddings", body), ("/v1/embeddings", {**body, "encoding_format": "base64"}))
    vectors = language.embed(place, texts, context=64, backend="reference")
    held = plain.json()
    assert [each["index"] for each in held["data"]] == [0, 1]
    np.testing.assert_array_equal(np.array([each["embedding"] for each in held["data"]], np.float32), vectors)
    packed = [base64.b64decode(each["embedding"]) for each in encoded.json()["data"]]
    np.testing.assert_array_equal(np.array([np.frombuffer(each, "<f4") for each in packed]), vectors)
    assert held["usage"]["prompt_tokens"] == sum(len(model.tokenizer.encode(text)) for text in texts)


@pytest.mark.parametrize(
    "changed",
    [{"input": ""}, {"input": []}, {"input": [1]}, {}, {"input": "he", "dimensions": 3},
     {"input": "he", "encoding_format": "hex"}, {"input": "in" * 99}],
)  # fmt: skip
def test_texts_without_vectors_are_refused(changed: dict[str, object], model: LanguageModel) -> None:
    (reply,) = replies(model, ("/v1/embeddings", changed))
    assert (reply.status, reply.json()["error"]["type"]) == (400, "invalid_request_error")


def test_vectors_take_the_weights_of_generation(tmp_path: Any) -> None:
    place = write_text_model(tmp_path / "blocks.gguf", kind="q8_0")
    model = language.load(place, context=64, backend="reference")
    shared = model.vectors()
    assert isinstance(model.tokens, Model)
    name = "block0.attention.query.weight"
    assert shared._model.tensors()[name] is model.tokens.tensors()[name]
    vectors = language.embed(place, ["he"], context=64, backend="reference")
    np.testing.assert_array_equal(shared.of(shared.tokens(["he"])), vectors)


def test_routes_that_are_not_there_are_errors_of_that_interface(model: LanguageModel) -> None:
    none, got, page, metrics = replies(model, ("/v1/images", {}), (TEXT, None), ("/", None), ("/metrics", None))
    assert (none.status, none.json()["error"]["code"]) == (404, "not_found")
    assert (got.status, got.json()["error"]["type"]) == (405, "invalid_request_error")
    assert b"v1/chat/completions" in page.body
    lines = metrics.body.decode().splitlines()
    for name in ("answered_total", "waiting", "reused_tokens_total"):
        assert f"nnc_{name} 0" in lines
        assert any(line.startswith(f"# TYPE nnc_{name} ") for line in lines)
