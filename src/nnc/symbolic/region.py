"""Regions: the set of elements that an alias covers, whether two of them meet, and whether some cover another.

region = { offset + sum(index[k] · strides[k]) : 0 ≤ index[k] < shape[k] }
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from nnc.classes import dataclass
from nnc.core.values.spec import Shape

# Above this many elements the exact test of strided regions gives way to the test of their bounds.
EXACT_LIMIT = 1 << 16


@dataclass(frozen=True, slots=True)
class Region:
    """Offset, shape and strides, in elements of the root."""

    shape: Shape
    offset: int
    strides: Shape

    def bounds(self) -> tuple[int, int]:
        """[first, last) element touched; an empty region touches none."""
        if 0 in self.shape:
            return (self.offset, self.offset)
        reach = [(size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)]
        return (
            self.offset + sum(step for step in reach if step < 0),
            self.offset + sum(step for step in reach if step > 0) + 1,
        )

    def inside(self, elements: int) -> bool:
        """True when there is a stride per axis and every element is in 0 ≤ element < elements."""
        if len(self.shape) != len(self.strides):
            return False
        first, last = self.bounds()
        return first >= 0 and last <= max(elements, first)

    def is_injective(self) -> bool:
        """True when no element is named twice: sure for strides in order of size, by enumeration for small regions."""
        steps = sorted((abs(stride), size) for size, stride in zip(self.shape, self.strides, strict=True) if size != 1)
        reach = 0
        for stride, size in steps:
            if stride <= reach:
                return math.prod(self.shape) <= EXACT_LIMIT and len(self.elements()) == math.prod(self.shape)
            reach += stride * (size - 1)
        return True

    def elements(self) -> set[int]:
        """Every element, enumerated."""
        offsets = {self.offset}
        for size, stride in zip(self.shape, self.strides, strict=True):
            offsets = {base + index * stride for base in offsets for index in range(size)}
        return offsets


def overlaps(region: Region, other: Region) -> bool:
    """True when the regions share an element.

    Exact when the bounds are disjoint, when both are boxes of one grid, or when they are small; otherwise the
    answer is the safe one, True.

    >>> overlaps(Region((2, 2), 0, (4, 1)), Region((2, 2), 2, (4, 1)))
    False
    """
    (first, last), (start, stop) = region.bounds(), other.bounds()
    if last <= start or stop <= first or 0 in region.shape or 0 in other.shape:
        return False
    if region.strides == other.strides and _is_grid(region.strides):
        sides, others = _box(region), _box(other)
        if sides and others:
            return all(a < d and c < b for (a, b), (c, d) in zip(sides, others, strict=True))
    if last - first > EXACT_LIMIT or stop - start > EXACT_LIMIT:
        return True
    boxes = _boxes((region, other))
    if boxes is not None:
        return all(a < d and c < b for (a, b), (c, d) in zip(*boxes, strict=True))
    return not region.elements().isdisjoint(other.elements())


def covers(parts: Sequence[Region], whole: Region) -> bool:
    """True when every element of `whole` is in one of `parts`, which are disjoint.

    Exact where all are boxes of one grid, or small; otherwise the answer is the safe one, False.

    >>> covers([Region((2,), 0, (1,)), Region((3,), 2, (1,))], Region((4,), 1, (1,)))
    True
    """
    boxes = [_box(region) if _is_grid(region.strides) else () for region in (whole, *parts)]
    if all(boxes) and all(part.strides == whole.strides for part in parts):
        met = sum(
            math.prod(_common(value, other) for value, other in zip(boxes[0], box, strict=True)) for box in boxes[1:]
        )
        return met == math.prod(stop - start for start, stop in boxes[0])
    if any(math.prod(region.shape) > EXACT_LIMIT for region in (whole, *parts)):
        return False
    split = _boxes((whole, *parts))
    if split is not None:
        return sum(math.prod(map(_common, split[0], box)) for box in split[1:]) == math.prod(b - a for a, b in split[0])
    return whole.elements() <= set().union(*(part.elements() for part in parts))


def _boxes(regions: Sequence[Region]) -> list[tuple[tuple[int, int], ...]] | None:
    """The regions as boxes of one grid, whose strides are those of all of them; None where there is no such grid."""
    grid: list[int] = []
    for step in (1, *(step for region in regions for size, step in zip(region.shape, region.strides) if size != 1)):
        # By comparing: steps may follow from sizes, which are no keys (`nnc.core.values.sizes`).
        if step not in grid:
            grid.append(step)
    grid.sort(reverse=True)
    if not _is_grid(grid) or any(0 in region.shape for region in regions):
        return None
    boxes = [_box(placed) for region in regions if (placed := _placed(region, grid)) is not None]
    return boxes if len(boxes) == len(regions) and all(boxes) else None


def _placed(region: Region, grid: Sequence[int]) -> Region | None:
    """The region with the strides of a grid: an axis that runs through some of its steps is cut into these."""
    sizes = [1] * len(grid)
    for size, step in zip(region.shape, region.strides, strict=True):
        for place, coarse in enumerate(grid):
            if size == 1:
                break
            count, left = divmod(size * step, coarse)
            if coarse == step or (coarse > step and count > 1 and not left):
                if sizes[place] != 1:
                    return None
                sizes[place], size = count, coarse // step  # what is left of the axis
                if coarse == step:
                    break
    return Region(tuple(sizes), region.offset, tuple(grid))


def _common(first: tuple[int, int], other: tuple[int, int]) -> int:
    """How many whole numbers two half-open ranges share."""
    return max(min(first[1], other[1]) - max(first[0], other[0]), 0)


def _is_grid(strides: Sequence[int]) -> bool:
    """Row-major strides: positive, each a multiple of the next."""
    return all(step > 0 for step in strides) and all(a % b == 0 for a, b in pairwise(strides))


def _box(region: Region) -> tuple[tuple[int, int], ...]:
    """The region as a box of the grid with its strides: [start, stop) per axis, and where in a cell of the grid.

    Empty where a row runs over into the next one, so that the region is no box.
    """
    rest, limit, sides = region.offset, math.inf, []
    for size, stride in zip(region.shape, region.strides, strict=True):
        start, rest = divmod(rest, stride)
        if (start + size) * stride > limit:
            return ()
        sides.append((start, start + size))
        limit = stride
    return (*sides, (rest, rest + 1))
