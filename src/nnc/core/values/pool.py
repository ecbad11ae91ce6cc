"""A pool: memory of tensors that are gone, for new ones.

    allocate(n) = the smallest piece of n to 2 n bytes that was given back, of equal ones the last; else fresh memory

A piece comes back when nobody holds its bytes any more, be it a tensor, a view of one or an array of NumPy's.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

import numpy as np

from nnc.classes import dataclass
from nnc.core.precautions.forking import fork_safe_lock
from nnc.core.values.device import Device
from nnc.core.values.storage import ALIGNMENT, Bytes, Storage, allocate_on, check_label

KEPT = 1 << 26
# Pieces up to this many bytes wait in lists by size; once this many of a size wait, the pool gives some back.
SMALL, MANY = 1 << 16, 256


class PooledStorage(Storage):
    """The first `nbytes` of a piece of a pool: what tensors and arrays over it hold on to.

    With the last of them the piece goes back.
    """

    __slots__ = ("_piece", "_returned")

    def __init__(self, piece: Storage, nbytes: int, returned: deque[Storage] | list[Storage], label: str) -> None:
        self._piece, self._returned = piece, returned
        self.owner, self.watch, self.file = piece, None, None
        self.address, self.nbytes, self.label, self.read_only = piece.address, nbytes, label, False

    @property
    def __array_interface__(self) -> dict[str, object]:
        """The bytes, as NumPy asks for them."""
        return {"version": 3, "typestr": "|u1", "shape": (self.nbytes,), "data": (self.address, False)}

    @property
    def bytes(self) -> Bytes:
        """The bytes as NumPy's, which hold this storage: kept here, they would never go."""
        return np.asarray(self)

    def __del__(self) -> None:
        # Nothing but an append, which needs no lock: the last holder may go at any moment, on any thread.
        try:
            self._returned.append(self._piece)
        except AttributeError:
            # Ctrl-C came in before it held the piece, which then nobody holds.
            return


@dataclass(frozen=True, slots=True)
class DeviceMemoryPool:
    """Memory of a device, whose driver has a pool of its own."""

    device: Device

    def allocate(self, nbytes: int, label: str = "") -> Storage:
        """Memory, not initialized. OutOfMemoryError when the device has not that much."""
        return allocate_on(self.device, nbytes, label)


class Pool:
    """Pieces that wait to be used again. Where more than `kept` bytes wait, the system gets all of them back.

    Small ones wait by size in lists, from which they are taken and to which they come back without a lock. Others are
    put in order by whoever takes the next piece.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self.kept = kept
        self._lock = fork_safe_lock()
        self._small: dict[int, list[Storage]] = {}
        self._small_sizes: list[int] = []
        self._returned: deque[Storage] = deque()
        self._pieces: dict[int, list[Storage]] = {}
        self._sizes: list[int] = []
        # Bytes of all pieces, and of the large ones that wait in order.
        self._owned = 0
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """Bytes that wait."""
        with self._lock:
            self._take_back()
            self._give_back()
            return self._waiting + self._small_waiting()

    @property
    def lent(self) -> int:
        """Bytes that somebody holds."""
        with self._lock:
            self._take_back()
            return self._owned - self._waiting - self._small_waiting()

    def of(self, device: Device) -> Pool | DeviceMemoryPool:
        """Where memory of a device comes from: of the host here."""
        return self if device.is_host else DeviceMemoryPool(device)

    def allocate(self, nbytes: int, label: str = "") -> Storage:
        """Memory, not initialized. MemoryLimitError when the system has not that much."""
        if label:
            check_label(label)
        size = (nbytes + ALIGNMENT - 1) & -ALIGNMENT
        pieces = self._small.get(size)
        if pieces and len(pieces) < MANY and not self._returned:
            try:
                return PooledStorage(pieces.pop(), nbytes, pieces, label)
            except IndexError:
                pass
        piece = self._taken(size)
        home = self._returned if piece.nbytes > SMALL else self._small[piece.nbytes]
        return PooledStorage(piece, nbytes, home, label)

    def _taken(self, size: int) -> Storage:
        """A piece that waits, or fresh memory."""
        with self._lock:
            self._take_back()
            piece = (self._fitting_small(size) if size <= SMALL else None) or self._fitting(size)
            if piece is None or len(self._small.get(size, ())) >= MANY:
                self._give_back()
        if piece is None:
            piece = Storage.allocate(size)
            with self._lock:
                self._owned += size
                if size <= SMALL and size not in self._small:
                    self._small[size] = []
                    insort(self._small_sizes, size)
        return piece

    def _fitting_small(self, size: int) -> Storage | None:
        """The smallest small piece that is large enough, and no more than twice that."""
        for place in range(bisect_left(self._small_sizes, size), len(self._small_sizes)):
            if self._small_sizes[place] > 2 * size:
                break
            try:
                return self._small[self._small_sizes[place]].pop()
            except IndexError:
                # None waits, or another thread has taken it.
                continue
        return None

    def _fitting(self, size: int) -> Storage | None:
        """The same of large ones."""
        place = bisect_left(self._sizes, size)
        if place == len(self._sizes) or self._sizes[place] > 2 * size:
            return None
        fitting = self._sizes[place]
        pieces = self._pieces[fitting]
        self._waiting -= fitting
        piece = pieces.pop()
        if not pieces:
            del self._pieces[fitting], self._sizes[place]
        return piece

    def _take_back(self) -> None:
        """Put large pieces that came back in order."""
        while self._returned:
            piece = self._returned.popleft()
            if piece.nbytes not in self._pieces:
                self._pieces[piece.nbytes] = []
                insort(self._sizes, piece.nbytes)
            self._pieces[piece.nbytes].append(piece)
            self._waiting += piece.nbytes
        if self._waiting > self.kept:
            self._give_back()

    def _give_back(self) -> None:
        """Let the system have what waits, where that is too much."""
        if self._waiting + self._small_waiting() <= self.kept:
            return
        self._owned -= self._waiting
        self._pieces, self._sizes, self._waiting = {}, [], 0
        for size, pieces in self._small.items():
            for _ in range(len(pieces)):
                try:
                    pieces.pop()
                except IndexError:
                    break
                self._owned -= size

    def _small_waiting(self) -> int:
        return sum(size * len(self._small[size]) for size in self._small_sizes)
