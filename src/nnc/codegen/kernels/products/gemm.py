"""Matrix product: c[..., m, n] = sum_k a[..., m, k] * b[..., k, n] + bias[n], with any strides of a and b.

Loops around a register tile, outermost first: batch, blocks of columns, blocks of k, blocks of rows, tiles. Operands
are read where they are when the elements that a tile reads at one k lie side by side; meanwhile the tiles ask for the
cache lines that the next blocks read, so that memory works while they compute. Other operands are packed into the
worker's scratch, and so are operands of 16 bits, which become f32 there, or words of two steps where these are summed
at once; c is rounded once. A panel of b whose columns lie side by side is written by the first tile that reads it.
Items are panels along the longer side of c; every element of c is summed over k in one fixed order wherever it lies.
"""

from __future__ import annotations

import math
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame import matrix_tiles
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.frame.kernel import Generator, WithSizes, ceiling, phase
from nnc.codegen.frame.packing import Packing
from nnc.codegen.frame.tile import alternatives, candidates, choose_tile, cost_of_tiles, nanoseconds, tiles_for
from nnc.codegen.ir.builder import Module
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.products.gemm_plan import (
    LEAST_DEPTH,
    MATRIX_STEPS,
    MAX_DEPTH,
    GemmPlan,
    MatrixProduct,
    Tiling,
    matrix_tile,
)
from nnc.codegen.kernels.products.gemm_writer import GemmWriter
from nnc.codegen.kernels.products.gemv import matrix_times_vector
from nnc.core.values.derived import Read
from nnc.core.values.spec import Blocked


@dataclass(frozen=True, slots=True)
class Gemm(WithSizes):
    """The generator of a product. Operands: a, b, bias when there is one, extras of the epilogue, c."""

    problem: MatrixProduct
    epilogue: Epilogue | None = None

    def opened(self, read: Read, target: TargetDescription) -> Gemm:
        """What `MatrixProduct.opened` says, with the tile of these sizes; nothing where it is of matrices."""
        tiling = Tiling.of(self.problem, target)
        if tiling.by_matrices:
            return self
        return replace(self, problem=replace(self.problem, tile=tiling.tile).opened(read))

    def workspace(self, target: TargetDescription) -> int:
        """None: every worker packs for itself."""
        return 0

    def scratch(self, target: TargetDescription) -> int:
        """The packed blocks of a and b, and the sums of a tile that is no block of vector registers."""
        return GemmPlan.of(self.problem, target).scratch

    def steps(self, target: TargetDescription) -> int:
        """Steps of k in an element of the blocks of b that it reads."""
        return GemmPlan.of(self.problem, target).packing.b.steps

    def in_blocks(self, layout: Blocked) -> Gemm:
        """The product with a b that lies in this layout."""
        width, panel = layout.width, layout.shape[1] * layout.steps
        return replace(self, problem=replace(self.problem, width=width, b_inner=width, b_columns=panel))

    def reads(self, layout: Blocked, target: TargetDescription) -> bool:
        """Whether some tile takes a b in these blocks, if another number of rows would have chosen them."""
        if layout.parts > 1 or not candidates(target, self.problem.work, layout.width):
            return False
        plan = GemmPlan.of(self.in_blocks(layout).problem, target)
        return (plan.tiling.tile.columns, plan.packing.b.steps) == (layout.width, layout.steps)

    def packing(self, target: TargetDescription) -> tuple[Packing, float] | None:
        """How tiles read b, and how many nanoseconds packing takes in each run; None where b is best read in place.

        A few rows read a b that does not stay in the cache about as slowly as it is packed, where each step of k is on
        another page: [8,512] x [512,1376] took five times as long as in blocks when other products came in between.
        """
        p, plan = self.problem, GemmPlan.of(self.problem, target)
        in_place = plan.packing.b_in_place and (p.width > 0 or not plan.b_is_scattered)
        if in_place or (plan.tiling.by_matrices and p.inner % MATRIX_STEPS):
            return None
        elements = float(math.prod(p.batch) * p.inner * p.columns)
        return plan.packing.b, elements * plan.packing.b.nanoseconds

    def alternatives(self, target: TargetDescription) -> dict[str, Generator]:
        """Other register tiles and blocks, for autotune to measure. Their sums have other orders.

        matrix       a product with one row or column by the kernel of matrices
        tile-RxV     a register tile of R rows and V vectors, but those that seem much slower
        vectors      bf16 by vectors of f32, where registers of matrices (AMX) are the first choice
        depth-N      at most N steps of k in a block
        """
        if matrix_times_vector(self.problem) is not None:
            return {"matrix": self}
        p, by_matrices = self.problem, matrix_tile(self.problem, target) is not None
        if by_matrices and p.width:  # blocks of pairs, which vectors do not read
            return {}
        cost, chosen = cost_of_tiles(target, p.rows, p.columns, MAX_DEPTH), GemmPlan.of(p, target).tiling.tile
        tiles = alternatives(tiles_for(target, p.work, p.width), cost, chosen)
        others = {f"tile-{tile}": replace(p, tile=tile) for tile in tiles}
        if by_matrices:
            others["vectors"] = replace(p, tile=choose_tile(target, p.work, p.rows, p.columns))
        # Sums of 16 bits are computed in one part.
        half = ceiling(GemmPlan.of(p, target).blocking.depth, 2)
        if half >= LEAST_DEPTH and not p.widens:
            others[f"depth-{half}"] = replace(p, most_depth=half)
        return {name: replace(self, problem=other) for name, other in others.items()}

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """One phase; an item is one panel of one matrix of the batch."""
        p, plan = self.problem, GemmPlan.of(self.problem, module.target)
        by_matrices, items = plan.tiling.by_matrices, plan.blocking.items
        products = math.prod(p.batch) * p.rows * p.columns * p.inner
        cost = nanoseconds(module.target, p.work, products)
        with phase(module, name) as writer:
            if items:
                with matrix_tiles.configured(writer.b) if by_matrices else writer.b.always():
                    GemmWriter(plan, self.epilogue, writer).write()
        faster = 2 * matrix_tiles.FASTER if by_matrices else 1
        return (Phase(name, items, cost / faster),)
