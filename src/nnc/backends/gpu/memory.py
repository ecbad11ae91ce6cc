"""A pool of a device's memory: large pieces by themselves, small ones cut from slabs.

    size of a small piece = n rounded up to one of four sizes for each power of two, 256 bytes at least
    allocate(n) = a piece of that size that came back, else the next of a slab
    allocate(large n) = the smallest piece of n to 1.25 n that came back, else memory of the device

What is queued on a device runs in order, so a piece may serve again while what used it last still waits. Where the
device has no more, pieces that wait go back to it, and it is asked once more.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from typing import Protocol

from nnc.classes import dataclass

LEAST, SMALL, SLAB = 256, 1 << 20, 1 << 23
# A piece serves for something smaller where less than this share of it is left over.
LARGEST_RATIO = 1.25


class MemorySource(Protocol):
    """Where a pool has its memory from."""

    def reserve(self, nbytes: int) -> int:
        """The address of fresh memory; 0 where the device has not that much."""

    def release(self, address: int) -> None:
        """Give it back, when all that is queued is done."""


@dataclass(frozen=True, slots=True)
class MemoryPiece:
    """Memory [address, address + nbytes); part of a slab or by itself."""

    address: int
    nbytes: int


class PooledMemory:
    """What storages over a piece hold on to; with the last of them the piece goes back to the pool.

    The `lease` of the device is held for as long.
    """

    __slots__ = ("_lease", "_returned", "piece")

    def __init__(self, piece: MemoryPiece, returned: deque[MemoryPiece], lease: object) -> None:
        self.piece = piece
        self._returned = returned
        self._lease = lease

    def __del__(self) -> None:
        # An append needs no lock: the last holder may go at any moment, on any thread.
        self._returned.append(self.piece)


def piece_size(nbytes: int) -> int:
    """The size of the piece that serves for so many bytes.

    >>> [piece_size(n) for n in (0, 257, 1000, 5000, 1 << 21)]
    [256, 320, 1024, 5120, 2097152]
    """
    if nbytes <= LEAST:
        return LEAST
    step = max((1 << (nbytes - 1).bit_length()) >> 3, LEAST >> 2)
    return -(-nbytes // step) * step if nbytes <= SMALL else -(-nbytes // (1 << 16)) * (1 << 16)


class DevicePool:
    """The memory of one device. Who calls has the device's lock."""

    def __init__(self, source: MemorySource, lease: object = None) -> None:
        self._source, self._lease = source, lease
        self._returned: deque[MemoryPiece] = deque()
        self._small: defaultdict[int, list[MemoryPiece]] = defaultdict(list)
        self._large: dict[int, list[MemoryPiece]] = {}
        self._sizes: list[int] = []
        self._slab, self._end = 0, 0
        # Bytes that the device has given, and those that somebody holds.
        self.reserved, self.lent = 0, 0

    def allocate(self, nbytes: int) -> PooledMemory | None:
        """Memory of at least so many bytes, not initialized; None where the device has not that much."""
        self.take_back()
        size = piece_size(nbytes)
        piece = self._cut(size) if size <= SMALL else self._whole(size)
        if piece is None:
            return None
        self.lent += piece.nbytes
        return PooledMemory(piece, self._returned, self._lease)

    def release_waiting(self) -> None:
        """Give back to the device what waits by itself; slabs stay."""
        self.take_back()
        for pieces in self._large.values():
            for piece in pieces:
                self._source.release(piece.address)
                self.reserved -= piece.nbytes
        self._large, self._sizes = {}, []

    def take_back(self) -> None:
        """Note what came back."""
        while self._returned:
            piece = self._returned.popleft()
            self.lent -= piece.nbytes
            if piece.nbytes <= SMALL:
                self._small[piece.nbytes].append(piece)
                continue
            if piece.nbytes not in self._large:
                self._large[piece.nbytes] = []
                insort(self._sizes, piece.nbytes)
            self._large[piece.nbytes].append(piece)

    def _cut(self, size: int) -> MemoryPiece | None:
        if waiting := self._small[size]:
            return waiting.pop()
        if self._slab + size > self._end:
            address = self._reserve(SLAB)
            if not address:
                return None
            self._slab, self._end = address, address + SLAB
        begin, self._slab = self._slab, self._slab + -(-size // LEAST) * LEAST
        return MemoryPiece(begin, size)

    def _whole(self, size: int) -> MemoryPiece | None:
        place = bisect_left(self._sizes, size)
        if place < len(self._sizes) and self._sizes[place] <= LARGEST_RATIO * size:
            fitting = self._sizes[place]
            pieces = self._large[fitting]
            piece = pieces.pop()
            if not pieces:
                del self._large[fitting], self._sizes[place]
            return piece
        address = self._reserve(size)
        return MemoryPiece(address, size) if address else None

    def _reserve(self, size: int) -> int:
        address = self._source.reserve(size)
        if not address and self._large:
            self.release_waiting()
            address = self._source.reserve(size)
        self.reserved += size if address else 0
        return address
