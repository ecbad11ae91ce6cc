"""What runs are told to while somebody profiles: kernels with the time of each worker, whole runs, allocations.

Where nobody does, each run, allocation and eager command reads one attribute and goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand

# What native code reads too (Windows has no such clock: there workers are not told apart).
CLOCK: int | None = getattr(time, "CLOCK_MONOTONIC", None)


def now() -> int:
    """Nanoseconds of the clock of all records."""
    return time.perf_counter_ns() if CLOCK is None else time.clock_gettime_ns(CLOCK)


@dataclass(frozen=True, slots=True)
class WorkerTime:
    """When a worker began and ended its parts of a kernel, and how long it computed, in nanoseconds."""

    worker: int
    begin: int
    end: int
    busy: int


@dataclass(frozen=True, slots=True)
class KernelTime:
    """A kernel that ran from `begin` to `end`: what an exec calls itself, and floating-point operations (`work`)."""

    name: str
    operator: str
    origin: str
    backend: str
    work: int
    thread: int
    begin: int
    end: int
    workers: tuple[WorkerTime, ...] = ()


@dataclass(frozen=True, slots=True)
class RunTime:
    """A run of a whole graph."""

    name: str
    thread: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Allocated:
    """Fresh memory."""

    label: str
    nbytes: int
    moment: int


Record = KernelTime | RunTime | Allocated


class RecordSink(Protocol):
    """Who takes records: a list, or a queue."""

    def append(self, record: Record, /) -> None:
        """Take a record, on any thread."""


class Profiler:
    """Who listens. Appending to a list is safe on any thread."""

    __slots__ = ("_lock", "recorders")

    def __init__(self) -> None:
        self.recorders: tuple[RecordSink, ...] = ()
        self._lock = threading.Lock()

    def add(self, records: RecordSink) -> None:
        """Tell this one too."""
        with self._lock:
            self.recorders = (*self.recorders, records)

    def remove(self, records: RecordSink) -> None:
        """Tell this one no more."""
        with self._lock:
            self.recorders = tuple(recorder for recorder in self.recorders if recorder is not records)

    def note(self, record: Record) -> None:
        """Tell everybody."""
        for records in self.recorders:
            records.append(record)


PROFILER = Profiler()


class Labelled(Protocol):
    """What a call is made for."""

    @property
    def name(self) -> str:
        """Its scopes and operator; empty outside of scopes."""

    @property
    def origin(self) -> str:
        """The user's line."""

    @property
    def command(self) -> AnyCommand:
        """What runs."""


# A program that says when its workers began, ended and computed.
Traced = Callable[[], Sequence[WorkerTime]]


def run_timed(program: Traced, source: Labelled, backend: str, work: int) -> None:
    """Run a program of one kernel, and note it."""
    begin = now()
    workers = program()
    end = now()
    operator, thread = source.command.op.name, threading.get_ident()
    PROFILER.note(KernelTime(source.name, operator, source.origin, backend, work, thread, begin, end, tuple(workers)))
