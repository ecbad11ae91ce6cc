"""Which operator is served by which generator: the rows of all families, and fused expressions of them.

A row says why it refuses a command on given specs, and makes the generator for operands whose strides are known. A
row names the inputs that may have any strides; all other operands are made contiguous around the kernel.
"""

from __future__ import annotations

from nnc.backends.llvm.frame.row import Rows
from nnc.backends.llvm.kernels import (
    argmax,
    attention,
    convolutions,
    indexing,
    movement,
    normalization,
    optimizer,
    pointwise,
    pooling,
    products,
    random,
    recurrent,
    reduction,
    softmax,
)
from nnc.backends.llvm.kernels.fused import fused_rows

FAMILIES = (
    movement, pointwise, reduction, argmax, pooling, softmax, optimizer, products, convolutions, random, normalization,
    indexing, attention, recurrent,
)  # fmt: skip
SINGLE: Rows = {op: row for family in FAMILIES for op, row in family.ROWS.items()}
ROWS: Rows = {**SINGLE, **fused_rows(SINGLE)}
