"""Functions in the subset of Python: native results equal Python's."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import pytest
from tests.planning.solvers.optimum import random_instance

from nnc.backends.llvm.run.translate import translate
from nnc.errors import BackendError
from nnc.planning.solvers.branch_and_bound import grow
from nnc.planning.solvers.normalize import totals
from nnc.planning.solvers.search_tree import make_tree, plant
from nnc.planning.solvers.skyline import rank

LIMIT = 5


@dataclass
class Pad:
    """A number and cells."""

    number: int
    cells: array[int]


def primes(s: Pad, limit: int) -> int:
    """The primes below `limit` into the cells; how many."""
    count = 0
    for candidate in range(2, limit):
        if is_prime(s, count, candidate) == 1:
            s.cells[count] = candidate
            count += 1
    s.number = count
    return count


def is_prime(s: Pad, count: int, candidate: int) -> int:
    for place in range(count):
        prime = s.cells[place]
        if prime * prime > candidate:
            break
        if candidate % prime == 0:
            return 0
    return 1


def mixture(s: Pad, x: int, y: int) -> int:
    a, b = x, y
    while not (a > LIMIT and b > LIMIT) and a < 1000:
        if a < b or a == 7:
            a, b = b + 1, a
            continue
        a += (b & 3) | 1
        if 2 <= a <= 4:
            pass
        elif a != b:
            b = min(b + 2, max(a, 3)) ^ 1
    s.number = -a << 2
    return (a - b) * 3 + (a >> 1) + (b // 2)


def outside(s: Pad, x: int) -> int:
    return len(s.cells) + x


def unknown(s: Pad, x: int) -> int:
    s.number = x / 2  # type: ignore[assignment]  # what the subset leaves out
    return [x][0]


def test_loops_arrays_and_calls() -> None:
    ours, theirs = Pad(0, array("q", bytes(800))), Pad(0, array("q", bytes(800)))
    assert translate(primes)(ours, 300) == primes(theirs, 300) == 62
    assert ours == theirs


def test_conditions_and_operators() -> None:
    fast = translate(mixture)
    for x in range(-3, 12):
        for y in range(12):
            ours, theirs = Pad(0, array("q")), Pad(0, array("q"))
            assert fast(ours, x, y) == mixture(theirs, x, y)
            assert ours.number == theirs.number


@pytest.mark.parametrize("function", [outside, unknown, len])
def test_what_is_outside_the_subset_is_refused(function: object) -> None:
    with pytest.raises(BackendError, match="translate"):
        translate(function)  # type: ignore[arg-type]  # also what is no function


@dataclass
class Folder:
    """A record with records inside."""

    first: Pad
    second: Pad
    calls: int


def exchange(s: Folder, place: int) -> int:
    """Count the call, and let both numbers and both cells change places."""
    s.calls += 1
    s.first.number, s.second.number = s.second.number, s.first.number
    s.first.cells[place], s.second.cells[place] = s.second.cells[place], s.first.cells[place]
    return s.first.number


def test_a_record_may_hold_records() -> None:
    folder = Folder(Pad(1, array("q", [10, 11])), Pad(2, array("q", [20, 21])), 0)
    assert translate(exchange)(folder, 1) == 2
    assert folder == Folder(Pad(2, array("q", [10, 21])), Pad(1, array("q", [20, 11])), 1)


@pytest.mark.parametrize("seed", range(20))
def test_the_native_search_grows_the_same_tree(seed: int) -> None:
    instance = random_instance(seed, most=10)
    fast = translate(grow)
    for capacity in (max(totals(instance)), max(totals(instance)) + 2):
        ours, theirs = make_tree(instance), make_tree(instance)
        for tree in (ours, theirs):
            plant(tree, rank(instance, "TAW"), capacity)
        assert fast(ours, 20_000) == grow(theirs, 20_000)
        assert ours == theirs
