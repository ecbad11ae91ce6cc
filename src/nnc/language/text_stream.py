"""The text of an answer in pieces, and behind them why it ended and how many tokens there were."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Literal

from nnc.language.text.pieces import TextPieces, stopped


class TextStream(Iterator[str]):
    """Pieces of text. `reason` is "length" once as many tokens came as were asked for, else "stop"."""

    def __init__(
        self, tokens: Generator[int, None, None], pieces: TextPieces, stops: tuple[str, ...], read: int, length: int
    ) -> None:
        self.read, self.written = read, 0
        self.reason: Literal["stop", "length"] = "stop"
        self._tokens, self._pieces, self._length = tokens, pieces, length
        self._text = stopped(self._whole(), stops)

    def __next__(self) -> str:
        return next(self._text)

    def close(self) -> None:
        """Ask for no more tokens."""
        self._tokens.close()

    def _whole(self) -> Iterator[str]:
        for token in self._tokens:
            self.written += 1
            piece = self._pieces.push(token)
            if piece:
                yield piece
        if self.written == self._length:
            self.reason = "length"
        rest = self._pieces.end()
        if rest:
            yield rest
