"""Being asked to stop: the first signal asks, the second insists."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)

Handler = Callable[[int, FrameType | None], object] | int | None


class Interrupts:
    """While open, SIGINT and SIGTERM are kept in `signal` for the owner to act on when it suits.

    A second one ends the process at once with 128 + its number; whatever is half done cleans up on the way out.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Handler] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._receive) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def pending(self) -> bool:
        """Whether somebody asked to stop."""
        return self.signal is not None

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal = signal.Signals(number)
            return
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        raise SystemExit(128 + number)


def settled(code: int) -> int:
    """`code`, of a process that has nothing left to do; where a signal gave it, later ones no longer change it.

    Python takes some tenths of a second to end, and one that comes meanwhile would kill it.
    """
    if code in {128 + number for number in SIGNALS}:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
    return code
