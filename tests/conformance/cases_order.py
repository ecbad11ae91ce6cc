"""Rows of sorting, the largest elements, and running sums."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tests.conformance.case import FLOATS, NUMBERS, SPECIAL_VALUES, Argument, Case, apart, special, ties

from nnc.core.values.dtype import DTYPES
from nnc.core.values.spec import Shape
from nnc.ops.indexing.order import (
    CUMULATIVE_SUM,
    SEARCHSORTED,
    SORT,
    TOP_K,
    ScanAttrs,
    SearchAttrs,
    SortAttrs,
    TopAttrs,
)

# Shape, axis, number of elements that top_k keeps.
PLACES: tuple[tuple[Shape, int, int], ...] = (
    ((7,), 0, 3),
    ((3, 5), 1, 5),
    ((3, 5), 0, 1),
    ((2, 3, 4), 1, 2),
    ((0, 3), 1, 2),
    ((3, 0), 1, 0),
    ((1, 1), 0, 0),
)


def rows() -> Iterator[Case]:
    """All rows of this file."""
    for shape, axis, count in PLACES:
        for flag in (False, True):
            note = f"axis{axis}{'-down' * flag}"
            yield Case(SORT, SortAttrs(axis, flag), (Argument(shape, apart),), DTYPES, note)
            yield Case(TOP_K, TopAttrs(axis, count, flag), (Argument(shape, apart),), DTYPES, f"{note}-{count}")
            for exclusive in (False, True):
                scan = ScanAttrs(axis, exclusive, flag)
                yield Case(CUMULATIVE_SUM, scan, (Argument(shape),), NUMBERS, f"{note}{'-exclusive' * exclusive}")
    for flag in (False, True):
        for row, shape in (((7,), (5,)), ((7,), (2, 3)), ((7,), (0,)), ((2, 3, 7), (2, 3, 5)), ((2, 0), (2, 3))):
            in_order = Argument(row, lambda generator, shape, earlier: np.sort(ties(generator, shape, earlier)))
            note = f"{'right' if flag else 'left'}"
            yield Case(SEARCHSORTED, SearchAttrs(flag), (in_order, Argument(shape, ties)), NUMBERS, note, smooth=False)
    for flag in (False, True):
        note = f"{'down' if flag else 'up'}"
        values = Argument((len(SPECIAL_VALUES),), special)
        yield Case(SORT, SortAttrs(0, flag), (values,), FLOATS, f"special-{note}", smooth=False)
        yield Case(SORT, SortAttrs(1, flag), (Argument((3, 40), ties),), DTYPES, f"ties-{note}", smooth=False)
        yield Case(TOP_K, TopAttrs(1, 9, flag), (Argument((3, 40), ties),), DTYPES, f"ties-{note}", smooth=False)
        scan = ScanAttrs(0, flag, reverse=True)
        yield Case(CUMULATIVE_SUM, scan, (values,), FLOATS, f"special-{note}", smooth=False)
