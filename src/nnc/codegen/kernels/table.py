"""Which operator is served by which generator: the rows of all families, and fused expressions of them.

A row says why it refuses a command on given specs, and makes the generator for operands whose strides are known. A
row names the inputs that may have any strides; all other operands are made contiguous around the kernel.
"""

from __future__ import annotations

from nnc.codegen.frame.row import KernelRow
from nnc.codegen.kernels.composed.fused import fused_rows
from nnc.codegen.kernels.convolutions import convolutions, pooling, resize
from nnc.codegen.kernels.elementwise import pointwise
from nnc.codegen.kernels.indexing import indexing, order
from nnc.codegen.kernels.loss import ctc, loss
from nnc.codegen.kernels.movement import generate, movement
from nnc.codegen.kernels.normalization import normalization, softmax
from nnc.codegen.kernels.optimizer import optimizer
from nnc.codegen.kernels.products import products
from nnc.codegen.kernels.quantization import blocks, integer_products, quantization
from nnc.codegen.kernels.random import random
from nnc.codegen.kernels.reduction import argmax, reduction, running
from nnc.codegen.kernels.sequence import attention, cached_attention, recurrent, rotary
from nnc.graph import OpAttr

FAMILIES = (
    movement, pointwise, reduction, argmax, pooling, softmax, optimizer, products, convolutions, random, normalization,
    indexing, attention, cached_attention, recurrent, loss, ctc, running, order, generate, rotary, resize,
    integer_products, quantization, blocks,
)  # fmt: skip
# An open attribute: another package sets a row for its own operator, or one of a higher level for one of ours.
ROWS = OpAttr[KernelRow]("llvm kernel")
for rows in (*(family.ROWS for family in FAMILIES), fused_rows(ROWS)):
    for op, row in rows.items():
        ROWS.set(op, row)
