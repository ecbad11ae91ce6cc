"""Cases that take turns: of a test with `@pytest.mark.turns(3)` the whole suite runs every third case.

What they show together, each alone shows nearly: one rule over many sizes, operators or processors, and a case costs
20 ms to a second of compiling. A file that is named runs all of its cases (`scripts/test tests/symbolic`), and
so does a campaign: NNC_EXAMPLES=1 scripts/test
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from zlib import crc32

import pytest


def waiting(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Those whose turn it is not: which, follows from names alone, so all workers agree, and as if drawn by lot."""
    cases: defaultdict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("turns"):
            (number,) = mark.args
            cases[item.nodeid.partition("[")[0], number].append(item)
    return {item for (_, number), row in cases.items() for item in _behind(row, number)}


def _behind(row: Iterable[pytest.Item], number: int) -> list[pytest.Item]:
    shuffled = sorted(row, key=lambda item: crc32(item.name.encode()))
    return shuffled[-(-len(shuffled) // number) :]
