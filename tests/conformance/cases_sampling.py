"""Rows of padding, flipping, upsampling and regions of interest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from tests.conformance.case import FLOATS, NUMBERS, Argument, Array, Case, Generator, Values

from nnc.core.values.dtype import DTYPES, F32
from nnc.core.values.spec import Shape
from nnc.ops.convolutions.resize import (
    FLIP,
    PAD,
    PAD_GRADIENT,
    ROI_ALIGN,
    ROI_ALIGN_GRADIENT,
    UPSAMPLE,
    UPSAMPLE_GRADIENT,
    FlipAttrs,
    PadAttrs,
    RoiAttrs,
    UpsampleAttrs,
)

# Shape, positions before and after, modes.
PADS: tuple[tuple[Shape, Shape, Shape, tuple[str, ...]], ...] = (
    ((3, 4), (1, 0), (2, 3), ("constant", "edge", "reflect")),
    ((5,), (4,), (4,), ("constant", "edge", "reflect")),
    ((2, 3, 2), (0, 0, 0), (0, 2, 1), ("constant", "edge", "reflect")),
    ((1, 2), (3, 0), (0, 5), ("constant", "edge")),
    ((), (), (), ("constant", "edge", "reflect")),
    ((0, 2), (1, 0), (0, 1), ("constant",)),
)
# Source and target [height, width].
SIZES: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = (
    ((3, 4), (6, 8)),
    ((2, 3), (5, 4)),
    ((5, 7), (2, 3)),
    ((1, 4), (3, 1)),
    ((3, 3), (3, 3)),
)


def boxes(images: int, size: int) -> Values:
    """Rows [image, top, left, bottom, right]; some boxes reach outside the image, one is empty."""

    def values(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
        low = generator.uniform(-1.5, 0.6 * size, (shape[0], 2))
        high = low + generator.uniform(0.5, size, (shape[0], 2))
        high[:1] = low[:1]
        return np.concatenate([generator.integers(0, images, (shape[0], 1)), low, high], axis=1)

    return values


def rows() -> Iterator[Case]:
    """All rows of this file."""
    yield from _pads()
    for shape, axes in (((3, 4), (0,)), ((3, 4), (0, 1)), ((2, 3, 5), (1,)), ((4,), ()), ((0, 2), (0,)), ((), ())):
        yield Case(FLIP, FlipAttrs(axes), (Argument(shape),), DTYPES, f"axes{list(axes)}")
    yield from _upsamples()
    yield from _regions()


def _pads() -> Iterator[Case]:
    for shape, before, after, modes in PADS:
        padded = tuple(size + a + b for size, a, b in zip(shape, before, after, strict=True))
        for mode in modes:
            attrs, note = PadAttrs(before, after, mode), f"{mode}{list(before)}{list(after)}"
            yield Case(PAD, attrs, (Argument(shape),), DTYPES, note)
            yield Case(PAD_GRADIENT, attrs, (Argument(padded),), NUMBERS, note)
    yield Case(PAD, PadAttrs((1, 1), (0, 2), "constant", 3.0), (Argument((2, 2)),), NUMBERS, "threes")


def _upsamples() -> Iterator[Case]:
    for source, target in SIZES:
        for mode in ("nearest", "bilinear"):
            for corners in (False, True):
                attrs = UpsampleAttrs(source, target, mode, corners)
                note = f"{mode}{list(target)}{'-corners' * corners}"
                forward, back = (DTYPES, NUMBERS) if mode == "nearest" else (FLOATS, FLOATS)
                yield Case(UPSAMPLE, attrs, (Argument((2, *source, 3)),), forward, note)
                yield Case(UPSAMPLE_GRADIENT, attrs, (Argument((2, *target, 3)),), back, note)


def _regions() -> Iterator[Case]:
    for count, cells, samples in ((3, (2, 3), 2), (1, (1, 1), 1), (4, (3, 2), 3), (0, (2, 2), 2)):
        attrs = RoiAttrs(cells, samples, (2, 5, 6))
        where = Argument((count, 5), boxes(2, 5), F32)
        note = f"cells{list(cells)}s{samples}"
        yield Case(ROI_ALIGN, attrs, (Argument((2, 5, 6, 3)), where), FLOATS, note)
        yield Case(ROI_ALIGN_GRADIENT, attrs, (Argument((count, *cells, 3)), where), FLOATS, note)
