"""The pool of a device's memory, over a source that counts."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from nnc.backends.gpu.memory import SLAB, SMALL, DevicePool, PooledMemory, piece_size


@dataclass
class Source:
    """Addresses one behind another, `room` bytes in all."""

    room: int = 1 << 30
    given: dict[int, int] = field(default_factory=dict)
    asked: int = 0
    _next: int = 1 << 40

    def reserve(self, nbytes: int) -> int:
        self.asked += 1
        if sum(self.given.values()) + nbytes > self.room:
            return 0
        self._next += 1 << 30
        self.given[self._next] = nbytes
        return self._next

    def release(self, address: int) -> None:
        del self.given[address]


def test_pieces_never_overlap_and_all_come_back() -> None:
    source, generator = Source(), np.random.default_rng(3)
    pool, held = DevicePool(source), list[PooledMemory]()
    for _ in range(3000):
        if held and generator.random() < 0.5:
            held.pop(int(generator.integers(len(held))))
        else:
            lent = pool.allocate(int(2 ** generator.uniform(0, 22)))
            assert lent is not None
            held.append(lent)
            assert lent.piece.address % 256 == 0
        ends = sorted((lent.piece.address, lent.piece.address + lent.piece.nbytes) for lent in held)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
    assert pool.reserved == sum(source.given.values())
    held.clear()
    del lent
    gc.collect()
    pool.take_back()
    assert pool.lent == 0
    pool.release_waiting()
    assert set(source.given.values()) == {SLAB}


def test_what_came_back_serves_before_the_device_is_asked() -> None:
    source = Source()
    pool = DevicePool(source)
    for nbytes in (100, SMALL, SMALL + 1, 50 << 20):
        first = pool.allocate(nbytes)
        assert first is not None
        place, asked = first.piece.address, source.asked
        del first
        second = pool.allocate(nbytes)
        assert second is not None
        assert (second.piece.address, source.asked) == (place, asked)


def test_where_there_is_no_more_what_waits_goes_back_first() -> None:
    source = Source(room=100 << 20)
    pool = DevicePool(source)
    kept, gone = pool.allocate(30 << 20), pool.allocate(60 << 20)
    assert pool.allocate(30 << 20) is None
    del gone
    assert pool.allocate(70 << 20) is not None
    assert kept is not None
    assert pool.allocate(80 << 20) is None


def test_sizes_of_pieces_waste_little() -> None:
    for nbytes in range(1, 1 << 20, 997):
        assert nbytes <= piece_size(nbytes) <= max(256, nbytes * 1.25 + 64)
    assert piece_size(SMALL + 1) == SMALL + (1 << 16)
