"""Many tensors in few trips: what ranks make of the gradients of a training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from nnc.ops.operand import T
from nnc.parallel.collectives import allreduce_all
from nnc.parallel.mesh import RankGroup

V = TypeVar("V")
# A trip of fewer bytes costs as much as its wait; one of many more keeps all of its gradients alive until it leaves.
BUCKET_BYTES = 4 << 20


def sums_over(values: Sequence[T], group: RankGroup | None = None) -> Sequence[T]:
    """The sum over the ranks of each; without a group they stay as they are.

    Gradients of a network are final from its end to its beginning, so buckets are filled from the end.
    """
    if group is None:
        return values
    sums: list[T] = []
    for bucket in in_buckets(values[::-1], lambda value: value.spec.nbytes):
        sums += allreduce_all(bucket, "sum", group)
    return sums[::-1]


def in_buckets(values: Sequence[V], nbytes: Callable[[V], int]) -> Iterator[list[V]]:
    """The values in their order, in buckets that are full with `BUCKET_BYTES`."""
    bucket: list[V] = []
    full = 0
    for value in values:
        bucket.append(value)
        full += nbytes(value)
        if full >= BUCKET_BYTES:
            yield bucket
            bucket, full = [], 0
    if bucket:
        yield bucket
