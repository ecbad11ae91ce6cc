"""Streams: work in order, each stream on its own thread; signals order streams among themselves."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import numpy as np

Task = Callable[[], None]


class Signal:
    """A point in a stream's work that other streams can wait for; may be emitted once."""

    __slots__ = ("_event", "name")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._event = threading.Event()

    @property
    def emitted(self) -> bool:
        """True once the emitting stream has reached the point."""
        return self._event.is_set()

    def set(self) -> None:
        """Mark the point as reached (called by the stream that emits)."""
        self._event.set()

    def wait(self) -> None:
        """Block the calling thread until the point is reached."""
        self._event.wait()


class Stream:
    """Tasks run one after another on a thread of this stream; kernels release the interpreter lock.

    A task that raises stops the stream: later tasks are dropped, signals still fire so that nobody hangs, and
    the error is raised by the next `drain` or `close`.
    """

    def __init__(self, name: str = "stream", seed: int = 0) -> None:
        self.name = name
        self.generator = np.random.Generator(np.random.Philox(seed))
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, task: Task) -> None:
        """Queue `task` behind everything submitted so far."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"nnc-{self.name}", daemon=True)
                self._thread.start()
        self._tasks.put(task)

    def emit(self, signal: Signal) -> Signal:
        """Fire `signal` when everything submitted so far is done."""
        self.submit(signal.set)
        return signal

    def wait(self, signal: Signal) -> None:
        """Hold later tasks of this stream until `signal` has fired."""
        self.submit(signal.wait)

    def drain(self) -> None:
        """Block until the stream is idle; raise the first error of its tasks, if any."""
        if self._thread is not None:
            self.emit(Signal("drain")).wait()
        self._raise()

    def close(self) -> None:
        """Finish the queued tasks, end the thread, and raise the first error of the tasks, if any."""
        self._end()
        self._raise()

    def _end(self) -> None:
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join()
            self._thread = None

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
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

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            if self._error is not None and getattr(task, "__func__", None) is not Signal.set:
                continue
            try:
                task()
            except BaseException as error:
                self._error = error
