"""Rows of layout conversion."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.case import FLOATS, Argument, Case

from nnc.core.values.dtype import DTYPES
from nnc.core.values.spec import Blocked, Layout
from nnc.ops.convolutions.convolutions import (
    CONVOLUTION,
    CONVOLUTION_DATA_GRADIENT,
    ConvolutionAttrs,
    ConvolutionGradientAttrs,
)
from nnc.ops.convolutions.window import window_of
from nnc.ops.movement.layout import CONVERT_LAYOUT, LayoutAttrs
from nnc.ops.products.products import GEMM, GemmAttrs

BLOCKS = (
    Blocked((5, 7), 1, 4),
    Blocked((32, 3), 0, 16),
    Blocked((5, 33), 0, 2, steps=2),
    Blocked((3, 3, 5, 8), 3, 3, parts=2),
    Blocked((2, 2, 5, 3), 2, 4),
    Blocked((2, 1, 6, 20), 3, 8, steps=2),
    Blocked((0, 4), 1, 4),
)


def rows() -> Iterator[Case]:
    """All rows of this file."""
    for source, target in ((Layout.NHWC, Layout.NCHW), (Layout.NCHW, Layout.NHWC)):
        for shape in ((2, 3, 4, 5), (2, 3, 4), (1, 2, 3, 4, 5), (3, 4), (0, 2, 2, 3)):
            argument = Argument(shape, layout=source)
            # Gradients are tried on operands in NHWC; those of the other direction are the second order of these.
            smooth = source is Layout.NHWC
            yield Case(CONVERT_LAYOUT, LayoutAttrs(target), (argument,), DTYPES, f"to-{target.value}", smooth)
    # Gradients of blocks are tried in tests/symbolic/passes/test_blocks.py: here kernels know no layouts.
    for blocks in BLOCKS:
        note = str(blocks).replace("/", "by")
        yield Case(CONVERT_LAYOUT, LayoutAttrs(blocks), (Argument(blocks.sizes),), DTYPES, f"to-{note}", smooth=False)
        argument = Argument(blocks.shape, layout=blocks)
        yield Case(CONVERT_LAYOUT, LayoutAttrs(Layout.NHWC), (argument,), DTYPES, f"from-{note}", smooth=False)
    blocks = BLOCKS[0]
    operands = (Argument((3, 5)), Argument(blocks.shape, layout=blocks), Argument((7,)))
    yield Case(GEMM, GemmAttrs(), operands, FLOATS, "blocks", smooth=False)
    blocks = BLOCKS[3]
    operands = (Argument((1, 4, 4, 10)), Argument(blocks.shape, layout=blocks), None)
    attrs = ConvolutionAttrs(window_of(3, padding="same"), 2)
    yield Case(CONVOLUTION, attrs, operands, FLOATS, "blocks", smooth=False)
    gradient = ConvolutionGradientAttrs(window_of(2, stride=2), 1, (4, 4))
    operands = (Argument((1, 2, 2, 3)), Argument(BLOCKS[4].shape, layout=BLOCKS[4]))
    yield Case(CONVOLUTION_DATA_GRADIENT, gradient, operands, FLOATS, "blocks", smooth=False)
