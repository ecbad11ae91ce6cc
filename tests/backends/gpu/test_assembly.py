"""Words that kernels set: the first one that is set names what failed, and is cleared for the next run."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np

from nnc.backends.gpu.assembly import CheckedWords


def test_words_that_are_set_are_cleared_and_what_lies_between_them_stays() -> None:
    memory = np.array([0, 7, 1, 9], np.int64)
    begin = int(memory.ctypes.data)
    engine = SimpleNamespace(
        download=ctypes.memmove, fill=lambda address, nbytes, value: ctypes.memset(address, value, nbytes)
    )
    (words,) = CheckedWords.of([("later", begin + 16), ("first", begin)])
    assert words.failed(engine) == "later"
    assert memory.tolist() == [0, 7, 0, 9]
    assert words.failed(engine) == ""
