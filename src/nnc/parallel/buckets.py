"""Many tensors in few trips: what ranks make of the gradients of a training step."""

from __future__ import annotations

from collections.abc import Sequence

from nnc.ops.operand import T
from nnc.parallel.collectives import allreduce_all
from nnc.parallel.mesh import RankGroup

# A trip of fewer bytes costs as much as its wait; one of many more keeps all of its gradients alive until it leaves.
BUCKET_BYTES = 4 << 20


def sums_over(values: Sequence[T], group: RankGroup | None = None) -> Sequence[T]:
    """The sum over the ranks of each; without a group they stay as they are.

    Gradients of a network are final from its end to its beginning, so buckets are filled from the end.
    """
    if group is None:
        return values
    sums: list[T] = []
    bucket: list[T] = []
    for value in reversed(values):
        bucket.append(value)
        if sum(each.spec.nbytes for each in bucket) >= BUCKET_BYTES:
            sums += allreduce_all(bucket, "sum", group)
            bucket = []
    sums += allreduce_all(bucket, "sum", group)
    return sums[::-1]
