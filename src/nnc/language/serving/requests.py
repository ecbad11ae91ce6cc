"""What a request asks for: fields of OpenAI's interface, each checked, and what is not served refused by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from nnc.classes import dataclass
from nnc.errors import FormatError
from nnc.language.constraints.answer_forms import AnswerForm, grammar_of
from nnc.language.constraints.json_schemas import grammar_of_schema, response_schema
from nnc.language.serving.fields import Json, RequestError, flag, inside, integer, number, object_of, texts
from nnc.language.text.chat_template import Message

MOST_STOPS, MOST_STOP_LENGTH = 8, 256
MOST_SEED = 2**63
# Answers to one request: of several prompts, or several of one.
MOST_CHOICES = 16
MOST_LIKELY = 20
MOST_TEXTS = 256
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
# What changes answers and is not served: an answer that leaves it out would be another one than was asked for.
UNSERVED = ("logit_bias", "presence_penalty", "frequency_penalty", "tools", "functions", "suffix", "echo", "audio")


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A prompt or messages, and how what follows is chosen; `length` is None for as much as is usual and has room.

    `likely` is how many of the likeliest tokens are wanted beside each that came, None for no log-probabilities.
    """

    prompt: str | tuple[Message, ...]
    length: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int = 0
    form: AnswerForm | None = None
    likely: int | None = None


@dataclass(frozen=True, slots=True)
class AskedAnswers:
    """The answers of one request, each drawn by a seed of its own, and how they are sent."""

    answers: tuple[GenerationRequest, ...]
    # Of so many prompts, each with as many answers as the others.
    prompts: int
    stream: bool
    # Whether tokens are counted behind the last event.
    counted: bool


@dataclass(frozen=True, slots=True)
class AskedVectors:
    """Texts whose vectors are wanted, as numbers or as base64 of f32."""

    texts: tuple[str, ...]
    encoded: bool


def parsed(body: bytes, *, chat: bool) -> AskedAnswers:
    """The request of a body; DataError for what it cannot ask for."""
    held = object_of(body)
    for name in UNSERVED:
        if held.get(name):
            raise RequestError(name, got=name, need="fields that are served", fix="leave it out")
    prompts = (_messages(held.get("messages")),) if chat else texts(held, "prompt", MOST_CHOICES)
    each = integer(held, ("n",), 1, MOST_CHOICES + 1) or 1
    if each * len(prompts) > MOST_CHOICES:
        raise RequestError("n", got=f"{each * len(prompts)} answers", need=f"at most {MOST_CHOICES} a request")
    first = _answer(held, chat=chat)
    answers = tuple(
        replace(first, prompt=prompt, seed=first.seed + place) for prompt in prompts for place in range(each)
    )
    stream = flag(held, "stream")
    options = inside(held, "stream_options")
    return AskedAnswers(answers, len(prompts), stream, stream and flag(options, "include_usage"))


def parsed_texts(body: bytes) -> AskedVectors:
    """Texts whose vectors a body asks for."""
    held = object_of(body)
    if held.get("dimensions") is not None:
        raise RequestError("dimensions", got="dimensions", need="all of a vector", fix="leave it out")
    encoding = held.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        raise RequestError("encoding_format", got="another encoding_format", need="float or base64")
    given = texts(held, "input", MOST_TEXTS)
    if not all(given):
        raise RequestError("input", got="an empty text", need="texts of at least one character")
    return AskedVectors(given, encoding == "base64")


def _answer(held: Json, *, chat: bool) -> GenerationRequest:
    """How an answer is chosen, whatever it is to."""
    temperature = number(held, "temperature", 0.0, 100.0)
    # 0 is the likeliest token there, as no temperature is here; theirs is 1 unless given.
    drawn = temperature != 0
    return GenerationRequest(
        prompt="",
        length=integer(held, ("max_completion_tokens", "max_tokens"), 1, 1 << 31),
        temperature=(temperature or 1.0) if drawn else None,
        top_p=_share(held, "top_p", drawn=drawn),
        top_k=(integer(held, ("top_k",), 0, 1 << 31) or None) if drawn else None,
        min_p=_share(held, "min_p", drawn=drawn),
        stop=_stops(held.get("stop")),
        seed=integer(held, ("seed",), 0, MOST_SEED) or 0,
        form=_form(held),
        likely=_likely(held, chat=chat),
    )


def _share(held: Json, name: str, *, drawn: bool) -> float | None:
    value = number(held, name, 0.0, 1.0)
    if not drawn or not value or (name == "top_p" and math.isclose(value, 1.0)):
        return None
    return value


def _likely(held: Json, *, chat: bool) -> int | None:
    """How many of the likeliest tokens are told: chats say `logprobs: true, top_logprobs: 3`, others 3."""
    if not chat:
        return integer(held, ("logprobs",), 0, MOST_LIKELY + 1)
    count = integer(held, ("top_logprobs",), 0, MOST_LIKELY + 1)
    wanted = flag(held, "logprobs")
    if count is not None and not wanted:
        raise RequestError("top_logprobs", got="top_logprobs alone", need="logprobs: true beside it")
    return (count or 0) if wanted else None


def _form(held: Json) -> AnswerForm | None:
    """What an answer is to be of: `response_format` as OpenAI has it, or `grammar` in llama.cpp's notation."""
    response, grammar = held.get("response_format"), held.get("grammar")
    if response is not None and not isinstance(response, Mapping):
        raise RequestError("response_format", got="response_format that is no object", need='{"type": "json_object"}')
    if grammar is not None and not isinstance(grammar, str):
        raise RequestError("grammar", got="a grammar that is no text", need="rules in GBNF")
    try:
        schema = response_schema(response)
        if schema is not None and grammar:
            raise RequestError("grammar", got="it beside response_format", need="one or the other")
        # Read here, where what is none is an answer to its client, and once more where its masks are made.
        if grammar:
            grammar_of(grammar)
        if schema is not None:
            grammar_of_schema(schema, "response_format")
    except FormatError as error:
        raise RequestError(
            "grammar" if grammar else "response_format", got=f"{error.subject}: {error.got}", need=error.need
        ) from None
    return grammar or None if schema is None else schema


def _messages(held: object) -> tuple[Message, ...]:
    if not isinstance(held, list) or not held:
        raise RequestError("messages", got="no messages", need='[{"role": "user", "content": "…"}]')
    return tuple(_message(each, place) for place, each in enumerate(held))


def _message(held: object, place: int) -> Message:
    if not isinstance(held, dict):
        raise RequestError("messages", got=f"message {place} that is none", need='{"role": "user", "content": "…"}')
    role = held.get("role")
    if not isinstance(role, str) or role not in ROLES:
        need = f"one of {', '.join(ROLES)}"
        raise RequestError("messages", got=f"message {place} of another role", need=need)
    return {"role": ROLES[role], "content": _content(held.get("content"), place)}


def _content(held: object, place: int) -> str:
    """A text, or parts that are texts."""
    if isinstance(held, str):
        return held
    parts = held if isinstance(held, list) else [None]
    written = []
    for part in parts:
        text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
        if not isinstance(text, str):
            kind = part.get("type") if isinstance(part, dict) else None
            got = f"a part of type {str(kind)[:40]!r}" if kind else "no content"
            raise RequestError("messages", got=f"message {place} without texts: {got}", need="a content of text alone")
        written.append(text)
    return "".join(written)


def _stops(held: object) -> tuple[str, ...]:
    stops = [] if held is None else held if isinstance(held, list) else [held]
    if len(stops) > MOST_STOPS or not all(
        isinstance(each, str) and 0 < len(each) <= MOST_STOP_LENGTH for each in stops
    ):
        need = f"at most {MOST_STOPS} texts of 1 to {MOST_STOP_LENGTH} characters"
        raise RequestError("stop", got="other stops", need=need)
    return tuple(stops)
