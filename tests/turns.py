"""Cases that take turns: of a test with many cases the whole suite runs a part.

What they show together, each alone shows nearly: one rule over many sizes, operators or processors, and a case costs
20 ms to a second of compiling. Of 4 cases every second runs, of 8 every third, up to every sixth of 64 and more; of a
test with `@pytest.mark.turns(n)` every n-th; one with `@pytest.mark.nightly(reason)` does not run. A file that is named
runs all of its cases (`scripts/test tests/symbolic`), and so do a campaign (NNC_EXAMPLES=1 scripts/test) and the night
(scripts/nightly --only tests).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from zlib import crc32

import pytest

# Here each case is a promise by itself: a page, a program, an idiom, an option.
FOLDERS = {"cli", "examples", "idioms", "keras", "project", "vocabulary"}
TESTS = Path(__file__).parent


def turns(cases: int) -> int:
    """Of how many cases one runs, where a test does not say."""
    return sum(cases >= least for least in (0, 4, 8, 16, 32, 64))


def waiting(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Those whose turn it is not: which, follows from names alone, so all workers agree, and as if drawn by lot."""
    cases: defaultdict[tuple[str, int | None], list[pytest.Item]] = defaultdict(list)
    night = {item for item in items if item.get_closest_marker("nightly")}
    # Paths are asked once a file: once a case they took each worker 5 s.
    promises = {path for path in {item.path for item in items} if _is_promise(path)}
    for item in items:
        mark = item.get_closest_marker("turns")
        if mark is None and item.path in promises:
            continue
        cases[item.nodeid.partition("[")[0], mark.args[0] if mark else None].append(item)
    return night | {item for (_, number), row in cases.items() for item in _behind(row, number or turns(len(row)))}


def _is_promise(path: Path) -> bool:
    return path.is_relative_to(TESTS) and path.relative_to(TESTS).parts[0] in FOLDERS


def _behind(row: Iterable[pytest.Item], number: int) -> list[pytest.Item]:
    shuffled = sorted(row, key=lambda item: crc32(item.name.encode()))
    return shuffled[-(-len(shuffled) // number) :]
