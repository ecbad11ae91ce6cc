"""Many tensors in few trips: what ranks make of the gradients of a training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from nnc.ops.operand import T
from nnc.parallel.beside import sums_beside
from nnc.parallel.collectives import allreduce_all
from nnc.parallel.mesh import RankGroup

V = TypeVar("V")
# A trip of fewer bytes costs as much as its wait; one of many more keeps all of its gradients alive until it leaves.
BUCKET_BYTES = 4 << 20
# Of those that go beside computing waits cost nothing, and the last one has nothing to go beside.
BESIDE_BYTES = 1 << 20


def sums_over(values: Sequence[T], group: RankGroup | None = None, *, beside: bool = False) -> Sequence[T]:
    """The sum over the ranks of each; without a group they stay as they are.

    Gradients of a network are final from its end to its beginning, so buckets are filled from the end; `beside` what
    computes those of one bucket the sums of others are taken.
    """
    if group is None:
        return values
    sums: list[T] = []
    full = BESIDE_BYTES if beside else BUCKET_BYTES
    buckets = list(in_buckets(values[::-1], lambda value: value.spec.nbytes, full))
    for number, bucket in enumerate(buckets):
        several = beside and len(buckets) > 1
        sums += sums_beside(bucket, group, number) if several else allreduce_all(bucket, "sum", group)
    return sums[::-1]


def in_buckets(values: Sequence[V], nbytes: Callable[[V], int], full: int = BUCKET_BYTES) -> Iterator[list[V]]:
    """The values in their order, in buckets that are `full` with so many bytes."""
    bucket: list[V] = []
    held = 0
    for value in values:
        bucket.append(value)
        held += nbytes(value)
        if held >= full:
            yield bucket
            bucket, held = [], 0
    if bucket:
        yield bucket
