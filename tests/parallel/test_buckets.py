from __future__ import annotations

from nnc.core.values.spec import spec
from nnc.parallel import Mesh
from nnc.parallel.buckets import BUCKET_BYTES, sums_over
from nnc.symbolic import SymbolicGraph


def test_many_small_gradients_travel_together_and_large_ones_alone() -> None:
    graph = SymbolicGraph("gradients")
    large = BUCKET_BYTES // 4
    values = [graph.input(spec((size,)), f"g{size}") for size in (8, 16, large, 32)]
    sums = sums_over(values, Mesh(data=2).group("data"))
    assert [each.spec for each in sums] == [each.spec for each in values]
    assert [len(record.inputs) for _, record in graph.execs.items()] == [2, 2]


def test_without_ranks_gradients_stay_what_they_are() -> None:
    values = [1, 2]
    assert sums_over(values) is values  # type: ignore[type-var, comparison-overlap]
