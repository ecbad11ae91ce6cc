"""What was read of earlier requests, by rows: one that begins alike goes on there, or has what they have in common."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from nnc.language.kept_tokens import KeptTokens
from nnc.nn.steps.generation_caches import alike

# Fewer tokens are read in about the time that their copy takes.
WORTH_A_COPY = 8
# Seconds between two looks at who reads what others wait for, or has pages that they need: a token takes about as long.
PAUSE = 0.02


class KeptRows:
    """Rows of tokens, each of which one text has at a time. Any thread may ask.

    The system prompt of many chats is read once, and earlier turns of a chat are not read again. Only what was read in
    steps of several tokens is taken over, so that an answer has the bits that it has alone. Pages of rows that no text
    has are kept until a text needs them: those that were given back first are forgotten first.
    """

    def __init__(self, rows: Sequence[KeptTokens]) -> None:
        self._rows = list(rows)
        # The one that was given back first is taken first.
        self._free = list(range(len(rows)))
        # What texts began with whose rows are taken.
        self._begun: dict[int, Sequence[int]] = {}
        self._line = deque[object]()
        self._changed = threading.Condition()
        self.reused = 0

    def take(self, tokens: Sequence[int], room: int = 0) -> tuple[int, KeptTokens]:
        """A free row with what is known of the beginning of these tokens; there must be one.

        Where another text reads the same beginning, it waits for that, and for pages for `room` tokens.
        """
        place, need = object(), max(room, len(tokens))
        with self._changed:
            self._line.append(place)
            try:
                while self._line[0] is not place or self._is_read(tokens):
                    self._changed.wait(PAUSE)
                row = self._taken(tokens)
                kept = self._rows[row]
                while not kept.reserve(need):
                    if not self._forget_one():
                        self._changed.wait(PAUSE)
                        self._begin(kept, tokens)
                self._begun[row] = tokens
                self.reused += min(len(kept.tokens), len(tokens) - 1)
            finally:
                self._line.remove(place)
                self._changed.notify_all()
        return row, kept

    def _taken(self, tokens: Sequence[int]) -> int:
        begun = {row: self._rows[row].begun(tokens) for row in self._free}
        row = max(self._free, key=lambda each: begun[each])
        self._free.remove(row)
        # What another thread looks at while this row is read is what stays in it.
        self._rows[row].keep(begun[row])
        self._begin(self._rows[row], tokens)
        return row

    def _begin(self, kept: KeptTokens, tokens: Sequence[int]) -> None:
        """Have what another row knows of these tokens, where that is more."""
        best = max(self._rows, key=lambda each: each.begun(tokens))
        known = best.begun(tokens)
        if known >= len(kept.tokens) + WORTH_A_COPY and kept.on_host:
            kept.begin_as(best, known)

    def _is_read(self, tokens: Sequence[int]) -> bool:
        """Whether another text is still reading a part of this beginning that nobody knows yet.

        One that has read its own gives no more: of a window it may have written over what they have in common.
        """
        known = max(each.begun(tokens) for each in self._rows)
        reading = (begun for row, begun in self._begun.items() if len(self._rows[row].tokens) < len(begun))
        return any(alike(begun, tokens) >= known + WORTH_A_COPY for begun in reading)

    def _forget_one(self) -> bool:
        """Let the pages go of the row that no text has for the longest time; False where none has any."""
        for row in self._free:
            if self._rows[row].tokens:
                self._rows[row].clear()
                return True
        return False

    def give_back(self, row: int, *, whole: bool) -> None:
        """Another text may have this row; what is not `whole` is forgotten, down to the last number."""
        with self._changed:
            if not whole:
                self._rows[row].clear()
            self._begun.pop(row, None)
            self._free.append(row)
            self._changed.notify_all()
