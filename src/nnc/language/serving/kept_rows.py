"""What was read of earlier requests, by rows: one that begins alike goes on there, or has a copy of it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from nnc.language.kept_tokens import KeptTokens

# Fewer tokens are read in about the time that their copy takes.
WORTH_A_COPY = 8


class KeptRows:
    """Rows of tokens, each of which one text has at a time. Any thread may ask.

    The system prompt of many chats is read once, and earlier turns of a chat are not read again. Only what was read in
    steps of several tokens is taken over, so that an answer has the bits that it has alone.
    """

    def __init__(self, rows: Sequence[KeptTokens]) -> None:
        self._rows = list(rows)
        # The one that was given back first is taken first.
        self._free = list(range(len(rows)))
        self._lock = threading.Lock()
        self.reused = 0

    def take(self, tokens: Sequence[int]) -> tuple[int, KeptTokens]:
        """A free row with what is known of the beginning of these tokens; there must be one."""
        with self._lock:
            begun = {row: self._rows[row].begun(tokens) for row in self._free}
            row = max(self._free, key=lambda each: begun[each])
            self._free.remove(row)
            kept, count = self._rows[row], begun[row]
            # What another thread looks at while this row is read is what stays in it.
            kept.keep(count)
            best = max(self._rows, key=lambda each: each.begun(tokens))
            known = best.begun(tokens)
            if known >= count + WORTH_A_COPY and kept.on_host:
                count = known if kept.copy_from(best, known) else count
            self.reused += min(count, len(tokens) - 1)
        return row, kept

    def give_back(self, row: int, *, whole: bool) -> None:
        """Another text may have this row; what is not `whole` is forgotten, down to the last number."""
        with self._lock:
            if not whole:
                self._rows[row].clear()
            self._free.append(row)
