"""Runs that may not have ended: what a later run must wait for, and whom `cancel` stops.

    rivals(run) = earlier runs of the same nodes, and of any other graph over the same memory

A run waits for runs that entered before it and for no others, so two never wait for each other. Who holds everything
may run on the same thread meanwhile; nobody else may. A run inside a run of the same nodes would wait for itself:
UsageError. So would, by way of others, the last of some threads that call crosswise from inside their runs:
DeadlockError there, and the others go on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from nnc.concrete.body import ConcreteBody, ExecKey
from nnc.concrete.run import Context, RunPlan, execute
from nnc.core.precautions.forking import fork_safe_lock, in_children
from nnc.core.precautions.shield import Shield
from nnc.core.running.stream import Signal, Stream
from nnc.errors import DeadlockError, UsageError

R = TypeVar("R")


class PendingRun:
    """Nodes of a body (no body: a hold of everything) that are busy until it ends.

    It ends with `signal` on `stream`; or else the thread that waits for it releases `busy`. What runs inside a hold
    leaves its body and its context there meanwhile.
    """

    __slots__ = ("body", "busy", "context", "ended", "keys", "signal", "stream", "thread")

    def __init__(self, body: ConcreteBody | None, keys: frozenset[ExecKey] | None, context: Context | None) -> None:
        self.body = body
        self.keys = keys
        self.context = context
        self.thread = 0
        self.ended = False
        self.busy = threading.Lock()
        self.signal: Signal | None = None
        self.stream: Stream | None = None

    def wait(self) -> None:
        """Block until it has ended."""
        if self.signal is not None:
            self.signal.settle()
        else:
            try:
                self.busy.acquire()
            finally:
                # For the next who waits, even where Ctrl-C came in between.
                if self.ended:
                    self.resume_waiting()

    def resume_waiting(self) -> None:
        """Let one who waits go on. Behind the end of the run it does no harm to do so too often."""
        try:
            self.busy.release()
        except RuntimeError:
            return

    def meets(self, other: PendingRun) -> bool:
        """Whether the two touch the same memory."""
        if self.keys is None or other.keys is None or self.body is not other.body:
            return True
        return not self.keys.isdisjoint(other.keys)

    def works_on(self, thread: int) -> bool:
        """Whether the thread is executing a part of it."""
        # Read once: the thread that has the hold may end its run meanwhile.
        context = self.context
        return context is not None and (self.thread == thread or thread in context.threads)

    def threads(self) -> Iterator[int]:
        """The threads without which it does not end; none where it has."""
        if self.ended or (self.signal is not None and self.signal.emitted):
            return
        yield self.thread if self.stream is None else self.stream.thread_number
        context = self.context
        if context is not None:
            yield from tuple(context.threads)


class Waits:
    """Which runs each thread of the process waits for."""

    __slots__ = ("__weakref__", "_lock", "_rivals")

    def __init__(self) -> None:
        self._rivals: dict[int, Sequence[PendingRun]] = {}
        self._lock = fork_safe_lock()
        in_children(self)

    def wait(self, rivals: Sequence[PendingRun]) -> None:
        """Block until all have ended. DeadlockError where one of them waits for the calling thread."""
        me = threading.get_ident()
        try:
            with self._lock:
                self._check(me, rivals)
                self._rivals[me] = rivals
            for rival in rivals:
                rival.wait()
        finally:
            self._rivals.pop(me, None)

    def forget_threads(self) -> None:
        """In a forked child: nobody else waits."""
        self._rivals = {}

    def _check(self, me: int, rivals: Sequence[PendingRun]) -> None:
        """Whoever closes a circle sees all of it: each thread has noted what it waits for before it looks."""
        seen: set[int] = set()
        queue = list(rivals)
        while queue:
            for thread in queue.pop().threads():
                if thread == me:
                    raise DeadlockError(
                        "run",
                        got="a call that waits for a thread that waits for this one",
                        need="calls from inside runs that never go crosswise",
                        fix="call the other program behind the run, or let one thread make both calls",
                    )
                if thread not in seen:
                    seen.add(thread)
                    queue.extend(self._rivals.get(thread, ()))


WAITS = Waits()


class PendingRuns:
    """The runs that have not ended, of a graph or of all graphs over one memory."""

    __slots__ = ("__weakref__", "_hold", "_items", "_lock")

    def __init__(self) -> None:
        self._items: list[PendingRun] = []
        self._lock = fork_safe_lock()
        in_children(self)
        # The hold that has everything to itself now; nobody else starts anything until it ends.
        self._hold: PendingRun | None = None

    def run(self, body: ConcreteBody, keys: frozenset[ExecKey], plan: RunPlan, context: Context) -> None:
        """Execute a plan on the calling thread, behind its rivals."""
        hold = self._own_hold()
        if hold is None:
            self._within(PendingRun(body, keys, context), lambda: execute(plan, context))
            return
        hold.body, hold.context = body, context
        try:
            execute(plan, context)
        finally:
            hold.body = hold.context = None

    def exclusively(self, work: Callable[[], R]) -> R:
        """What `work` gives. Nothing else runs meanwhile but what it runs on this thread."""
        # Asked here too, because a call takes as long as the rest of it where nobody else runs.
        if self._hold is not None and self._own_hold() is not None:
            return work()
        return self._within(PendingRun(None, None, None), work)

    def submit(
        self, body: ConcreteBody, keys: frozenset[ExecKey], plan: RunPlan, context: Context, stream: Stream
    ) -> Signal:
        """Execute a plan on a stream, behind its rivals; the signal that fires at the end."""
        run = PendingRun(body, keys, context)
        run.signal, run.stream = Signal("graph"), stream
        # All at once, so that what a stream waits for is never behind it in its own queue.
        with Shield(), self._lock:
            for rival in self._rivals(run):
                if rival.stream is not stream:
                    stream.submit(partial(WAITS.wait, (rival,)))
            stream.submit(partial(execute, plan, context))
            signal = stream.emit(run.signal)
            self._items.append(run)
        return signal

    def cancel(self, body: ConcreteBody) -> None:
        """Ask all runs of a body to stop."""
        with self._lock:
            for item in self._items:
                context = item.context
                if item.body is body and context is not None:
                    context.cancelled = True

    def forget_threads(self) -> None:
        """In a forked child: runs on other threads will never end here, and nobody else sees what they leave."""
        me = threading.get_ident()
        self._items = [item for item in self._items if item.signal is not None or item.thread == me]
        if self._hold is not None and self._hold.thread != me:
            self._hold = None

    def _own_hold(self) -> PendingRun | None:
        """The hold of the calling thread, unless it is inside a run."""
        hold = self._hold
        return hold if hold is not None and hold.context is None and hold.thread == threading.get_ident() else None

    def _rivals(self, run: PendingRun) -> list[PendingRun]:
        self._items = [item for item in self._items if item.signal is None or not item.signal.emitted]
        return [item for item in self._items if item.meets(run)]

    def _within(self, run: PendingRun, work: Callable[[], R]) -> R:
        try:
            self._begin(run)
            return work()
        finally:
            # Twice, because Ctrl-C may break the first one off; a `with` block has no such second chance.
            try:
                self._end(run)
            finally:
                if not run.ended or run.busy.locked():
                    self._end(run)

    def _begin(self, run: PendingRun) -> None:
        me = run.thread = threading.get_ident()
        run.busy.acquire()
        with self._lock:
            rivals = self._rivals(run) if self._items else []
            if rivals and any(rival.works_on(me) for rival in rivals):
                raise UsageError(
                    "run",
                    got="a call from inside a run of the same memory",
                    need="a call from outside, such as behind the run",
                    fix="compile another program for it, with memory of its own",
                )
            self._items.append(run)
        if rivals:
            WAITS.wait(rivals)
        if run.keys is None:
            self._hold = run

    def _end(self, run: PendingRun) -> None:
        with self._lock:
            if self._hold is run:
                self._hold = None
            if run in self._items:
                self._items.remove(run)
            run.ended = True
            run.resume_waiting()
