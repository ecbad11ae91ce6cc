"""The text of an answer in pieces, and behind them why it ended and how many tokens there were."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Literal

from nnc.language.text.pieces import TextPieces, stopped
from nnc.language.token_shares import TokenShare


class TextStream(Iterator[str]):
    """Pieces of text. `reason` is "length" once as many tokens came as were asked for, else "stop".

    `shares` are those of the tokens so far, where `logprobs` were asked for.
    """

    def __init__(
        self,
        tokens: Generator[int, None, None],
        pieces: TextPieces,
        stops: tuple[str, ...],
        read: int,
        length: int,
        shares: Sequence[TokenShare] = (),
    ) -> None:
        self.read, self.written, self._shares = read, 0, shares
        self.reason: Literal["stop", "length"] = "stop"
        self._tokens, self._pieces, self._length = tokens, pieces, length
        self._text = stopped(self._whole(), stops)

    def __next__(self) -> str:
        return next(self._text)

    @property
    def shares(self) -> Sequence[TokenShare]:
        """How likely each token was that came, the end of the text left out."""
        return self._shares[: self.written]

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
