"""Runs that may not have ended: what a later run must wait for, and whom `cancel` stops.

    rivals(run) = earlier runs of the same nodes, and of any other graph over the same memory

A run waits for runs that entered before it and for no others, so two never wait for each other. Who holds everything
may run on the same thread meanwhile; nobody else may. A run inside a run of the same nodes would wait for itself:
UsageError.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from nnc.concrete.body import ConcreteBody, ExecKey
from nnc.concrete.run import Context, RunPlan, execute
from nnc.core.shield import Shield
from nnc.core.stream import Signal, Stream
from nnc.errors import UsageError

R = TypeVar("R")


@dataclass(slots=True, eq=False)
class PendingRun:
    """Nodes of a body (no body: a hold of everything) that are busy until it ends.

    It ends with `signal` on `stream`; or else the thread that waits for it releases `busy`.
    """

    body: ConcreteBody | None
    keys: frozenset[ExecKey]
    context: Context
    signal: Signal | None = None
    stream: Stream | None = None
    thread: int = 0
    busy: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_over(self) -> bool:
        """True once its signal has fired."""
        return self.signal is not None and self.signal.emitted

    def wait(self) -> None:
        """Block until it has ended."""
        if self.signal is not None:
            self.signal.settle()
        else:
            with self.busy:
                pass

    def meets(self, other: PendingRun) -> bool:
        """Whether the two touch the same memory."""
        return self.body is not other.body or self.body is None or not self.keys.isdisjoint(other.keys)

    def works_on(self, thread: int) -> bool:
        """Whether the thread is doing a part of it."""
        return self.thread == thread or thread in self.context.threads


class PendingRuns:
    """The runs that have not ended, of a graph or of all graphs over one memory."""

    __slots__ = ("_items", "_lock")

    def __init__(self) -> None:
        self._items: list[PendingRun] = []
        self._lock = threading.Lock()

    def run(self, body: ConcreteBody, keys: frozenset[ExecKey], plan: RunPlan, context: Context) -> None:
        """Execute a plan on the calling thread, behind its rivals."""
        self._within(PendingRun(body, keys, context), lambda: execute(plan, context))

    def exclusively(self, work: Callable[[], R]) -> R:
        """What `work` gives. Nothing else runs meanwhile but what it runs on this thread."""
        return self._within(PendingRun(None, frozenset(), Context()), work)

    def submit(
        self, body: ConcreteBody, keys: frozenset[ExecKey], plan: RunPlan, context: Context, stream: Stream
    ) -> Signal:
        """Execute a plan on a stream, behind its rivals; the signal that fires at the end."""
        run = PendingRun(body, keys, context, Signal("graph"), stream)
        assert run.signal is not None
        # All at once, so that what a stream waits for is never behind it in its own queue.
        with Shield(), self._lock:
            for rival in self._rivals(run):
                if rival.stream is not stream:
                    stream.submit(rival.wait)
            stream.submit(partial(execute, plan, context))
            signal = stream.emit(run.signal)
            self._items.append(run)
        return signal

    def cancel(self, body: ConcreteBody) -> None:
        """Ask all runs of a body to stop."""
        with self._lock:
            for item in self._items:
                if item.body is body:
                    item.context.cancelled = True

    def _rivals(self, run: PendingRun) -> list[PendingRun]:
        if self._items:
            self._items = [item for item in self._items if not item.is_over]
        return [item for item in self._items if item.meets(run)]

    def _begin(self, run: PendingRun) -> None:
        me = run.thread = threading.get_ident()
        run.busy.acquire()
        with self._lock:
            rivals = self._rivals(run)
            if rivals and any(rival.body is not None and rival.works_on(me) for rival in rivals):
                raise UsageError(
                    "run",
                    got="a call from inside a run of the same memory",
                    need="a call from outside, such as behind the run",
                    fix="compile another program for it, with memory of its own",
                )
            self._items.append(run)
        if not any(rival.thread == me for rival in rivals):
            for rival in rivals:
                rival.wait()

    def _within(self, run: PendingRun, work: Callable[[], R]) -> R:
        try:
            self._begin(run)
            return work()
        finally:
            # Twice, because Ctrl-C may break the first one off; a `with` block has no such second chance.
            try:
                self._end(run)
            finally:
                self._end(run)

    def _end(self, run: PendingRun) -> None:
        with self._lock:
            self._items = [item for item in self._items if item is not run]
            if run.busy.locked():
                run.busy.release()
