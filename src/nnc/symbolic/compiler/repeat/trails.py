"""Trails on disk: what `recompute` finds for a program depends on nothing else, and takes from seconds to minutes.

key = sha256(program, the source of this package);   entry = for each point its peak, extra work and steps
"""

from __future__ import annotations

import hashlib
import zlib
from array import array
from contextlib import suppress
from functools import cache
from math import inf
from pathlib import Path
from time import perf_counter

from nnc.core.precautions.disk_cache import DiskCache
from nnc.core.settings import SETTINGS
from nnc.symbolic.compiler.repeat.recompute import Point, recompute
from nnc.symbolic.compiler.repeat.schedule import Program

# Programs of fewer steps are searched in less time than is spent around the search.
FEWEST_STEPS = 64
MOST_BYTES = 256 << 20


def trail(program: Program, deadline: float = inf) -> tuple[Point, ...]:
    """`recompute`, or what it found when any process was first asked. What a deadline cut short is not kept."""
    if len(program.reads) < FEWEST_STEPS or not _sources():
        return recompute(program, deadline)
    cache, key = DiskCache(SETTINGS.cache_folder, "trail", ".points", MOST_BYTES), _key(program)
    content = cache.load(key)
    if content is not None:
        with suppress(ValueError, zlib.error):
            return _decoded(content)
    points = recompute(program, deadline)
    if perf_counter() < deadline:
        with suppress(OverflowError):  # work beyond 64 bits
            cache.store(key, _encoded(points))
    return points


def _key(program: Program) -> str:
    """Equal for equal programs alone, as long as the search is the same."""
    columns = (program.reads, program.again, program.writes, program.pairs, program.scratch, program.work)
    more = (program.repeatable, program.nbytes, program.maker, program.lasting, sorted(program.overwritten.items()))
    before = [sorted(steps) for steps in program.before]
    return hashlib.sha256(repr((_sources(), [*map(list, columns)], [*map(list, more)], before)).encode()).hexdigest()


@cache
def _sources() -> str:
    """A hash of all that decides what is found; nothing where the sources are not there."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        with suppress(OSError):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _encoded(points: tuple[Point, ...]) -> bytes:
    numbers = array("q")
    for point in points:
        numbers.extend((point.peak, point.extra, len(point.steps), *point.steps))
    return zlib.compress(numbers.tobytes(), 1)


def _decoded(content: bytes) -> tuple[Point, ...]:
    """ValueError, or zlib's error, for what is no trail."""
    numbers = array("q")
    numbers.frombytes(zlib.decompress(content))
    points, at = [], 0
    while at < len(numbers):
        peak, extra, count = numbers[at : at + 3]
        points.append(Point(tuple(numbers[at + 3 : at + 3 + count]), peak, extra))
        at += 3 + count
    return tuple(points)
