"""Interrupts at chosen instants: Ctrl-C where Python would look for it, or by a clock.

Python handles signals when a function of its own begins and when one of C returns. `places` counts these instants by
line while a function runs; `interrupted` runs it again and raises SIGINT at the n-th instant of one line.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Callable
from random import Random
from types import CodeType, FrameType

Place = tuple[CodeType, int]
INSTANTS = ("call", "c_return", "c_exception")


def places(function: Callable[[], object]) -> Counter[Place]:
    """How often each line was passed at an instant at which Ctrl-C could be handled."""
    counts: Counter[Place] = Counter()

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event in INSTANTS:
            counts[frame.f_code, frame.f_lineno] += 1

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    counts = Counter({place: times for place, times in counts.items() if place[0].co_filename != __file__})
    assert counts
    return counts


def interrupted(function: Callable[[], object], place: Place, turn: int) -> bool:
    """Run `function` with Ctrl-C at the given turn of a place; whether KeyboardInterrupt came out."""
    left = turn

    def watch(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        if event in INSTANTS and (frame.f_code, frame.f_lineno) == place:
            left -= 1
            if left == 0:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

    try:
        sys.setprofile(watch)
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def interrupted_by_clock(function: Callable[[], object], seconds: float) -> bool:
    """Run `function` with Ctrl-C after so much time of the processor; whether KeyboardInterrupt came out."""

    def ring(number: int, frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGVTALRM, ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
            function()
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except KeyboardInterrupt:
        return True
    finally:
        signal.signal(signal.SIGVTALRM, before)
    return False


def chosen(counts: Counter[Place], random: Random) -> tuple[Place, int]:
    """A place, each as likely as any other however often it was passed, and one of its turns."""
    table = sorted(counts, key=lambda place: (place[0].co_filename, place[0].co_firstlineno, place[1]))
    place = random.choice(table)
    return place, random.randint(1, counts[place])
