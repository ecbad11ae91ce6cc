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


class LentStorage(Storage):
    """The first `nbytes` of a piece of a pool: what tensors and arrays over it hold on to.

    With the last of them the piece goes back.
    """

    __slots__ = ("_piece", "_returned")

    def __init__(self, piece: Storage, nbytes: int, returned: deque[Storage], label: str) -> None:
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
        self._returned.append(self._piece)


@dataclass(frozen=True, slots=True)
class DeviceMemoryPool:
    """Memory of a device, whose driver has a pool of its own."""

    device: Device

    def allocate(self, nbytes: int, label: str = "") -> Storage:
        """Memory, not initialized. OutOfMemoryError when the device has not that much."""
        return allocate_on(self.device, nbytes, label)


class Pool:
    """Pieces that wait to be used again. Where more than `kept` bytes wait, the system gets all of them back."""

    def __init__(self, kept: int = KEPT) -> None:
        self.kept = kept
        self._lock = fork_safe_lock()
        self._returned: deque[Storage] = deque()
        self._pieces: dict[int, list[Storage]] = {}
        self._sizes: list[int] = []
        self._waiting = 0
        self._lent = 0

    @property
    def waiting(self) -> int:
        """Bytes that wait."""
        with self._lock:
            self._take_back()
            return self._waiting

    @property
    def lent(self) -> int:
        """Bytes that somebody holds."""
        with self._lock:
            self._take_back()
            return self._lent

    def of(self, device: Device) -> Pool | DeviceMemoryPool:
        """Where memory of a device comes from: of the host here."""
        return self if device.is_host else DeviceMemoryPool(device)

    def allocate(self, nbytes: int, label: str = "") -> Storage:
        """Memory, not initialized. MemoryLimitError when the system has not that much."""
        if label:
            check_label(label)
        size = -(-nbytes // ALIGNMENT) * ALIGNMENT
        piece = self._just_returned(size)
        if piece is None:
            with self._lock:
                self._take_back()
                piece = self._fitting(size)
                self._lent += 0 if piece is None else piece.nbytes
        if piece is None:
            piece = Storage.allocate(size)
            with self._lock:
                self._lent += piece.nbytes
        return LentStorage(piece, nbytes, self._returned, label)

    def _just_returned(self, size: int) -> Storage | None:
        """The piece that came back last, if it is just so large, as in a loop it is."""
        try:
            piece = self._returned.pop()
        except IndexError:
            return None
        if piece.nbytes == size:
            return piece
        self._returned.append(piece)
        return None

    def _fitting(self, size: int) -> Storage | None:
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
        while self._returned:
            piece = self._returned.popleft()
            self._lent -= piece.nbytes
            if piece.nbytes not in self._pieces:
                self._pieces[piece.nbytes] = []
                insort(self._sizes, piece.nbytes)
            self._pieces[piece.nbytes].append(piece)
            self._waiting += piece.nbytes
        if self._waiting > self.kept:
            self._pieces, self._sizes, self._waiting = {}, [], 0
