"""Cases that take turns: of a test with many cases the whole suite runs a part.

What they show together, each alone shows nearly: one rule over many sizes, operators or processors, and a case costs
20 ms to a second of compiling. Of 4 cases every second runs, of 8 every third, up to every sixth of 64 and more; of a
test with `@pytest.mark.turns(n)` every n-th; one with `@pytest.mark.nightly(reason)` does not run. A file that is named
runs all of its cases (`scripts/test tests/symbolic`), and so do a campaign (NNC_EXAMPLES=1 scripts/test) and the night
(scripts/nightly --only tests).

Half of the processor's time goes to one case in fifty. Of those in costs.json each folder runs every second one, of 1 s
and more every third, of 2 s and more every fourth, and with the next commit the others: four commits have run all.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import pytest

# Here each case is a promise by itself: a page, a program, an idiom, an option.
FOLDERS = {"cli", "examples", "idioms", "keras", "project", "vocabulary"}
TESTS = Path(__file__).parent
# Seconds of a processor, with nothing compiled before, of the cases that take half a second or more.
COSTS = TESTS / "costs.json"


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
    left = night | {item for (_, number), row in cases.items() for item in _behind(row, number or turns(len(row)))}
    seconds = json.loads(COSTS.read_text(encoding="utf-8"))
    return left | costly([item for item in items if item not in left], seconds, commits())


def commits() -> int:
    """How many there are behind this tree, which the first process asks git for; 0 in a package of the sources."""
    if "NNC_TURN" not in os.environ:
        asked = ["git", "-C", str(TESTS), "rev-list", "--count", "HEAD"]
        count = "0"
        with suppress(OSError, subprocess.CalledProcessError):
            count = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
        os.environ["NNC_TURN"] = count
    return int(os.environ["NNC_TURN"])


def costly(items: Iterable[pytest.Item], seconds: Mapping[str, float], turn: int) -> set[pytest.Item]:
    """Those whose turn it is not, of tests that take so long: turns are those of commits."""
    rows: defaultdict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.nodeid in seconds:
            folder = item.nodeid.split("/")[1]
            cost = seconds[item.nodeid]
            rows[folder, 2 + (cost >= 1.0) + (cost >= 2.0)].append(item)
    return {
        item
        for (_, number), row in rows.items()
        for place, item in enumerate(sorted(row, key=lambda item: crc32(item.nodeid.encode())))
        if (place + turn) % number
    }


def _is_promise(path: Path) -> bool:
    return path.is_relative_to(TESTS) and path.relative_to(TESTS).parts[0] in FOLDERS


def _behind(row: Iterable[pytest.Item], number: int) -> list[pytest.Item]:
    shuffled = sorted(row, key=lambda item: crc32(item.name.encode()))
    return shuffled[-(-len(shuffled) // number) :]
