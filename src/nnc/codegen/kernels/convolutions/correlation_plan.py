"""The plan of a correlation: its problem, the register tile, the blocks of images, and how weights are packed.

Weights are packed into panels, unless they already are one. Where images are large, a first phase packs all of them
into the workspace. Where weights are much larger than the images, they are read once or a few times only, and a worker
packs pieces of its panels into its own scratch just before it uses them: no copy of the weights exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import ceiling, even_block
from nnc.codegen.frame.packing import Packing
from nnc.codegen.frame.strip import Strip
from nnc.codegen.frame.tile import MANY, MANY_ROWS, Tile, steadiest, tiles_for
from nnc.codegen.ir.builder import BF16, U16, Scalar
from nnc.codegen.ir.expression import computed
from nnc.codegen.ir.native_kernel import aligned
from nnc.codegen.ir.target import SUM_BYTES, TargetDescription
from nnc.core.values.derived import Read, known_multiple
from nnc.core.values.sizes import decided

# Weights whose packed form has more than this many bytes, and this many times the bytes of images and outputs, are
# packed in pieces.
PIECES_BYTES, PIECES_RATIO = 256 * 1024, 4
# A piece is this part of a second-level cache: its rows are far apart in memory, so they fall on few of its sets.
PIECE_SHARE = 16
# Channels from which on a border is tested for rather than stored where code is small: the test of a pixel at a tap
# takes about as many instructions as the products of so many.
LEAST_CHANNELS = 8
STORE_CYCLES, TILE_CYCLES = 2.0, 30.0


# Rows and columns of outputs, by core.
Pixels = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Core:
    """Outputs rows x columns whose first lies at element `start` of y; taps as (row, column, index of the weights)."""

    taps: tuple[tuple[int, int, int], ...]
    start: int
    rows: int
    columns: int

    def opened(self, read: Read) -> Core:
        """Taps are part of the code."""
        return Core(self.taps, read(self.start) if self.start else 0, read(self.rows), read(self.columns))

    @property
    def reach(self) -> int:
        """How many image rows the taps span, from the first of the core on."""
        return max((row for row, _, _ in self.taps), default=0) + 1


@dataclass(frozen=True, slots=True)
class Weights:
    """Where w[t, k, f] is: bases[t] + group * group_stride + k * depth_stride + f * lane_stride."""

    bases: tuple[int, ...]
    group_stride: int
    depth_stride: int
    lane_stride: int


@dataclass(frozen=True, slots=True)
class CorrelationProblem:
    """The image is height x width x channels with `top` and `left` zero rows and columns, `padded` columns in all.

    `reach` is how many image rows the taps span. `filters` and `depth` are per group. Operands: image, weights, bias
    when there is one, y. `tile` takes the place of the one that the plan would choose, as `tile_rows`, its rows of
    pixels, and `block_rows` do. With a `panel` the weights lie in panels of so many filters as tiles read them:
    w[group, panel, t, k, f].
    """

    scalar: Scalar
    batch: int
    height: int
    width: int
    channels: int
    top: int
    left: int
    padded: int
    reach: int
    row_step: int
    column_step: int
    groups: int
    group_channels: int
    depth: int
    filters: int
    cores: tuple[Core, ...]
    weights: Weights
    y_image: int
    y_row: int
    y_column: int
    bias: bool = False
    tile: Tile | None = None
    panel: int = 0
    tile_rows: int = 0
    block_rows: int = 0

    def opened(self, read: Read) -> CorrelationProblem:
        """The batch is read, and what follows from heights and widths; channels, windows and weights are not."""
        cores = tuple(
            [
                Core(core.taps, read(core.start) if core.start else 0, read(core.rows), read(core.columns))
                for core in self.cores
            ]
        )
        return replace(
            self, batch=read(self.batch), height=read(self.height), width=read(self.width), padded=read(self.padded),
            cores=cores, y_image=read(self.y_image), y_row=read(self.y_row), block_rows=read(self.block_rows),
        )  # fmt: skip

    @property
    def work(self) -> Scalar:
        """The element type of sums, of strips and of packed weights."""
        return computed(self.scalar)

    @property
    def outputs(self) -> int:
        """Output pixels of one image."""
        return sum(core.rows * core.columns for core in self.cores)

    @property
    def products(self) -> int:
        """Multiply-adds, those with the border among them."""
        taps = sum(core.rows * core.columns * len(core.taps) for core in self.cores)
        return self.batch * taps * self.groups * self.filters * self.depth

    @property
    def weight_elements(self) -> int:
        """Elements of the weights."""
        return self.groups * self.filters * self.depth * len(self.weights.bases)

    @property
    def data_elements(self) -> int:
        """Elements of all images and outputs."""
        return self.batch * (self.height * self.width * self.channels + self.outputs * self.groups * self.filters)

    @property
    def rows(self) -> int:
        """Output rows of the tallest core."""
        return max(core.rows for core in self.cores)

    @property
    def has_no_border(self) -> bool:
        """True when no window leaves the image."""
        tallest = max((core.rows - 1) * self.row_step + core.reach for core in self.cores)
        return self.top == 0 and self.left == 0 and self.padded == self.width and tallest <= self.height

    @property
    def may_skip_border(self) -> bool:
        """True where a border may be tested for: it costs less than the products, and a strip is no conversion."""
        return self.work == self.scalar and not self.has_no_border and self.group_channels >= LEAST_CHANNELS

    def by_pixels(self) -> CorrelationProblem:
        """The same sums with a tap for each pixel, where taps are rows of pixels that lie side by side in a strip."""
        count, step = self.depth // self.group_channels, self.group_channels * self.weights.depth_stride
        bases = tuple(base + number * step for base in self.weights.bases for number in range(count))
        cores = [
            replace(
                core,
                taps=tuple(
                    (row, column + number, weights * count + number)
                    for row, column, weights in core.taps
                    for number in range(count)
                ),
            )
            for core in self.cores
        ]
        weights = replace(self.weights, bases=bases)
        return replace(self, depth=self.group_channels, cores=tuple(cores), weights=weights)

    @property
    def is_inside(self) -> bool:
        """True when the image is read where it is, as nothing of it is converted."""
        return self.work == self.scalar and self.has_no_border


@dataclass(frozen=True, slots=True)
class CorrelationPlan:
    """Tile, blocks and layouts chosen for one correlation on one target.

    `piece` is how many steps of k are packed at a time, 0 when weights are not packed in pieces. Elements of the image
    are `read` as they are in a strip; in pairs, where two steps of k are summed at once. `is_small` is for code that
    takes little memory.
    """

    problem: CorrelationProblem
    tile: Tile
    tile_rows: int
    tile_columns: int
    block_rows: int
    strip: Strip
    packing: Packing
    piece: int
    read: Scalar
    is_small: bool

    @classmethod
    def of(cls, problem: CorrelationProblem, target: TargetDescription) -> CorrelationPlan:
        """The tile with fewest cycles; blocks of rows whose strip fits a quarter of the second-level cache.

        Where weights are packed in pieces a strip is filled for each piece, so it may take the whole of that cache.
        """
        if target.small and problem.may_skip_border:
            problem = problem.by_pixels()
        tile, tile_rows, tile_columns = choose_pixels(problem, target)
        size = problem.work.size
        pairs = target.pairs and problem.scalar == BF16 and problem.depth % 2 == 0
        stored = U16 if pairs else problem.scalar
        packed_bytes = problem.weight_elements * size
        # Parts of a sum that are left in y of 16 bits would be rounded.
        in_pieces = problem.work == problem.scalar and packed_bytes > max(
            PIECES_BYTES, PIECES_RATIO * problem.data_elements * size
        )
        pieces = ceiling(problem.depth * tile.columns * size, SUM_BYTES // PIECE_SHARE)
        piece = ceiling(problem.depth, pieces) if in_pieces else 0
        cache_bytes = target.machine.level_two_bytes // (1 if in_pieces else 4)
        block_rows = problem.block_rows or _block_rows(problem, tile, tile_rows, cache_bytes // computed(stored).size)
        strip = Strip(
            stored, tile.lanes, problem.height, problem.width, problem.channels, problem.left, problem.padded,
            (block_rows - 1) * problem.row_step + problem.reach,
        )  # fmt: skip
        ragged = problem.filters % tile.columns != 0
        weights = problem.weights
        packing = Packing(
            problem.scalar, tile.lanes, tile.columns, weights.lane_stride, weights.depth_stride, ragged, pairs
        )
        return cls(
            problem, tile, tile_rows, tile_columns, block_rows, strip, packing, piece, computed(stored), target.small
        )

    @property
    def in_place(self) -> bool:
        """True when images are read where they are."""
        return self.problem.has_no_border and self.read.size == self.problem.scalar.size

    @property
    def shared(self) -> bool:
        """True when all workers read weights that a first phase packed."""
        return not self.packed and not self.piece

    @property
    def skips_border(self) -> bool:
        """True when images are read where they are, and zeros where windows leave them: no strip, more instructions."""
        return self.is_small and self.problem.may_skip_border

    @property
    def strip_bytes(self) -> int:
        """Bytes of scratch that hold a strip, or the zeros beside an image."""
        if self.skips_border:
            return aligned(self.problem.depth * self.read.size)
        return 0 if self.in_place else aligned(self.strip.bytes)

    @property
    def piece_bytes(self) -> int:
        """Bytes of scratch that hold a piece of a panel."""
        needed = self.piece and not self.packed
        return aligned(self.packing.elements(self.piece) * self.problem.work.size) if needed else 0

    @property
    def packed(self) -> bool:
        """True when the weights are panels as they are."""
        p, w = self.problem, self.problem.weights
        if p.panel:
            return True
        order = tuple(t * p.depth * p.filters for t in range(len(w.bases)))
        exact = p.filters == self.tile.columns == w.depth_stride
        return p.work == p.scalar and p.groups == 1 and w.lane_stride == 1 and exact and w.bases == order

    @property
    def asks(self) -> bool:
        """True when tiles ask for the next panel: weights in blocks are cold in every run of a network."""
        return self.problem.panel > 0

    @property
    def stored(self) -> Scalar:
        """The element type of panels."""
        narrow = self.problem.panel and not self.packing.pairs
        return self.problem.scalar if narrow else self.packing.scalar

    @property
    def panels(self) -> int:
        return ceiling(self.problem.filters, self.tile.columns)

    @property
    def tap_elements(self) -> int:
        """Elements between the packed weights of neighbouring taps."""
        return self.packing.extent(self.problem.depth)

    @property
    def panel_elements(self) -> int:
        return self.tap_elements * len(self.problem.weights.bases)

    @property
    def packed_elements(self) -> int:
        return self.panel_elements * self.panels * self.problem.groups

    @property
    def blocks(self) -> int:
        return ceiling(self.problem.rows, self.block_rows)

    @property
    def places(self) -> int:
        """Blocks of rows of all images."""
        return self.problem.batch * self.blocks

    @property
    def items(self) -> int:
        return self.places * self.problem.groups * self.panels

    @property
    def rests(self) -> tuple[int, ...]:
        """Pixels at a time behind whole tiles of a row, if there may be any."""
        if self.tile_rows != 1 or not is_wide(self.problem):
            return ()
        whole = all(known_multiple(core.columns, self.tile_columns) for core in self.problem.cores)
        return () if whole else self.tile.rests

    @property
    def ragged_pixels(self) -> bool:
        """True when some tile has fewer pixels."""
        if self.rests:
            return False
        cores = self.problem.cores
        # A condition of the code where they are read: with masks whole tiles take 1.03 to 1.06 of their time.
        return any(core.rows % self.tile_rows or core.columns % self.tile_columns for core in cores)


def _block_rows(problem: CorrelationProblem, tile: Tile, tile_rows: int, most_elements: int) -> int:
    """Rows of outputs whose strip has at most so many elements, in whole tiles, so that workers have even shares."""
    fitting = (most_elements // (problem.padded * problem.channels) - problem.reach) // problem.row_step + 1
    most = ceiling(problem.rows, tile_rows) * tile_rows
    largest = min(most, max(fitting // tile_rows * tile_rows, tile_rows)) // tile_rows
    panels = problem.groups * ceiling(problem.filters, tile.columns)
    return tile_rows * even_block(most // tile_rows, largest, panels, problem.batch)


def choose_pixels(problem: CorrelationProblem, target: TargetDescription) -> tuple[Tile, int, int]:
    """The tile, and its pixels as rows x columns: those that are given, else those that need fewest cycles."""
    if problem.tile is not None and problem.tile_rows:
        return problem.tile, problem.tile_rows, problem.tile.rows // problem.tile_rows
    pixels = tuple([(core.rows, core.columns) for core in problem.cores])
    asked = (problem.work, problem.panel, problem.tile, problem.filters, _steps(problem))
    return decided(_cheapest_pixels, target, *asked, pixels)


@dataclass(frozen=True, slots=True)
class Fold:
    """A tile of height x width pixels: it is done for `panels` panels of filters, in so many `cycles` each time."""

    tile: Tile
    height: int
    width: int
    panels: int
    cycles: float

    def over(self, pixels: Pixels) -> float:
        """About how many cycles it needs over all cores."""
        tiles = 0
        for rows, columns in pixels:
            tiles += -(-rows // self.height) * -(-columns // self.width)
        return self.panels * tiles * self.cycles


@lru_cache(maxsize=256)
def _folds(
    target: TargetDescription, scalar: Scalar, panel: int, tile: Tile | None, filters: int, steps: int
) -> tuple[Fold, ...]:
    """All tiles with all their heights."""
    tiles = tiles_for(target, scalar, panel) if tile is None else (tile,)
    return tuple([_fold(each, height, filters, steps) for each in tiles for height in _heights(each)])


def _heights(tile: Tile) -> list[int]:
    return [rows for rows in range(1, tile.rows + 1) if tile.rows % rows == 0]


def _fold(tile: Tile, height: int, filters: int, steps: int) -> Fold:
    cycles = tile.cycles * steps + STORE_CYCLES * tile.rows * tile.vectors + TILE_CYCLES
    return Fold(tile, height, tile.rows // height, ceiling(filters, tile.columns), cycles)


def _steps(problem: CorrelationProblem) -> int:
    """Steps of k in the sums of the core that has most of them."""
    return problem.depth * max(len(core.taps) for core in problem.cores)


@lru_cache(maxsize=4096)
def _cheapest_pixels(
    target: TargetDescription,
    scalar: Scalar,
    panel: int,
    tile: Tile | None,
    filters: int,
    steps: int,
    pixels: Pixels,
) -> tuple[Tile, int, int]:
    """The tile, and its pixels as rows x columns, that need fewest cycles over all cores."""
    folds, wide = _folds(target, scalar, panel, tile, filters, steps), ((MANY_ROWS, MANY_ROWS),) * len(pixels)
    chosen = steadiest(folds, lambda fold: fold.over(pixels), lambda fold: (fold.over(wide), fold.height))
    if _are_wide(pixels):
        # Filters of a tile are those that these sizes choose, as parts of a sum follow them.
        of_many = [each for each in folds if each.height == 1 and each.tile.vectors == chosen.tile.vectors]
        chosen = min(of_many, key=lambda fold: fold.over(wide))
    return chosen.tile, chosen.height, chosen.width


def is_wide(problem: CorrelationProblem) -> bool:
    """Whether tiles are pixels of one row, of which there are many: one tile, and one code, for all such sizes."""
    return _are_wide([(core.rows, core.columns) for core in problem.cores])


def _are_wide(pixels: Iterable[tuple[int, int]]) -> bool:
    return all(columns >= MANY for _, columns in pixels)


def fold_pixels(problem: CorrelationProblem, tile: Tile) -> tuple[float, int, int]:
    """The pixels of a tile as rows x columns that need fewest cycles over all cores; those cycles come first."""
    pixels = tuple([(core.rows, core.columns) for core in problem.cores])
    folds = [_fold(tile, height, problem.filters, _steps(problem)) for height in _heights(tile)]
    return min((fold.over(pixels), fold.height, fold.width) for fold in folds)
