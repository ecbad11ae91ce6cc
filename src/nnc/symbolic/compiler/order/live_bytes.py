"""Bytes alive at each position of a sequence of runs, from when values live: the one count of all that orders execs.

    through[p]  bytes of values that live at p and at the position before
    born[p]     bytes of values that begin to live at p
    shared[p]   bytes of values that end at p and whose memory others take over that begin at p
    during[p] = through[p] + born[p] + own[p] - shared[p];   peak = max over p of during[p]

Whoever changes a sequence says which values live otherwise, and what was counted stays for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

R = TypeVar("R")
# The first and the last position of a value's life; the last may be behind all positions.
Span = tuple[int, int]
Bytes = NDArray[np.int64]


class LiveBytes:
    """The parts of the count, and their sum."""

    def __init__(self, through: Bytes, born: Bytes, own: Bytes, shared: Bytes) -> None:
        self.through, self.born, self.own, self.shared = through, born, own, shared
        self.during: Bytes = through + born + own - shared
        self.peak = int(self.during.max(initial=0))

    @classmethod
    def counted(
        cls, values: Iterable[tuple[int, Iterable[Span]]], own: Sequence[int], shared: Sequence[int]
    ) -> LiveBytes:
        """From `values`, which are bytes with their lives."""
        count = len(own)
        change, born = [0] * (count + 2), [0] * (count + 2)
        for nbytes, lives in values:
            for birth, last in lives:
                born[birth] += nbytes
                change[birth + 1] += nbytes
                change[last + 1] -= nbytes
        through = np.cumsum(np.array(change, np.int64))[:count]
        return cls(through, np.array(born[:count], np.int64), np.array(own, np.int64), np.array(shared, np.int64))

    @property
    def at_peak(self) -> int:
        """The first position of the peak."""
        return int(self.during.argmax()) if len(self.during) else 0


def shared_bytes(
    pairs: Iterable[tuple[R, R]], nbytes: Callable[[R], int], lives: Callable[[R], Iterable[Span]], at: int
) -> int:
    """Bytes of values that end at a position and whose memory values that begin there take over, by the first pairs."""
    shared, taken = 0, set[R]()
    for source, target in pairs:
        if source in taken or target in taken:
            continue
        # Lists, as they are short: generators take twice the time of an order.
        if at in [last for _, last in lives(source)] and at in [birth for birth, _ in lives(target)]:
            taken |= {source, target}
            shared += nbytes(source)
    return shared
