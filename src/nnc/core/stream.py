"""Streams: work in order, each stream on its own thread; signals order streams among themselves.

    stream.submit(task)   stream.emit(signal)   other.wait(signal)   other.submit(task)   other.drain()

A stream has scratch memory and a random generator of its own, both for the tasks that run on it.
"""

from __future__ import annotations

import os
import queue
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import ClassVar, Self

import numpy as np

from nnc.core.dtype import U8
from nnc.core.spec import TensorSpec
from nnc.core.tensor import Tensor
from nnc.core.uncopied import Uncopied
from nnc.errors import StreamError

Task = Callable[[], None]
Callback = Callable[[BaseException | None], None]


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


@dataclass(slots=True, eq=False)
class _Worker:
    """What a stream's thread works on. It does not hold the stream, so a dropped stream ends its thread."""

    jobs: queue.SimpleQueue[Task | _Always | None] = field(default_factory=queue.SimpleQueue)
    error: BaseException | None = None
    thread: threading.Thread | None = None
    process: int = 0

    def work(self) -> None:
        while (job := self.jobs.get()) is not None:
            try:
                if isinstance(job, _Always):
                    job.run(self.error)
                elif self.error is None:
                    job()
            except BaseException as error:
                self.error = self.error or error
            # A job may hold the stream, which could then never be dropped.
            del job


class Stream(Uncopied):
    """Tasks run one after another on a thread of this stream; kernels release the interpreter lock.

    A task that raises stops the stream: later tasks are dropped, signals still fire so that nobody hangs, and
    the error is raised by the next `drain` or `close`, by whoever waits for one of those signals, and in turn by
    the streams that do. A forked child cannot use a stream whose thread is in its parent: StreamError.
    """

    instead: ClassVar[str] = "make a stream: it has a thread of its own"

    def __init__(self, name: str = "stream", seed: int = 0) -> None:
        self.name = name
        self._worker = _Worker()
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

    def set_seed(self, seed: int) -> None:
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
        """Queue `task` behind everything submitted so far."""
        self._put(task)

    def add_callback(self, callback: Callback) -> None:
        """Call `callback` when everything submitted so far is done or dropped, with the stream's error if any."""
        self._put(_Always(callback))

    def emit(self, signal: Signal) -> Signal:
        """Fire `signal` when everything submitted so far is done. StreamError for a signal that has an emitter."""
        if signal.emitter is not None:
            raise StreamError(
                "emit", got=f"signal {signal.name} of {signal.emitter.name}", need="a signal that nobody emits yet"
            )
        signal.emitter = self
        self.add_callback(signal.set)
        return signal

    def wait(self, signal: Signal) -> None:
        """Hold later tasks of this stream until `signal` has fired; drop them if its stream has failed."""
        self.submit(signal.wait)

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

    def _put(self, job: Task | _Always) -> None:
        worker = self._worker
        if worker.thread is None:
            with self._lock:
                if worker.thread is None:
                    worker.process = os.getpid()
                    worker.thread = threading.Thread(target=worker.work, name=f"nnc-{self.name}", daemon=True)
                    worker.thread.start()
        elif worker.process != os.getpid():
            self.check_reachable(self.name)
        worker.jobs.put(job)

    def _end(self) -> None:
        worker = self._worker
        if worker.thread is not None and not self.is_foreign:
            self.check_reachable("close")
            worker.jobs.put(None)
            worker.thread.join()
            worker.thread = None

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


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))
