"""Memory that somebody outside may write: whether it is still what was read there."""

from __future__ import annotations

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


class WatchedMemory:
    """The checksum (CRC-32) of bytes when they were last read, and at which reading another one was found."""

    __slots__ = ("_seen", "changed")

    def __init__(self) -> None:
        self._seen: int | None = None
        self.changed = -1

    def read(self, content: Bytes, number: int) -> None:
        """Note reading `number`; numbers grow."""
        checksum = crc32(content.data)
        if checksum != self._seen and self._seen is not None:
            self.changed = number
        self._seen = checksum

    def is_as_read(self, content: Bytes, number: int) -> bool:
        """Whether reading `number` found what is there now."""
        return self.changed <= number and self._seen in (None, crc32(content.data))
