"""Texts that are continued side by side: rows of one batch of caches, whose next tokens are computed in one step.

Each text has a row, and a thread. A step waits until all texts that are being continued have said their token: few run
one after the other, more together, which reads the weights once. Weights in blocks are multiplied row by row with the
same bits either way, so a text is the one that it would be alone.

Where a text has room for two pages of columns or more, rows have pages instead of columns of their own: what texts
begin with alike lies there once. Layers of a window keep columns, and so do devices, and contexts of no whole pages
where pages would take more.
"""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nnc.core.values.tensor import Tensor
from nnc.errors import UsageError
from nnc.nn.generation import TokenModel, paged_caches, scores_behind
from nnc.nn.steps.generation_caches import GenerationCaches
from nnc.ops.sequence.cached_attention import PAGE

# Fewer tokens take less time one by one: four rows of q4_1 take 2.75 times as long as one.
TOGETHER = 3

Scores = NDArray[np.float64]


class SharedSteps:
    """Caches of `rows` texts of `room` tokens each, and the steps that continue them.

    With a `prefix` there is room for its whole pages once, and for what is behind them in each row. UsageError where
    the model cannot have pages then.
    """

    def __init__(self, model: TokenModel, rows: int, room: int, prefix: int = 0) -> None:
        self._model = model
        self._caches = self._made(rows, room, prefix)
        self._step = model.generation_step(self._caches, 1)
        self._turn = threading.Condition()
        self._going: set[int] = set()
        self._asked: dict[int, tuple[int, int]] = {}
        self._answers: dict[int, Scores | BaseException] = {}
        self.rows = [self._row(row) for row in range(rows)]
        self.steps = self.tokens = 0

    def _made(self, rows: int, room: int, prefix: int) -> GenerationCaches:
        """Caches with pages, where they can be had."""
        if room < 2 * PAGE:
            if prefix:
                got = f"a prefix of {prefix} tokens in a context of {room}"
                raise UsageError("prefix", got=got, need=f"a context of at least {2 * PAGE}")
            return self._model.generation_caches(rows, room)
        try:
            return paged_caches(self._model, rows, room, prefix)
        except UsageError:
            if prefix:
                raise
            return self._model.generation_caches(rows, room)

    def _row(self, row: int) -> GenerationCaches:
        """The caches of one text: a part of those of all."""
        if self._caches.pages is not None:
            return self._caches.row(row)
        tensors = {}
        for name, whole in self._caches.tensors.items():
            spec = replace(whole.spec, shape=(1, *whole.shape[1:]))
            tensors[name] = Tensor(spec, whole.storage, whole.offset + row * spec.nbytes)
        return GenerationCaches(1, self._caches.capacity, self._caches.held, tensors)

    def emptied(self, row: int) -> GenerationCaches:
        """The caches of a row for the next text."""
        self._model.exclusively(self.rows[row].clear)
        return self.rows[row]

    def scores(self, row: int, token: int, position: int) -> Scores:
        """Scores behind a token at its position in a row, once all other rows that go on have asked too."""
        with self._turn:
            self._going.add(row)
            self._asked[row] = token, position
            self._run_if_all_asked()
            while row not in self._answers:
                self._turn.wait()
            answer = self._answers.pop(row)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def leave(self, row: int) -> None:
        """The text of this row is at its end: nobody waits for it any more."""
        with self._turn:
            self._going.discard(row)
            self._run_if_all_asked()

    def _run_if_all_asked(self) -> None:
        if not self._asked or len(self._asked) < len(self._going):
            return
        asked, self._asked = self._asked, {}
        try:
            self._answers |= self._together(asked) if len(asked) >= TOGETHER else self._one_by_one(asked)
        except Exception as error:  # each text has it, and no thread waits for ever
            self._answers |= dict.fromkeys(asked, error)
        self.steps, self.tokens = self.steps + 1, self.tokens + len(asked)
        self._turn.notify_all()

    def _one_by_one(self, asked: dict[int, tuple[int, int]]) -> dict[int, Scores]:
        answers = {}
        for row, (token, position) in asked.items():
            step = self._model.generation_step(self.rows[row], 1)
            values = np.full((1, 1), token), np.full((1, 1), position), np.zeros(1, np.int32)
            answers[row] = scores_behind(self._model, self.rows[row], step, values)[0]
        return answers

    def _together(self, asked: dict[int, tuple[int, int]]) -> dict[int, Scores]:
        count, last = self._step.inputs[0].shape[0], self._caches.capacity - 1
        tokens, positions = np.zeros((count, 1), np.int64), np.zeros((count, 1), np.int64)
        for row, (token, position) in asked.items():
            tokens[row], positions[row] = token, position
            self.rows[row].writes(position + 1)

        def run() -> Scores:
            # Rows that do not go on write behind what they hold, which nothing reads before its own token is written.
            for row in set(range(len(self.rows))) - set(asked):
                positions[row] = min(self.rows[row].newest, last)
            addresses = self._caches.addresses(positions, asked)
            values: tuple[NDArray[np.generic], ...] = (tokens, positions, np.zeros(count, np.int32), *addresses)
            (scores,) = self._step.run(values)
            return np.asarray(scores, np.float64)

        scores = self._model.between_updates("generate", run)
        return {row: scores[row] for row in asked}
