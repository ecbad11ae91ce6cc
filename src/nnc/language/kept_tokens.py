"""Tokens of one text whose keys and values are kept: what is read once is not read again, and can lie in a file."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nnc.core.values.dtype import I32
from nnc.core.values.serialize import load_tensors, save_tensors
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import FormatError, UsageError
from nnc.language.shared_steps import SharedSteps
from nnc.nn.generation import TOGETHER, Scores, TokenModel, borrowed_caches, read_part, scores_behind
from nnc.nn.steps.generation_caches import alike, check_pages
from nnc.nn.steps.padding import MOST_STEPS

# Tokens that are proposed and read at a time, with the one before them.
AHEAD = 3
TOKENS, FACT = "tokens", "nnc.kept_tokens"


class TokenPicker(Protocol):
    """What says which token comes next in one answer: `TokenChoice`, or one that a grammar holds to its rules."""

    def generator(self, row: int) -> np.random.Generator:
        """Where a row of a batch draws from."""
        ...

    def pick(self, scores: NDArray[np.float64], generator: np.random.Generator) -> int:
        """The next token by the scores of all."""
        ...


class Drafts(Protocol):
    """Who proposes tokens."""

    def propose(self, tokens: Sequence[int], count: int) -> list[int]:
        """At most `count` tokens that may follow these; none where nothing is known."""
        ...


class KeptTokens:
    """The tokens that were read, with room for `room`; `scores` reads what is new of a longer text.

    With `shared` steps they are a row of several texts that are continued side by side, each by a thread.
    """

    def __init__(self, model: TokenModel, room: int, shared: SharedSteps | None = None, row: int = 0) -> None:
        self._model, self.room, self._shared, self._row = model, room, shared, row
        self._caches = borrowed_caches(self, model, 1, room) if shared is None else shared.emptied(row)
        self.tokens: list[int] = []
        # So many of them, from the first on, were read with others: these have the bits that any such reading gives.
        self._together = 0

    def leave(self) -> None:
        """No text is continued here for now: those of other rows need not wait for it."""
        if self._shared is not None:
            self._shared.leave(self._row)

    def clear(self) -> None:
        """Forget all tokens, and what was computed of them."""
        self.keep(0)
        self._model.exclusively(self._caches.clear)

    def keep(self, count: int) -> int:
        """Forget the tokens behind the first `count`, or all where what these see was written over; how many stay."""
        if 0 < len(self.tokens) <= count:
            return len(self.tokens)
        count = count if self._caches.hold(count) else 0
        del self.tokens[count:]
        self._together = min(self._together, count)
        if not count:
            self._caches.newest = 0
        return count

    def begun(self, tokens: Sequence[int]) -> int:
        """How many of these, from the first on, were read here together: an answer behind them has the same bits."""
        count = min(alike(self.tokens, tokens), self._together)
        return count if self._caches.hold(count) else 0

    def begin_as(self, other: KeptTokens, count: int) -> int:
        """Have the first `count` tokens of another of the same model as if they had been read here; how many these are.

        None where the other has gone on so far meanwhile that it holds no longer what these see.
        """
        own, theirs = self._caches, other._caches
        known = self._model.exclusively(lambda: own.begin_as(theirs, count) if theirs.hold(count) else 0)
        if known:
            own.reach, own.newest = max(own.reach, theirs.newest), theirs.newest
            self.tokens, self._together = other.tokens[:known], known
        return known

    def reserve(self, count: int) -> bool:
        """Whether there is room for so many tokens, for which pages are set apart, those behind `tokens` its own."""
        return self._model.exclusively(lambda: self._caches.reserve(count, begin=len(self.tokens)))

    @property
    def on_host(self) -> bool:
        """Whether what is kept lies in the memory of the host."""
        return self._caches.on_host

    def scores(self, tokens: Sequence[int], least: int = 1) -> NDArray[np.float64]:
        """Scores of what follows these tokens; those that they share with what was read are not read again.

        At least so many are read in each step, unless there are fewer: one alone has other bits than one of several.
        """
        # The scores behind a token come of reading it.
        done = self.keep(max(min(alike(self.tokens, tokens), len(tokens) - least), 0))
        while done < len(tokens):
            stop = min(done + MOST_STEPS, len(tokens))
            start = max(min(done, stop - least), 0)
            scores = self._read(tokens, start, stop)
            if stop - start > 1 and self._together >= start:
                self._together = stop
            self.tokens.extend(tokens[done:stop])
            done = stop
        return np.asarray(scores[0])

    def _read(self, tokens: Sequence[int], start: int, stop: int) -> Scores:
        self._check_room(stop, len(self.tokens))
        if self._shared is not None and stop == start + 1:
            return self._shared.scores(self._row, tokens[start], start)[None]
        return read_part(self._model, self._caches, [tokens], stop, stop - start)

    def _check_room(self, count: int, begin: int) -> None:
        self._model.exclusively(lambda: check_pages(self._caches, count, begin))

    def scores_of_each(self, tokens: Sequence[int], count: int) -> NDArray[np.float64]:
        """Scores [count, vocabulary] behind each of the last `count` of these, all before which were read."""
        stop, steps = len(tokens), count
        if self.tokens[: stop - count] != list(tokens[: stop - count]):
            raise UsageError("scores", got="tokens before that were not read", need="scores() of them first")
        self._check_room(stop, stop - count)
        step = self._model.generation_step(self._caches, steps, each=True)
        rows = step.inputs[0].shape[0]
        part = np.zeros((rows, steps), np.int64)
        part[:] = tokens[stop - count : stop]
        positions = np.broadcast_to(stop - count + np.arange(steps), (rows, steps))
        scores = scores_behind(self._model, self._caches, step, (part, positions, np.zeros(rows, np.int32)))
        self.keep(stop - count)
        self.tokens.extend(tokens[stop - count : stop])
        return np.asarray(scores[0])

    def follow(
        self, tokens: list[int], length: int, choice: TokenPicker, ends: frozenset[int], drafts: Drafts | None = None
    ) -> Generator[int, None, None]:
        """At most `length` tokens behind these, up to one of `ends`; those that `drafts` foresees are read together."""
        generator, row = choice.generator(0), list(tokens)
        scores, foreseen = self.scores(row, least=TOGETHER)[None], list[int]()
        place = 0
        for written in range(1, length + 1):
            token = choice.pick(scores[place], generator)
            if token in ends:
                break
            row.append(token)
            yield token
            if written == length:
                break
            if place < len(foreseen) and foreseen[place] == token:
                place += 1
                continue
            # What was read beyond is of others: the next tokens are written over it.
            self.keep(len(row) - 1)
            most = min(AHEAD, length - written - 1, self.room - len(row))
            foreseen = [] if drafts is None else drafts.propose(row, most)[:most]
            # A program for each number would be made for a few tokens more.
            foreseen = foreseen if len(foreseen) == AHEAD else []
            scores = self.scores_of_each([*row, *foreseen], 1 + AHEAD) if foreseen else self.scores(row)[None]
            place = 0
        self.keep(len(row))

    def save(self, path: Path | str, model: str) -> None:
        """Write the tokens and what is kept of them; `model` says of which model."""
        count = len(self.tokens)

        def kept() -> dict[str, Tensor]:
            return {name: Tensor.from_numpy(self._caches.columns(name, count)) for name in self._caches.tensors}

        tensors = self._model.exclusively(kept)
        tensors[TOKENS] = Tensor.from_numpy(np.array(self.tokens, np.int32))
        save_tensors(path, tensors, {FACT: json.dumps({"model": model})})

    def load(self, path: Path | str, model: str) -> None:
        """Go on where they were saved; FormatError for a file of another model or of too many tokens."""
        file = load_tensors(path)
        if file.metadata.get(FACT) != json.dumps({"model": model}):
            raise FormatError(str(path), got="no kept tokens of this model", need="a file that it saved")
        tokens = file.tensors.get(TOKENS)
        if tokens is None or tokens.dtype is not I32 or len(tokens.shape) != 1 or tokens.shape[0] > self.room:
            got = "no list of tokens" if tokens is None else f"tokens {tokens.spec}"
            raise FormatError(str(path), got=got, need=f"at most {self.room} tokens", fix="a larger context")
        count = tokens.shape[0]
        # Which makes the caches where nothing was read before.
        self._model.generation_step(self._caches, 1)
        for name, cache in self._caches.tensors.items():
            spec = TensorSpec((1, min(count, cache.shape[1]), *cache.shape[2:]), cache.dtype)
            if name not in file.tensors or file.tensors[name].spec != spec:
                raise FormatError(str(path), got=f"no {name} {spec}", need="what this model keeps")

        def put() -> None:
            # Of a window that was written over, nobody says how much of it is older: none of these may be forgotten.
            check_pages(self._caches, count, 0)
            self._caches.writes(count)
            self._caches.newest = count + MOST_STEPS
            for name in self._caches.tensors:
                self._caches.put(name, file.tensors[name].numpy())

        self._model.exclusively(put)
        self.tokens, self._together = [int(token) for token in tokens.numpy()], 0
