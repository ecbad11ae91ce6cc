"""Bytes alive at each position of a sequence of runs, from when values live: the one count of all that orders execs.

    through[p]  bytes of values that live at p and at the position before
    born[p]     bytes of values that begin to live at p
    shared[p]   bytes of values that end at p and whose memory others take over that begin at p
    during[p] = through[p] + born[p] + own[p] - shared[p];   peak = max over p of during[p]

Whoever changes a sequence says which values live otherwise, and what was counted stays for the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

R = TypeVar("R")
# The first and the last position of a value's life; the last may be behind all positions.
Span = tuple[int, int]
Bytes = NDArray[np.int64]


class LiveBytes:
    """Counted from `values`, bytes with their lives, over what other values take: `through` and `born` of these."""

    def __init__(
        self,
        values: Iterable[tuple[int, Iterable[Span]]],
        own: Sequence[int] | Bytes,
        shared: Sequence[int] | Bytes,
        others: tuple[Bytes, Bytes] | None = None,
    ) -> None:
        self.through, self.born = _counted(values, len(own)) if others is None else _added(values, *others)
        self.own: Bytes = np.asarray(own, np.int64)
        self.shared: Bytes = np.asarray(shared, np.int64)
        self.during: Bytes = self.through + self.born + self.own - self.shared
        self.peak = int(self.during.max(initial=0))

    @property
    def at_peak(self) -> int:
        """The first position of the peak."""
        return int(self.during.argmax()) if len(self.during) else 0


def _counted(values: Iterable[tuple[int, Iterable[Span]]], count: int) -> tuple[Bytes, Bytes]:
    """`through` and `born` of many values."""
    change, born = [0] * (count + 2), [0] * (count + 2)
    for nbytes, lives in values:
        for birth, last in lives:
            born[birth] += nbytes
            change[birth + 1] += nbytes
            change[last + 1] -= nbytes
    return np.cumsum(np.array(change, np.int64))[:count], np.array(born[:count], np.int64)


def _added(values: Iterable[tuple[int, Iterable[Span]]], through: Bytes, born: Bytes) -> tuple[Bytes, Bytes]:
    """Both with a few values more: a search asks this most, and sums by position take a tenth of slices by value."""
    births, edges = defaultdict[int, int](int), defaultdict[int, int](int)
    for nbytes, lives in values:
        for birth, last in lives:
            births[birth] += nbytes
            edges[birth + 1] += nbytes
            edges[last + 1] -= nbytes
    return through + np.cumsum(_placed(edges, len(born))), born + _placed(births, len(born))


def _placed(amounts: Mapping[int, int], count: int) -> Bytes:
    """The amounts at their positions; those behind all positions are left out."""
    placed = np.zeros(count + 2, np.int64)
    placed[list(amounts)] = list(amounts.values())
    return placed[:count]


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
