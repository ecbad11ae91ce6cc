"""Access to strided memory: element[i0, i1, ...] is at offset + sum_k i_k * stride_k, all counted in elements.

`collapse` merges neighbouring axes that every operand walks in one step, so that kernels see as few loops as possible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.codegen.ir.builder import Builder, Scalar, Value
from nnc.core.values.derived import Read, known

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StridedAccess:
    """One operand: its element type, a stride per axis of the iteration (0 where it is broadcast), and an offset."""

    scalar: Scalar
    strides: Shape
    offset: int = 0

    def opened(self, read: Read) -> StridedAccess:
        """With strides and an offset that are read, but for those that shape the code."""
        strides = tuple([stride if stride in (0, 1) else read(stride) for stride in self.strides])
        return StridedAccess(self.scalar, strides, read(self.offset) if self.offset else 0)


def is_scattered(operands: Sequence[Shape]) -> bool:
    """Whether elements of some operand that follow each other along its last axis are no neighbours in memory."""
    return any(strides[-1] not in (0, 1) for strides in operands)


def opened_iteration(
    shape: Shape, operands: Sequence[StridedAccess], read: Read
) -> tuple[Shape, tuple[StridedAccess, ...]]:
    """The same iteration with fewest axes, whose sizes, strides and offsets are read."""
    sizes, strides = collapse(shape, [operand.strides for operand in operands])
    merged = [replace(operand, strides=steps) for operand, steps in zip(operands, strides, strict=True)]
    return tuple(map(read, sizes)), tuple([operand.opened(read) for operand in merged])


def contiguous(shape: Sequence[int]) -> Shape:
    """Row-major strides: stride[i] = prod(shape[i + 1:])"""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def broadcast(shape: Sequence[int], strides: Sequence[int], rank: int) -> Shape:
    """Strides of an operand of `shape` inside an iteration of `rank` axes: 0 where its size is 1 or missing."""
    kept = [0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True)]
    return (*([0] * (rank - len(shape))), *kept)


def collapse(shape: Shape, operands: Sequence[Shape]) -> tuple[Shape, tuple[Shape, ...]]:
    """The same iteration with fewest axes; sizes that are read were merged before they were opened.

    >>> collapse((2, 3, 4), [(12, 4, 1), (0, 4, 1)])
    ((2, 12), ((12, 1), (0, 1)))
    """
    if not all(map(known, shape)):
        return shape, tuple(operands)
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    sizes: list[int] = []
    rows: list[list[int]] = []
    for axis in axes:
        steps = [strides[axis] for strides in operands]
        if sizes and all(outer == step * shape[axis] for outer, step in zip(rows[-1], steps, strict=True)):
            sizes[-1] *= shape[axis]
            rows[-1] = steps
        else:
            sizes.append(shape[axis])
            rows.append(steps)
    return tuple(sizes), tuple(tuple(row[index] for row in rows) for index in range(len(operands)))


def locate(b: Builder, index: Value, shape: Shape, operands: Sequence[Shape]) -> list[Value]:
    """For each operand the element offset of the row-major position `index` inside `shape`."""
    offsets = [b.constant(0) for _ in operands]
    most = math.prod(shape)
    for axis in range(len(shape) - 1, -1, -1):
        index, position = b.divided(index, shape[axis], most) if axis else (index, index)
        offsets = [offset + position * strides[axis] for offset, strides in zip(offsets, operands, strict=True)]
    return offsets
