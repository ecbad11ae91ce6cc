"""Convolution of [batch, height, width, channels] with [kernel height, kernel width, channels / groups, filters].

    forward:         y[n, o, f] = sum_{k, c} x[n, o*stride + k*dilation - before, c] * w[k, c, f] + bias[f]
    data gradient:   x'[n, i, c] = sum over (o, k) with o*stride + k*dilation - before = i of g[n, o, f] * w[k, c, f]
    weight gradient: w'[k, c, f] = sum_{n, o} x[n, o*stride + k*dilation - before, c] * g[n, o, f]

The first two are correlations (correlation.py, or depthwise.py where channels do not mix); a 1x1 kernel without stride
or border is a matrix product (gemm.py); a 3x3 kernel without strides is applied to tiles (winograd.py) where images and
channels are large enough for that.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import Generator, ceiling
from nnc.codegen.ir.builder import F32, Scalar
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.convolutions.correlation import Correlation
from nnc.codegen.kernels.convolutions.correlation_plan import Core, CorrelationProblem, Weights
from nnc.codegen.kernels.convolutions.depthwise import Depthwise, DepthwiseWeightGradient, is_depthwise, is_narrow
from nnc.codegen.kernels.convolutions.weight_gradient import WeightGradient
from nnc.codegen.kernels.convolutions.winograd import Winograd
from nnc.codegen.kernels.convolutions.winograd_algorithm import ALGORITHMS, TAPS
from nnc.codegen.kernels.convolutions.winograd_gradient import WinogradGradient, in_tiles
from nnc.codegen.kernels.convolutions.winograd_plan import Tiles, choose
from nnc.codegen.kernels.products.gemm import Gemm
from nnc.codegen.kernels.products.gemm_plan import MatrixProduct
from nnc.core.values.spec import Blocked

Pair = tuple[int, int]
# About as many pixels as a register tile has.
TILE_PIXELS = 8


@dataclass(frozen=True, slots=True)
class Convolution:
    """The sizes of one convolution; `before` is the zero border on the low side of each axis."""

    scalar: Scalar
    batch: int
    sizes: Pair
    channels: int
    kernel: Pair
    filters: int
    outputs: Pair
    strides: Pair
    before: Pair
    dilations: Pair
    groups: int

    @property
    def is_product(self) -> bool:
        """True when every output pixel reads one input pixel, in order."""
        return self.kernel == self.strides == (1, 1) and self.before == (0, 0) and self.groups == 1 and self._same_sizes

    @property
    def is_depthwise(self) -> bool:
        """True when every channel has a group, and a filter, of its own."""
        return self.groups > 1 and self.group_channels == self.group_filters == 1

    @property
    def _same_sizes(self) -> bool:
        return self.sizes == self.outputs

    @property
    def pixels(self) -> int:
        """Output pixels of the whole batch."""
        return self.batch * self.outputs[0] * self.outputs[1]

    @property
    def group_channels(self) -> int:
        """Input channels of one group."""
        return self.channels // self.groups

    @property
    def group_filters(self) -> int:
        """Filters of one group."""
        return self.filters // self.groups


@dataclass(frozen=True, slots=True)
class Algorithms:
    """How a convolution or its data gradient may be computed: sums written out, in tiles, as a product."""

    problem: CorrelationProblem
    tiles: Tiles | None
    product: Gemm | None

    @property
    def best(self) -> Gemm | Winograd | Correlation | Depthwise:
        """A product where it is one, in tiles where that pays."""
        if self.product is not None:
            return self.product
        if self.tiles is not None and (algorithm := choose(self.tiles)) is not None:
            return self._in_tiles(self.tiles, algorithm.outputs)
        return self.written_out

    def in_blocks(self, layout: Blocked | None) -> Algorithms:
        """The same with weights that lie in this layout, if there is one: tiles read no blocks."""
        if layout is None:
            return self
        weights = replace(self.problem.weights, depth_stride=layout.width, lane_stride=1)
        problem = replace(self.problem, weights=weights, panel=layout.width)
        return Algorithms(problem, None, self.product and self.product.in_blocks(layout))

    def alternatives(self, target: TargetDescription) -> dict[str, Generator]:
        """Other ways to compute it: those of the product that it may be, in tiles, written out.

        winograd-M           in tiles of M x M outputs
        direct, direct-RxV   as a sum written out, also with other register tiles
        """
        if self.product is not None:
            direct = Correlation(self.problem)
            # Sums written out read no blocks of pairs where their depth is odd, nor beside AMX.
            reads = not self.product.problem.width or direct.steps(target) == self.product.steps(target)
            return {**self.product.alternatives(target), **({"direct": direct} if reads else {})}
        tiles = self.tiles if self.tiles is not None and self.tiles.fits else None
        in_tiles = {} if tiles is None else {f"winograd-{size}": self._in_tiles(tiles, size) for size in ALGORITHMS}
        return {**in_tiles, "direct": self.written_out, **self.written_out.alternatives(target)}

    def _in_tiles(self, tiles: Tiles, size: int) -> Winograd:
        return Winograd(tiles, size, Correlation(self.problem))

    @property
    def written_out(self) -> Correlation | Depthwise:
        """The correlation."""
        apart = is_depthwise(self.problem) or is_narrow(self.problem)
        return Depthwise(self.problem) if apart else Correlation(self.problem)


def _tiles(
    c: Convolution, sizes: Pair, outputs: Pair, before: Pair, weights: Weights, bias: bool = False
) -> Tiles | None:
    """The convolution, or its data gradient, in tiles where Winograd's algorithm applies."""
    plain = c.strides == (1, 1) and c.groups == 1 and c.kernel == (TAPS, TAPS)
    if not plain or c.scalar != F32:
        return None
    deep, wide = (c.channels, c.filters) if weights.lane_stride == 1 else (c.filters, c.channels)
    return Tiles(c.batch, sizes, deep, outputs, wide, before, weights, bias, c.dilations)


def forward(c: Convolution, bias: bool) -> Algorithms:
    """Operands: x, w, bias when there is one, y."""
    product = None
    if c.is_product:
        product = _product(c, c.pixels, c.filters, c.channels, (c.channels, 1), (c.filters, 1), bias)
    taps_of_rows = tuple(tap * c.channels * c.filters for tap in range(TAPS * TAPS))
    tiles = _tiles(c, c.sizes, c.outputs, c.before, Weights(taps_of_rows, 0, c.filters, 1), bias)
    merged = c.groups == 1 and c.dilations[1] == 1
    problem = _forward_sums(c, bias, merged)
    if not (merged or is_depthwise(problem) or is_narrow(problem)):
        problem = _without_border(c, problem)
    return Algorithms(problem, tiles, product)


def _forward_sums(c: Convolution, bias: bool, merged: bool) -> CorrelationProblem:
    """One core; where a row of the kernel is `merged`, its columns and channels are one run of elements of x."""
    down, right = c.dilations
    places = [(row, column) for row in range(c.kernel[0]) for column in range(1 if merged else c.kernel[1])]
    taps = tuple((row * down, column * right, tap) for tap, (row, column) in enumerate(places))
    bases = tuple((row * c.kernel[1] + column) * c.group_channels * c.filters for row, column in places)
    across = (c.outputs[1] - 1) * c.strides[1] + (c.kernel[1] - 1) * right + 1
    y_row = c.outputs[1] * c.filters
    return CorrelationProblem(
        scalar=c.scalar,
        batch=c.batch,
        height=c.sizes[0],
        width=c.sizes[1],
        channels=c.channels,
        top=c.before[0],
        left=c.before[1],
        padded=max(across, c.before[1] + c.sizes[1]),
        reach=(c.kernel[0] - 1) * down + 1,
        row_step=c.strides[0],
        column_step=c.strides[1],
        groups=c.groups,
        group_channels=c.group_channels,
        depth=c.group_channels * (c.kernel[1] if merged else 1),
        filters=c.group_filters,
        cores=(Core(taps, 0, *c.outputs),),
        weights=Weights(bases, c.group_filters, c.filters, 1),
        y_image=c.outputs[0] * y_row,
        y_row=y_row,
        y_column=c.filters,
        bias=bias,
    )


@dataclass(frozen=True, slots=True)
class _Outputs:
    """Some outputs of one axis with the same taps: the first, how many there are, and (kernel position, shift)."""

    first: int
    count: int
    taps: tuple[Pair, ...]


def _without_border(c: Convolution, problem: CorrelationProblem) -> CorrelationProblem:
    """A core for each set of taps that meet the image, which needs no border, where that saves a quarter of the time.

    Taps that are far apart against the size of the image lie in the border for most outputs.
    """
    rows, columns = (
        _meetings(c.sizes[axis], c.outputs[axis], c.kernel[axis], c.strides[axis], c.before[axis], c.dilations[axis])
        for axis in (0, 1)
    )
    cores = _cores(c, rows, columns, (0, 0), (problem.y_row, problem.y_column))
    reach = max((core.reach for core in cores), default=1)
    inside = replace(problem, reach=reach, top=0, left=0, padded=c.sizes[1], cores=cores)
    return inside if 4 * _tile_taps(cores) < 3 * _tile_taps(problem.cores) else problem


def _tile_taps(cores: tuple[Core, ...]) -> int:
    """The taps of all register tiles, about: a core has tiles of its own."""
    return sum(ceiling(core.rows * core.columns, TILE_PIXELS) * len(core.taps) for core in cores)


def _meetings(size: int, outputs: int, kernel: int, stride: int, before: int, dilation: int) -> list[_Outputs]:
    """Output o meets the image through kernel position k where 0 ≤ o * stride + k * dilation - before < size."""
    shifts = [k * dilation - before for k in range(kernel)]
    bounds = {bound for shift in shifts for bound in (ceiling(-shift, stride), ceiling(size - shift, stride))}
    edges = sorted({0, outputs, *(bound for bound in bounds if 0 < bound < outputs)})
    runs = []
    for first, end in pairwise(edges):
        starts = enumerate(first * stride + shift for shift in shifts)
        runs.append(_Outputs(first, end - first, tuple((k, start) for k, start in starts if 0 <= start < size)))
    return runs


def _cores(
    c: Convolution, rows: list[_Outputs], columns: list[_Outputs], corner: Pair, apart: Pair
) -> tuple[Core, ...]:
    """The outputs of both axes, whose first positions lie so far `apart` in the result."""
    top, left = corner
    return tuple(
        Core(
            tuple((up + top, side + left, i * c.kernel[1] + j) for i, up in row.taps for j, side in column.taps),
            row.first * apart[0] + column.first * apart[1],
            row.count,
            column.count,
        )
        for row in rows
        for column in columns
    )


def _residues(size: int, kernel: int, stride: int, before: int, dilation: int) -> list[_Outputs]:
    """Position i = residue + stride * j of x meets g at j + shift through kernel position k."""
    residues = []
    for residue in range(min(stride, size)):
        distances = [(k, residue + before - k * dilation) for k in range(kernel)]
        taps = tuple((k, distance // stride) for k, distance in distances if distance % stride == 0)
        residues.append(_Outputs(residue, ceiling(size - residue, stride), taps))
    return residues


def data_gradient(c: Convolution) -> Algorithms:
    """Operands: g, w, x'."""
    product = None
    if c.is_product:
        product = _product(c, c.pixels, c.channels, c.filters, (c.filters, 1), (1, c.filters), bias=False)
    mirrored = tuple(tap * c.channels * c.filters for tap in reversed(range(TAPS * TAPS)))
    before = ((TAPS - 1) * c.dilations[0] - c.before[0], (TAPS - 1) * c.dilations[1] - c.before[1])
    tiles = _tiles(c, c.outputs, c.sizes, before, Weights(mirrored, 0, 1, c.filters))
    return Algorithms(_gradient_sums(c), tiles, product)


def _gradient_sums(c: Convolution) -> CorrelationProblem:
    """A core for each residue of the positions of x by the strides."""
    rows, columns = (
        _residues(c.sizes[axis], c.kernel[axis], c.strides[axis], c.before[axis], c.dilations[axis]) for axis in (0, 1)
    )
    top, left = (max(0, -min(_shifts(axis), default=0)) for axis in (rows, columns))
    lowest, rightmost = (max(0, max(_shifts(axis), default=0)) for axis in (rows, columns))
    x_row = c.sizes[1] * c.channels
    bases = tuple(tap * c.group_channels * c.filters for tap in range(c.kernel[0] * c.kernel[1]))
    across = max(column.count for column in columns) + rightmost + left
    return CorrelationProblem(
        scalar=c.scalar,
        batch=c.batch,
        height=c.outputs[0],
        width=c.outputs[1],
        channels=c.filters,
        top=top,
        left=left,
        padded=max(across, left + c.outputs[1]),
        reach=lowest + top + 1,
        row_step=1,
        column_step=1,
        groups=c.groups,
        group_channels=c.group_filters,
        depth=c.group_filters,
        filters=c.group_channels,
        cores=_cores(c, rows, columns, (top, left), (x_row, c.channels)),
        weights=Weights(bases, c.group_filters, 1, c.filters),
        y_image=c.sizes[0] * x_row,
        y_row=c.strides[0] * x_row,
        y_column=c.strides[1] * c.channels,
    )


def _shifts(axis: list[_Outputs]) -> list[int]:
    """How far from its own place each output of an axis reads."""
    return [shift for outputs in axis for _, shift in outputs.taps]


def weight_gradient(c: Convolution) -> Gemm | WeightGradient | WinogradGradient | DepthwiseWeightGradient:
    """Operands: x, g, w'."""
    if c.is_product:
        return _product(c, c.channels, c.filters, c.pixels, (1, c.channels), (c.filters, 1), bias=False)
    if c.is_depthwise:
        return DepthwiseWeightGradient(
            c.scalar, c.batch, c.sizes, c.channels, c.kernel, c.outputs, c.strides, c.before, c.dilations
        )
    written_out = WeightGradient(
        scalar=c.scalar,
        batch=c.batch,
        sizes=c.sizes,
        channels=c.channels,
        kernel=c.kernel,
        filters=c.filters,
        outputs=c.outputs,
        strides=c.strides,
        before=c.before,
        dilations=c.dilations,
        groups=c.groups,
    )
    return in_tiles(written_out) or written_out


def _product(c: Convolution, rows: int, columns: int, inner: int, a: Pair, b: Pair, bias: bool) -> Gemm:
    return Gemm(MatrixProduct(c.scalar, (), rows, columns, inner, (), *a, (), *b, (), columns, bias))
