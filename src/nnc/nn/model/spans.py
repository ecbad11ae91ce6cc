"""Rows of arrays in batches."""

from __future__ import annotations

from collections.abc import Iterator

from nnc.nn.steps.open_sizes import Arrays


def rows_between(arrays: Arrays, start: int, stop: int) -> Arrays:
    """Rows [start, stop) of each array."""
    return tuple(array[start:stop] for array in arrays)


def spans(count: int, size: int) -> Iterator[tuple[int, int]]:
    """[0, size), [size, 2 · size), … up to `count`."""
    for start in range(0, count, size):
        yield start, min(start + size, count)
