"""The exact search against brute force: every order of the blocks, each at its lowest place."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnc.planning import read_csv
from nnc.planning.instance import Effort, Instance
from nnc.planning.solvers.greedy import place
from nnc.planning.solvers.normalize import conflicts, normalize, totals
from nnc.planning.solvers.search import ORDERS, Outcome, Tables, dive, search

DATA = Path(__file__).parents[1] / "data"


def optimum(instance: Instance) -> int:
    """The smallest arena over all orders; a plan that cannot sink is the first fit of its blocks by offset."""
    neighbours = conflicts(instance)
    return min(
        instance.arena(place(instance, order, neighbours, tightest=False))
        for order in permutations(range(instance.count))
    )


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    count = draw(st.integers(1, 7))
    lower = [draw(st.integers(0, 5)) for _ in range(count)]
    upper = [moment + draw(st.integers(1, 4)) for moment in lower]
    alignment = [draw(st.sampled_from((1, 1, 2, 3))) for _ in range(count)]
    size = [unit * draw(st.integers(1, 6)) for unit in alignment]
    return Instance(lower, upper, size, alignment)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(instances())
def test_the_search_finds_and_proves_the_optimum(instance: Instance) -> None:
    """Sections without a block are what `normalize` removes, so the instance goes through it as blocks do."""
    used = sorted({moment for i in range(instance.count) for moment in range(instance.lower[i], instance.upper[i])})
    index = {moment: place for place, moment in enumerate(used)}
    lower = [index[moment] for moment in instance.lower]
    upper = [index[moment - 1] + 1 for moment in instance.upper]
    dense = Instance(lower, upper, instance.size, instance.alignment)
    layout = search(dense, Effort())
    assert layout.offsets is not None
    assert dense.arena(layout.offsets) == optimum(dense)
    assert layout.proven == dense.arena(layout.offsets) or layout.proven == max(totals(dense))


@pytest.mark.parametrize("keys", ORDERS)
def test_a_dive_refutes_what_is_impossible_and_finds_what_is_not(keys: str) -> None:
    """A corridor: the long block fits under the ends or over them, but the middle leaves no byte to spare."""
    draw = Random(2)
    for _ in range(60):
        count = 6
        lower = [draw.randrange(4) for _ in range(count)]
        upper = [draw.randrange(moment + 1, 6) for moment in lower]
        lower[0], upper[0] = 0, 5
        instance = Instance(lower, upper, [draw.randrange(1, 7) for _ in range(count)], [1] * count)
        tables, best = Tables.of(instance), optimum(instance)
        found = dive(tables, keys, best, limit=100_000)
        assert found.outcome is Outcome.FOUND
        assert instance.arena(found.offsets) == best
        assert dive(tables, keys, best - 1, limit=100_000).outcome is Outcome.REFUTED


def test_a_dive_stops_at_its_limit_and_at_the_deadline() -> None:
    instance = max((part.instance for part in normalize(read_csv(DATA / "guillotine.csv"))), key=lambda i: i.count)
    tables, bound = Tables.of(instance), max(totals(instance))
    assert dive(tables, "WA", bound, limit=3).outcome is Outcome.STOPPED
    assert dive(tables, "WA", bound, limit=3).nodes == 4


def test_a_perfect_packing_is_found() -> None:
    instance = normalize(read_csv(DATA / "guillotine.csv"))[0].instance
    layout = search(instance, Effort())
    assert layout.offsets is not None
    assert instance.arena(layout.offsets) == max(totals(instance)) == 4096


def test_the_search_stops_at_the_target() -> None:
    instance = Instance([0, 0], [1, 1], [3, 4], [1, 1])
    assert search(instance, Effort(target=10, known=9)).offsets is None
