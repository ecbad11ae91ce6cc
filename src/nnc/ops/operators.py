"""Every operator of this package, in one visible tuple."""

from __future__ import annotations

from typing import Any

from nnc.graph import Op
from nnc.ops import (
    attention,
    broadcast,
    complex_numbers,
    convolutions,
    copy,
    ctc,
    detection,
    elementary,
    fill,
    fourier,
    fused,
    generate,
    indexing,
    integers,
    layout,
    linear_algebra,
    loss,
    movement,
    normalization,
    optimizer,
    order,
    pointwise,
    pooling,
    products,
    quantization,
    random,
    recurrent,
    reduction,
    resize,
    rotary,
    softmaxes,
)

FAMILIES = (
    fill, generate, random, copy, layout, pointwise, elementary, complex_numbers, integers, broadcast, fused,
    reduction, movement, indexing, order, resize, detection, products, convolutions, quantization, pooling, softmaxes,
    normalization, loss, attention, rotary, recurrent, ctc, linear_algebra, fourier, optimizer,
)  # fmt: skip
# `Any`: operators of all attribute types.
OPERATORS: tuple[Op[Any], ...] = tuple(op for family in FAMILIES for op in family.OPERATORS)
