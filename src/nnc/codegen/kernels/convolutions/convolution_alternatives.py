"""Other generators for one convolution: algorithms and register tiles, and those of the product that it may be.

winograd-M   a convolution in tiles of M x M outputs
direct       a convolution as a sum written out; direct-RxV with another register tile
"""

from __future__ import annotations

from dataclasses import replace

from nnc.codegen.frame.kernel import Generator
from nnc.codegen.frame.tile import alternatives, candidates
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.convolutions.convolution_algorithms import Algorithms
from nnc.codegen.kernels.convolutions.correlation import Correlation
from nnc.codegen.kernels.convolutions.correlation_plan import fold_pixels
from nnc.codegen.kernels.convolutions.weight_gradient import WeightGradient
from nnc.codegen.kernels.convolutions.winograd import Winograd
from nnc.codegen.kernels.convolutions.winograd_algorithm import ALGORITHMS
from nnc.codegen.kernels.convolutions.winograd_gradient import WinogradGradient
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.products.product_alternatives import of_product


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
