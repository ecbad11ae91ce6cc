"""Windows as views."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.convolutions.window import windows
from nnc.ops import Window


def test_a_stride_beyond_all_memory_moves_nothing_along_one_place() -> None:
    far = (1 << 62) + 1
    x = np.arange(12.0, dtype=np.float32).reshape(1, 3, 4, 1)
    view = windows(x, (3, 1), Window((far, 2), ((0, 0), (0, 0)), (1, far)), (1, 2))
    assert view[0, 0, :, :, 0, 0].tolist() == [[0.0, 4.0, 8.0], [2.0, 6.0, 10.0]]
