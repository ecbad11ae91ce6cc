"""What a request asks for: fields of OpenAI's interface, each checked, and what is not served refused by name."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from nnc.classes import dataclass
from nnc.errors import DataError
from nnc.language.text.chat_template import Message, check_messages

USUAL_LENGTH = 256
MOST_STOPS, MOST_STOP_LENGTH = 8, 256
MOST_SEED = 2**63
# What changes answers and is not served: an answer that leaves it out would be another one than was asked for.
UNSERVED = ("logit_bias", "presence_penalty", "frequency_penalty", "tools", "functions", "response_format", "suffix")

Json: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A prompt or messages, and how what follows is chosen."""

    prompt: str | tuple[Message, ...]
    length: int
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    stop: tuple[str, ...]
    seed: int
    stream: bool

    @property
    def is_chat(self) -> bool:
        """Whether messages are answered."""
        return not isinstance(self.prompt, str)


def parsed(body: bytes, *, chat: bool) -> GenerationRequest:
    """The request of a body; DataError for what it cannot ask for."""
    try:
        held = json.loads(body)
    except (ValueError, RecursionError):
        held = None
    if not isinstance(held, dict):
        raise DataError("request", got="no object of JSON", need="fields by name")
    for name in UNSERVED:
        if held.get(name):
            raise DataError("request", got=name, need="fields that are served", fix="leave it out")
    if held.get("n", 1) != 1:
        raise DataError("request", got="n other than 1", need="one answer a request")
    temperature = _number(held, "temperature", 0.0, 100.0)
    return GenerationRequest(
        prompt=_messages(held.get("messages")) if chat else _prompt(held.get("prompt")),
        length=_integer(held, ("max_tokens", "max_completion_tokens"), 1, 1 << 31, USUAL_LENGTH),
        # 0 is the likeliest token there, as no temperature is here; theirs is 1 unless given.
        temperature=None if temperature == 0 else temperature or 1.0,
        top_p=None if temperature == 0 else _share(held, "top_p"),
        top_k=_integer(held, ("top_k",), 0, 1 << 31, 0) or None if temperature != 0 else None,
        min_p=None if temperature == 0 else _share(held, "min_p"),
        stop=_stops(held.get("stop")),
        seed=_integer(held, ("seed",), 0, MOST_SEED, 0),
        stream=held.get("stream") is True,
    )


def _number(held: Json, name: str, low: float, high: float) -> float | None:
    value = held.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise DataError("request", got=f"{name} that is no such number", need=f"{low:g} to {high:g}")
    return float(value)


def _share(held: Json, name: str) -> float | None:
    value = _number(held, name, 0.0, 1.0)
    return None if value in (None, 0.0) or (math.isclose(value or 0.0, 1.0) and name == "top_p") else value


def _integer(held: Json, names: Sequence[str], low: int, high: int, default: int) -> int:
    name = next((each for each in names if held.get(each) is not None), names[0])
    value = held.get(name)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < high:
        raise DataError("request", got=f"{name} that is no such integer", need=f"{low} or more, below {high}")
    return value


def _prompt(held: object) -> str:
    if isinstance(held, list) and len(held) == 1:
        held = held[0]
    if not isinstance(held, str):
        raise DataError("request", got="no prompt", need="a text")
    return held


def _messages(held: object) -> tuple[Message, ...]:
    if not isinstance(held, list):
        raise DataError("request", got="no messages", need='[{"role": "user", "content": "…"}]')
    check_messages(held)
    return tuple({"role": each["role"], "content": each["content"]} for each in held)


def _stops(held: object) -> tuple[str, ...]:
    stops = [] if held is None else held if isinstance(held, list) else [held]
    if len(stops) > MOST_STOPS or not all(
        isinstance(each, str) and 0 < len(each) <= MOST_STOP_LENGTH for each in stops
    ):
        need = f"at most {MOST_STOPS} texts of 1 to {MOST_STOP_LENGTH} characters"
        raise DataError("request", got="other stops", need=need)
    return tuple(stops)
