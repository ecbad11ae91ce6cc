"""Rows of the conformance table for normalization."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.case import Argument, Case, constant, positive, uniform

from nnc.core.values.dtype import BF16, F16, F32, F64, DType
from nnc.core.values.spec import Shape
from nnc.ops.normalization.normalization import (
    BATCH_NORM,
    BATCH_NORM_GRADIENT,
    LAYER_NORM,
    LAYER_NORM_GRADIENT,
    RMS_NORM,
    RMS_NORM_GRADIENT,
    BatchNormAttrs,
    NormalizationAttrs,
    parameter_shape,
    statistics_shape,
)

# Element types of x, and of the statistics where they are not the same.
KINDS: tuple[tuple[tuple[DType, ...], DType | None], ...] = (((F64, F32), None), ((F16, BF16), F32))

# Shape of x, axes of the statistics, axes of scale and bias.
NORMS: tuple[tuple[Shape, tuple[int, ...], tuple[int, ...]], ...] = (
    ((4, 7), (1,), (1,)),
    ((2, 3, 5), (1, 2), (1, 2)),
    ((2, 5, 3), (0, 2), (1,)),
    ((2, 3, 4, 2, 3), (1, 2, 4), (3, 4)),
    ((2, 4, 3, 5), (1, 2), (3,)),
    ((2, 6, 35, 2), (1, 3), (2,)),
    ((2, 3, 5), (0, 1), (2,)),
    ((0, 4), (1,), (1,)),
    ((3, 67), (1,), ()),
    ((2, 1, 2, 1, 2, 1, 2, 3), (7,), (7,)),
)


def rows() -> Iterator[Case]:
    """Layer, root-mean-square and batch norm with their gradients."""
    for shape, axes, parameter_axes in NORMS:
        for kinds, statistics in KINDS:
            yield from _layers(shape, NormalizationAttrs(axes, parameter_axes, 1e-3), kinds, statistics)
    for number, attrs in enumerate((BatchNormAttrs(), BatchNormAttrs(0.1, 0.0), BatchNormAttrs(1e-3, 1.0))):
        for shape in ((4, 3), (2, 3, 4, 5), (3, 5, 1)):
            for kinds, statistics in KINDS:
                channels = Argument(shape[-1:])
                running = (Argument(shape[-1:], uniform, statistics), Argument(shape[-1:], positive, statistics))
                yield Case(BATCH_NORM, attrs, (Argument(shape), channels, channels, *running), kinds, f"{number}")
                given = (Argument(shape), Argument(shape), *running, channels)
                yield Case(BATCH_NORM_GRADIENT, attrs, given, kinds, f"{number}")
    flat = (Argument((3, 4), constant(2.5)), None, None)
    yield Case(LAYER_NORM, NormalizationAttrs((1,), (1,)), flat, note="flat", smooth=False)
    yield Case(RMS_NORM, NormalizationAttrs((1,), (1,), 0.0), (Argument((3, 4), positive), None), note="no-epsilon")


def _layers(
    shape: Shape, attrs: NormalizationAttrs, kinds: tuple[DType, ...], statistics: DType | None
) -> Iterator[Case]:
    x, parameter = Argument(shape), Argument(parameter_shape(shape, attrs.parameter_axes))
    mean = Argument(statistics_shape(shape, attrs.axes), uniform, statistics)
    inverse = Argument(statistics_shape(shape, attrs.axes), positive, statistics)
    note = f"over{list(attrs.axes)}"
    for scale, bias in ((None, None), (parameter, None), (parameter, parameter)):
        yield Case(LAYER_NORM, attrs, (x, scale, bias), kinds, note)
    for scale in (None, parameter):
        yield Case(LAYER_NORM_GRADIENT, attrs, (x, x, mean, inverse, scale), kinds, note)
        yield Case(RMS_NORM, attrs, (x, scale), kinds, note)
        yield Case(RMS_NORM_GRADIENT, attrs, (x, x, inverse, scale), kinds, note)
