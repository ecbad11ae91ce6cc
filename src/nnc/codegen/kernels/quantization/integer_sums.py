"""Sums of products of bytes: what integer products and integer convolutions are.

    y[o, g, p, f] = sum over taps t and k < depth of
                    (x[o, pixel(p) + tap(t) + k] - x_zero) * (w[o, g, t, k, f] - w_zero)

modulo 2^32, where x is x_zero outside of its image. A product is the convolution of a column of pixels, its rows, by
one tap. Words of x, and panels of words of w, are summed by dot products (`ir/dot_products.py`). Where these are of
bytes, zero points are subtracted from the sums:

    y = S - x_zero * sum_k w - w_zero * (sum_k x - count * x_zero)    with S, x and x_zero shifted as x is held

Images that have a border, or whose bytes are not as they are multiplied, or which registers of matrices (AMX) would
read beyond their end, are held in the workspace. Weights are packed there too, by a phase of its own; or, where a cache
holds all images that a worker reads, just before their use, panel by panel, into scratch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from nnc.classes import dataclass
from nnc.codegen.frame import matrix_tiles
from nnc.codegen.frame.access import Shape, contiguous
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.frame.integer_panels import IntegerPanels, WeightOrder
from nnc.codegen.frame.kernel import ceiling, even_block
from nnc.codegen.frame.tile import Tile, candidates
from nnc.codegen.ir.builder import I32, Scalar
from nnc.codegen.ir.dot_products import DotProduct, dot_product
from nnc.codegen.ir.native_kernel import aligned
from nnc.codegen.ir.target import ByteDots, TargetDescription

STORE_CYCLES, TILE_CYCLES = 2.0, 30.0
# Words are read whole, and those of the last pixel reach behind it.
SLACK_BYTES = 64
# Of so few tiles of pixels, packed weights would be used but a few times.
FEW_TILES = 1
# What moving a pixel takes for each register of matrices that reads it.
UNEVEN_CYCLES = 2.0
# Where registers have this many bits, reading part of one takes no longer than reading it whole.
MASKED_BITS = 512
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ZeroPoints:
    """Elements from zero point to zero point: along the outer axes, and along rows of pixels or along filters."""

    outer: Shape
    step: int


@dataclass(frozen=True, slots=True)
class IntegerProblem:
    """Operands: x, w, x_zero and w_zero where there are ones, extras of the epilogue, y.

    x: images along the axes `outer`, height x width x channels each, with `border` pixels above and on the left, and as
    many behind as the taps of the last outputs reach; `x_row` elements from row to row, `x_step` from channel to
    channel. w: `bases` of taps.
    """

    x: Scalar
    w: Scalar
    y: Scalar
    outer: Shape
    x_outer: Shape
    w_outer: Shape
    y_outer: Shape
    height: int
    width: int
    channels: int
    x_row: int
    x_step: int
    border: Pair
    steps: Pair
    groups: int
    x_group: int
    w_group: int
    depth: int
    order: WeightOrder
    filters: int
    taps: tuple[Pair, ...]
    bases: tuple[int, ...]
    rows: int
    columns: int
    y_row: int
    y_column: int
    x_zero: ZeroPoints | None = None
    w_zero: ZeroPoints | None = None
    epilogue: Epilogue | None = None

    @property
    def padded(self) -> Pair:
        """Rows and columns of an image with its border."""
        across = self.depth // self.x_span if self.x_span else 1
        reach = [max(tap[axis] for tap in self.taps) for axis in (0, 1)]
        lowest = (self.rows - 1) * self.steps[0] + reach[0] + 1
        rightmost = (self.columns - 1) * self.steps[1] + reach[1] + across
        return max(self.border[0] + self.height, lowest), max(self.border[1] + self.width, rightmost)

    @property
    def x_span(self) -> int:
        """Elements that a window reads of one pixel."""
        return self.channels // self.groups

    @property
    def has_border(self) -> bool:
        """Whether a window may leave an image."""
        return self.padded != (self.height, self.width)

    @property
    def products(self) -> int:
        """Multiplications."""
        sums = math.prod(self.outer) * self.rows * self.columns * self.groups * self.filters
        return sums * self.depth * len(self.taps)


@dataclass(frozen=True, slots=True)
class IntegerPlan:
    """The tile, its pixels as rows x columns, and where images and weights are read.

    `streams`: panels are packed just before their use; `direct`: there are none, words of weights are made in
    registers. `matrix`: the tile is one of registers of matrices (AMX).
    """

    problem: IntegerProblem
    dot: DotProduct
    tile: Tile
    tile_rows: int
    tile_columns: int
    block_rows: int
    held: bool
    streams: bool
    direct: bool = False
    matrix: bool = False

    @property
    def read(self) -> Scalar:
        """Elements of x as words are made of them."""
        return self.dot.packed_x

    @property
    def image_size(self) -> Pair:
        """Rows and columns of an image where it is read."""
        return self.problem.padded if self.held else (self.problem.height, self.problem.width)

    @property
    def image_elements(self) -> int:
        """Elements of an image where it is read."""
        return math.prod(self.image_size) * self.problem.channels

    @property
    def own_images(self) -> Shape:
        """The outer axes along which images differ, as 1 elsewhere."""
        p = self.problem
        zeros = p.x_zero.outer if p.x_zero else p.x_outer
        moves = zip(p.outer, p.x_outer, zeros, strict=True)
        return tuple(size if step or zero else 1 for size, step, zero in moves)

    @property
    def image_steps(self) -> Shape:
        """Elements from image to image along the outer axes, where it is read."""
        if not self.held:
            return self.problem.x_outer
        steps = contiguous(self.own_images)
        moves = zip(steps, self.own_images, strict=True)
        return tuple(step * self.image_elements if size > 1 else 0 for step, size in moves)

    @property
    def held_bytes(self) -> int:
        """Bytes of the workspace that hold images."""
        size = math.prod(self.own_images) * self.image_elements * self.read.size
        return aligned(size + SLACK_BYTES) if self.held else 0

    @property
    def panels(self) -> int:
        """Panels of one group."""
        return ceiling(self.problem.filters, self.tile.columns)

    @property
    def packing(self) -> IntegerPanels:
        """How panels are made."""
        p = self.problem
        ragged = p.filters % self.tile.columns != 0
        whole = matrix_tiles.SIDE if self.matrix else 1
        return IntegerPanels(self.dot, self.tile, len(p.taps), p.depth, p.order, ragged, self.subtracts_x, whole)

    @property
    def subtracts_x(self) -> bool:
        """Whether sums of the weights times x's zero point are subtracted."""
        return not self.dot.in_pairs and (self.problem.x_zero is not None or self.dot.shift != 0)

    @property
    def subtracts_w(self) -> bool:
        """Whether sums of x times the zero points of the weights are subtracted."""
        return not self.dot.in_pairs and self.problem.w_zero is not None

    @property
    def packed_bytes(self) -> int:
        """Bytes of the workspace that hold packed weights."""
        return 0 if self.streams else aligned(self.problem.groups * self.panels * self.packing.words * I32.size)

    @property
    def panel_bytes(self) -> int:
        """Bytes of scratch that hold a panel."""
        return aligned(self.packing.words * I32.size) if self.streams and not self.direct else 0

    @property
    def spilled_bytes(self) -> int:
        """Bytes of scratch that hold the sums of a tile of registers of matrices."""
        return self.tile.rows * self.tile.columns * I32.size if self.matrix else 0

    @property
    def staged_bytes(self) -> int:
        """Bytes of scratch that hold pixels for these registers that do not lie evenly apart."""
        return self.tile.rows * matrix_tiles.ROW_BYTES if self.matrix else 0

    @property
    def pixel_step(self) -> int:
        """Bytes from pixel to pixel of each register of matrices; 0 where they do not lie evenly apart."""
        p = self.problem
        if not _have_one_stride(self.tile_columns):
            return 0
        return p.channels * (p.steps[0] * self.image_size[1] if self.tile_columns == 1 else p.steps[1])

    @property
    def own_weights(self) -> bool:
        """Whether there are weights for each index of the outer axes."""
        p = self.problem
        return any(p.w_outer) or (p.w_zero is not None and any(p.w_zero.outer))

    @property
    def blocks(self) -> int:
        """Blocks of rows of one image."""
        return ceiling(self.problem.rows, self.block_rows)

    @property
    def places(self) -> int:
        """Blocks that share weights."""
        return self.blocks * (1 if self.own_weights else math.prod(self.problem.outer))

    @property
    def units(self) -> int:
        """Panels of all weights."""
        return self.problem.groups * self.panels * (math.prod(self.problem.outer) if self.own_weights else 1)

    @property
    def items(self) -> int:
        """Blocks times panels; none of nothing."""
        return self.places * self.units if self.problem.rows * self.problem.columns else 0

    @property
    def ragged_pixels(self) -> bool:
        """Whether some tile has fewer pixels."""
        p = self.problem
        return bool(p.rows % self.tile_rows or p.columns % self.tile_columns)


@dataclass(frozen=True, slots=True)
class _Fold:
    """A tile, its pixels as rows x columns, and the cycles that all tiles take."""

    cycles: float
    tile: Tile
    rows: int
    columns: int


@lru_cache(maxsize=1024)
def plan_of(problem: IntegerProblem, target: TargetDescription) -> IntegerPlan:
    """The plan of fewest cycles: by vectors or, where there are ones, by registers of matrices."""
    dot = dot_product(target, problem.x, problem.w)
    by_vectors = _folded(problem, _vector_cycles(problem, target, dot))
    plan = _planned(problem, target, dot, by_vectors)
    if not target.tiles or plan.direct or not problem.depth:
        return plan
    by_matrices = _folded(problem, _matrix_cycles(problem), UNEVEN_CYCLES * _registers(problem))
    anything = DotProduct(problem.x, problem.w, ByteDots.ANY)
    fewer = by_matrices.cycles < by_vectors.cycles
    return _planned(problem, target, anything, by_matrices, matrix=True) if fewer else plan


def _planned(
    problem: IntegerProblem, target: TargetDescription, dot: DotProduct, fold: _Fold, *, matrix: bool = False
) -> IntegerPlan:
    """With blocks of images that half of the second-level cache holds."""
    p, tile_rows = problem, fold.rows
    read = dot.steps * (matrix_tiles.SIDE if matrix else 1)
    held = p.has_border or dot.in_pairs or dot.shift != 0 or p.depth % read != 0 or p.x_step != 1
    most = max(ceiling(p.rows, tile_rows), 1)
    plan = IntegerPlan(p, dot, fold.tile, tile_rows, fold.columns, most * tile_rows, held, streams=False, matrix=matrix)
    cache = target.machine.level_two_bytes // 2
    row_bytes = max(plan.image_size[1] * p.channels * plan.read.size, 1)
    images = 1 if plan.own_weights else math.prod(p.outer)
    streams = plan.own_weights or images * plan.image_elements * plan.read.size <= cache
    fitting = max(cache // row_bytes // max(p.steps[0], 1) // tile_rows, 1)
    outer = max(math.prod(p.outer), 1)
    blocks = even_block(most, most if streams else min(most, fitting), max(p.groups * plan.panels, 1), outer)
    few = most * ceiling(max(p.columns, 1), fold.columns) * images <= FEW_TILES
    masked = not plan.packing.ragged or target.vector_bits == MASKED_BITS
    direct = few and masked and plan.packing.reads_directly and not matrix
    return replace(plan, block_rows=blocks * tile_rows, streams=streams or direct, direct=direct)


def _vector_cycles(p: IntegerProblem, target: TargetDescription, dot: DotProduct) -> list[tuple[Tile, float]]:
    """Tiles of vectors, and what each takes; sums of pairs need one more register."""
    words = max(ceiling(p.depth, dot.steps), 1) * len(p.taps)
    return [
        (tile, tile.cycles * words + STORE_CYCLES * tile.rows * tile.vectors + TILE_CYCLES)
        for tile in candidates(target, I32)
        if not dot.in_pairs or tile.rows * tile.vectors + tile.vectors + 2 <= target.vector_registers
    ]


def _matrix_cycles(p: IntegerProblem) -> list[tuple[Tile, float]]:
    """Tiles of registers of matrices, and what each takes; its sums are stored, read, and stored again."""
    words = matrix_tiles.SIDE * _registers(p)
    return [
        (tile, matrix_tiles.cycles(tile, words) + 2 * STORE_CYCLES * tile.rows * tile.vectors + TILE_CYCLES)
        for tile in map(matrix_tiles.tile_of, matrix_tiles.BLOCKS)
    ]


def _registers(p: IntegerProblem) -> int:
    """Registers of matrices along all sums."""
    return ceiling(p.depth, matrix_tiles.ROW_BYTES) * len(p.taps)


def _have_one_stride(tile_columns: int) -> bool:
    """Whether pixels of a register of matrices do: in one row, or in one column."""
    return tile_columns == 1 or tile_columns % matrix_tiles.SIDE == 0


def _folded(p: IntegerProblem, tiles: Sequence[tuple[Tile, float]], uneven: float = 0.0) -> _Fold:
    """The tile, and its pixels as rows x columns, of fewest cycles; `uneven` more for pixels that do not lie evenly."""
    folds = []
    for tile, cycles in tiles:
        panels = ceiling(p.filters, tile.columns)
        for height in (rows for rows in range(1, tile.rows + 1) if tile.rows % rows == 0):
            width = tile.rows // height
            count = panels * ceiling(p.rows, height) * ceiling(p.columns, width)
            each = cycles if _have_one_stride(width) else cycles + uneven * tile.rows
            folds.append((count * each, -tile.rows, tile.vectors, height, tile))
    cycles, _, _, height, tile = min(folds, key=lambda fold: fold[:4])
    return _Fold(cycles, tile, height, tile.rows // height)
