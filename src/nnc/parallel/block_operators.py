"""Operators between ranks that share one computation: each has a block of a tensor along an axis, or a summand.

All of these ranks have the same loss, so that a gradient is that of one loss, not of a sum over ranks: Megatron's pairs
(Shoeybi et al. 2019).

    enter         y = x, the same on all, in front of what each computes in part; its gradient is a sum
    leave         y = x_0 + x_1 + … + x_(n-1), behind it; the gradient is passed on
    join_blocks   y = the blocks of all ranks along an axis; its gradient is our block
    own_block     y = our block of x, the same on all; its gradient is joined
    own_rows      which rows of our block of a table an index means

Of rows whose columns are split, as those of logits over a vocabulary:

    inside_block    which elements of our block are the whole's, and no filling behind its end
    join_logsums    y = ln (e^x_0 + … + e^x_(n-1)), of the logarithms of sums that each rank has of its columns
    first_largest   where the largest element of a row is, of where each rank has its own
    own_labels      which column of our block a label means
    label_loss      y = loss; its gradient by x is that of a cross entropy
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.values.dtype import BOOL, I32, I64
from nnc.core.values.spec import TensorSpec
from nnc.errors import IndexRangeError
from nnc.graph import Op
from nnc.ops.composed.custom import Arrays, custom_operator
from nnc.ops.elementwise.pointwise import exp, greater_equal, multiply, subtract, where
from nnc.ops.indexing.indexing import gather, scatter
from nnc.ops.movement.broadcast import reshape
from nnc.ops.movement.fill import scalar_like
from nnc.ops.normalization.softmaxes import broadcast_rows
from nnc.ops.rules import Applied, Gradients, Inplace, NoAttrs, NotDifferentiable, Specs, single
from nnc.parallel.collectives import REGISTRY, GroupAttrs, rank_kernel, transposed_gradient
from nnc.parallel.mesh import RankGroup, joined
from nnc.parallel.tensor_shards import block_of, in_parts, shard_size

# `Any`: elements of any type.
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class RankBlockAttrs:
    """Among whom, along which axis, and the size of the whole there; in how many parts (`BlockPlace`)."""

    group: RankGroup
    axis: int
    size: int
    parts: int = 1


# What a layer asks for: columns or rows of its products split, or the whole on each rank; "" leaves it to the pass.
SplitRequest: TypeAlias = Literal["", "column", "row", "whole"]


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """Along which axis a tensor is split among which ranks; behind the end of the last block are zeros.

    An axis may be several equal `parts`, such as the queries, keys and values of one weight: a rank has its block of
    each part, one behind the other.

    >>> BlockPlace(RankGroup(2), 0, parts=3).cut(np.arange(12), 1)
    array([ 2,  3,  6,  7, 10, 11])
    """

    group: RankGroup
    axis: int
    parts: int = 1

    def block(self, spec: TensorSpec) -> TensorSpec:
        """A rank's block of such a tensor."""
        length = self.parts * shard_size(spec.shape[self.axis] // self.parts, self.group.size)
        return replace(spec, shape=(*spec.shape[: self.axis], length, *spec.shape[self.axis + 1 :]))

    def cut(self, whole: Array, rank: int) -> Array:
        """A rank's block, of its own memory."""
        return block_of(whole, self.axis, rank, self.group.size, self.parts)

    def whole(self, blocks: Sequence[Array], size: int) -> Array:
        """The tensor of all ranks' blocks, whose axis has this size."""
        axis, first = self.axis + 1, blocks[0]
        inner = [block.reshape(in_parts(block.shape, self.axis, self.parts)) for block in blocks]
        whole = np.moveaxis(np.moveaxis(np.concatenate(inner, axis), axis, 0)[: size // self.parts], 0, axis)
        return whole.reshape(*first.shape[: self.axis], size, *first.shape[self.axis + 1 :])


def joined_blocks(block: Array, place: BlockPlace, size: int) -> Array:
    """The whole of the blocks of all ranks of a group."""
    return place.whole([*joined(place.group).all_gather(block[None])], size)


def _place_of(attrs: RankBlockAttrs) -> BlockPlace:
    return BlockPlace(attrs.group, attrs.axis, attrs.parts)


def _same(attrs: GroupAttrs, specs: Specs) -> Specs:
    return specs


def _whole(attrs: RankBlockAttrs, specs: Specs) -> Specs:
    shape = specs[0].shape
    return (replace(specs[0], shape=(*shape[: attrs.axis], attrs.size, *shape[attrs.axis + 1 :])),)


def _block(attrs: RankBlockAttrs, specs: Specs) -> Specs:
    return (_place_of(attrs).block(specs[0]),)


def _rows(attrs: RankBlockAttrs, specs: Specs) -> Specs:
    return (specs[0], replace(specs[0], dtype=BOOL))


def _inside(attrs: RankBlockAttrs, specs: Specs) -> Specs:
    return (TensorSpec((shard_size(attrs.size, attrs.group.size),), BOOL),)


def _labels(attrs: RankBlockAttrs, specs: Specs) -> Specs:
    return (replace(specs[0], dtype=I32), replace(specs[0], dtype=BOOL))


def _place(attrs: RankBlockAttrs, specs: Specs) -> Specs:
    return (replace(specs[1], dtype=I64),)


def _loss(attrs: NoAttrs, specs: Specs) -> Specs:
    return specs[:1]


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


def _inside_kernel(attrs: RankBlockAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    (y,) = outputs
    y[...] = joined(attrs.group).rank * len(y) + np.arange(len(y)) < attrs.size


def _joined_logsums(x: Array, group: RankGroup) -> Array:
    """The largest is taken off first; of ranks that have nothing alone it is nothing."""
    rows = joined(group).all_gather(x[None])
    largest = rows.max(0)
    shift = np.where(np.isneginf(largest), 0, largest)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(np.exp(rows - shift).sum(0)) + shift)


def _logsums_gradient(call: Applied[GroupAttrs], gradients: Gradients) -> Gradients:
    """x_r' = g · e^(x_r - y)"""
    return (multiply(single(gradients), exp(subtract(call.inputs[0], call.outputs[0]))),)


def _first_largest_kernel(attrs: RankBlockAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    value, index = inputs
    assert value is not None
    assert index is not None
    ranks = joined(attrs.group)
    # As f64: of all floats, and of indices below 2^53.
    whole = index + ranks.rank * shard_size(attrs.size, attrs.group.size)
    pairs = ranks.all_gather(np.stack([value.astype(np.float64), whole.astype(np.float64)])[None])
    first = pairs[:, 0].argmax(0)
    outputs[0][...] = np.take_along_axis(pairs[:, 1], first[None], 0)[0]


def _own_labels_kernel(attrs: RankBlockAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    (label,) = inputs
    assert label is not None
    length = shard_size(attrs.size, attrs.group.size)
    known = (label >= 0) & (label < attrs.size)
    own = np.where(known, label, 0).astype(np.int64) - joined(attrs.group).rank * length
    outputs[0][...] = np.where(known & (own >= 0) & (own < length), own, -1)
    outputs[1][...] = known


def _label_loss_kernel(attrs: NoAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    (loss, *_), (y,) = inputs, outputs
    assert loss is not None
    np.copyto(y, loss)


def _label_loss_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    """x' = g · (p - [c == label]), all that there is of our columns: g is taken off in one place of each row."""
    _, _, probability, label = call.inputs
    g, mine = single(gradients), greater_equal(label, scalar_like(label, 0))
    own = reshape(where(mine, label, scalar_like(label, 0)), (*label.shape, 1))
    y = multiply(probability, broadcast_rows(g, probability))
    less = reshape(where(mine, g, scalar_like(g, 0.0)), own.shape)
    return (None, scatter(y, own, subtract(gather(y, own, -1), less), -1), None, None)


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
    kernel=rank_kernel(lambda _, attrs, x: joined_blocks(x, _place_of(attrs), attrs.size)),
    gradient=transposed_gradient(lambda: OWN_BLOCK),
    registry=REGISTRY,
    doc="y = x_0, …, x_(n-1) along an axis, as much of it as the whole has",
)
OWN_BLOCK: Op[RankBlockAttrs] = custom_operator(
    "own_block",
    RankBlockAttrs,
    infer=_block,
    kernel=rank_kernel(lambda ranks, attrs, x: _place_of(attrs).cut(x, ranks.rank)),
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
INSIDE_BLOCK: Op[RankBlockAttrs] = custom_operator(
    "inside_block",
    RankBlockAttrs,
    (),
    infer=_inside,
    kernel=_inside_kernel,
    gradient=NotDifferentiable("it has no inputs"),
    registry=REGISTRY,
    doc="y[k] = whether element k of our block of an axis is one of the whole",
)
JOIN_LOGSUMS: Op[GroupAttrs] = custom_operator(
    "join_logsums",
    GroupAttrs,
    infer=_same,
    kernel=rank_kernel(lambda _, attrs, x: _joined_logsums(x, attrs.group)),
    gradient=_logsums_gradient,
    registry=REGISTRY,
    doc="y = ln (e^x_0 + e^x_1 + … + e^x_(n-1)), in this order",
)
FIRST_LARGEST: Op[RankBlockAttrs] = custom_operator(
    "first_largest",
    RankBlockAttrs,
    ("value", "index"),
    infer=_place,
    kernel=_first_largest_kernel,
    gradient=NotDifferentiable("an index does not change smoothly"),
    registry=REGISTRY,
    doc="y = index_r + r · k of the first rank r whose value is the largest; k is the length of blocks",
)
OWN_LABELS: Op[RankBlockAttrs] = custom_operator(
    "own_labels",
    RankBlockAttrs,
    ("label",),
    ("own", "known"),
    infer=_labels,
    kernel=_own_labels_kernel,
    gradient=NotDifferentiable("a label is an integer"),
    registry=REGISTRY,
    doc="own = label - r · k where that is in our block of k, else -1; known: whether it is any rank's",
)
LABEL_LOSS: Op[NoAttrs] = custom_operator(
    "label_loss",
    NoAttrs,
    ("loss", "x", "probability", "label"),
    infer=_loss,
    kernel=_label_loss_kernel,
    gradient=_label_loss_gradient,
    registry=REGISTRY,
    doc="y = loss, whose gradient by x is g · (probability - [c == label]); passes leave it out behind gradients",
)
