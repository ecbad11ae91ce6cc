"""Text that grows token by token: characters as soon as they are whole, and none of a text that stops it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

# What a decoder gives for bytes that are no character yet.
BROKEN = "\ufffd"
# A character has at most four bytes, each of which may be a token.
LONGEST = 4


class Decodes(Protocol):
    """What gives the text of tokens."""

    def decode(self, tokens: list[int]) -> str:
        """The text."""
        ...


class TextPieces:
    """The text of tokens that come one by one: `push` gives what is new of it, `end` what was not whole."""

    def __init__(self, tokenizer: Decodes) -> None:
        self._tokenizer = tokenizer
        # What was given stays as the beginning: decoders may treat the first token otherwise.
        self._before: list[int] = []
        self._waiting: list[int] = []

    def push(self, token: int) -> str:
        """The characters that are whole with this token."""
        self._waiting.append(token)
        text = self._new()
        if text.endswith(BROKEN) and len(self._waiting) < LONGEST:
            return ""
        self._before, self._waiting = self._waiting, []
        return text

    def end(self) -> str:
        """What is left, whole or not."""
        text = self._new() if self._waiting else ""
        self._before, self._waiting = [], []
        return text

    def _new(self) -> str:
        whole = self._tokenizer.decode([*self._before, *self._waiting])
        return whole[len(self._tokenizer.decode(self._before)) :]


def stopped(pieces: Iterable[str], stops: tuple[str, ...]) -> Iterator[str]:
    """The pieces up to the first of these texts, which may lie across them; what may be its beginning waits."""
    held, longest = "", max(map(len, stops), default=1) - 1
    for piece in pieces:
        held += piece
        places = [place for place in (held.find(stop) for stop in stops) if place >= 0]
        if places:
            if held[: min(places)]:
                yield held[: min(places)]
            return
        kept = next((size for size in range(min(longest, len(held)), 0, -1) if _begins(held[-size:], stops)), 0)
        if held[: len(held) - kept]:
            yield held[: len(held) - kept]
        held = held[len(held) - kept :]
    if held:
        yield held


def _begins(text: str, stops: tuple[str, ...]) -> bool:
    return any(stop.startswith(text) for stop in stops)
