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
from nnc.ops.rules import Inplace, NotDifferentiable, Specs
from nnc.parallel.collectives import REGISTRY, GroupAttrs, rank_kernel, transposed_gradient
from nnc.parallel.mesh import RankGroup, joined
from nnc.parallel.tensor_shards import block_of, shard_size

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
    """Along which axis a tensor is split among which ranks; behind the end of the last block are zeros."""

    group: RankGroup
    axis: int

    def block(self, spec: TensorSpec) -> TensorSpec:
        """A rank's block of such a tensor."""
        length = shard_size(spec.shape[self.axis], self.group.size)
        return replace(spec, shape=(*spec.shape[: self.axis], length, *spec.shape[self.axis + 1 :]))


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
    return (BlockPlace(attrs.group, attrs.axis).block(specs[0]),)


def _rows(attrs: RankBlockAttrs, specs: Specs) -> Specs:
    return (specs[0], replace(specs[0], dtype=BOOL))


def _enter_kernel(attrs: GroupAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    (x,) = inputs
    assert x is not None
    np.copyto(outputs[0], x)


def _leave_kernel(attrs: GroupAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    (x,), (y,) = inputs, outputs
    assert x is not None
    np.copyto(y, x)
    if y.flags.c_contiguous:
        joined(attrs.group).allreduce_into(y)
    else:
        y[...] = joined(attrs.group).allreduce(y)


def _own_rows_kernel(attrs: RankBlockAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    (index,) = inputs
    assert index is not None
    if index.size and not 0 <= index.min() <= index.max() < attrs.size:
        raise IndexRangeError("index_select", got="an index outside", need=f"0 ≤ index < {attrs.size}")
    length = shard_size(attrs.size, attrs.group.size)
    first = joined(attrs.group).rank * length
    inside = (index >= first) & (index < first + length)
    outputs[0][...] = np.where(inside, index - first, 0)
    outputs[1][...] = inside


ENTER: Op[GroupAttrs] = custom_operator(
    "enter",
    GroupAttrs,
    infer=_same,
    kernel=_enter_kernel,
    gradient=transposed_gradient(lambda: LEAVE),
    inplace=Inplace(allowed=((0, 0),)),
    registry=REGISTRY,
    doc="y = x; passes leave it out, once there are gradients",
)
LEAVE: Op[GroupAttrs] = custom_operator(
    "leave",
    GroupAttrs,
    infer=_same,
    kernel=_leave_kernel,
    gradient=transposed_gradient(lambda: ENTER),
    inplace=Inplace(allowed=((0, 0),)),
    registry=REGISTRY,
    doc="y = x_0 + x_1 + … + x_(n-1), in this order",
)
JOIN_BLOCKS: Op[RankBlockAttrs] = custom_operator(
    "join_blocks",
    RankBlockAttrs,
    infer=_whole,
    kernel=rank_kernel(lambda _, attrs, x: joined_blocks(x, attrs.axis, attrs.size, attrs.group)),
    gradient=transposed_gradient(lambda: OWN_BLOCK),
    registry=REGISTRY,
    doc="y = x_0, …, x_(n-1) along an axis, as much of it as the whole has",
)
OWN_BLOCK: Op[RankBlockAttrs] = custom_operator(
    "own_block",
    RankBlockAttrs,
    infer=_block,
    kernel=rank_kernel(lambda ranks, attrs, x: block_of(x, attrs.axis, ranks.rank, ranks.size)),
    gradient=transposed_gradient(lambda: JOIN_BLOCKS),
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
