"""Shields: what must happen whole or not at all, kept from Ctrl-C.

    with Shield():                  with Shield(breakable=True):
        start()                         step.run()
        running = True                  updates += 1

A SIGINT inside waits for the end of the block and is then handled as it would have been: KeyboardInterrupt is raised
behind the block, by which time all of it is done. Where a block may take long it is breakable: the first SIGINT waits,
a second one is handled at once. Python runs handlers of signals on the main thread alone, so on other threads there is
nothing to keep out.
"""

from __future__ import annotations

import threading

# `signal` is a wrapper that makes enumerations of numbers and handlers: 20 µs a block instead of 1.
from _signal import SIGINT, getsignal, signal  # type: ignore[import-not-found]
from types import FrameType, TracebackType


class Shield:
    """A block that SIGINT does not break. Shields may be nested; the innermost one keeps the signal first."""

    __slots__ = ("_before", "_breakable", "_frame", "_waiting")

    def __init__(self, *, breakable: bool = False) -> None:
        self._breakable = breakable
        self._waiting = False
        self._frame: FrameType | None = None
        self._before: object = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        handler = getsignal(SIGINT)
        around = getattr(handler, "__self__", None)
        if type(around) is Shield and not around._breakable:
            # What is around this keeps the signal: two changes of the handler less, which a small kernel notices.
            return
        # Without a handler of Python's nothing is raised: the signal ends the process, is ignored, or goes to C code.
        if callable(handler):
            # Python handles what is pending before it sets a handler, so nothing can be raised behind this line.
            self._before = signal(SIGINT, self._receive)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        before, self._before = self._before, None
        if not callable(before):
            return
        # Whoever has set another handler meanwhile keeps it.
        if getsignal(SIGINT) == self._receive:
            signal(SIGINT, before)
        if self._waiting:
            frame, self._frame = self._frame, None
            before(SIGINT, frame)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        before = self._before
        if self._waiting and self._breakable and callable(before):
            before(number, frame)
        self._waiting, self._frame = True, frame
