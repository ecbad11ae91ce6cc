"""What each operation among ranks sends: messages and bytes of a rank, exactly as the operation sends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from nnc.classes import dataclass
from nnc.core.values.command import AnyCommand
from nnc.core.values.spec import OptionalSpecs, TensorSpec
from nnc.errors import UsageError
from nnc.graph import Op
from nnc.ops.rules import Specs
from nnc.ops.work import present
from nnc.parallel.beside import BEGIN_SUMS
from nnc.parallel.block_operators import FIRST_LARGEST, JOIN_BLOCKS, JOIN_LOGSUMS, LEAVE
from nnc.parallel.collectives import (
    AFTER,
    ALL_GATHER,
    ALL_TO_ALL,
    ALLREDUCE,
    BROADCAST,
    REDUCE,
    REDUCE_SCATTER,
    REGISTRY,
    SEND,
    SHIFT,
    SMALL_BYTES,
)
from nnc.parallel.communicator import PART_BYTES, WHOLE_BYTES
from nnc.parallel.compression import COMPRESSED_SUM, CompressionAttrs, encoded_bytes
from nnc.parallel.ordering import ALONE
from nnc.parallel.stage_operators import HAND_OVER, SHARE, TAKE_IN
from nnc.parallel.tensor_shards import SHARD_SUM, UNSHARD, shard_size


@dataclass(frozen=True, slots=True)
class Trade:
    """What one rank sends to all others at once, of those that send most."""

    messages: int
    nbytes: int


def is_together(command: AnyCommand) -> bool:
    """Whether all ranks of a group come to it, and send each other something."""
    alone = (*ALONE, AFTER, HAND_OVER, TAKE_IN)
    return command.op.registry is REGISTRY and command.op not in alone


def trades_of(command: AnyCommand, inputs: OptionalSpecs, outputs: Specs, ranks: int | None = None) -> list[Trade]:
    """Those of an operation, on so many ranks; UsageError where its shapes are those of another number."""
    group = command.attrs.group
    size = group.size if ranks is None else ranks
    if size != group.size and command.op not in _OF_ANY_NUMBER:
        got = f"{command.op.name} of {group.size} ranks, asked for {size}"
        raise UsageError("simulate", got=got, need="a graph for so many", fix=f"build it with Mesh(data={size})")
    given = tuple(map(present, inputs))
    return [*_TRADES[command.op](command.attrs, given, outputs, size)] if size > 1 else []


def total_of(trades: Iterable[Trade]) -> Trade:
    """Messages and bytes of all."""
    held = list(trades)
    return Trade(sum(trade.messages for trade in held), sum(trade.nbytes for trade in held))


def sum_trades(nbytes: int, size: int) -> Iterator[Trade]:
    """Of one array, part by part."""
    for begin in range(0, nbytes, PART_BYTES):
        part = min(PART_BYTES, nbytes - begin)
        if part <= WHOLE_BYTES:
            yield Trade(size - 1, (size - 1) * part)
        else:
            yield from (_pieces(part, size), _pieces(part, size))


def _pieces(nbytes: int, size: int) -> Trade:
    """Each rank gets its piece of each."""
    return Trade(size - 1, nbytes * (size - 1) // size)


def _split(specs: Iterable[TensorSpec]) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Large ones, which travel alone, and small ones."""
    parts: tuple[list[TensorSpec], list[TensorSpec]] = ([], [])
    for spec in specs:
        parts[spec.nbytes < SMALL_BYTES].append(spec)
    return parts


def _by_type(specs: Sequence[TensorSpec]) -> list[list[TensorSpec]]:
    return [[spec for spec in specs if spec.dtype is kind] for kind in dict.fromkeys(spec.dtype for spec in specs)]


def _allreduce(attrs: object, inputs: Specs, outputs: Specs, size: int) -> Iterator[Trade]:
    large, small = _split(outputs)
    for spec in large:
        yield from sum_trades(spec.nbytes, size)
    for specs in _by_type(small):
        yield from sum_trades(sum(spec.nbytes for spec in specs), size)


def _unshard(attrs: object, inputs: Specs, outputs: Specs, size: int) -> Iterator[Trade]:
    shards = [(shard, whole) for shard, whole in zip(inputs, outputs, strict=False)]
    for shard, whole in shards:
        if whole.nbytes >= SMALL_BYTES:
            yield Trade(size - 1, (size - 1) * shard.nbytes)
    small = sum(shard.nbytes for shard, whole in shards if whole.nbytes < SMALL_BYTES)
    if small:
        yield Trade(size - 1, (size - 1) * small)


def _shard_sum(attrs: object, inputs: Specs, outputs: Specs, size: int) -> Iterator[Trade]:
    large, small = _split(inputs)
    for spec in large:
        most = max(PART_BYTES // (spec.dtype.itemsize * size), 1)
        length = shard_size(spec.elements, size)
        for begin in range(0, length, most):
            yield Trade(size - 1, (size - 1) * min(most, length - begin) * spec.dtype.itemsize)
    for specs in _by_type(small):
        pieces = sum(shard_size(spec.elements, size) * spec.dtype.itemsize for spec in specs)
        yield Trade(size - 1, (size - 1) * pieces)


def _compressed_sum(attrs: CompressionAttrs, inputs: Specs, outputs: Specs, size: int) -> Iterator[Trade]:
    """Pieces go to whoever adds them, and sums back."""
    elements = sum(spec.elements for spec in inputs[: attrs.tensors])
    nbytes = encoded_bytes(attrs.kind, shard_size(elements, size))
    yield from (Trade(size - 1, (size - 1) * nbytes),) * 2


def _broadcast(attrs: object, inputs: Specs, outputs: Specs, size: int) -> Iterator[Trade]:
    nbytes = inputs[0].nbytes
    if nbytes <= WHOLE_BYTES:
        yield Trade(size - 1, (size - 1) * nbytes)
    else:
        yield from (_pieces(nbytes, size), _pieces(nbytes, size))


# What each operator trades: (attributes, specs given, specs made, ranks). `Any`: attributes of all operators.
_TRADES: dict[Op[Any], Callable[[Any, Specs, Specs, int], Iterable[Trade]]] = {
    ALLREDUCE: _allreduce,
    BEGIN_SUMS: _allreduce,
    REDUCE_SCATTER: lambda _, inputs, __, size: [_pieces(inputs[0].nbytes, size)],
    ALL_GATHER: lambda _, inputs, __, size: [Trade(size - 1, (size - 1) * inputs[0].nbytes)],
    ALL_TO_ALL: lambda _, inputs, __, size: [_pieces(inputs[0].nbytes, size)],
    BROADCAST: _broadcast,
    SHARE: _broadcast,
    # The others send one message each; the root receives them all.
    REDUCE: lambda _, inputs, __, size: [Trade(size - 1, (size - 1) * inputs[0].nbytes)],
    SHIFT: lambda _, inputs, __, size: [Trade(1, inputs[0].nbytes)],
    SEND: lambda _, inputs, __, size: [Trade(1, inputs[0].nbytes)],
    UNSHARD: _unshard,
    SHARD_SUM: _shard_sum,
    COMPRESSED_SUM: _compressed_sum,
    LEAVE: lambda _, inputs, __, size: sum_trades(inputs[0].nbytes, size),
    JOIN_BLOCKS: lambda _, inputs, __, size: [Trade(size - 1, (size - 1) * inputs[0].nbytes)],
    JOIN_LOGSUMS: lambda _, inputs, __, size: [Trade(size - 1, (size - 1) * inputs[0].nbytes)],
    # Pairs of f64.
    FIRST_LARGEST: lambda _, inputs, __, size: [Trade(size - 1, (size - 1) * 16 * inputs[0].elements)],
}
_OF_ANY_NUMBER = (ALLREDUCE, BROADCAST, REDUCE, SHIFT)
