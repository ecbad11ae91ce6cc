"""Memory: aligned, counted, refused when there is not enough."""

from __future__ import annotations

import numpy as np
import pytest

from nnc.core.values.storage import ALIGNMENT, Storage
from nnc.errors import MemoryLimitError


@pytest.mark.parametrize("nbytes", [1, 63, 64, 65, 4096, 100_003])
def test_the_first_byte_is_aligned(nbytes: int) -> None:
    storage = Storage.allocate(nbytes)
    assert storage.nbytes == nbytes
    assert storage.address % ALIGNMENT == 0
    assert not storage.read_only


def test_no_bytes_at_all() -> None:
    assert Storage.allocate(0).nbytes == 0


def test_bytes_of_somebody_else() -> None:
    array = np.zeros(5, np.uint8)
    array.flags.writeable = False
    storage = Storage(array, "theirs")
    assert storage.read_only
    assert storage.address == array.ctypes.data
    assert repr(storage) == "Storage(5 bytes, theirs)"


def test_memory_that_no_machine_has() -> None:
    with pytest.raises(MemoryLimitError, match=f"got {2**61} bytes; need memory that this machine has"):
        Storage.allocate(2**61)
