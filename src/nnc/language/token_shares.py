"""How likely the tokens of an answer were: log p of each by the model's own scores, and those of the likeliest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.language.kept_tokens import TokenPicker
from nnc.nn.inference.next_token import best_tokens, log_softmax_of


@dataclass(frozen=True, slots=True)
class TokenShare:
    """log p(token), natural, before temperature and grammar, and the same of the likeliest ones, the best first."""

    token: int
    logprob: float
    likeliest: tuple[tuple[int, float], ...]


class NotedChoice:
    """A choice that notes how likely each token was that it picked, and the `count` likeliest."""

    def __init__(self, choice: TokenPicker, count: int) -> None:
        self._choice, self._count = choice, count
        self.shares: list[TokenShare] = []

    def generator(self, row: int) -> np.random.Generator:
        """Where a row of a batch draws from."""
        return self._choice.generator(row)

    def pick(self, scores: NDArray[np.float64], generator: np.random.Generator) -> int:
        """The next token by the scores of all, as the choice has it."""
        token = self._choice.pick(scores, generator)
        logs = log_softmax_of(scores)
        best = best_tokens(scores, self._count) if self._count else np.zeros(0, np.int64)
        likeliest = tuple((int(each), float(logs[each])) for each in best)
        self.shares.append(TokenShare(token, float(logs[token]), likeliest))
        return token
