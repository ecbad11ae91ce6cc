"""Operators between ranks that share one computation: each has a block of a tensor along an axis, or a summand.

All of these ranks have the same loss, so that a gradient is that of one loss, not of a sum over ranks: Megatron's pairs
(Shoeybi et al. 2019).

    enter         y = x, the same on all, in front of what each computes in part; its gradient is a sum
    leave         y = x_0 + x_1 + … + x_(n-1), behind it; the gradient is passed on
    join_blocks   y = the blocks of all ranks along an axis; its gradient is our block
    own_block     y = our block of x, the same on all; its gradient is joined
    own_rows      which rows of our block of a table an index means
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.values.dtype import BOOL
from nnc.core.values.spec import TensorSpec
from nnc.errors import IndexRangeError
from nnc.graph import Op
from nnc.ops.composed.custom import Arrays, custom_operator
from nnc.ops.operand import apply
from nnc.ops.rules import Applied, Gradients, Inplace, NotDifferentiable, Specs, single
from nnc.parallel.collectives import REGISTRY, GroupAttrs
from nnc.parallel.mesh import RankGroup, joined

# `Any`: elements of any type.
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class RankBlockAttrs:
    """Among whom, along which axis, and the size of the whole there."""

    group: RankGroup
    axis: int
    size: int


# What a layer asks for: columns or rows of its products split, or the whole on each rank; "" leaves it to the pass.
SplitRequest: TypeAlias = Literal["", "column", "row", "whole"]


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """Along which axis a tensor is split among which ranks."""

    group: RankGroup
    axis: int

    def block(self, spec: TensorSpec) -> TensorSpec:
        """A rank's block of such a tensor."""
        length = block_size(spec.shape[self.axis], self.group.size)
        return replace(spec, shape=(*spec.shape[: self.axis], length, *spec.shape[self.axis + 1 :]))


def block_size(size: int, ranks: int) -> int:
    """How much of an axis each rank has; behind the end of the last block are zeros."""
    return -(-size // ranks)


def block_of(array: Array, axis: int, rank: int, ranks: int) -> Array:
    """The block of a rank, of its own memory."""
    length = block_size(array.shape[axis], ranks)
    block = np.zeros((*array.shape[:axis], length, *array.shape[axis + 1 :]), array.dtype)
    part = np.moveaxis(array, axis, 0)[rank * length : (rank + 1) * length]
    np.moveaxis(block, axis, 0)[: len(part)] = part
    return block


def joined_blocks(block: Array, axis: int, size: int, group: RankGroup) -> Array:
    """The whole of the blocks of all ranks of a group."""
    rows = np.moveaxis(block, axis, 0)
    return np.moveaxis(joined(group).all_gather(rows)[:size], 0, axis)


def _same(attrs: GroupAttrs, specs: Specs) -> Specs:
    return specs


def _whole(attrs: RankBlockAttrs, specs: Specs) -> Specs:
    shape = specs[0].shape
    return (replace(specs[0], shape=(*shape[: attrs.axis], attrs.size, *shape[attrs.axis + 1 :])),)


def _block(attrs: RankBlockAttrs, specs: Specs) -> Specs:
    shape, length = specs[0].shape, block_size(attrs.size, attrs.group.size)
    return (replace(specs[0], shape=(*shape[: attrs.axis], length, *shape[attrs.axis + 1 :])),)


def _rows(attrs: RankBlockAttrs, specs: Specs) -> Specs:
    return (specs[0], replace(specs[0], dtype=BOOL))


def _enter_kernel(attrs: GroupAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    np.copyto(outputs[0], inputs[0])  # type: ignore[arg-type]  # it is there


def _leave_kernel(attrs: GroupAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    (y,) = outputs
    np.copyto(y, inputs[0])  # type: ignore[arg-type]  # it is there
    if y.flags.c_contiguous:
        joined(attrs.group).allreduce_into(y)
    else:
        y[...] = joined(attrs.group).allreduce(y)


def _join_kernel(attrs: RankBlockAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    (x,) = inputs
    assert x is not None
    outputs[0][...] = joined_blocks(x, attrs.axis, attrs.size, attrs.group)


def _own_block_kernel(attrs: RankBlockAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    (x,) = inputs
    assert x is not None
    outputs[0][...] = block_of(x, attrs.axis, joined(attrs.group).rank, attrs.group.size)


def _own_rows_kernel(attrs: RankBlockAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    (index,) = inputs
    assert index is not None
    if index.size and not 0 <= index.min() <= index.max() < attrs.size:
        raise IndexRangeError("index_select", got="an index outside", need=f"0 ≤ index < {attrs.size}")
    length = block_size(attrs.size, attrs.group.size)
    first = joined(attrs.group).rank * length
    inside = (index >= first) & (index < first + length)
    outputs[0][...] = np.where(inside, index - first, 0)
    outputs[1][...] = inside


ENTER: Op[GroupAttrs] = custom_operator(
    "enter",
    GroupAttrs,
    infer=_same,
    kernel=_enter_kernel,
    gradient=lambda call, gradients: (apply(LEAVE, call.attrs, single(gradients)),),
    inplace=Inplace(allowed=((0, 0),)),
    registry=REGISTRY,
    doc="y = x; passes leave it out, once there are gradients",
)
LEAVE: Op[GroupAttrs] = custom_operator(
    "leave",
    GroupAttrs,
    infer=_same,
    kernel=_leave_kernel,
    gradient=lambda call, gradients: (apply(ENTER, call.attrs, single(gradients)),),
    inplace=Inplace(allowed=((0, 0),)),
    registry=REGISTRY,
    doc="y = x_0 + x_1 + … + x_(n-1), in this order",
)


def _join_gradient(call: Applied[RankBlockAttrs], gradients: Gradients) -> Gradients:
    return (apply(OWN_BLOCK, call.attrs, single(gradients)),)


def _own_block_gradient(call: Applied[RankBlockAttrs], gradients: Gradients) -> Gradients:
    return (apply(JOIN_BLOCKS, call.attrs, single(gradients)),)


JOIN_BLOCKS: Op[RankBlockAttrs] = custom_operator(
    "join_blocks",
    RankBlockAttrs,
    infer=_whole,
    kernel=_join_kernel,
    gradient=_join_gradient,
    registry=REGISTRY,
    doc="y = x_0, …, x_(n-1) along an axis, as much of it as the whole has",
)
OWN_BLOCK: Op[RankBlockAttrs] = custom_operator(
    "own_block",
    RankBlockAttrs,
    infer=_block,
    kernel=_own_block_kernel,
    gradient=_own_block_gradient,
    registry=REGISTRY,
    doc="y_r = block r of x along an axis, zeros behind its end",
)
OWN_ROWS: Op[RankBlockAttrs] = custom_operator(
    "own_rows",
    RankBlockAttrs,
    ("index",),
    ("own", "inside"),
    infer=_rows,
    kernel=_own_rows_kernel,
    gradient=NotDifferentiable("an index is an integer"),
    registry=REGISTRY,
    doc="own = index - r · k where that is a row of our block of k, else 0; inside: where it is",
)
