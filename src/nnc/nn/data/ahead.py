"""Rows made ahead of their turn, on threads or in processes, and given out in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent import futures
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler

from nnc.classes import dataclass
from nnc.errors import DataError
from nnc.nn.data.rows import FrameEpoch, Rows, Ticket, Value, made_row, skipped

Row = dict[str, Value]
Job = Callable[[], Row]
FIX_PROCESSES = (
    'define functions at the top of a module, and begin the program under `if __name__ == "__main__"`, or use threads'
)


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Rows to read ahead, and workers to read them: threads, or processes that each have a copy of the sources."""

    depth: int = 0
    workers: int = 1
    processes: bool = False


class Workers:
    """The threads or processes of one frame. They end with `close`, and when nobody holds them any more."""

    def __init__(self, rows: Rows, prefetch: Prefetch) -> None:
        self.rows = rows
        self._process = os.getpid()
        self.executor = _processes(rows, prefetch) if prefetch.processes else _threads(prefetch)
        self._work = _in_child if prefetch.processes else partial(made_row, rows)
        self.close = weakref.finalize(self, _end, self.executor)

    @property
    def same_process(self) -> bool:
        """False in a fork, where they are not."""
        return self._process == os.getpid()

    def begin(self, ticket: Ticket) -> Job:
        """Begin a row; the job waits for it."""
        future: futures.Future[Row] = self.executor.submit(self._work, ticket)
        return future.result


def _end(executor: futures.Executor) -> None:
    executor.shutdown(wait=False, cancel_futures=True)


def _threads(prefetch: Prefetch) -> futures.Executor:
    return futures.ThreadPoolExecutor(prefetch.workers, "nnc prefetch")


def _processes(rows: Rows, prefetch: Prefetch) -> futures.Executor:
    """Fresh processes: a fork of one that has threads may hang."""
    try:
        packed = bytes(ForkingPickler.dumps(rows))
    except Exception as error:
        need = "rows that can be sent to a process"
        raise DataError("prefetch", got=str(error), need=need, fix=FIX_PROCESSES) from None
    context = multiprocessing.get_context("spawn")
    # Named here, pools of processes are imported when there is one: 8 % of the import of nnc.nn.
    return futures.ProcessPoolExecutor(prefetch.workers, context, initializer=_begin_child, initargs=(packed,))


_CHILD: list[Rows] = []


def _begin_child(packed: bytes) -> None:
    """A worker process: it has the rows once, leaves Ctrl-C to its parent, and ends where that has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _CHILD[:] = [ForkingPickler.loads(packed)]


def _end_with(parent: BaseProcess) -> None:
    """A parent that was killed cannot end its workers."""
    parent.join()
    os._exit(1)


def _in_child(ticket: Ticket) -> Row:
    return made_row(_CHILD[0], ticket)


class EpochStream:
    """The rows of an epoch from a place on, each made once, and whether it is the last."""

    def __init__(self, rows: Rows, epoch: FrameEpoch, start: int, workers: Workers | None, depth: int) -> None:
        self._tickets: Iterator[Ticket] = skipped(rows.tickets(epoch), start)
        self._begin = partial(_later, rows) if workers is None else workers.begin
        # The row behind the one whose turn it is says whether that is the last.
        self._wanted = 1 + (1 if workers is None else depth)
        self._jobs: deque[Job] = deque()
        self._row: Row | None = None
        self._process = os.getpid()

    def _fill(self) -> None:
        """Begin as many rows as are wanted; an error of a ticket waits for its turn."""
        while len(self._jobs) < self._wanted:
            try:
                self._jobs.append(self._begin(next(self._tickets)))
            except StopIteration:
                self._wanted = 0
            except Exception as error:
                self._jobs.append(partial(_raise, error))
                self._wanted = 0

    @property
    def same_process(self) -> bool:
        """False in a fork, where nobody makes what was begun."""
        return self._process == os.getpid()

    @property
    def ended(self) -> bool:
        """Whether no row is left."""
        self._fill()
        return not self._jobs

    @property
    def last(self) -> bool:
        """Whether the row whose turn it is has none behind it."""
        self._fill()
        return len(self._jobs) == 1

    def row(self) -> Row:
        """The row whose turn it is: the same one until `advance`."""
        self._fill()
        if self._row is None:
            try:
                self._row = self._jobs[0]()
            except futures.BrokenExecutor:
                got, need = "a worker process that ended", "workers that live"
                raise DataError("prefetch", got=got, need=need, fix=FIX_PROCESSES) from None
        return self._row

    def advance(self) -> None:
        """Go on to the row behind it."""
        self._row = None
        self._jobs.popleft()


def _later(rows: Rows, ticket: Ticket) -> Job:
    return partial(made_row, rows, ticket)


def _raise(error: Exception) -> Row:
    raise error
