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
from nnc.codegen.device.groups.tap_tables import TapStep, TapTables
from nnc.codegen.device.warpgroups import ROWS
from nnc.codegen.frame.epilogue import Epilogue
from nnc.codegen.frame.kernel import PhaseWriter, ceiling, phase
from nnc.codegen.frame.tile import nanoseconds
from nnc.codegen.ir.builder import BF16, F16, Module, Scalar, Value
from nnc.codegen.ir.native_kernel import Phase
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
        b, p, form = w.b, self.problem, self.form
        image = b.offset(w.argument(0), group * p.group_channels, p.scalar)
        weights = b.offset(w.argument(1), group * p.weights.group_stride, p.scalar)
        first = group * p.filters

        sides: tuple[SliceSide, SliceSide] = (
            PixelSlices(tables, image, corner[0], form.height),
            _weights(tables, weights, corner[1], form.width),
        )
        results = ResultWriter(
            p.bias, self.epilogue, p.scalar, p.work, w, w.argument(ResultWriter.position(p.bias, self.epilogue))
        )
        target = TileTarget(*corner, tables.pixels, p.filters, lambda pixel: tables.result(pixel) + first, first)
        MatrixSums(results, form, tables.steps).write(sides, target)


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
        step = self.tables.step(start + places[0][1] * CHUNK)
        for row, _ in places:
            index, inside = self._element(self.first + row, step)
            yield index, b.choose(inside, b.constant(CHUNK), 0)

    def elements(self, start: Value, places: Sequence[Place]) -> Iterator[Sequence[tuple[Value, Value]]]:
        """Each of a tap of its own."""
        steps = [self.tables.step(start + places[0][1] * CHUNK + number) for number in range(CHUNK)]
        for row, _ in places:
            yield [self._element(self.first + row, step) for step in steps]

    def _element(self, pixel: Value, step: TapStep) -> tuple[Value, Value]:
        """Its index, and whether it is inside."""
        index, inside = self.tables.pixel(pixel, step)
        return self.tables.b.choose(inside, index, 0), inside


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
        index, inside = self.tables.weight(line, k)
        return self.tables.b.choose(inside, index, 0), inside
