"""Taps of a convolution in tables: where elements of images, weights and results are.

image[pixel + tap, channel]    w[tap, channel, filter]    y[pixel], k = (tap, channel) is a step of the sum
"""

from __future__ import annotations

from nnc.classes import dataclass
from nnc.codegen.ir.builder import Builder, Value
from nnc.codegen.kernels.convolutions.correlation_plan import Core, CorrelationProblem


@dataclass(frozen=True, slots=True)
class TapStep:
    """A step: whether it is one, how far down and right it is, and how many elements behind a pixel's first."""

    inside: Value
    down: Value
    right: Value
    run: Value


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

    @property
    def pixels(self) -> int:
        """Of all images."""
        return self.problem.batch * self.core.rows * self.core.columns

    def _at(self, table: Value, tap: Value) -> Value:
        return self.b.load(table, tap, tap.type)

    def step(self, k: Value) -> TapStep:
        """Where a step is; of one that is none, in some tap."""
        b, p = self.b, self.problem
        inside = b.compare("<", k, self.steps)
        tap, channel = b.choose(inside, k, 0) // p.depth, k % p.depth
        down, right = self._at(self.rows, tap), self._at(self.columns, tap)
        # A row of the window may be one run of channels, of several pixels.
        over = right + (channel // p.channels if p.depth > p.channels else 0)
        return TapStep(inside, down, over, right * p.channels + channel)

    def pixel(self, pixel: Value, step: TapStep) -> tuple[Value, Value]:
        """The index of an element of images, and whether it is inside."""
        b, p, core = self.b, self.problem, self.core
        rest = pixel // core.columns
        row = rest % core.rows * p.row_step + step.down - p.top
        corner = pixel % core.columns * p.column_step - p.left
        column = corner + step.right
        inside = b.both(b.compare(">=", row, 0), b.compare("<", row, p.height))
        inside = b.both(inside, b.both(b.compare(">=", column, 0), b.compare("<", column, p.width)))
        inside = b.both(inside, b.both(step.inside, b.compare("<", pixel, self.pixels)))
        return ((rest // core.rows * p.height + row) * p.width + corner) * p.channels + step.run, inside

    def weight(self, filter_: Value, k: Value) -> tuple[Value, Value]:
        """The index of a weight, and whether it is inside."""
        b, p, w = self.b, self.problem, self.problem.weights
        inside = b.both(b.compare("<", filter_, p.filters), b.compare("<", k, self.steps))
        tap = b.choose(inside, k, 0) // p.depth
        return self._at(self.bases, tap) + k % p.depth * w.depth_stride + filter_ * w.lane_stride, inside

    def result(self, pixel: Value) -> Value:
        """Where the results of a pixel begin."""
        core, p = self.core, self.problem
        rest = pixel // core.columns
        image, row, column = rest // core.rows, rest % core.rows, pixel % core.columns
        return image * p.y_image + row * p.y_row + column * p.y_column + core.start
