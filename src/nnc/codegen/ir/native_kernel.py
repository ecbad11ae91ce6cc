"""Kernels as they are loaded, and the memory that they run on: all that a program from the disk needs of this layer."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.precautions.uncopied import Uncopied

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class AddressRange:
    """Bytes [begin, end) of one address space."""

    begin: int
    end: int

    def overlaps(self, other: AddressRange) -> bool:
        """True when a byte is in both."""
        return self.begin < other.end and other.begin < self.end


@dataclass(frozen=True, slots=True)
class Phase:
    """One native function: its symbol, how many items it has, and about how many nanoseconds one worker needs.

    `first` is the number of its first item: phases may share a function that has items of all of them.
    """

    symbol: str
    items: int
    cost: float
    first: int = 0


def _nothing() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class NativeKernel(Uncopied):
    """Loaded code: the address of each phase, its items and cost, and the memory that a run needs in bytes.

    `sizes` are the words that it reads, which follow from the sizes at hand: kernels of other sizes share its code.
    With the last holder of the `owner` the code goes, so whoever keeps an address keeps the kernel. Its object has the
    key `stored` on the disk.
    """

    instead: ClassVar[str] = "copy values"

    phases: tuple[Phase, ...]
    addresses: tuple[int, ...]
    workspace: int
    scratch: int
    hash: str
    sizes: NDArray[np.int64] = field(default_factory=_nothing, compare=False, repr=False)
    owner: object = field(default=None, compare=False, repr=False)
    stored: str = field(default="", compare=False, repr=False)

    @property
    def table_head(self) -> int:
        """What stands in front of the addresses that it runs on: where `sizes` are."""
        return int(self.sizes.ctypes.data)


def aligned(size: int) -> int:
    """The smallest multiple of the alignment that holds `size` bytes."""
    return -(-size // ALIGNMENT) * ALIGNMENT
