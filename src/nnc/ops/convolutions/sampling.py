"""Samples between the positions of a grid, made of other operators: gradients of any order to values and to places.

    y[n, o…, c] = sum over taps of weight · x[n, place…, c];  along each axis, taps and weights of a position p:

    nearest   round(p), halves to even                      1
    linear    floor(p), floor(p) + 1                        1 - r, r;  r = p - floor(p)
    cubic     floor(p) - 1 … floor(p) + 2                   of distance d, with a = -3/4:
              ((a + 2) · d - (a + 3)) · d² + 1 for d ≤ 1, a · (((d - 5) · d + 8) · d - 4) for d < 2, else 0

A unit u from -1 to 1 spans an axis of size s: p = (u + 1) · (s - 1) / 2 where corners are aligned, else
p = ((u + 1) · s - 1) / 2. Outside of x a tap counts as 0, or is at the border, or at the mirrored place.
"""

from __future__ import annotations

import math
from itertools import product

from nnc.core.values.dtype import F32, F64, I64
from nnc.errors import AttributeValueError, ShapeError
from nnc.ops.elementwise.pointwise import (
    abs,
    add,
    affine,
    cast,
    clamp,
    divide,
    equal,
    floor,
    greater_equal,
    less_equal,
    logical_and,
    multiply,
    round,
    subtract,
    where,
)
from nnc.ops.indexing.indexing import index_select
from nnc.ops.movement.broadcast import reshape
from nnc.ops.movement.fill import scalar_like
from nnc.ops.movement.generate import arange_like
from nnc.ops.movement.movement import slice_axis
from nnc.ops.operand import T

__all__ = ["grid_sample"]

MODES = ("nearest", "linear", "cubic")
PADDINGS = ("zeros", "border", "reflection")
CUBIC = -0.75


def grid_sample(x: T, grid: T, mode: str = "linear", padding: str = "zeros", *, align_corners: bool = False) -> T:
    """x[n, s…, c] at the places grid[n, o…, :], whose last axis counts from the innermost axis of `x` outwards."""
    rank, sizes, outputs = x.spec.rank, x.shape[1:-1], grid.shape[1:-1]
    if mode not in MODES or padding not in PADDINGS:
        got, need = f"mode={mode!r}, padding={padding!r}", f"one of {' '.join(MODES)}; one of {' '.join(PADDINGS)}"
        raise AttributeValueError("grid_sample", got=got, need=need)
    if rank < 3 or grid.spec.rank < 2 or grid.shape[0] != x.shape[0] or grid.shape[-1] != rank - 2 or 0 in sizes:
        got, need = f"x={x.spec}, grid={grid.spec}", "x[n, s…, c] of no size 0 inside, grid[n, o…, number of s]"
        raise ShapeError("grid_sample", got=got, need=need)
    unit = cast(grid, F64 if F64 in (x.spec.dtype, grid.spec.dtype) else F32)
    axes = []
    for place, size in enumerate(sizes):
        last = len(sizes) - 1 - place
        along = reshape(slice_axis(unit, grid.spec.rank - 1, last, last + 1), (x.shape[0], math.prod(outputs)))
        span, shift = (size - 1, 0.0) if align_corners else (size, -0.5)
        position = affine(along, span / 2, span / 2 + shift)
        axes.append([_padded(*tap, size, padding, corners=align_corners) for tap in _taps(position, mode)])
    return reshape(_sum(x, axes), (x.shape[0], *outputs, x.shape[-1]))


def _taps(position: T, mode: str) -> list[tuple[T, T | None]]:
    """Places along an axis, as whole floats, and their weights (None for 1)."""
    if mode == "nearest":
        return [(round(position), None)]
    base = floor(position)
    rest = subtract(position, base)
    if mode == "linear":
        return [(base, affine(rest, -1.0, 1.0)), (affine(base, 1.0, 1.0), rest)]
    return [(affine(base, 1.0, shift), _cubic(abs(affine(rest, 1.0, -shift)))) for shift in (-1.0, 0.0, 1.0, 2.0)]


def _cubic(d: T) -> T:
    near = affine(multiply(multiply(affine(d, CUBIC + 2, -(CUBIC + 3)), d), d), 1.0, 1.0)
    far = affine(multiply(affine(multiply(affine(d, 1.0, -5.0), d), 1.0, 8.0), d), CUBIC, -4.0 * CUBIC)
    zero, unit, two = (scalar_like(d, value) for value in (0.0, 1.0, 2.0))
    # In this order what is not a number stays so.
    return where(greater_equal(d, two), zero, where(less_equal(d, unit), near, far))


def _padded(place: T, weight: T | None, size: int, padding: str, *, corners: bool) -> tuple[T, T | None]:
    """A place inside the axis; outside it the weight is 0, or the place is that of the border or of the mirror."""
    if padding == "zeros":
        first, last = scalar_like(place, 0.0), scalar_like(place, size - 1.0)
        kept = cast(logical_and(greater_equal(place, first), less_equal(place, last)), place.spec.dtype)
        weight = kept if weight is None else multiply(weight, kept)
    elif padding == "reflection":
        low, span = (0.0, size - 1.0) if corners else (-0.5, float(size))
        place = _mirrored(place, low, span) if span else place
    return clamp(place, 0.0, size - 1.0), weight


def _mirrored(place: T, low: float, span: float) -> T:
    """The place between low and low + span that a place meets after mirrors at both ends."""
    away = abs(affine(place, 1.0, -low))
    turns = floor(divide(away, scalar_like(away, span)))
    rest = subtract(away, affine(turns, span))
    odd = equal(subtract(turns, affine(floor(affine(turns, 0.5)), 2.0)), scalar_like(turns, 1.0))
    return round(affine(where(odd, affine(rest, -1.0, span), rest), 1.0, low))


def _sum(x: T, axes: list[list[tuple[T, T | None]]]) -> T:
    """Rows [n, o, c] of x at all combinations of taps, each with the product of its weights."""
    count, sizes = math.prod(x.shape[1:-1]), x.shape[1:-1]
    rows = reshape(x, (x.shape[0] * count, x.shape[-1]))
    first = affine(reshape(arange_like(x, x.shape[0], dtype=I64), (x.shape[0], 1)), count)
    terms = []
    for taps in product(*axes):
        index, weight = None, None
        for (place, factor), size in zip(taps, sizes, strict=True):
            whole = cast(place, I64)
            index = whole if index is None else add(affine(index, size), whole)
            weight = factor if weight is None else weight if factor is None else multiply(weight, factor)
        assert index is not None
        value = index_select(rows, add(index, first))
        if weight is not None:
            value = multiply(value, cast(reshape(weight, (*weight.shape, 1)), x.spec.dtype))
        terms.append(value)
    total = terms[0]
    for term in terms[1:]:
        total = add(total, term)
    return total
