"""Which operator is served by which generator: the rows of all families, and fused expressions of them.

A row says why it refuses a command on given specs, and makes the generator for operands whose strides are known. A
row names the inputs that may have any strides; all other operands are made contiguous around the kernel.
"""

from __future__ import annotations

from nnc.codegen.frame.row import KernelRow
from nnc.codegen.kernels import (
    argmax,
    attention,
    convolutions,
    ctc,
    generate,
    indexing,
    integer_products,
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
    running,
    softmax,
)
from nnc.codegen.kernels.fused import fused_rows
from nnc.graph import OpAttr

FAMILIES = (
    movement, pointwise, reduction, argmax, pooling, softmax, optimizer, products, convolutions, random, normalization,
    indexing, attention, recurrent, loss, ctc, running, order, generate, rotary, resize, integer_products,
    quantization,
)  # fmt: skip
# An open attribute: another package sets a row for its own operator, or one of a higher level for one of ours.
ROWS = OpAttr[KernelRow]("llvm kernel")
for rows in (*(family.ROWS for family in FAMILIES), fused_rows(ROWS)):
    for op, row in rows.items():
        ROWS.set(op, row)
