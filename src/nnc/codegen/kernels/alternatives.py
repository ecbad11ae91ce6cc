"""Other generators for one product or convolution: algorithms, register tiles, blocks. Autotune measures them.

    matrix       a product with one row or column by the kernel of matrices
    vectors      a product of bf16 by vectors of f32, where registers of matrices (AMX) are the first choice
    tile-RxV     a register tile of R rows and V vectors
    depth-N      at most N steps of k in a block
    winograd-M   a convolution in tiles of M x M outputs
    direct       a convolution as a sum written out; direct-RxV with another register tile

Their sums have other orders than those of the first choice. Tiles that the model of the processor finds much slower
are left out.
"""

from __future__ import annotations

from dataclasses import replace

from nnc.codegen.frame.access import Shape
from nnc.codegen.frame.kernel import Generator, ceiling
from nnc.codegen.frame.row import Wishes
from nnc.codegen.frame.tile import alternatives, candidates, choose_tile, cost_of_tiles
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.convolution_algorithms import Algorithms
from nnc.codegen.kernels.correlation import Correlation
from nnc.codegen.kernels.correlation_plan import fold_pixels
from nnc.codegen.kernels.gemm import LEAST_DEPTH, MAX_DEPTH, Gemm
from nnc.codegen.kernels.gemv import matrix_times_vector
from nnc.codegen.kernels.weight_gradient import WeightGradient
from nnc.codegen.kernels.winograd import Winograd
from nnc.codegen.kernels.winograd_algorithm import ALGORITHMS
from nnc.codegen.kernels.winograd_gradient import WinogradGradient
from nnc.core.spec import Blocked


def wishes_of(generator: Generator, weights: Shape, axis: int, target: TargetDescription) -> Wishes:
    """The blocks of `axis` in which a product or convolution reads its weights without packing them first."""
    found = generator.packing(target) if isinstance(generator, Gemm | Correlation) else None
    if found is None:
        return {}
    packing, saved = found
    parts = generator.problem.groups if isinstance(generator, Correlation) else 1
    return {1: (Blocked(weights, axis, packing.width, packing.steps, parts), saved)}


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


def of_convolution(algorithms: Algorithms, target: TargetDescription) -> dict[str, Generator]:
    """Other ways to compute a convolution or its data gradient."""
    if (product := algorithms.product) is not None:
        others, direct = of_product(product, target), algorithms.written_out
        # Sums written out read no blocks of pairs where their depth is odd, nor beside AMX.
        reads = not product.width or (isinstance(direct, Correlation) and direct.steps(target) == product.steps(target))
        return {**others, "direct": direct} if reads else others
    found: dict[str, Generator] = {}
    if algorithms.tiles is not None and algorithms.tiles.fits:
        found.update({f"winograd-{size}": Winograd(algorithms.tiles, size) for size in ALGORITHMS})
    direct, problem = algorithms.written_out, algorithms.problem
    found["direct"] = direct
    if isinstance(direct, Correlation):
        tiles = alternatives(
            candidates(target, problem.work, problem.panel), lambda tile: fold_pixels(problem, tile)[0]
        )
        found.update({f"direct-{tile}": Correlation(replace(problem, tile=tile)) for tile in tiles})
    return found


def of_weight_gradient(generator: Generator, target: TargetDescription) -> dict[str, Generator]:
    """Other ways to compute a convolution's weight gradient, given the first."""
    match generator:
        case Gemm():
            return of_product(generator, target)
        case WeightGradient():
            tiles = alternatives(candidates(target, generator.scalar), generator.cost)
            return {f"tile-{tile}": replace(generator, tile=tile) for tile in tiles}
        case WinogradGradient():
            return {"direct": generator.problem, **of_weight_gradient(generator.problem, target)}
        case _:
            return {}
