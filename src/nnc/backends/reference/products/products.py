"""Matrix product with optional bias, batched over leading axes; the same bits with any number of BLAS threads."""

from __future__ import annotations

import numpy as np

from nnc.backends.reference.arrays import Array, Inputs, Outputs, Rows, widen, write
from nnc.ops.products.products import GEMM, GemmAttrs

# OpenBLAS divides a matrix product among threads above m · n · k = 262144, a matrix-vector product above 9216
# elements and a dot product above 10000; how it divides changes the order of sums. No block below exceeds these.
INNER = 128
COLUMNS = 64
MATRIX_LIMIT = 262144
VECTOR_LIMIT = 8192


def product(a: Array, b: Array) -> Array:
    """y[…, m, n] = sum_k a[…, m, k] · b[…, k, n], in blocks that BLAS computes on one thread each."""
    if a.dtype.kind != "f":
        exact: Array = np.matmul(a, b)
        return exact
    if np.may_share_memory(a, b):
        # NumPy computes a product with its own transpose by another routine, with other limits.
        b = b.copy()
    rows, size = a.shape[-2:]
    columns = b.shape[-1]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    result = np.zeros((*batch, rows, columns), a.dtype)
    inner_step, column_step = max(min(size, INNER), 1), max(min(columns, COLUMNS), 1)
    row_step = (VECTOR_LIMIT if columns == 1 else MATRIX_LIMIT) // (inner_step * column_step)
    for column in range(0, columns, column_step):
        for row in range(0, rows, row_step):
            block = result[..., row : row + row_step, column : column + column_step]
            for inner in range(0, size, inner_step):
                left = a[..., row : row + row_step, inner : inner + inner_step]
                block += np.matmul(left, b[..., inner : inner + inner_step, column : column + column_step])
    return result


def gemm(attrs: GemmAttrs, inputs: Inputs, outputs: Outputs) -> None:
    """y[…, m, n] = sum_k a[…, m, k] · b[…, k, n] + bias[n]."""
    a, b = widen(inputs[0]), widen(inputs[1])
    left = a.swapaxes(-1, -2) if attrs.transpose_a else a
    right = b.swapaxes(-1, -2) if attrs.transpose_b else b
    y = product(left, right)
    write(outputs[0], y if inputs[2] is None else y + widen(inputs[2]))


ROWS: Rows = {GEMM: gemm}
