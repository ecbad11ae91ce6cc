"""What a check under test may take, and how what came out of it is told."""

from __future__ import annotations

import resource
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


class Overtime(BaseException):
    """Something took too long; not an Exception, so that nothing under test catches it."""


@contextmanager
def processor_limit(seconds: int) -> Iterator[None]:
    """Overtime is raised inside when an answer takes more time on processors, however busy the machine is."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Overtime(f"no answer in {seconds} s of a processor")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Overtime is raised inside when there is no answer in time."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Overtime(f"no answer in {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def memory_limit(nbytes: int) -> Iterator[None]:
    """No more than these bytes of addresses beyond those that the process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + nbytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def describe(error: BaseException) -> str:
    """`KeyError: 'x' at symbolic/ir.py:12`."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{frame.filename.rpartition('nnc/')[2]}:{frame.lineno}"
    return f"{type(error).__name__}: {str(error)[:200]} at {place}"
