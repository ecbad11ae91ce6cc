"""Rows of the operators that make tensors of nothing but attributes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.case import NUMBERS, Case

from nnc.core.values.spec import spec
from nnc.ops.movement.generate import ARANGE, ArangeAttrs


def rows() -> Iterator[Case]:
    """All rows of this file."""
    for dtype in NUMBERS:
        for count, start, step in ((0, 0.0, 1.0), (1, 3.0, 0.0), (17, 2.0, 3.0), (33, 90.0, -2.0)):
            attrs = ArangeAttrs(spec((count,), dtype), start, step)
            yield Case(ARANGE, attrs, (), (dtype,), f"{dtype}-{count}from{start:g}by{step:g}")
        if dtype.is_float:
            yield Case(ARANGE, ArangeAttrs(spec((21,), dtype), -0.3, 0.1), (), (dtype,), f"{dtype}-tenths")
