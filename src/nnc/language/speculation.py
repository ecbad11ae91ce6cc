"""Drafts: tokens that may come next, read in one step with the token before them and kept as far as they were right.

A text is the one without drafts: each token is chosen by the scores behind the one before it, whoever proposed it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnc.language.kept_tokens import KeptTokens

# At most this many last tokens of the text are looked up in what stands before, the longest run first.
LONGEST_RUN, SHORTEST_RUN = 4, 2


class RepeatedRuns:
    """What followed the last few tokens where they stood before (n-grams of the text itself)."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        # Behind the last place of each run.
        self._places: dict[tuple[int, ...], int] = {}

    def propose(self, tokens: Sequence[int], count: int) -> list[int]:
        """What followed the longest run that stood before."""
        self._follow(tokens)
        for length in range(LONGEST_RUN, SHORTEST_RUN - 1, -1):
            place = self._places.get(tuple(tokens[-length:]))
            if place is not None and len(tokens) > length:
                return list(tokens[place : place + count])
        return []

    def _follow(self, tokens: Sequence[int]) -> None:
        """Note all runs but those that end with the last token: nothing follows them yet."""
        if self._tokens != list(tokens[: len(self._tokens)]):
            self._tokens, self._places = [], {}
        for end in range(max(len(self._tokens), 1), len(tokens)):
            for length in range(SHORTEST_RUN, min(LONGEST_RUN, end) + 1):
                self._places[tuple(tokens[end - length : end])] = end
        self._tokens = list(tokens)


class DraftModel:
    """The likeliest tokens of a smaller model of the same vocabulary, which keeps what it read."""

    def __init__(self, kept: KeptTokens) -> None:
        self._kept = kept

    def propose(self, tokens: Sequence[int], count: int) -> list[int]:
        """As many as there is room for."""
        row = list(tokens)
        for _ in range(min(count, self._kept.room - len(row))):
            row.append(int(np.argmax(self._kept.scores(row))))
        return row[len(tokens) :]
