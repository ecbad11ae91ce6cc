"""Convolutions and their data gradients of groups of threads, as products whose left side is read from images.

y[pixel, f] = sum over taps and k of image[pixel + tap, k] * w[tap, k, f] + bias[f], then the epilogue. An item is a
tile of pixels and filters of one core of one group. Nothing is packed, and no border is written: what is outside is 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from nnc.classes import dataclass
from nnc.codegen.device.groups.near import thread_of
from nnc.codegen.device.groups.results import ResultWriter
from nnc.codegen.device.groups.tiles import (
    CORRELATION_COSTS,
    SIDE,
    THREADS,
    TOGETHER,
    Element,
    TileSums,
    copies_elements,
    places_of,
    shares_of,
)
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.frame.kernel import Phase, PhaseWriter, ceiling, phase
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.ir.builder import F32, Module, Scalar, Value
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

    # Where an element is takes time, which another group has use for.
    threads, paired = THREADS, True

    @classmethod
    def of(cls, sums: Correlation, target: TargetDescription) -> GroupCorrelation | None:
        """The kernel of sums that are written out; None where weights are in blocks, or filters are few."""
        p = sums.problem
        few = p.filters < TOGETHER or not p.depth or any(not core.taps for core in p.cores)
        return None if p.panel or few else cls(p, sums.epilogue)

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
        height, width = shares_of(
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
        self.p, self.epilogue, self.w, self.b, self.core = kernel.problem, kernel.epilogue, w, w.b, core
        self.height, self.width = height, width
        p, taps = self.p, core.taps
        name = self.b.name
        rows, columns = ([place[axis] for place in taps] for axis in (0, 1))
        self.rows = self.b.places(f"{name}_rows", rows)
        self.columns = self.b.places(f"{name}_columns", columns)
        self.bases = self.b.places(f"{name}_bases", [p.weights.bases[place[2]] for place in taps])

    @property
    def pixels(self) -> int:
        """Of all images."""
        return self.p.batch * self.core.rows * self.core.columns

    def write(self, down: Value, across: Value, group: Value) -> None:
        """One tile."""
        b, p, core = self.b, self.p, self.core
        thread, inner = thread_of(b), p.depth * len(core.taps)
        first, filters = down * (SIDE * self.height), across * (SIDE * self.width)
        copied = copies_elements(b.target, p.scalar)
        sums = TileSums(b, thread, p.work, inner, self.height, self.width, copied)
        image = b.offset(self.w.argument(0), group * p.group_channels, p.scalar)
        weights = b.offset(self.w.argument(1), group * p.weights.group_stride, p.scalar)
        totals = sums.of(
            PixelSide(self, thread, image, first, SIDE * self.height),
            WeightSide(self, thread, weights, filters, SIDE * self.width),
        )
        results = ResultWriter(p.bias, self.epilogue, p.scalar, p.work, self.w, self.place)
        places = [(first + line, self._output(first + line)) for line in sums.rows]
        for number, line in enumerate(sums.columns):
            here = filters + line
            with b.when(b.compare("<", here, p.filters)):
                channel = group * p.filters + here
                beside = results.beside(channel)
                for (pixel, start), registers in zip(places, totals, strict=True):
                    with b.when(b.compare("<", pixel, self.pixels)):
                        results.write(registers[number].get(), start + channel, beside)

    @property
    def place(self) -> Value:
        """Where y begins."""
        return self.w.argument(ResultWriter.position(self.p.bias, self.epilogue))

    def _output(self, pixel: Value) -> Value:
        """Where the results of a pixel begin."""
        core, p = self.core, self.p
        rest = pixel // core.columns
        image, row, column = rest // core.rows, rest % core.rows, pixel % core.columns
        return image * p.y_image + row * p.y_row + column * p.y_column + core.start


@dataclass(frozen=True, slots=True)
class PixelSide:
    """Pixels of images: a line is an output, a step is a tap and a channel. Neighbours read channels of one pixel."""

    core: _CoreWriter
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
        return self.core.p.scalar, self.core.p.work

    def elements(self, start: Value) -> list[Element]:
        """This thread's elements: all of one step, of which the tap and the channel are found once."""
        c, b, p = self.core, self.core.b, self.core.p
        places = list(self.places())
        k = start + places[0][1]
        there = b.compare("<", k, p.depth * len(c.core.taps))
        tap, channel = b.choose(there, k, 0) // p.depth, k % p.depth
        down, right = b.load(c.rows, tap, start.type), b.load(c.columns, tap, start.type)
        # A row of the window may be one run of channels, of several pixels.
        over = right + (channel // p.channels if p.depth > p.channels else 0)
        run = right * p.channels + channel
        elements = list[Element]()
        for line, _ in places:
            pixel = self.first + line
            rest = pixel // c.core.columns
            row = rest % c.core.rows * p.row_step + down - p.top
            corner = pixel % c.core.columns * p.column_step - p.left
            column = corner + over
            inside = b.both(b.compare(">=", row, 0), b.compare("<", row, p.height))
            inside = b.both(inside, b.both(b.compare(">=", column, 0), b.compare("<", column, p.width)))
            inside = b.both(inside, b.both(there, b.compare("<", pixel, c.pixels)))
            index = ((rest // c.core.rows * p.height + row) * p.width + corner) * p.channels + run
            elements.append((index, inside))
        return elements


@dataclass(frozen=True, slots=True)
class WeightSide:
    """Weights: a line is a filter, a step is a tap and a channel."""

    core: _CoreWriter
    thread: Value
    source: Value
    first: Value
    lines: int

    def places(self) -> Iterator[tuple[Value, Value]]:
        """Neighbours read filters side by side, or channels where these are."""
        weights = self.core.p.weights
        return places_of(self.thread, self.lines, along_k=weights.depth_stride == 1 and weights.lane_stride != 1)

    @property
    def kinds(self) -> tuple[Scalar, Scalar]:
        """Of weights, and of sums."""
        return self.core.p.scalar, self.core.p.work

    def elements(self, start: Value) -> list[Element]:
        """This thread's elements."""
        c, b, p, weights = self.core, self.core.b, self.core.p, self.core.p.weights
        elements = list[Element]()
        for line, step in self.places():
            place, k = self.first + line, start + step
            inside = b.both(b.compare("<", place, p.filters), b.compare("<", k, p.depth * len(c.core.taps)))
            tap = b.choose(inside, k, 0) // p.depth
            base = b.load(c.bases, tap, start.type)
            index = base + k % p.depth * weights.depth_stride + place * weights.lane_stride
            elements.append((index, inside))
        return elements
