"""Every kernel of the reference backend: the rows of all families, and fused expressions of them."""

from __future__ import annotations

from typing import Any

from nnc.backends.reference.arrays import ReferenceKernel, Rows
from nnc.backends.reference.composed import fused
from nnc.backends.reference.convolutions import convolutions, pooling, resize
from nnc.backends.reference.elementwise import pointwise
from nnc.backends.reference.indexing import detection, indexing, order
from nnc.backends.reference.loss import ctc, loss
from nnc.backends.reference.movement import broadcast, copy, fill, generate, layout, movement
from nnc.backends.reference.normalization import normalization, softmaxes
from nnc.backends.reference.optimizer import optimizer
from nnc.backends.reference.products import fourier, linear_algebra, products
from nnc.backends.reference.quantization import blocks, quantization
from nnc.backends.reference.random import random
from nnc.backends.reference.reduction import reduction
from nnc.backends.reference.sequence import attention, cached_attention, recurrent, rotary
from nnc.graph import Op
from nnc.ops.composed.custom import KERNEL
from nnc.ops.composed.fused import FUSED
from nnc.ops.elementwise.rows import FORWARD

FAMILIES = (
    fill, generate, random, copy, layout, pointwise, broadcast, reduction,
    movement, indexing, order, resize, detection, products, convolutions, quantization, blocks, pooling,
    softmaxes, normalization, loss, attention, cached_attention, rotary, recurrent, ctc, linear_algebra,
    fourier, optimizer,
)  # fmt: skip
SINGLE: Rows = {op: kernel for family in FAMILIES for op, kernel in family.ROWS.items()}


# `Any`: operators of all attribute types.
def kernel_of(op: Op[Any]) -> ReferenceKernel:
    """The kernel of an operator of nnc.ops, or what its author gave: a function of elements, or of whole arrays."""
    if op in SINGLE:
        return SINGLE[op]
    return pointwise.elementwise(FORWARD[op]) if op in FORWARD else KERNEL[op]


# Fused expressions run on the kernels of their steps.
KERNELS: Rows = {**SINGLE, **dict.fromkeys(FUSED.values(), fused.fused(kernel_of))}
