"""Regions: the set of elements that an alias covers, and whether two of them meet.

region = { offset + sum(index[k] · strides[k]) : 0 ≤ index[k] < shape[k] }
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from nnc.core.spec import Shape

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
        """True when every element is in 0 ≤ element < elements."""
        first, last = self.bounds()
        return len(self.shape) == len(self.strides) and first >= 0 and last <= max(elements, first)

    def elements(self) -> set[int]:
        """Every element, enumerated."""
        found = {self.offset}
        for size, stride in zip(self.shape, self.strides, strict=True):
            found = {base + index * stride for base in found for index in range(size)}
        return found


def overlaps(one: Region, other: Region) -> bool:
    """True when the regions share an element.

    Exact when the bounds are disjoint, when both are boxes of one grid, or when they are small; otherwise the
    answer is the safe one, True.

    >>> overlaps(Region((2, 2), 0, (4, 1)), Region((2, 2), 2, (4, 1)))
    False
    """
    (first, last), (start, stop) = one.bounds(), other.bounds()
    if last <= start or stop <= first or 0 in one.shape or 0 in other.shape:
        return False
    if one.strides == other.strides and _is_grid(one.strides):
        return _boxes_meet(one, other)
    if last - first > EXACT_LIMIT or stop - start > EXACT_LIMIT:
        return True
    return not one.elements().isdisjoint(other.elements())


def _is_grid(strides: Shape) -> bool:
    """Row-major strides: positive, each a multiple of the next."""
    return all(step > 0 for step in strides) and all(a % b == 0 for a, b in pairwise(strides))


def _boxes_meet(one: Region, other: Region) -> bool:
    """Both regions as boxes of the grid with their common strides: they meet when they meet on every axis."""
    first, second = one.offset, other.offset
    for axis, stride in enumerate(one.strides):
        a, first = divmod(first, stride)
        b, second = divmod(second, stride)
        if a + one.shape[axis] <= b or b + other.shape[axis] <= a:
            return False
    return True
