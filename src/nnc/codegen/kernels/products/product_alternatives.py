"""Other generators for one matrix product: register tiles, blocks. Autotune measures them.

    matrix       a product with one row or column by the kernel of matrices
    vectors      a product of bf16 by vectors of f32, where registers of matrices (AMX) are the first choice
    tile-RxV     a register tile of R rows and V vectors
    depth-N      at most N steps of k in a block

Their sums have other orders than those of the first choice. Tiles that the model of the processor finds much slower
are left out.
"""

from __future__ import annotations

from dataclasses import replace

from nnc.codegen.frame.kernel import Generator, ceiling
from nnc.codegen.frame.tile import alternatives, candidates, choose_tile, cost_of_tiles
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.products.gemm import LEAST_DEPTH, MAX_DEPTH, Gemm
from nnc.codegen.kernels.products.gemv import matrix_times_vector


def of_product(product: Gemm, target: TargetDescription) -> dict[str, Generator]:
    """Other ways to compute a matrix product."""
    if matrix_times_vector(product) is not None:
        return {"matrix": product}
    by_matrices, work = product.by_matrices(target), computed(product.scalar)
    if by_matrices and product.width:  # blocks of pairs, which vectors do not read
        return {}
    cost = cost_of_tiles(target, product.rows, product.columns, MAX_DEPTH)
    tiles = alternatives(candidates(target, work, product.width), cost)
    found: dict[str, Generator] = {f"tile-{tile}": replace(product, tile=tile) for tile in tiles}
    if by_matrices:
        found["vectors"] = replace(product, tile=choose_tile(target, work, product.rows, product.columns))
    # Sums of 16 bits are computed in one part.
    half = ceiling(product.depth(target), 2)
    if half >= LEAST_DEPTH and work == product.scalar:
        found[f"depth-{half}"] = replace(product, most_depth=half)
    return found
