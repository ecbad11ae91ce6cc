"""Rows of weights in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.conformance.case import FLOATS, Argument, Array, Case, Generator, Values, positive

from nnc.core.values.blocks import FORMATS, quantize
from nnc.core.values.dtype import F32, U8
from nnc.core.values.spec import Shape
from nnc.ops.quantization.blocks import BLOCK_PRODUCT, DEQUANTIZE_BLOCKS, QUANTIZE_BLOCKS, BlockAttrs, BlockProductAttrs

# Rows of x, weights [n, blocks]: one row, few and many, one output, nothing.
SIZES = (((1,), 5, 3), ((2, 1), 70, 1), ((3,), 17, 2), ((9,), 33, 1), ((2, 20), 40, 2), ((0,), 4, 1), ((2,), 0, 1))


def rows_of(name: str) -> Values:
    """Numbers between -1 and 1 in a format."""

    def values(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
        elements = FORMATS[name].row_elements(shape[-1])
        return quantize(generator.uniform(-1, 1, (*shape[:-1], elements)), name)

    return values


def rows() -> Iterator[Case]:
    """All formats; each size with one format of each size of blocks."""
    for name, form in FORMATS.items():
        numbers, importance = Argument((3, 2 * form.size)), Argument((2 * form.size,), positive)
        yield Case(QUANTIZE_BLOCKS, BlockAttrs(name), (numbers, None), (F32,), name, smooth=False)
        yield Case(QUANTIZE_BLOCKS, BlockAttrs(name), (numbers, importance), (F32,), f"{name} weighted", smooth=False)
        yield Case(
            DEQUANTIZE_BLOCKS, BlockAttrs(name), (Argument((3, 2 * form.bytes), rows_of(name), U8),), (F32,), name
        )
        for shape, columns, blocks in SIZES if name in ("q4_0", "q4_k") else (SIZES[0], SIZES[2], SIZES[4]):
            for straight in (True, False):
                size, outputs = blocks * form.size, columns
                if not straight:
                    size, outputs = outputs, size
                x, packed = Argument((*shape, size)), Argument((columns, blocks * form.bytes), rows_of(name), U8)
                bias = Argument((outputs,)) if shape == (3,) else None
                note = f"{name} {'rows' if straight else 'columns'}"
                yield Case(BLOCK_PRODUCT, BlockProductAttrs(name, straight), (x, packed, bias), FLOATS, note)
