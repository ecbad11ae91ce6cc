"""Requests that wait, in their order: so many may, and one that nobody waits for any more makes room at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from nnc.errors import UsageError

E = TypeVar("E")


class BusyError(UsageError):
    """As many requests wait as may."""


class WaitingLine(Generic[E]):
    """A queue of bounded length, which ends: those who take are told so by None."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, deque[E]()
        self._changed = threading.Condition()
        self.ended = False

    def __len__(self) -> int:
        return len(self._held)

    def put(self, entries: Sequence[E]) -> None:
        """All of these behind the others; BusyError, and none of them, where there is no room."""
        with self._changed:
            if len(self._held) + len(entries) > self._most:
                got, need = f"{len(self._held)} requests that wait", f"less than {self._most}"
                raise BusyError("serve", got=got, need=need, fix="try again soon")
            self._held.extend(entries)
            self._changed.notify(len(entries))

    def take(self) -> E | None:
        """The first one, once there is one; None at the end."""
        with self._changed:
            while not self._held and not self.ended:
                self._changed.wait()
            return None if self.ended else self._held.popleft()

    def remove(self, entry: E) -> bool:
        """Leave the line; False where it has left it before."""
        with self._changed:
            if entry not in self._held:
                return False
            self._held.remove(entry)
            return True

    def end(self) -> list[E]:
        """Nobody takes any more; who still waited."""
        with self._changed:
            self.ended = True
            left, self._held = list(self._held), deque()
            self._changed.notify_all()
        return left
