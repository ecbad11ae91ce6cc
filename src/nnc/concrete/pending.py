"""Runs that may not have ended: what a later run must wait for, and whom `cancel` stops."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from nnc.concrete.body import ExecKey
from nnc.concrete.run import Context
from nnc.core.stream import Signal, Stream


@dataclass(slots=True, eq=False)
class PendingRun:
    """A run that may not have ended: its nodes, and the signal that fires then (none when the caller waits)."""

    keys: frozenset[ExecKey]
    context: Context
    signal: Signal | None = None

    @property
    def is_over(self) -> bool:
        """True once its signal has fired."""
        return self.signal is not None and self.signal.emitted


@dataclass(slots=True, eq=False)
class PendingRuns:
    """The runs of a graph that have not ended."""

    items: list[PendingRun] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, run: PendingRun, stream: Stream | None) -> tuple[Signal, ...]:
        """Enter a run; the signals of earlier ones that touch the same nodes and that it must therefore wait for."""
        with self.lock:
            self.items = [item for item in self.items if not item.is_over]
            rivals = [item.signal for item in self.items if item.signal is not None and item.keys & run.keys]
            self.items.append(run)
        return tuple(signal for signal in rivals if stream is None or signal.emitter is not stream)

    def end(self, run: PendingRun) -> None:
        """Take a run out, if it was entered."""
        with self.lock:
            self.items = [item for item in self.items if item is not run]

    def cancel(self) -> None:
        """Ask all of them to stop."""
        with self.lock:
            for item in self.items:
                item.context.cancelled = True
