"""Every kernel of the reference backend: the rows of all families, and fused expressions of them."""

from __future__ import annotations

from typing import Any

from nnc.backends.reference import (
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
from nnc.backends.reference.arrays import ReferenceKernel, Rows
from nnc.graph import Op
from nnc.ops.composed.custom import KERNEL
from nnc.ops.composed.fused import FUSED

FAMILIES = (
    fill, generate, random, copy, layout, pointwise, elementary, complex_numbers, integers, broadcast, reduction,
    movement, indexing, order, resize, detection, products, convolutions, quantization, pooling, softmaxes,
    normalization, loss, attention, rotary, recurrent, ctc, linear_algebra, fourier, optimizer,
)  # fmt: skip
SINGLE: Rows = {op: kernel for family in FAMILIES for op, kernel in family.ROWS.items()}


# `Any`: operators of all attribute types.
def kernel_of(op: Op[Any]) -> ReferenceKernel:
    """The kernel of an operator of nnc.ops, or the one that its author gave."""
    return SINGLE[op] if op in SINGLE else KERNEL[op]


# Fused expressions run on the kernels of their steps.
KERNELS: Rows = {**SINGLE, **dict.fromkeys(FUSED.values(), fused.fused(kernel_of))}
