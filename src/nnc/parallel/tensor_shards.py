"""Tensors of which each rank holds a shard: what ZeRO does to optimizer state, gradients and weights.

    k = ⌈elements / n⌉; rank r holds elements r · k … (r + 1) · k, with zeros behind the end: shard[k]

    whole = unshard(shards)                the tensor again, from all ranks
    shard = shard_sum(whole)               our shard of the sum over all ranks: the gradient of `unshard`, and back
    shard = own_shard(whole)               our shard of what all ranks have the same

Several tensors travel together, small ones in one trip; large ones are received where they belong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.spec import TensorSpec
from nnc.graph import Op
from nnc.ops.composed.custom import Arrays, custom_operator
from nnc.ops.operand import T
from nnc.ops.rules import NotDifferentiable, Specs
from nnc.parallel.buckets import in_buckets
from nnc.parallel.collectives import REGISTRY, SMALL_BYTES, transposed_gradient
from nnc.parallel.communicator import Communicator
from nnc.parallel.mesh import RankGroup, joined

# `Any`: elements of any type.
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class ShardAttrs:
    """Among whom, and what the whole tensors are."""

    group: RankGroup
    wholes: tuple[TensorSpec, ...]


def shard_size(elements: int, ranks: int) -> int:
    """How many elements, or how much of an axis, each rank holds."""
    return -(-elements // ranks)


def shard_spec(spec: TensorSpec, group: RankGroup) -> TensorSpec:
    """A shard of such a tensor."""
    return TensorSpec((shard_size(spec.elements, group.size),), spec.dtype, device=spec.device)


def piece_of(array: Array, rank: int, ranks: int) -> Array:
    """The shard of a rank, of its own memory."""
    return block_of(array.reshape(-1), 0, rank, ranks)


def in_parts(shape: tuple[int, ...], axis: int, parts: int) -> tuple[int, ...]:
    """The shape with an axis seen as so many equal parts: [parts, size / parts].

    >>> in_parts((2, 12, 5), 1, 3)
    (2, 3, 4, 5)
    """
    return (*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :])


def block_of(array: Array, axis: int, rank: int, ranks: int, parts: int = 1) -> Array:
    """The block of a rank along an axis, of its own memory; behind the end of the last one are zeros.

    Of an axis in several parts it is the rank's block of each.
    """
    if parts > 1:
        blocks = block_of(array.reshape(in_parts(array.shape, axis, parts)), axis + 1, rank, ranks)
        return blocks.reshape(*array.shape[:axis], -1, *array.shape[axis + 1 :])
    length = shard_size(array.shape[axis], ranks)
    block = np.zeros((*array.shape[:axis], length, *array.shape[axis + 1 :]), array.dtype)
    part = np.moveaxis(array, axis, 0)[rank * length : (rank + 1) * length]
    np.moveaxis(block, axis, 0)[: len(part)] = part
    return block


def _shards(attrs: ShardAttrs, specs: Specs) -> Specs:
    return tuple([shard_spec(spec, attrs.group) for spec in specs])


def _wholes(attrs: ShardAttrs, specs: Specs) -> Specs:
    return attrs.wholes


def _unshard_kernel(attrs: ShardAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    ranks = joined(attrs.group)
    pairs = [(x, y) for x, y in zip(inputs, outputs, strict=False) if x is not None]
    small = [(x, y) for x, y in pairs if y.nbytes < SMALL_BYTES]
    for x, y in pairs:
        if y.nbytes >= SMALL_BYTES:
            whole = y.reshape(-1) if y.flags.c_contiguous else np.empty(y.size, y.dtype)
            ranks.gather_pieces(x, whole)
            if not y.flags.c_contiguous:
                y[...] = whole.reshape(y.shape)
    if small:
        rows = ranks.all_gather(np.concatenate([_bytes(x) for x, _ in small])[None])
        begin = 0
        for x, y in small:
            flat = np.ascontiguousarray(rows[:, begin : begin + x.nbytes]).reshape(-1).view(x.dtype)
            y[...] = flat[: y.size].reshape(y.shape)
            begin += x.nbytes


def _shard_sum_kernel(attrs: ShardAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    ranks = joined(attrs.group)
    pairs = [(np.ascontiguousarray(x), y) for x, y in zip(inputs, outputs, strict=True) if x is not None]
    small = [(x, y) for x, y in pairs if x.nbytes < SMALL_BYTES]
    for x, y in pairs:
        if x.nbytes >= SMALL_BYTES:
            ranks.sum_pieces(x.reshape(-1), y)
    for kind in dict.fromkeys(x.dtype for x, _ in small):
        _sum_together(ranks, [(x, y) for x, y in small if x.dtype == kind])


def _sum_together(ranks: Communicator, pairs: Sequence[tuple[Array, Array]]) -> None:
    """All of one type as one array[ranks, elements]."""
    sent = np.zeros((ranks.size, sum(y.size for _, y in pairs)), pairs[0][0].dtype)
    begin = 0
    for x, y in pairs:
        for rank in range(ranks.size):
            piece = x.reshape(-1)[rank * y.size : (rank + 1) * y.size]
            sent[rank, begin : begin + piece.size] = piece
        begin += y.size
    received = ranks.reduce_scatter(sent)[0]
    begin = 0
    for _, y in pairs:
        y[...] = received[begin : begin + y.size]
        begin += y.size


def _own_shard_kernel(attrs: ShardAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    rank = joined(attrs.group).rank
    for x, y in zip(inputs, outputs, strict=True):
        assert x is not None
        own = x.reshape(-1)[rank * y.size : (rank + 1) * y.size]
        y[: own.size] = own
        y[own.size :] = 0


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


UNSHARD: Op[ShardAttrs] = custom_operator(
    "unshard",
    ShardAttrs,
    variadic=True,
    infer=_wholes,
    kernel=_unshard_kernel,
    gradient=transposed_gradient(lambda: SHARD_SUM),
    registry=REGISTRY,
    doc="y = the shards of all ranks, one behind the other; inputs behind the shards say when",
)
SHARD_SUM: Op[ShardAttrs] = custom_operator(
    "shard_sum",
    ShardAttrs,
    variadic=True,
    infer=_shards,
    kernel=_shard_sum_kernel,
    gradient=transposed_gradient(lambda: UNSHARD),
    registry=REGISTRY,
    doc="y_r = shard r of x_0 + x_1 + … + x_(n-1)",
)
OWN_SHARD: Op[ShardAttrs] = custom_operator(
    "own_shard",
    ShardAttrs,
    variadic=True,
    infer=_shards,
    kernel=_own_shard_kernel,
    gradient=NotDifferentiable("it is for optimizers, which stand behind gradients"),
    registry=REGISTRY,
    doc="y_r = shard r of x, which all ranks have",
)


def unshard(shards: Sequence[T], wholes: Sequence[TensorSpec], group: RankGroup) -> tuple[T, ...]:
    """The whole tensors."""
    return shards[0].apply(Command(UNSHARD, ShardAttrs(group, tuple(wholes))), tuple(shards)) if shards else ()


def own_shard(operand: T, group: RankGroup) -> T:
    """Our shard of a tensor that all ranks have the same."""
    (shard,) = operand.apply(Command(OWN_SHARD, ShardAttrs(group, (operand.spec,))), (operand,))
    return shard


def shard_sums(operands: Sequence[T], group: RankGroup) -> list[T]:
    """Our shards of the sums over all ranks, in buckets that are filled from the end, as gradients are final."""
    sums: list[T] = []
    for bucket in in_buckets(operands[::-1], lambda operand: operand.spec.nbytes):
        attrs = ShardAttrs(group, tuple([operand.spec for operand in bucket]))
        sums += bucket[0].apply(Command(SHARD_SUM, attrs), tuple(bucket))
    return sums[::-1]


def unsharded(shards: Sequence[T], wholes: Sequence[TensorSpec], group: RankGroup) -> list[T]:
    """`unshard` in buckets."""
    results: list[T] = []
    for bucket in in_buckets(list(zip(shards, wholes, strict=True)), lambda pair: pair[1].nbytes):
        results += unshard([shard for shard, _ in bucket], [whole for _, whole in bucket], group)
    return results
