"""Arrays in parts that travel together."""

from __future__ import annotations

import numpy as np

from nnc.parallel.messages.message_arrays import trips


def test_parts_cover_all_arrays_in_order_and_fill_trips() -> None:
    arrays = [np.arange(3.0), np.zeros((0, 4)), np.arange(20.0).reshape(4, 5), np.arange(2, dtype=np.int32)]
    made = list(trips(arrays, 64))
    assert [[part.size for part in trip] for trip in made] == [[3], [8], [8], [4, 2]]
    flat = [part for trip in made for part in trip if part.dtype == np.float64]
    assert np.array_equal(np.concatenate(flat), np.concatenate([array.reshape(-1) for array in arrays[:3]]))
    assert all(np.shares_memory(part, arrays[2]) for part in flat[1:])
