"""Threads that take turns at seeded places: one runs at a time, and a generator says where another goes on.

    patch()                           before nnc is imported: its locks become ones that a scheduler sees
    Scheduler(seed).run([f, g, h])    f, g and h, each on a thread of its own

A thread may be left at each line of the watched modules and at each lock that it takes. One that waits for a lock is
not chosen before the lock is free, so the same seed gives the same order. When all wait, and go on waiting, that is
reported. Threads that nnc itself starts run as ever.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from types import FrameType
from typing import Any

# Where threads meet: what lies between, such as planning, works on objects of its own.
WATCHED = ("nnc/concrete/", "nnc/core/", "nnc/dynamic/", "nnc/nn/", "nnc/backends/", "nnc/symbolic/compiler/compiled")
PATIENCE = 20.0


class Stuck(BaseException):
    """All threads wait for each other."""


class WatchedLock:
    """A lock; a thread of the scheduler's that has to wait for it lets others run."""

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As of `threading.Lock`."""
        scheduler = Scheduler.active
        me = None if scheduler is None else scheduler.member()
        if scheduler is None or me is None:
            return self._lock.acquire(blocking, timeout)
        scheduler.pause()
        while not self._lock.acquire(False):
            if not blocking:
                return False
            scheduler.wait(me, self)
        return True

    def release(self) -> None:
        """As of `threading.Lock`."""
        self._lock.release()

    def locked(self) -> bool:
        """As of `threading.Lock`."""
        return self._lock.locked()

    def _at_fork_reinit(self) -> None:
        self._lock = _thread.allocate_lock()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


def patch() -> None:
    """Make the locks of all modules that are imported from now on, and those of events, ones of ours."""
    names: dict[str, object] = {"Lock": WatchedLock, "_allocate_lock": WatchedLock, "_CRLock": None}
    for name, value in names.items():
        setattr(threading, name, value)


@dataclass(eq=False)
class Member:
    """A thread, the gate that it stands at while another runs, and the lock that it waits for."""

    work: Callable[[], object]
    gate: Any = field(default_factory=_thread.allocate_lock)
    waits: WatchedLock | None = None
    ended: bool = False
    thread: int = 0

    @property
    def is_ready(self) -> bool:
        """Whether it could go on."""
        return not self.ended and (self.waits is None or not self.waits.locked())


class Scheduler:
    """Runs works; at one of `gap` places another thread goes on."""

    active: Scheduler | None = None

    def __init__(self, seed: int, gap: int = 30) -> None:
        self.random = Random(seed)
        self.gap = gap
        self.members: list[Member] = []
        self.errors: list[BaseException] = []
        self.switches = 0
        self._by_thread: dict[int, Member] = {}

    def run(self, works: Sequence[Callable[[], object]]) -> None:
        """All of them, to their ends; what they raise is kept in `errors`. Stuck when they wait for each other."""
        self.members = [Member(work) for work in works]
        for member in self.members:
            member.gate.acquire()
        threads = [threading.Thread(target=self._run, args=(member,), daemon=True) for member in self.members]
        for thread in threads:
            thread.start()
        Scheduler.active = self
        try:
            self._choose().gate.release()
            for thread in threads:
                thread.join(PATIENCE * 4)
                if thread.is_alive():
                    raise Stuck("a thread has not come to its end")
        finally:
            Scheduler.active = None
        stuck = next((error for error in self.errors if isinstance(error, Stuck)), None)
        if stuck is not None:
            raise stuck

    def member(self) -> Member | None:
        """The calling thread, if it is one of ours."""
        return self._by_thread.get(_thread.get_ident())

    def pause(self) -> None:
        """Perhaps let another thread run."""
        me = self.member()
        if me is not None and not self.random.randrange(self.gap):
            self._leave(me)

    def wait(self, me: Member, lock: WatchedLock) -> None:
        """Let others run until the lock is free and we are chosen."""
        me.waits = lock
        try:
            self._leave(me)
        finally:
            me.waits = None

    def _run(self, me: Member) -> None:
        me.gate.acquire()
        me.thread = _thread.get_ident()
        self._by_thread[me.thread] = me
        sys.settrace(self._trace)
        try:
            me.work()
        except BaseException as error:
            self.errors.append(error)
        finally:
            sys.settrace(None)
            me.ended = True
            del self._by_thread[me.thread]
            if not all(member.ended for member in self.members):
                self._choose().gate.release()

    def _leave(self, me: Member) -> None:
        chosen = self._choose()
        if chosen is not me:
            self.switches += 1
            chosen.gate.release()
            me.gate.acquire()

    def _choose(self) -> Member:
        """Who goes on; when nobody can, threads of nnc's own may release what they wait for."""
        end = time.monotonic() + PATIENCE
        while not (ready := [member for member in self.members if member.is_ready]):
            if time.monotonic() > end:
                self._report()
            time.sleep(1e-3)
        return self.random.choice(ready)

    def _report(self) -> None:
        """Nobody can go on and nobody can be stopped: say where each thread is, and end the process."""
        frames = sys._current_frames()
        for member in self.members:
            frame, lines = frames.get(member.thread), []
            while frame is not None and not member.ended:
                lines.append(f"{frame.f_code.co_filename.rpartition('/src/')[2]}:{frame.f_lineno}")
                frame = frame.f_back
            print("stuck:", " < ".join(line for line in lines if line.startswith("nnc/")), file=sys.stderr, flush=True)
        os._exit(3)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if not any(part in frame.f_code.co_filename for part in WATCHED):
            return None
        return self._trace_line

    def _trace_line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self.pause()
        return self._trace_line
