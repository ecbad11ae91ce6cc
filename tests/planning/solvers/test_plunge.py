"""The dive on arrays against the dive on lists; both are the same search."""

from __future__ import annotations

from random import Random

import pytest

from nnc.planning.instance import Instance
from nnc.planning.solvers import plunge
from nnc.planning.solvers.search import CODES, ORDERS, Outcome, dive
from nnc.planning.solvers.tables import Tables


def random_instance(seed: int) -> Instance:
    draw = Random(seed)
    count = draw.randrange(1, 12)
    lower = [draw.randrange(5) for _ in range(count)]
    upper = [moment + draw.randrange(1, 5) for moment in lower]
    used = sorted({moment for i in range(count) for moment in range(lower[i], upper[i])})
    place = {moment: index for index, moment in enumerate(used)}
    alignment = [draw.choice((1, 1, 2, 4)) for _ in range(count)]
    size = [unit * draw.randrange(1, 9) for unit in alignment]
    return Instance([place[m] for m in lower], [place[m - 1] + 1 for m in upper], size, alignment)


def overlaps(tables: Tables, offsets: list[int]) -> bool:
    size = tables.size
    pairs = ((i, j) for i, row in enumerate(tables.neighbours) for j in row if i != j)
    return any(offsets[i] < offsets[j] + size[j] and offsets[j] < offsets[i] + size[i] for i, j in pairs)


@pytest.mark.parametrize("seed", range(80))
def test_both_dives_end_alike(seed: int) -> None:
    tables = Tables.of(random_instance(seed))
    for extra in (0, 1, 3):
        capacity = max(tables.totals) + extra
        board = plunge.make_board(tables, 10_000, 10_000)
        for keys in ORDERS:
            plunge.prepare(board, tables, keys, capacity)
            outcome = CODES[plunge.plunge(board, 50_000)]
            assert outcome is dive(tables, keys, capacity, 50_000).outcome
            if outcome is Outcome.FOUND:
                assert not overlaps(tables, list(board.taken))
                assert max(map(int.__add__, board.taken, tables.size)) <= capacity


def test_a_dive_goes_on_where_it_stopped() -> None:
    """In steps of one node the same tree is searched as in one go."""
    tables = Tables.of(random_instance(7))
    capacity = max(tables.totals)
    whole, steps = (plunge.make_board(tables, 10_000, 10_000) for _ in range(2))
    for board in (whole, steps):
        plunge.prepare(board, tables, "TWA", capacity)
    outcome = plunge.plunge(whole, 50_000)
    while (code := plunge.plunge(steps, steps.nodes + 1)) == plunge.STOPPED:
        pass
    assert (code, steps.nodes, steps.taken) == (outcome, whole.nodes, whole.taken)


def test_full_stacks_stop_the_dive() -> None:
    tables = Tables.of(random_instance(3))
    board = plunge.make_board(tables, 0, 100)
    plunge.prepare(board, tables, "TWA", max(tables.totals))
    assert plunge.plunge(board, 50_000) == plunge.STOPPED
    assert board.full == 1
