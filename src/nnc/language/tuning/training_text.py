"""Texts to learn from, as sequences of tokens of which some are learned: lines of JSON, or a plain text.

{"messages": [{"role": "user", "content": "…"}, …]}    a chat by the template of the model: its answers are learned
{"conversations": [{"from": "human", "value": "…"}, …]}    the same under other names
{"prompt": "…", "completion": "…"}                     the completion is learned
{"prompt": "…", "chosen": "…", "rejected": "…"}        a preference; prompt and answers may be messages
{"text": "…"}                                          all of it is learned, as is a file that is no .jsonl
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.precautions.reading import read_file
from nnc.errors import DataError
from nnc.language.text.chat_template import Message
from nnc.language.text.tokenizer import TextTokenizer

MOST_DATA_BYTES = 1 << 30
ROLES: Mapping[str, str] = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant"}
ANSWERS = frozenset({"assistant", "model"})
FORMS = "messages, conversations, text, prompt and completion, or prompt, chosen and rejected"
Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class TokenSequence:
    """tokens[n], and learned[n]: whether the loss counts that a token follows those before it."""

    tokens: NDArray[np.int32]
    learned: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True, eq=False)
class Preference:
    """Two answers to the same prompt, the first of which is preferred."""

    chosen: TokenSequence
    rejected: TokenSequence


Example: TypeAlias = TokenSequence | Preference


def read_examples(path: Path | str, tokenizer: TextTokenizer) -> list[Example]:
    """All examples of a file; DataError names the line that is none."""
    place = Path(path)
    try:
        content = read_file(place, "texts to learn from", MOST_DATA_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(str(place), got=f"bytes that are no UTF-8 ({error.start:,})", need="UTF-8") from None
    if place.suffix not in (".jsonl", ".ndjson", ".json"):
        return [_text(content, tokenizer)]
    examples: list[Example] = [_example(row, tokenizer, line) for line, row in _rows(place, content)]
    if not examples:
        raise DataError(str(place), got="no lines", need="a line of JSON for each example")
    kinds = {type(example) for example in examples}
    if len(kinds) > 1:
        raise DataError(str(place), got="preferences beside other examples", need="one kind of them")
    return examples


def _rows(place: Path, content: str) -> Iterator[tuple[str, Row]]:
    """Each row with what errors call its line; a file may be one list too."""
    lines: list[tuple[str, str | Row]]
    if place.suffix == ".json" and content.lstrip().startswith("["):
        held = _parsed(str(place), content)
        lines = [(f"{place}, example {number}", row) for number, row in enumerate(held, 1)]
    else:
        # Other separators of lines may stand inside a text of JSON.
        lines = [
            (f"{place}, line {number}", line) for number, line in enumerate(content.split("\n"), 1) if line.strip()
        ]
    for line, text in lines:
        row = _parsed(line, text) if isinstance(text, str) else text
        if not isinstance(row, dict):
            raise DataError(line, got=type(row).__name__, need=f"an object of JSON with {FORMS}")
        yield line, row


def _parsed(line: str, text: str) -> Any:  # noqa: ANN401  # whatever JSON has
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(line, got="no JSON", need=f"an object of JSON with {FORMS}") from None


def _example(row: Row, tokenizer: TextTokenizer, line: str) -> Example:
    try:
        match row:
            case {"chosen": chosen, "rejected": rejected}:
                prompt = row.get("prompt", "")
                return Preference(*(_answer(prompt, answer, tokenizer, line) for answer in (chosen, rejected)))
            case {"messages": messages}:
                return _chat(_messages(messages, line), tokenizer, _said_by_assistant)
            case {"conversations": messages}:
                return _chat(_messages(messages, line), tokenizer, _said_by_assistant)
            case {"prompt": prompt, "completion": completion}:
                return _answer(prompt, completion, tokenizer, line)
            case {"text": str(text)}:
                return _text(text, tokenizer)
    except DataError as error:
        error.subject = line
        raise
    raise DataError(line, got=f"keys {', '.join(sorted(map(str, row)))[:80]}", need=FORMS)


def _messages(held: object, line: str) -> list[Message]:
    """Messages under either name."""
    if not isinstance(held, list) or not held:
        raise DataError(line, got="no messages", need='[{"role": "user", "content": "…"}, …]')
    messages = list[Message]()
    for place, message in enumerate(held):
        named = message if isinstance(message, dict) else {}
        role, content = named.get("role", named.get("from")), named.get("content", named.get("value"))
        if not isinstance(role, str) or not isinstance(content, str):
            raise DataError(line, got=f"message {place} without texts", need='{"role": "user", "content": "…"}')
        messages.append({"role": ROLES.get(role, role), "content": content})
    return messages


def _answer(prompt: object, answer: object, tokenizer: TextTokenizer, line: str) -> TokenSequence:
    """A prompt and its answer, of which the answer is learned: texts, or messages."""
    if isinstance(answer, list):
        before = [] if prompt == "" else _messages(prompt, line)
        messages = [*before, *_messages(answer, line)]
        # Without a prompt of its own, the last message is the answer.
        first = len(before) or len(messages) - 1
        return _chat(messages, tokenizer, lambda place, message: place >= first)
    if not isinstance(prompt, str) or not isinstance(answer, str):
        raise DataError(line, got="a prompt and an answer of other kinds", need="two texts, or two lists of messages")
    return _learned(prompt + answer, [(len(prompt), len(prompt) + len(answer))], tokenizer, ends=True)


def _text(text: str, tokenizer: TextTokenizer) -> TokenSequence:
    return _learned(text, [(0, len(text))], tokenizer, ends=True)


def _said_by_assistant(place: int, message: Message) -> bool:
    return message["role"] in ANSWERS


def _chat(
    messages: Sequence[Message], tokenizer: TextTokenizer, wanted: Callable[[int, Message], bool]
) -> TokenSequence:
    """A chat by the model's template; of answers that are learned the end is too, white space behind it is not."""
    if not any(wanted(place, message) for place, message in enumerate(messages)):
        raise DataError("chat", got="no answer of the assistant", need="one at least: answers are what is learned")
    if tokenizer.template is None:
        raise DataError("chat", got="a model without a chat template", need="one", fix='"text", or "prompt"')
    whole, spans = tokenizer.template.text(messages, answer=False), []
    for place, message in enumerate(messages):
        if wanted(place, message):
            before = tokenizer.template.text(messages[:place], answer=True) if place else ""
            behind = tokenizer.template.text(messages[: place + 1], answer=False)
            # Some templates write earlier messages otherwise: what they have in common with the whole counts.
            start, stop = _alike(before, whole), _alike(behind, whole)
            spans.append((start, start + len(whole[start:stop].rstrip())))
    return _learned(whole, spans, tokenizer, ends=False)


def _alike(text: str, other: str) -> int:
    """How many characters are the same at the beginning of both."""
    return next(
        (place for place, pair in enumerate(zip(text, other)) if pair[0] != pair[1]), min(len(text), len(other))
    )


def _learned(text: str, spans: Sequence[tuple[int, int]], tokenizer: TextTokenizer, *, ends: bool) -> TokenSequence:
    """The tokens of a text, learned where they lie within one of the spans; and its end where the text `ends`."""
    placed = tokenizer.places(text)
    tokens = np.array([token for token, _, _ in placed], np.int32)
    begins, stops = (np.array([place[side] for place in placed], np.int64) for side in (1, 2))
    learned = np.zeros(len(tokens), np.bool_)
    for start, stop in spans:
        learned |= (begins >= start) & (begins < stop) & (stops <= stop)
    if ends and tokenizer.end is not None:
        tokens, learned = np.append(tokens, np.int32(tokenizer.end)), np.append(learned, np.True_)
    return TokenSequence(tokens, learned)
