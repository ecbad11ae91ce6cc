"""Which tokens of a vocabulary may come next by a grammar, as truth values for all of them.

All tokens are read at once, byte by byte: those that are in the same state before bytes that no rule tells apart are in
the same state behind them. A state is looked at once; its mask is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from nnc.errors import DataError, UsageError
from nnc.language.constraints.byte_states import DEAD, ByteStates
from nnc.language.constraints.grammar_rules import Grammar
from nnc.nn.inference.next_token import TokenChoice

Mask = NDArray[np.bool_]
# Masks that are kept: of 150,000 tokens they take 75 MB.
MOST_MASKS = 512
# Classes of bytes.
KINDS = 256


class TokenMasks:
    """The masks of a grammar over a vocabulary, the bytes of each token, for any number of answers, in any thread.

    `ends` are the tokens that end an answer, allowed where the grammar lets it end. Tokens without bytes never come.
    """

    def __init__(self, grammar: Grammar, vocabulary: Sequence[bytes], ends: Iterable[int]) -> None:
        self._states = ByteStates(grammar)
        self._ends = sorted(ends)
        if not self._ends:
            raise UsageError("grammar", got="a tokenizer without an end of texts", need="a token that ends an answer")
        self._paths = [token.translate(self._states.classes) for token in vocabulary]
        self._kinds = np.frombuffer(b"".join(self._paths), np.uint8).astype(np.int64)
        self._sizes = np.array([len(path) for path in self._paths], np.int64)
        self._begins = np.cumsum(self._sizes) - self._sizes
        speaking = self._sizes > 0
        speaking[self._ends] = False
        tokens = np.flatnonzero(speaking)
        first = self._kinds[self._begins[tokens]]
        # By their first byte, as most states refuse most of them there.
        self._by_first = {int(kind): tokens[first == kind] for kind in np.unique(first)}
        self._masks: dict[int, Mask] = {}
        # States are numbered as they are reached.
        self._lock = Lock()
        self.start = self._states.start

    def allowed(self, state: int) -> Mask:
        """Truth values [vocabulary], read-only: which tokens may come next."""
        with self._lock:
            mask = self._masks.get(state)
            if mask is None:
                mask = self._looked_at(state)
                mask.flags.writeable = False
                if len(self._masks) >= MOST_MASKS:
                    self._masks.clear()
                self._masks[state] = mask
            return mask

    def after(self, state: int, token: int) -> int:
        """The state behind an allowed token; that of an end stays."""
        if token in self._ends:
            return state
        with self._lock:
            for kind in self._paths[token]:
                state = self._states.after(state, kind)
                if state == DEAD:
                    raise DataError("grammar", got=f"token {token}", need="one that is allowed there")
        return state

    def ends(self, state: int) -> bool:
        """Whether the answer may end there."""
        return self._states.ends(state)

    def _looked_at(self, state: int) -> Mask:
        mask = np.zeros(len(self._paths), np.bool_)
        begun = [(each, self._states.after(state, kind)) for kind, each in self._by_first.items()]
        begun = [(each, following) for each, following in begun if following != DEAD]
        tokens = np.concatenate([each for each, _ in begun]) if begun else np.zeros(0, np.int64)
        states = np.repeat([following for _, following in begun], [len(each) for each, _ in begun]).astype(np.int64)
        read = 0
        while len(tokens):
            read += 1
            whole = self._sizes[tokens] == read
            mask[tokens[whole]] = True
            tokens, states = tokens[~whole], states[~whole]
            steps, own = np.unique(states * KINDS + self._kinds[self._begins[tokens] + read], return_inverse=True)
            after = np.array([self._states.after(*divmod(step, KINDS)) for step in steps.tolist()], np.int64)[own]
            tokens, states = tokens[after != DEAD], after[after != DEAD]
        if self._states.ends(state):
            mask[self._ends] = True
        return mask


class ConstrainedChoice:
    """A choice of tokens of which only those come that a grammar allows; of one answer, which begins with it.

    `pick` takes the scores of what comes next, as `TokenChoice.pick` does, and goes on behind the token that it gives.
    """

    def __init__(self, choice: TokenChoice, masks: TokenMasks) -> None:
        self._choice, self._masks = choice, masks
        self._state = masks.start

    @property
    def greedy(self) -> bool:
        """Whether nothing is drawn."""
        return self._choice.greedy

    def generator(self, row: int) -> np.random.Generator:
        """Where a row of a batch draws from."""
        return self._choice.generator(row)

    def allowed(self) -> Mask:
        """Truth values [vocabulary]: which tokens may come next."""
        return self._masks.allowed(self._state)

    def pick(self, scores: NDArray[np.float64], generator: np.random.Generator) -> int:
        """The next token of those that are allowed; DataError where the vocabulary has none of them."""
        mask = self.allowed()
        if len(scores) > len(mask):
            mask = np.concatenate([mask, np.zeros(len(scores) - len(mask), np.bool_)])
        kept = np.where(mask[: len(scores)], scores, -np.inf)
        if not np.isfinite(kept).any() and not np.isnan(scores).any():
            raise DataError(
                "grammar", got="a place where no token fits", need="a grammar that the vocabulary can write"
            )
        token = self._choice.pick(kept, generator)
        self._state = self._masks.after(self._state, token)
        return token

    def ended(self) -> bool:
        """Whether the answer may end here."""
        return self._masks.ends(self._state)
