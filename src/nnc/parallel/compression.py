"""Sums over ranks of fewer bytes: 16 or 8 bits an element, with what that loses fed back into the next sum.

    q_r = Q(x_r + e_r)        what rank r sends, piece by piece, to the ranks that add it
    e_r' = x_r + e_r - q_r
    s = sum_r q_r + d         of a piece, on the rank that adds it
    y = Q(s), d' = s - y      what all ranks get

So the sum of all y over time differs from that of all x by the errors e and d alone, which do not grow (Seide et al.
2014; Tang et al. 2021 for both sides).

    bf16     round to nearest: 2 bytes
    int8     round(x / scale), scale = max |x| / 127 of each 256 elements: 1 + 4 / 256 bytes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import BF16
from nnc.graph import Op
from nnc.ops.composed.custom import Arrays, custom_operator
from nnc.ops.operand import T
from nnc.ops.rules import Inplace, NotDifferentiable, Specs
from nnc.parallel.collectives import REGISTRY
from nnc.parallel.mesh import RankGroup, joined
from nnc.parallel.tensor_shards import shard_size

Compression: TypeAlias = Literal["bf16", "int8"]
# `Any`: elements of any type.
Array = NDArray[Any]
# Elements that share a scale, and the largest of their numbers.
SCALED, LARGEST = 256, 127.0


@dataclass(frozen=True, slots=True)
class CompressionAttrs:
    """Among whom, how, and how many tensors travel together."""

    group: RankGroup
    kind: Compression
    tensors: int


def _bf16_bytes(rows: Array) -> Array:
    return rows.astype(BF16.numpy).view(np.uint8)


def _bf16_numbers(data: Array, length: int, like: Array) -> Array:
    return np.ascontiguousarray(data).view(BF16.numpy).astype(like.dtype)


def _int8_bytes(rows: Array) -> Array:
    """The numbers of each row, and behind them its scales."""
    blocks = rows.reshape(len(rows), -1, SCALED)
    scales = (np.abs(blocks).max(-1) / LARGEST).astype(np.float32)
    divisors = np.where(scales > 0, scales, 1)[..., None]
    # What is no number is told by its scale.
    numbers = np.nan_to_num(np.rint(blocks / divisors), nan=0, posinf=0, neginf=0).astype(np.int8)
    return np.concatenate([numbers.reshape(len(rows), -1).view(np.uint8), scales.view(np.uint8)], 1)


def _int8_numbers(data: Array, length: int, like: Array) -> Array:
    numbers = np.ascontiguousarray(data[:, :length]).view(np.int8).reshape(len(data), -1, SCALED)
    scales = np.ascontiguousarray(data[:, length:]).view(np.float32)[..., None]
    return (numbers * scales).astype(like.dtype).reshape(len(data), length)


_FORMS: Mapping[Compression, tuple[Callable[[Array], Array], Callable[[Array, int, Array], Array]]] = {
    "bf16": (_bf16_bytes, _bf16_numbers),
    "int8": (_int8_bytes, _int8_numbers),
}


def encoded_bytes(kind: Compression, length: int) -> int:
    """Bytes of so many elements."""
    padded = -(-length // SCALED) * SCALED
    return 2 * padded if kind == "bf16" else padded + 4 * (padded // SCALED)


def _infer(attrs: CompressionAttrs, specs: Specs) -> Specs:
    return specs


def _kernel(attrs: CompressionAttrs, inputs: Arrays, outputs: Sequence[Array]) -> None:
    count, ranks = attrs.tensors, joined(attrs.group)
    given = [array for array in inputs if array is not None]
    encode, decode = _FORMS[attrs.kind]
    flat = np.concatenate([(x + e.reshape(x.shape)).reshape(-1) for x, e in zip(given, given[count:-1], strict=False)])
    own, length = given[-1], shard_size(flat.size, ranks.size)
    padded = -(-length // SCALED) * SCALED
    rows = np.zeros((ranks.size, padded), flat.dtype)
    for rank in range(ranks.size):
        piece = flat[rank * length : (rank + 1) * length]
        rows[rank, : piece.size] = piece
    with np.errstate(invalid="ignore", over="ignore"):
        sent = encode(rows)
        errors = (rows - decode(sent, padded, rows))[:, :length].reshape(-1)[: flat.size]
        parts = decode(ranks.all_to_all(sent), padded, rows)
        total = parts[0]
        for part in parts[1:]:
            total += part
        total[:length] += own
        added = encode(total[None])
        outputs[-1][...] = (total - decode(added, padded, rows)[0])[:length]
        whole = decode(ranks.all_gather(added), padded, rows)[:, :length].reshape(-1)[: flat.size]
    begin = 0
    for x, y, error in zip(given[:count], outputs[:count], outputs[count:-1], strict=True):
        y[...] = whole[begin : begin + x.size].reshape(x.shape)
        error[...] = errors[begin : begin + x.size].reshape(error.shape)
        begin += x.size


COMPRESSED_SUM: Op[CompressionAttrs] = custom_operator(
    "compressed_sum",
    CompressionAttrs,
    variadic=True,
    infer=_infer,
    kernel=_kernel,
    gradient=NotDifferentiable("it is for gradients, which are not differentiated again"),
    inplace=lambda attrs: Inplace(allowed=tuple((place, place) for place in range(2 * attrs.tensors + 1))),
    registry=REGISTRY,
    doc="sums of x over ranks in few bits, and the errors that come into the next ones; inputs x…, errors…, own errors",
)


def compressed_sums(
    operands: Sequence[T], errors: Sequence[T], own: T, group: RankGroup, kind: Compression
) -> tuple[Sequence[T], Sequence[T], T]:
    """The sums, and what takes the place of the errors and of those of our piece."""
    count = len(operands)
    command = Command(COMPRESSED_SUM, CompressionAttrs(group, kind, count))
    made = operands[0].apply(command, (*operands, *errors, own))
    return made[:count], made[count:-1], made[-1]
