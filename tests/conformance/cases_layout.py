"""Rows of layout conversion."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.case import Argument, Case

from nnc.core.dtype import DTYPES
from nnc.core.spec import Layout
from nnc.ops.layout import CONVERT_LAYOUT, LayoutAttrs


def rows() -> Iterator[Case]:
    """All rows of this file."""
    for source, target in ((Layout.NHWC, Layout.NCHW), (Layout.NCHW, Layout.NHWC)):
        for shape in ((2, 3, 4, 5), (2, 3, 4), (1, 2, 3, 4, 5), (3, 4), (0, 2, 2, 3)):
            argument = Argument(shape, layout=source)
            # Gradients are tried on operands in NHWC; those of the other direction are the second order of these.
            smooth = source is Layout.NHWC
            yield Case(CONVERT_LAYOUT, LayoutAttrs(target), (argument,), DTYPES, f"to-{target.value}", smooth)
