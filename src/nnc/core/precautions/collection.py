"""Garbage collection, put off while much is made that stays.

    with RareCollections():     planning, lowering
        …

Python looks for cycles whenever 700 objects more were made than freed. A compilation makes some 10^5 that stay, so an
eighth of its time went into looks that find nothing. Here it is every 10^5; cycles of long searches still go.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar

from nnc.core.precautions.forking import fork_safe_lock

P = ParamSpec("P")
R = TypeVar("R")

# Objects more than were freed: some 10 MB.
SELDOM = 100_000
_LOCK = fork_safe_lock()
# How many blocks are open, and the threshold outside of them.
_STATE = [0, 0]


class RareCollections:
    """A block, or a function, with rare collections in all threads; who collects less, or not at all, has his way."""

    __slots__ = ()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def within(*values: P.args, **named: P.kwargs) -> R:
            with self:
                return function(*values, **named)

        return within

    def __enter__(self) -> None:
        with _LOCK:
            _STATE[0] += 1
            threshold, *others = gc.get_threshold()
            if _STATE[0] == 1 and 0 < threshold < SELDOM:
                _STATE[1] = threshold
                gc.set_threshold(SELDOM, *others)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _LOCK:
            _STATE[0] -= 1
            threshold, *others = gc.get_threshold()
            if not _STATE[0] and threshold == SELDOM:
                gc.set_threshold(_STATE[1], *others)
