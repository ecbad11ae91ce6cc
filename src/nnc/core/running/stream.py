"""Streams: work in order, each stream on its own thread; signals order streams among themselves.

    stream.submit(task)   stream.emit(signal)   other.wait(signal)   other.submit(task)   other.drain()

A stream has scratch memory and a random generator of its own, both for the tasks that run on it.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import weakref
from collections.abc import Callable
from dataclasses import field
from types import TracebackType
from typing import ClassVar, Self, TypeVar

import numpy as np

from nnc.addresses import start
from nnc.arguments import Size, explained
from nnc.classes import dataclass
from nnc.core.precautions.shield import Shield
from nnc.core.precautions.uncopied import Uncopied
from nnc.core.values.dtype import U8
from nnc.core.values.spec import TensorSpec
from nnc.core.values.tensor import Tensor
from nnc.errors import StreamError, UsageError

Task = Callable[[], None]
Callback = Callable[[BaseException | None], None]
F = TypeVar("F", bound=Callable[..., None])


@explained
class Signal(Uncopied):
    """A point in a stream's work that other streams can wait for; emitted once, by one stream."""

    instead: ClassVar[str] = "make a signal"

    __slots__ = ("_event", "emitter", "error", "name")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.emitter: Stream | None = None
        self.error: BaseException | None = None
        self._event = threading.Event()

    @property
    def emitted(self) -> bool:
        """True once the emitting stream has reached the point."""
        return self._event.is_set()

    def set(self, error: BaseException | None = None) -> None:
        """Mark the point as reached, or with an error as one that will never be reached in good order."""
        self.error = error
        self._event.set()

    def settle(self) -> None:
        """Block the calling thread until the signal has fired, whether or not the work before it failed."""
        if self.emitter is not None and not self.emitted:
            self.emitter.check_reachable(f"signal {self.name}".rstrip())
        self._event.wait()

    def wait(self) -> None:
        """Block the calling thread until the point is reached; raise the error of the stream that did not get there."""
        self.settle()
        if self.error is not None:
            raise self.error


@dataclass(frozen=True, slots=True)
class _Always:
    """A job that runs even after an error, which it is told."""

    run: Callback


@dataclass(frozen=True, slots=True)
class _Wait:
    """A job that waits for a signal of another stream."""

    signal: Signal


@dataclass(slots=True, weakref_slot=True, eq=False)
class _Worker:
    """What a stream's thread works on. It does not hold the stream, so a dropped stream ends its thread."""

    name: str
    jobs: queue.SimpleQueue[Task | _Always | _Wait | None] = field(default_factory=queue.SimpleQueue)
    error: BaseException | None = None
    thread: threading.Thread | None = None
    process: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    # The thread has been told to end; another one follows it when there is work again.
    ending: bool = False
    followed: bool = False
    awaited: Signal | None = None

    def put(self, job: Task | _Always | _Wait) -> None:
        """Queue a job, and start the thread if there is none."""
        with Shield(), self.lock:
            if self.thread is None:
                self._start()
            elif self.ending and threading.current_thread() is not self.thread:
                self.followed = True
            self.jobs.put(job)

    def _start(self) -> None:
        self.process = os.getpid()
        self.thread = threading.Thread(target=self._work, name=f"nnc-{self.name}", daemon=True)
        try:
            start(self.thread, "a stream")
        except BaseException:
            # A thread that never ran would be waited for, and the next job starts one.
            self.thread = None
            raise
        _WORKERS.add(self)

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            try:
                self._do(job)
            except BaseException as error:
                self.error = self.error or error
            # A job may hold the stream, which could then never be dropped.
            del job
        with self.lock:
            self.thread, self.ending = None, False
            if self.followed:
                self.followed = False
                self._start()

    def _do(self, job: Task | _Always | _Wait) -> None:
        if isinstance(job, _Always):
            job.run(self.error)
        elif not isinstance(job, _Wait):
            if self.error is None:
                job()
        else:
            # In this order, and in the other one in `abandon`: one of the two sees what the other did.
            self.awaited = job.signal
            try:
                if self.error is None:
                    job.signal.wait()
            finally:
                self.awaited = None

    def end(self, seconds: float | None = None) -> None:
        """Finish the queued jobs and end the thread; an interrupted call leaves it ending."""
        with Shield(), self.lock:
            thread = self.thread
            if thread is not None and not self.ending:
                self.ending = True
                self.jobs.put(None)
        if thread is not None:
            thread.join(seconds)

    def abandon(self) -> None:
        """Drop the jobs behind the one that runs, and let it go on if it waits for a signal."""
        self.error = error = StreamError(self.name, got="the end of the interpreter", need="close() before")
        if self.awaited is not None:
            self.awaited.set(error)


_WORKERS: weakref.WeakSet[_Worker] = weakref.WeakSet()
# A task that takes longer than this is left behind when the interpreter ends.
SECONDS_AT_EXIT = 10.0


@atexit.register
def _end_all() -> None:
    """Before the interpreter ends: no thread may be in Python code then. The tasks that run are finished."""
    workers = [worker for worker in _WORKERS if worker.process == os.getpid()]
    for worker in workers:
        worker.abandon()
    for worker in workers:
        worker.end(SECONDS_AT_EXIT)


@explained
class Stream(Uncopied):
    """Tasks run one after another on a thread of this stream; kernels release the interpreter lock.

    A task that raises stops the stream: later tasks are dropped, signals still fire so that nobody hangs, and
    the error is raised by the next `drain` or `close`, by whoever waits for one of those signals, and in turn by
    the streams that do. A forked child cannot use a stream whose thread is in its parent: StreamError.
    """

    instead: ClassVar[str] = "make a stream: it has a thread of its own"

    def __init__(self, name: str = "stream", seed: Size = 0) -> None:
        self.name = name
        self._worker = _Worker(name)
        self._lock = threading.Lock()
        self._workspace: Tensor | None = None
        self._generator = _generator(seed)
        weakref.finalize(self, self._worker.jobs.put, None)

    @property
    def generator(self) -> np.random.Generator:
        """Random numbers for the tasks of this stream; not to be shared with other threads while tasks run."""
        return self._generator

    @property
    def is_foreign(self) -> bool:
        """True in a forked child when the stream's thread is in the parent."""
        return self._worker.thread is not None and self._worker.process != os.getpid()

    @property
    def thread_number(self) -> int:
        """What `threading.get_ident` gives in its tasks; 0 without a thread."""
        thread = self._worker.thread
        return 0 if thread is None else thread.ident or 0

    def set_seed(self, seed: Size) -> None:
        """Start the random numbers afresh for everything submitted from now on."""
        fresh = _generator(seed)

        def replace() -> None:
            self._generator = fresh

        if self._worker.thread is None:
            replace()
        else:
            self.submit(replace)

    def workspace(self, nbytes: int) -> Tensor:
        """At least `nbytes` bytes of scratch memory for the tasks of this stream: the same memory each time.

        It grows on demand; what holds the smaller memory keeps it.
        """
        with self._lock:
            if self._workspace is None or self._workspace.spec.nbytes < nbytes:
                self._workspace = Tensor.empty(TensorSpec((nbytes,), U8), "workspace")
            return self._workspace

    def submit(self, task: Task) -> None:
        """Queue `task` behind everything submitted so far. UsageError for what cannot be called."""
        self._put(_callable("submit", task))

    def add_callback(self, callback: Callback) -> None:
        """Call `callback` when everything submitted so far is done or dropped, with the stream's error if any."""
        self._put(_Always(_callable("add_callback", callback)))

    def emit(self, signal: Signal) -> Signal:
        """Fire `signal` when everything submitted so far is done. StreamError for a signal that has an emitter."""
        if signal.emitter is not None:
            raise StreamError(
                "emit", got=f"signal {signal.name} of {signal.emitter.name}", need="a signal that nobody emits yet"
            )
        with Shield():
            signal.emitter = self
            self.add_callback(signal.set)
        return signal

    def wait(self, signal: Signal) -> None:
        """Hold later tasks of this stream until `signal` has fired; drop them if its stream has failed."""
        self._put(_Wait(signal))

    def drain(self) -> None:
        """Block until the stream is idle; raise the first error of its tasks, if any."""
        if self._worker.thread is not None:
            self.check_reachable("drain")
            self.emit(Signal("drain")).settle()
        self._raise()

    def close(self) -> None:
        """Finish the queued tasks, end the thread, and raise the first error of the tasks, if any."""
        self._end()
        self._raise()

    def check_reachable(self, subject: str) -> None:
        """StreamError when waiting here for this stream would never end: on its own thread, in a forked child."""
        if self.is_foreign:
            raise StreamError(
                subject, got=f"{self.name} of the parent process", need="a stream whose thread is in this process"
            )
        if threading.current_thread() is self._worker.thread:
            raise StreamError(
                subject,
                got=f"a wait for {self.name} in one of its own tasks",
                need="another thread",
                fix="submit() what must come later",
            )

    def _put(self, job: Task | _Always | _Wait) -> None:
        if self.is_foreign:
            self.check_reachable(self.name)
        self._worker.put(job)

    def _end(self) -> None:
        if self._worker.thread is not None and not self.is_foreign:
            self.check_reachable("close")
            self._worker.end()

    def _raise(self) -> None:
        error, self._worker.error = self._worker.error, None
        if error is not None:
            raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An error of the block itself is the first one; one of the tasks does not hide it.
        self._end()
        if error is None:
            self._raise()


def _callable(subject: str, function: F) -> F:
    if not callable(function):
        raise UsageError(subject, got=f"a {type(function).__name__}", need="a function")
    return function


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))
