"""What nothing else is better than: of two costs each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def pareto_front(items: Iterable[T], costs: Callable[[T], tuple[int, int]]) -> tuple[T, ...]:
    """Those that no other one is below in both costs, or in one at the same of the other, by the rising first cost."""
    kept: list[T] = []
    for item in sorted(items, key=costs):
        if not kept or costs(item)[1] < costs(kept[-1])[1]:
            kept.append(item)
    return tuple(kept)
