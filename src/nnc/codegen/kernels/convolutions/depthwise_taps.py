"""Which taps of a depthwise convolution are inside the image, and where their loops read weights.

spans(problem, core)          the rows and the columns of a core
rectangles(problem, target)   where taps are loops rather than written out
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from nnc.classes import dataclass
from nnc.codegen.frame.kernel import ceiling
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.convolutions.correlation_plan import Core, CorrelationProblem

# Borders up to this many outputs wide are written out.
MOST_BORDER = 2

Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Span:
    """One axis of a core: outputs `count`, taps at `offsets`, `step` inputs from one output to the next."""

    count: int
    offsets: tuple[int, ...]
    step: int
    before: int
    size: int

    def inside(self, output: int) -> frozenset[int]:
        """The offsets whose inputs are in the image."""
        start = output * self.step - self.before
        return frozenset(offset for offset in self.offsets if 0 <= start + offset < self.size)

    @property
    def interior(self) -> Pair:
        """Outputs [first, last) all of whose taps are inside."""
        low, high = min(self.offsets, default=0), max(self.offsets, default=0)
        first = min(max(0, ceiling(self.before - low, self.step)), self.count)
        last = min(self.count, (self.size - 1 + self.before - high) // self.step + 1)
        return first, max(first, last)

    @property
    def outside(self) -> list[int]:
        """All other outputs, of which there are few: how many is a matter of the code, which they are is not."""
        first, last = self.interior
        return [*range(first), *(last + number for number in range(self.count - last))]


def spans(problem: CorrelationProblem, core: Core) -> tuple[Span, Span]:
    """The rows and the columns of a core."""
    p = problem
    down, right = (tuple(sorted({tap[axis] for tap in core.taps})) for axis in (0, 1))
    return (
        Span(core.rows, down, p.row_step, p.top, p.height),
        Span(core.columns, right, p.column_step, p.left, p.width),
    )


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Taps of rows x columns with even steps; that of number (i, j) has weights at `base` + i * down + j * across."""

    base: int
    down: int
    across: int

    @classmethod
    def of(cls, problem: CorrelationProblem, core: Core) -> Rectangle | None:
        """That of a core; None where its taps, or their weights, are no such rectangle."""
        rows, columns = (span.offsets for span in spans(problem, core))
        bases = {tap[:2]: problem.weights.bases[tap[2]] for tap in core.taps}
        if problem.depth > 1 or not bases or len(bases) != len(rows) * len(columns):
            return None
        down = step_of([bases[row, columns[0]] for row in rows])
        across = step_of([bases[rows[0], column] for column in columns])
        made = cls(bases[rows[0], columns[0]], down, across)
        expected = {
            (row, column): made.base + i * down + j * across
            for i, row in enumerate(rows)
            for j, column in enumerate(columns)
        }
        return made if bases == expected and _is_even(rows) and _is_even(columns) else None


def step_of(numbers: Sequence[int]) -> int:
    """From the first number to the second; 1 where there is no second."""
    return numbers[1] - numbers[0] if len(numbers) > 1 else 1


def _is_even(numbers: Sequence[int]) -> bool:
    return all(second - first == step_of(numbers) for first, second in pairwise(numbers))


def rectangles(problem: CorrelationProblem, target: TargetDescription) -> list[Rectangle]:
    """Those of all cores where taps are loops, as code is small; none where taps are written out."""
    if not target.small or problem.work != problem.scalar:
        return []
    made = [Rectangle.of(problem, core) for core in problem.cores]
    return [rectangle for rectangle in made if rectangle is not None] if None not in made else []


def is_direct(problem: CorrelationProblem, target: TargetDescription) -> bool:
    """True when the image is read where it is."""
    if rectangles(problem, target):
        return True
    borders = [
        max(span.interior[0], span.count - span.interior[1]) for core in problem.cores for span in spans(problem, core)
    ]
    return problem.work == problem.scalar and max(borders, default=0) <= MOST_BORDER
