"""Rows of reading and adding at positions that a tensor names."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.case import NUMBERS, Argument, Case, labels

from nnc.core.values.dtype import DTYPES, F32, I8, I32, I64, U8, DType
from nnc.core.values.spec import Shape
from nnc.ops.indexing.indexing import (
    GATHER,
    INDEX_SELECT,
    ONE_HOT,
    SCATTER,
    SCATTER_ADD,
    SCATTER_ALONG,
    AxisAttrs,
    OneHotAttrs,
    ScatterAttrs,
)

# Shape of x, axis, shape of the index, its element type.
SELECTIONS: tuple[tuple[Shape, int, Shape, DType], ...] = (
    ((5, 3), 0, (7,), I64),
    ((5, 3), 1, (2,), I32),
    ((2, 4, 3), 1, (2, 5), U8),
    ((2, 4, 3), 2, (), I8),
    ((6,), 0, (3, 2, 2), I64),
    ((4, 2), 0, (0,), I64),
)
# Shape of x, axis, positions named along it, element type of the index.
ALONG: tuple[tuple[Shape, int, int, DType], ...] = (
    ((5, 3), 0, 7, I64),
    ((5, 3), 1, 2, I32),
    ((2, 4, 3), 1, 4, U8),
    ((6,), 0, 1, I8),
    ((4, 2), 0, 0, I64),
    ((4, 7, 0), 1, 5, I32),
)


def rows() -> Iterator[Case]:
    """All rows of this file."""
    for shape, axis, named, dtype in SELECTIONS:
        size, note = shape[axis], f"axis{axis}-{dtype}"
        index = Argument(named, labels(size), dtype)
        result = (*shape[:axis], *named, *shape[axis + 1 :])
        yield Case(INDEX_SELECT, AxisAttrs(axis), (Argument(shape), index), DTYPES, note)
        yield Case(SCATTER_ADD, ScatterAttrs(axis, size), (Argument(result), index), NUMBERS, note)
    for shape, axis, count, dtype in ALONG:
        size, note = shape[axis], f"axis{axis}-{dtype}"
        result = (*shape[:axis], count, *shape[axis + 1 :])
        index = Argument(result, labels(size), dtype)
        yield Case(GATHER, AxisAttrs(axis), (Argument(shape), index), DTYPES, note)
        yield Case(SCATTER, AxisAttrs(axis), (Argument(shape), index, Argument(result)), DTYPES, note)
        yield Case(SCATTER_ALONG, ScatterAttrs(axis, size), (Argument(result), index), NUMBERS, note)
    for named, classes in (((4,), 5), ((), 3), ((2, 3), 1), ((0,), 2)):
        for dtype in DTYPES:
            index = Argument(named, labels(classes + 1), I64)
            yield Case(ONE_HOT, OneHotAttrs(classes, dtype), (index,), (F32,), f"{classes}-{dtype}")
