"""Which token comes next, by the scores of all: the best one, or one drawn from the likely ones."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Count, Positive, Range, Seed, checked
from nnc.classes import dataclass
from nnc.errors import NotFiniteError

# Tokens that are sorted at first: beyond them nearly nothing is ever drawn, and sorting 49,152 takes milliseconds.
FEW = 1024
# A part of the whole that is not nothing.
Part = Annotated[float, Range(0.0, 1.0, closed=(False, True))]


@checked
@dataclass(frozen=True, slots=True)
class TokenChoice:
    """The token of the highest score, the first of equal ones; or, where any option is given, a drawn one.

    p = softmax(scores / temperature), of the `top_k` best tokens only, of these the fewest of the best whose p add up
    to `top_p` (Holtzman et al. 2020), of these those with `min_p` of the best one's p or more (Nguyen et al. 2024).
    Row `r` of a batch draws by (`seed`, r), whatever the others are.
    """

    temperature: Positive | None = None
    top_k: Count | None = None
    top_p: Part | None = None
    seed: Seed = 0
    min_p: Part | None = None

    @property
    def greedy(self) -> bool:
        """Whether nothing is drawn."""
        return all(part is None for part in (self.temperature, self.top_k, self.top_p, self.min_p))

    def generator(self, row: int) -> np.random.Generator:
        """Where a row of a batch draws from."""
        return np.random.default_rng((self.seed, row))

    def pick(self, scores: NDArray[np.float64], generator: np.random.Generator) -> int:
        """The next token of a row."""
        if np.isnan(scores).any():
            raise NotFiniteError("generate", got="scores that are not numbers", need="a model whose weights are finite")
        if self.greedy:
            return int(np.argmax(scores))
        drawn = generator.random()
        tokens, shares, whole = self._likeliest(scores, FEW)
        sums = np.cumsum(shares)
        if not (whole or (drawn < sums[-1] and self.top_p is None and self.min_p is None)):
            tokens, shares, _ = self._likeliest(scores, len(scores))
            sums = np.cumsum(shares)
        return int(tokens[np.searchsorted(sums[:-1], drawn, side="right")])

    def likely(self, scores: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Tokens that can be drawn, the likeliest first, and their probabilities."""
        tokens, shares, _ = self._likeliest(scores, len(scores))
        return tokens, shares

    def _likeliest(self, scores: NDArray[np.float64], most: int) -> tuple[NDArray[np.int64], NDArray[np.float64], bool]:
        """At most so many of them (or `top_k`), with probabilities among all, and whether there are no others."""
        count = min(self.top_k or len(scores), len(scores))
        tokens = best_tokens(scores, count if self.top_k else min(most, count))
        logits = (scores[tokens] if self.top_k else scores) / (self.temperature or 1.0)
        powers = np.exp(logits - logits.max())
        shares = (powers if self.top_k else powers[tokens]) / powers.sum()
        before = np.cumsum(shares) - shares
        likely = (before < (self.top_p or 1.0)) & (shares >= (self.min_p or 0.0) * shares[0])
        kept = max(int(np.count_nonzero(likely)), 1)
        whole = kept < len(tokens) or len(tokens) == count
        return tokens[:kept], shares[:kept] / (shares[:kept].sum() if whole else 1.0), whole


def best_tokens(scores: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The tokens of the highest scores, the best first, the first of equal ones: no vocabulary is sorted for a few."""
    if count >= len(scores):
        return np.argsort(-scores, kind="stable")
    least = np.partition(scores, -count)[-count]
    candidates = np.flatnonzero(scores >= least)
    return np.asarray(candidates[np.argsort(-scores[candidates], kind="stable")[:count]])


def log_softmax_of(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """log p of the last axis."""
    shifted = scores - scores.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))
