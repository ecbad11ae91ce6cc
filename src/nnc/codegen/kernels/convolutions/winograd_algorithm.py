"""Winograd's minimal filtering, F(m x m, 3 x 3): y = A^T [(G g G^T) * (B^T d B)] A for a tile of m x m outputs.

d is the tile of (m + 2) x (m + 2) inputs that m x m outputs read, g a kernel of 3 x 3, and * multiplies elements. With
m = 4 a tile takes 36 products where the sum written out takes 144. A. Lavin and S. Gray, "Fast Algorithms for
Convolutional Neural Networks", 2016; the interpolation points are 0, 1, -1, 2, -2 and infinity.

The transforms add and subtract neighbouring elements: an infinity or NaN reaches all outputs of its tiles, and rounding
errors are those of sums about ten times as long.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnc.classes import dataclass
from nnc.codegen.ir.builder import Builder, Value

Matrix = tuple[tuple[float, ...], ...]
Grid = Sequence[Sequence[Value]]
TAPS = 3


@dataclass(frozen=True, slots=True)
class Algorithm:
    """The matrices B^T, G and A^T of F(m x m, 3 x 3)."""

    image: Matrix
    kernel: Matrix
    result: Matrix

    @property
    def outputs(self) -> int:
        """m: outputs of a tile along one axis."""
        return len(self.result)

    @property
    def inputs(self) -> int:
        """m + 2: inputs of a tile along one axis."""
        return len(self.image)

    @property
    def products(self) -> int:
        """Products of a tile."""
        return self.inputs * self.inputs


F2 = Algorithm(
    image=((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    kernel=((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
    result=((1, 1, 1, 0), (0, 1, -1, -1)),
)
F4 = Algorithm(
    image=(
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
    kernel=(
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
    result=((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
)
ALGORITHMS = {algorithm.outputs: algorithm for algorithm in (F2, F4)}


def transposed(matrix: Matrix) -> Matrix:
    """matrix^T"""
    return tuple(zip(*matrix, strict=True))


def instructions(matrix: Matrix) -> int:
    """About how many vector instructions `transform` and the loads and stores around it take."""
    rows, columns = len(matrix), len(matrix[0])
    terms = sum(factor != 0 for row in matrix for factor in row)
    return (rows + columns) * terms + columns * columns + rows * rows


def transform(b: Builder, matrix: Matrix, grid: Grid) -> list[list[Value]]:
    """matrix · grid · matrix^T"""
    columns = [multiply(b, matrix, column) for column in zip(*grid, strict=True)]
    return [multiply(b, matrix, row) for row in zip(*columns, strict=True)]


def multiply(b: Builder, matrix: Matrix, values: Sequence[Value]) -> list[Value]:
    """matrix · values. Two rows that differ in the signs of some columns alone share the sums of those and the rest."""
    rows: list[Value] = []
    shared: tuple[Value, Value] | None = None
    for index, row in enumerate(matrix):
        if shared is not None:
            rows.append(shared[0] - shared[1])
            shared = None
            continue
        following = matrix[index + 1] if index + 1 < len(matrix) else row
        same = [factor if factor == other else 0.0 for factor, other in zip(row, following, strict=True)]
        mirrored = [factor if factor == -other else 0.0 for factor, other in zip(row, following, strict=True)]
        covered = all(factor in (s, m) for factor, s, m in zip(row, same, mirrored, strict=True))
        if any(same) and any(mirrored) and covered:
            shared = _sum(b, same, values), _sum(b, mirrored, values)
            rows.append(shared[0] + shared[1])
        else:
            rows.append(_sum(b, row, values))
    return rows


def _sum(b: Builder, factors: Sequence[float], values: Sequence[Value]) -> Value:
    """sum of factors · values; a factor of 1 comes first, so that nothing is multiplied for it."""
    terms = sorted(((f, v) for f, v in zip(factors, values, strict=True) if f), key=lambda term: term[0] != 1)
    (first, start), *rest = terms
    total = start if first == 1 else start * first
    for factor, value in rest:
        if factor == 1:
            total = total + value
        elif factor == -1:
            total = total - value
        else:
            total = b.fma(value, factor, total)
    return total
