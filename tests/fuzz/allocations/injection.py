"""An allocator that counts what it gives, knows what is still held, and fails at a chosen call.

While it is in place every byte of tensors, arenas, workspaces and native code comes from it.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic, sleep

from nnc.core.values.storage import ALLOCATOR, Bytes, bytes_of_system

# The thread of a stream that nobody holds any more ends, and lets go of its last error, within so long.
SECONDS = 2.0


@dataclass
class Counted:
    """`fails` is the call that fails, from 1 on; 0 for none."""

    fails: int = 0
    calls: int = 0
    held: dict[int, weakref.ref[Bytes]] = field(default_factory=dict)

    def __call__(self, nbytes: int, zeroed: bool) -> Bytes:
        """In the place of `bytes_of_system`."""
        self.calls += 1
        if self.calls == self.fails:
            raise MemoryError
        given = bytes_of_system(nbytes, zeroed)
        self.held[self.calls] = weakref.ref(given)
        return given

    def live(self, expected: int = 0) -> int:
        """Bytes that somebody still holds; where these are more than expected, after threads had time to end."""
        until = monotonic() + SECONDS
        while (found := self._live()) > expected and monotonic() < until:
            sleep(0.01)
        return found

    def _live(self) -> int:
        gc.collect()
        return sum(given.nbytes for one in self.held.values() if (given := one()) is not None)


@contextmanager
def counted(fails: int = 0) -> Iterator[Counted]:
    """Everything is allocated here until the end of the block."""
    before, source = ALLOCATOR.source, Counted(fails)
    ALLOCATOR.source = source
    try:
        yield source
    finally:
        ALLOCATOR.source = before
