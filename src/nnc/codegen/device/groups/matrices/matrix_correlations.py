"""Convolutions and their data gradients of 16 bits as products by instructions that multiply matrices.

y[pixel, f] = sum over taps and k of image[pixel + tap, k] * w[tap, k, f] + bias[f], then the epilogue. An item is a
tile of pixels and filters of one core of one group. What is outside of images is copied as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnc.classes import dataclass
from nnc.codegen.device.groups.matrices.matrix_forms import form_of
from nnc.codegen.device.groups.matrices.matrix_sums import THREADS, MatrixSums, TileForm, TileTarget
from nnc.codegen.device.groups.matrices.slices import CHUNK, STEPS, MatrixSide, Place, SliceSide
from nnc.codegen.device.groups.results import ResultWriter
from nnc.codegen.device.warpgroups import ROWS
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.frame.kernel import Phase, PhaseWriter, ceiling, phase
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.ir.builder import BF16, F16, Builder, Module, Scalar, Value
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.convolutions.correlation import Correlation
from nnc.codegen.kernels.convolutions.correlation_plan import Core, CorrelationProblem


@dataclass(frozen=True, slots=True)
class MatrixGroupCorrelation:
    """The kernel of a problem. Operands: image, weights, bias when there is one, extras of the epilogue, y."""

    problem: CorrelationProblem
    epilogue: Epilogue | None
    form: TileForm

    threads = THREADS

    @property
    def paired(self) -> bool:
        """As the form says."""
        return self.form.paired

    @classmethod
    def of(cls, sums: Correlation, target: TargetDescription) -> MatrixGroupCorrelation | None:
        """The kernel of sums of 16 bits that are written out; None where weights are in blocks, or filters are few."""
        p = sums.problem
        few = p.filters < CHUNK or not p.depth or any(not core.taps for core in p.cores)
        if p.panel or few or p.scalar not in (BF16, F16):
            return None
        core = max(p.cores, key=lambda core: core.rows * core.columns)
        form = form_of(target, p.groups, p.batch * core.rows * core.columns, p.filters, p.depth * len(core.taps))
        return None if form is None else cls(p, sums.epilogue, form)

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """A phase for each core."""
        return tuple(self._core(module, f"{name}_{number}", core) for number, core in enumerate(self.problem.cores))

    def _core(self, module: Module, name: str, core: Core) -> Phase:
        p, form = self.problem, self.form
        pixels = p.batch * core.rows * core.columns
        down, across = ceiling(pixels, form.height), ceiling(p.filters, form.width)
        with phase(module, name) as w:
            tables = TapTables.of(w.b, p, core)
            with w.b.loop(w.begin, w.end) as item:
                row, column = item // across % down * form.height, item % across * form.width
                self._write(w, tables, (row, column), item // (across * down))
        work = pixels * p.filters * p.groups * p.depth * len(core.taps)
        return Phase(name, down * across * p.groups, nanoseconds(module.target, p.work, work))

    def _write(self, w: PhaseWriter, tables: TapTables, corner: tuple[Value, Value], group: Value) -> None:
        """One tile."""
        b, p, core, form = w.b, self.problem, tables.core, self.form
        pixels, inner = p.batch * core.rows * core.columns, p.depth * len(core.taps)
        image = b.offset(w.argument(0), group * p.group_channels, p.scalar)
        weights = b.offset(w.argument(1), group * p.weights.group_stride, p.scalar)
        first = group * p.filters

        def place(pixel: Value) -> Value:
            rest = pixel // core.columns
            number, row, column = rest // core.rows, rest % core.rows, pixel % core.columns
            return number * p.y_image + row * p.y_row + column * p.y_column + core.start + first

        sides: tuple[SliceSide, SliceSide] = (
            PixelSlices(tables, image, corner[0], form.height),
            _weights(tables, weights, corner[1], form.width),
        )
        results = ResultWriter(
            p.bias, self.epilogue, p.scalar, p.work, w, w.argument(ResultWriter.position(p.bias, self.epilogue))
        )
        MatrixSums(results, form, inner).write(sides, TileTarget(*corner, pixels, p.filters, place, first))


@dataclass(frozen=True, slots=True)
class TapTables:
    """Tables of the taps of a core: how far down and right, and where their weights begin."""

    b: Builder
    problem: CorrelationProblem
    core: Core
    rows: Value
    columns: Value
    bases: Value

    @classmethod
    def of(cls, b: Builder, p: CorrelationProblem, core: Core) -> TapTables:
        """Tables of the function that `b` writes."""
        rows, columns = ([tap[axis] for tap in core.taps] for axis in (0, 1))
        bases = [p.weights.bases[tap[2]] for tap in core.taps]
        names = (f"{b.name}_{name}" for name in ("rows", "columns", "bases"))
        return cls(b, p, core, *(b.places(*pair) for pair in zip(names, (rows, columns, bases), strict=True)))

    @property
    def steps(self) -> int:
        """Of a sum."""
        return self.problem.depth * len(self.core.taps)

    def at(self, table: Value, tap: Value) -> Value:
        """table[tap]"""
        return self.b.load(table, tap, tap.type)


def _weights(tables: TapTables, source: Value, first: Value, lines: int) -> SliceSide:
    """Weights: a matrix, where those of each tap follow those of the one before."""
    p, w = tables.problem, tables.problem.weights
    bases = [w.bases[tap[2]] for tap in tables.core.taps]
    if all(base == number * p.depth * w.depth_stride for number, base in enumerate(bases)):
        return MatrixSide(
            tables.b, p.scalar, source, w.lane_stride, w.depth_stride, first, p.filters, lines, tables.steps
        )
    return TapSlices(tables, source, first, lines, all(base % CHUNK == 0 for base in bases))


@dataclass(frozen=True, slots=True)
class PixelSlices:
    """Pixels of images: a line is an output, a step is a tap and a channel."""

    tables: TapTables
    source: Value
    first: Value
    lines: int

    along_k = True

    @property
    def scalar(self) -> Scalar:
        """Of images."""
        return self.tables.problem.scalar

    @property
    def in_chunks(self) -> bool:
        """Whether channels of a pixel are chunks."""
        p = self.tables.problem
        return not any(size % CHUNK for size in (p.channels, p.group_channels, p.depth))

    def chunks(self, start: Value, places: Sequence[Place]) -> Iterator[tuple[Value, Value]]:
        """Where they are; all of a thread are of one tap."""
        b = self.tables.b
        step = self._step(start + places[0][1] * CHUNK)
        for row, _ in places:
            index, inside = self._element(self.first + row, step)
            yield index, b.choose(inside, b.constant(CHUNK), 0)

    def elements(self, start: Value, places: Sequence[Place]) -> Iterator[Sequence[tuple[Value, Value]]]:
        """Each of a tap of its own."""
        steps = [self._step(start + places[0][1] * CHUNK + number) for number in range(CHUNK)]
        for row, _ in places:
            yield [self._element(self.first + row, step) for step in steps]

    def _step(self, k: Value) -> tuple[Value, Value, Value, Value]:
        """Whether there is a step k, how far down and right it is, and how many elements behind a pixel's first."""
        t, b, p = self.tables, self.tables.b, self.tables.problem
        there = b.compare("<", k, t.steps)
        tap, channel = b.choose(there, k, 0) // p.depth, k % p.depth
        down, right = t.at(t.rows, tap), t.at(t.columns, tap)
        # A row of the window may be one run of channels, of several pixels.
        over = right + (channel // p.channels if p.depth > p.channels else 0)
        return there, down, over, right * p.channels + channel

    def _element(self, pixel: Value, step: tuple[Value, Value, Value, Value]) -> tuple[Value, Value]:
        """The index of an element, and whether it is inside."""
        b, p, core = self.tables.b, self.tables.problem, self.tables.core
        there, down, over, run = step
        rest = pixel // core.columns
        row = rest % core.rows * p.row_step + down - p.top
        corner = pixel % core.columns * p.column_step - p.left
        column = corner + over
        inside = b.both(b.compare(">=", row, 0), b.compare("<", row, p.height))
        inside = b.both(inside, b.both(b.compare(">=", column, 0), b.compare("<", column, p.width)))
        inside = b.both(inside, b.both(there, b.compare("<", pixel, p.batch * core.rows * core.columns)))
        index = ((rest // core.rows * p.height + row) * p.width + corner) * p.channels + run
        return b.choose(inside, index, 0), inside


@dataclass(frozen=True, slots=True)
class TapSlices:
    """Weights whose taps lie anywhere: a line is a filter, a step is a tap and a channel."""

    tables: TapTables
    source: Value
    first: Value
    lines: int
    even: bool

    @property
    def scalar(self) -> Scalar:
        """Of weights."""
        return self.tables.problem.scalar

    @property
    def along_k(self) -> bool:
        """Whether channels are what lies side by side."""
        return self.tables.problem.weights.lane_stride != 1

    @property
    def in_chunks(self) -> bool:
        """Whether what lies side by side is chunks."""
        p, w = self.tables.problem, self.tables.problem.weights
        within, apart, size = (
            (w.depth_stride, w.lane_stride, p.depth) if self.along_k else (1, w.depth_stride, p.filters)
        )
        return self.even and within == 1 and not any(each % CHUNK for each in (apart, size, w.group_stride))

    def chunks(self, start: Value, places: Sequence[Place]) -> Iterator[tuple[Value, Value]]:
        """Where they are, all or none of each."""
        for row, chunk in places:
            index, inside = self._element(*self._position(start, row, chunk, 0))
            yield index, self.tables.b.choose(inside, self.tables.b.constant(CHUNK), 0)

    def elements(self, start: Value, places: Sequence[Place]) -> Iterator[Sequence[tuple[Value, Value]]]:
        """One by one."""
        for row, chunk in places:
            yield [self._element(*self._position(start, row, chunk, number)) for number in range(CHUNK)]

    def _position(self, start: Value, row: Value, chunk: Value, number: int) -> tuple[Value, Value]:
        """The filter and the step of an element of a chunk."""
        if self.along_k:
            return self.first + row, start + chunk * CHUNK + number
        return self.first + row // ROWS * ROWS + chunk * CHUNK + number, start + row % STEPS

    def _element(self, line: Value, k: Value) -> tuple[Value, Value]:
        """Its index, and whether it is inside."""
        t, b, w = self.tables, self.tables.b, self.tables.problem.weights
        inside = b.both(b.compare("<", line, t.problem.filters), b.compare("<", k, t.steps))
        tap = b.choose(inside, k, 0) // t.problem.depth
        index = t.at(t.bases, tap) + k % t.problem.depth * w.depth_stride + line * w.lane_stride
        return b.choose(inside, index, 0), inside
