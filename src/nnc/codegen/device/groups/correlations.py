"""Convolutions and their data gradients of groups of threads, as products whose left side is read from images.

y[pixel, f] = sum over taps and k of image[pixel + tap, k] * w[tap, k, f] + bias[f], then the epilogue. An item is a
tile of pixels and filters of one core of one group. Nothing is packed, and no border is written: what is outside is 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from nnc.classes import dataclass
from nnc.codegen.device.groups.results import ResultWriter
from nnc.codegen.device.groups.shared_memory import thread_of
from nnc.codegen.device.groups.tap_tables import TapTables
from nnc.codegen.device.groups.tiles import (
    CORRELATION_COSTS,
    SIDE,
    THREADS,
    TOGETHER,
    Element,
    TileSums,
    copies_elements,
    fitting_shares,
    places_of,
    shares_of,
)
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.frame.kernel import PhaseWriter, ceiling, phase
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.ir.builder import F32, Module, Scalar, Value
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.convolutions.correlation import Correlation
from nnc.codegen.kernels.convolutions.correlation_plan import Core, CorrelationProblem
from nnc.codegen.kernels.convolutions.winograd import Winograd
from nnc.codegen.kernels.convolutions.winograd_algorithm import TAPS
from nnc.codegen.kernels.convolutions.winograd_plan import Tiles


@dataclass(frozen=True, slots=True)
class GroupCorrelation:
    """The kernel of a problem. Operands: image, weights, bias when there is one, extras of the epilogue, y."""

    problem: CorrelationProblem
    epilogue: Epilogue | None
    # What a thread sums along each axis; None where that is chosen for each core.
    shares: tuple[int, int] | None = None

    # Where an element is takes time, which another group has use for.
    threads, paired = THREADS, True

    @classmethod
    def of(cls, sums: Correlation, target: TargetDescription) -> GroupCorrelation | None:
        """The kernel of sums that are written out; None where weights are in blocks, or filters are few."""
        p = sums.problem
        few = p.filters < TOGETHER or not p.depth or any(not core.taps for core in p.cores)
        return None if p.panel or few else cls(p, sums.epilogue)

    @classmethod
    def in_tiles(cls, sums: Correlation, target: TargetDescription) -> dict[str, GroupCorrelation]:
        """One for each tile for which a group has memory, where there is one."""
        p = sums.problem
        if cls.of(sums, target) is None:
            return {}
        pixels = min(p.batch * core.rows * core.columns for core in p.cores)
        shares = fitting_shares(target, p.work, pixels, p.filters, CORRELATION_COSTS)
        return {f"tiles {SIDE * high}x{SIDE * wide}": cls(p, sums.epilogue, (high, wide)) for high, wide in shares}

    @classmethod
    def of_tiles(cls, tiles: Winograd, target: TargetDescription) -> GroupCorrelation | None:
        """The kernel of what processors compute in tiles."""
        return cls(written_out(tiles.tiles), tiles.epilogue)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """A phase for each core; an item is a tile of one group."""
        return tuple(self._core(module, f"{name}_{number}", core) for number, core in enumerate(self.problem.cores))

    def _core(self, module: Module, name: str, core: Core) -> Phase:
        p = self.problem
        pixels = p.batch * core.rows * core.columns
        height, width = self.shares or shares_of(
            module.target, p.work, p.groups, pixels, p.filters, p.depth * len(core.taps), CORRELATION_COSTS
        )
        down, across = ceiling(pixels, SIDE * height), ceiling(p.filters, SIDE * width)
        with phase(module, name) as w, w.b.loop(w.begin, w.end) as item:
            _CoreWriter(self, w, core, height, width).write(
                item // across % down, item % across, item // (across * down)
            )
        work = pixels * p.filters * p.groups * p.depth * len(core.taps)
        return Phase(name, down * across * p.groups, nanoseconds(module.target, p.work, work))


def written_out(t: Tiles) -> CorrelationProblem:
    """The sums of a convolution that is computed in tiles."""
    down, right = t.dilations
    taps = tuple((tap // TAPS * down, tap % TAPS * right, tap) for tap in range(TAPS * TAPS))
    row = t.outputs[1] * t.filters
    return CorrelationProblem(
        scalar=F32, batch=t.batch, height=t.sizes[0], width=t.sizes[1], channels=t.channels, top=t.before[0],
        left=t.before[1], padded=t.sizes[1], reach=(TAPS - 1) * down + 1, row_step=1, column_step=1, groups=1,
        group_channels=t.channels, depth=t.channels, filters=t.filters, cores=(Core(taps, 0, *t.outputs),),
        weights=t.weights, y_image=t.outputs[0] * row, y_row=row, y_column=t.filters, bias=t.bias,
    )  # fmt: skip


class _CoreWriter:
    """Writes the tiles of one core."""

    def __init__(self, kernel: GroupCorrelation, w: PhaseWriter, core: Core, height: int, width: int) -> None:
        self.p, self.epilogue, self.w, self.b = kernel.problem, kernel.epilogue, w, w.b
        self.height, self.width = height, width
        self.tables = TapTables.of(w.b, kernel.problem, core)

    def write(self, down: Value, across: Value, group: Value) -> None:
        """One tile."""
        b, p, tables = self.b, self.p, self.tables
        thread = thread_of(b)
        first, filters = down * (SIDE * self.height), across * (SIDE * self.width)
        copied = copies_elements(b.target, p.scalar)
        sums = TileSums(b, thread, p.work, tables.steps, self.height, self.width, copied)
        image = b.offset(self.w.argument(0), group * p.group_channels, p.scalar)
        weights = b.offset(self.w.argument(1), group * p.weights.group_stride, p.scalar)
        totals = sums.of(
            PixelSide(tables, thread, image, first, SIDE * self.height),
            WeightSide(tables, thread, weights, filters, SIDE * self.width),
        )
        results = ResultWriter(p.bias, self.epilogue, p.scalar, p.work, self.w, self.place)
        places = [(first + line, tables.result(first + line)) for line in sums.rows]
        for number, line in enumerate(sums.columns):
            here = filters + line
            with b.when(b.compare("<", here, p.filters)):
                channel = group * p.filters + here
                beside = results.beside(channel)
                for (pixel, start), registers in zip(places, totals, strict=True):
                    with b.when(b.compare("<", pixel, tables.pixels)):
                        results.write(registers[number].get(), start + channel, beside)

    @property
    def place(self) -> Value:
        """Where y begins."""
        return self.w.argument(ResultWriter.position(self.p.bias, self.epilogue))


@dataclass(frozen=True, slots=True)
class PixelSide:
    """Pixels of images: a line is an output, a step is a tap and a channel. Neighbours read channels of one pixel."""

    tables: TapTables
    thread: Value
    source: Value
    first: Value
    lines: int

    def places(self) -> Iterator[tuple[Value, Value]]:
        """Neighbours read channels side by side."""
        return places_of(self.thread, self.lines, along_k=True)

    @property
    def kinds(self) -> tuple[Scalar, Scalar]:
        """Of images, and of sums."""
        return self.tables.problem.scalar, self.tables.problem.work

    def elements(self, start: Value) -> list[Element]:
        """This thread's elements: all of one step, of which the tap and the channel are found once."""
        places = list(self.places())
        step = self.tables.step(start + places[0][1])
        return [self.tables.pixel(self.first + line, step) for line, _ in places]


@dataclass(frozen=True, slots=True)
class WeightSide:
    """Weights: a line is a filter, a step is a tap and a channel."""

    tables: TapTables
    thread: Value
    source: Value
    first: Value
    lines: int

    def places(self) -> Iterator[tuple[Value, Value]]:
        """Neighbours read filters side by side, or channels where these are."""
        weights = self.tables.problem.weights
        return places_of(self.thread, self.lines, along_k=weights.depth_stride == 1 and weights.lane_stride != 1)

    @property
    def kinds(self) -> tuple[Scalar, Scalar]:
        """Of weights, and of sums."""
        return self.tables.problem.scalar, self.tables.problem.work

    def elements(self, start: Value) -> list[Element]:
        """This thread's elements."""
        return [self.tables.weight(self.first + line, start + step) for line, step in self.places()]
