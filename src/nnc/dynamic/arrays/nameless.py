"""Whether `x[…] = value` is for a value that nobody holds, as `x[0]` is in `x[0][1] = value`: it would be lost."""

from __future__ import annotations

import sys
from opcode import opmap

from nnc.dynamic.arrays.located import located


class _Probe:
    """Counts what refers to it in an assignment."""

    @located
    def __setitem__(self, index: int, counts: list[int]) -> None:
        counts.append(sys.getrefcount(self))


def _references() -> int:
    """What refers to a value without a name inside its own `__setitem__`; -1 where a name makes no difference."""
    counts: list[int] = []
    _Probe()[0] = counts
    named = _Probe()
    named[0] = counts
    return counts[0] if counts[0] < counts[1] else -1


# By `sys.getrefcount`, which interpreters differ in: measured here, as the assignment itself is.
WITHOUT_A_NAME = _references()


def is_statement() -> bool:
    """Whether the `__setitem__` that asks was called by `x[…] = value`: a call by its name has a reference less."""
    caller = sys._getframe(3)  # behind this, the method, and what locates it
    return caller.f_code.co_code[caller.f_lasti] == opmap["STORE_SUBSCR"]
