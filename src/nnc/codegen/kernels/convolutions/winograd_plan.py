"""The plan of a convolution in tiles: whether it pays, what an item is, and how the channels and filters are cut."""

from __future__ import annotations

from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import ceiling
from nnc.codegen.frame.packing import Packing
from nnc.codegen.frame.tile import Tile, alike, choose_tile
from nnc.codegen.ir.builder import F32
from nnc.codegen.ir.target import SUM_BYTES, TargetDescription
from nnc.codegen.kernels.convolutions.correlation_plan import Weights
from nnc.codegen.kernels.convolutions.winograd_algorithm import ALGORITHMS, TAPS, Algorithm, instructions
from nnc.core.values.derived import Read, largest, smallest

Pair = tuple[int, int]

# A block has at most this many tiles and bytes of v. Where that makes few items for the workers, blocks have fewer
# tiles, down to FEW_TILES, and groups half as many filters.
MOST_TILES, FEW_TILES, MOST_IMAGE_BYTES = 64, 8, 2 * 1024 * 1024
GROUP_FILTERS, FEW_ITEMS = 128, 4
# Channels are read in vectors, the longest of 16; a sum that is written out wins unless this takes 0.8 of its time.
CHANNELS, GAIN = 16, 0.8


@dataclass(frozen=True, slots=True)
class Tiles:
    """Images of sizes x channels, outputs x filters, and `before` zero rows and columns above and left of the image.

    Operands: image, weights, bias when there is one, extras of the epilogue, y. `weights` says where the taps are.
    With dilations, outputs that lie so far apart read the same pixels, and a tile has outputs of one residue.
    """

    batch: int
    sizes: Pair
    channels: int
    outputs: Pair
    filters: int
    before: Pair
    weights: Weights
    bias: bool = False
    dilations: Pair = (1, 1)

    def opened(self, read: Read) -> Tiles:
        """The batch, heights and widths are read."""
        sizes, outputs = ((read(height), read(width)) for height, width in (self.sizes, self.outputs))
        return replace(self, batch=read(self.batch), sizes=sizes, outputs=outputs)

    @property
    def residues(self) -> Pair:
        """Along both axes, the residues of the outputs by the dilation; at least one, also where there is no output."""
        return max(min(self.dilations[0], self.outputs[0]), 1), max(min(self.dilations[1], self.outputs[1]), 1)

    def counts(self, size: int) -> Pair:
        """Tiles of `size` outputs along both axes: of each residue as many as the first one has."""
        rows, columns = (
            residues * ceiling(ceiling(outputs, dilation), size)
            for residues, outputs, dilation in zip(self.residues, self.outputs, self.dilations, strict=True)
        )
        return rows, columns

    def count(self, size: int) -> int:
        """Tiles of all images."""
        rows, columns = self.counts(size)
        return self.batch * rows * columns

    @property
    def fits(self) -> bool:
        """True when channels fill vectors, and filters at least one."""
        return self.channels % CHANNELS == 0 and self.filters >= CHANNELS

    def written_out(self) -> int:
        """Multiply-adds of the sums written out, for each pair of a channel and a filter.

        Those of dilated taps leave out what lies in the border.
        """
        if self.dilations == (1, 1):
            return self.batch * self.outputs[0] * self.outputs[1] * TAPS * TAPS
        return self.batch * self._meetings(0) * self._meetings(1)

    def _meetings(self, axis: int) -> int:
        """Pairs of an output and a tap along one axis that meet the image."""
        shifts = [tap * self.dilations[axis] - self.before[axis] for tap in range(TAPS)]
        return sum(max(min(self.outputs[axis], self.sizes[axis] - shift) - max(-shift, 0), 0) for shift in shifts)


@dataclass(frozen=True, slots=True)
class Division:
    """What an item is: tiles of a block, filters of a group; and how many of both there are."""

    tiles: int
    blocks: int
    filters: int
    groups: int

    @classmethod
    def of(cls, tiles: Tiles, algorithm: Algorithm) -> Division:
        """Few blocks and groups: each block transforms its weights anew, each group its images."""
        count = tiles.count(algorithm.outputs)
        limit = MOST_IMAGE_BYTES // (algorithm.products * tiles.channels * F32.size)
        blocks = ceiling(count, max(FEW_TILES, min(MOST_TILES, limit)))
        filters = GROUP_FILTERS
        if blocks * ceiling(tiles.filters, filters) < FEW_ITEMS:
            filters //= 2
            wanted = smallest(ceiling(FEW_ITEMS, ceiling(tiles.filters, filters)), count // FEW_TILES)
            blocks = largest(blocks, wanted)
        per_block = ceiling(count, blocks)
        return cls(per_block, ceiling(count, per_block), filters, ceiling(tiles.filters, filters))


def cost(tiles: Tiles, algorithm: Algorithm) -> float:
    """Vector instructions, in units of multiply-adds for each pair of a channel and a filter."""
    count, division = tiles.count(algorithm.outputs), Division.of(tiles, algorithm)
    image = count * division.groups * instructions(algorithm.image) / tiles.filters
    kernel = division.blocks * instructions(algorithm.kernel)
    result = count * instructions(algorithm.result) / tiles.channels
    return count * algorithm.products + image + kernel + result


def choose(tiles: Tiles) -> Algorithm | None:
    """The algorithm with fewest instructions; None where sums written out are about as good."""
    best = min(ALGORITHMS.values(), key=lambda algorithm: cost(tiles, algorithm))
    return best if tiles.fits and cost(tiles, best) < GAIN * tiles.written_out() else None


@dataclass(frozen=True, slots=True)
class WinogradPlan:
    """The register tile, channels made into u at a time, panels of filters, and those of a group.

    Weights whose filters do not lie next to each other are packed into panels before they are transformed.
    """

    algorithm: Algorithm
    division: Division
    tile: Tile
    depth: int
    depths: int
    panels: int
    group_panels: int
    packing: Packing
    is_large: bool

    @classmethod
    def of(cls, t: Tiles, size: int, target: TargetDescription, tile: Tile | None = None) -> WinogradPlan:
        """With this register tile, or the one that covers a block in fewest cycles."""
        algorithm = ALGORITHMS[size]
        division = Division.of(t, algorithm)
        if tile is None:
            filters = min(t.filters, division.filters)
            tile = choose_tile(target, F32, division.tiles, filters)
            # Parts of a sum follow the filters of a tile, not its rows.
            tile = choose_tile(target, F32, alike(division.tiles), filters, tile.columns)
        fitting = SUM_BYTES // 2 // (algorithm.products * tile.columns * F32.size)
        vectors = t.channels // tile.lanes
        depths = ceiling(vectors, max(1, fitting // tile.lanes))
        depth = ceiling(vectors, depths) * tile.lanes
        is_large = TAPS * TAPS * t.channels * t.filters * F32.size > target.machine.level_two_bytes
        panels, group_panels = ceiling(t.filters, tile.columns), ceiling(division.filters, tile.columns)
        lane_stride, depth_stride = t.weights.lane_stride, t.weights.depth_stride
        packing = Packing(F32, tile.lanes, tile.columns, lane_stride, depth_stride, t.filters % tile.columns != 0)
        return cls(
            algorithm, division, tile, depth, ceiling(t.channels, depth), panels, group_panels, packing, is_large
        )

    @property
    def asks(self) -> bool:
        """True when the weights are too many for the cache, and the processor does not find them by itself."""
        return self.is_large and not self.packing.transposes

    @property
    def groups(self) -> int:
        return ceiling(self.panels, self.group_panels)

    @property
    def rows(self) -> int:
        """Rows of v and m: the tiles of a block, up to a whole register tile."""
        return ceiling(self.division.tiles, self.tile.rows) * self.tile.rows

    @property
    def strides(self) -> tuple[int, int, int]:
        """Elements of v, u and m from one product to the next: a line more, so that they fall on other sets."""
        sizes = self.depths * self.rows * self.depth, self.depth * self.tile.columns, self.rows * self.tile.columns
        return sizes[0] + self.tile.lanes, sizes[1] + self.tile.lanes, sizes[2] + self.tile.lanes

    @property
    def rooms(self) -> tuple[int, int, int, int]:
        """Elements of v, u, m and packed weights."""
        v, u, m = (self.algorithm.products * stride for stride in self.strides)
        return v, u, m, TAPS * TAPS * self.packing.elements(self.depth) if self.packing.transposes else 0
