"""One search at one capacity, against brute force."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from tests.planning.solvers.optimum import optimum, random_instance

from nnc.planning import Block, Problem
from nnc.planning.instance import Instance
from nnc.planning.solvers.branch_and_bound import (
    FOUND,
    FULL,
    REFUTED,
    STOPPED,
    grow,
)
from nnc.planning.solvers.normalize import conflicts, normalize, totals
from nnc.planning.solvers.search_tree import SearchTree, extend, make_tree, plant
from nnc.planning.solvers.skyline import rank


def searched(instance: Instance, keys: str, capacity: int, limit: int = 100_000) -> tuple[int, SearchTree]:
    tree = make_tree(instance)
    plant(tree, rank(instance, keys), capacity)
    return finish(tree, grow, limit), tree


def finish(tree: SearchTree, grow: Callable[[SearchTree, int], int], limit: int) -> int:
    """Grow on, with more room for notes wherever that is missing."""
    while (ended := grow(tree, limit)) == FULL:
        extend(tree)
    return ended


def overlaps(instance: Instance, tree: SearchTree) -> bool:
    offset, size = tree.places.offset, instance.size
    pairs = ((i, j) for i, row in enumerate(conflicts(instance)) for j in row)
    return any(offset[i] < offset[j] + size[j] and offset[j] < offset[i] + size[i] for i, j in pairs)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_possible_is_found_and_what_is_not_is_refuted(seed: int) -> None:
    instance = random_instance(seed, most=6)
    best = optimum(instance)
    for keys in ("TWA", "TAW", "TZ", "WAT"):
        ended, tree = searched(instance, keys, best)
        assert ended == FOUND
        assert not overlaps(instance, tree)
        assert instance.arena(list(tree.places.offset)) == best
        assert all(place % unit == 0 for place, unit in zip(tree.places.offset, instance.alignment, strict=True))
        assert searched(instance, keys, best - 1)[0] == REFUTED


def test_blocks_of_one_life_and_equal_blocks_hide_no_plan() -> None:
    """Few lives and few sizes: most blocks can change places with others."""
    draw = Random(5)
    for _ in range(60):
        lives = [(0, 2), (1, 3), (0, 1), (2, 4), (1, 2), (0, 4)]
        chosen = [draw.choice(lives) for _ in range(6)]
        blocks = (Block(str(i), draw.choice((1, 2, 3)), *life) for i, life in enumerate(chosen))
        for part in normalize(Problem(tuple(blocks))):
            best = optimum(part.instance)
            assert searched(part.instance, "TWA", best)[0] == FOUND
            assert searched(part.instance, "TWA", best - 1)[0] == REFUTED


def test_a_search_goes_on_where_it_stopped() -> None:
    """In steps of one node the same tree is searched as in one go."""
    instance = random_instance(7, most=12)
    ended, whole = searched(instance, "TWA", max(totals(instance)))
    steps = make_tree(instance)
    plant(steps, rank(instance, "TWA"), max(totals(instance)))
    while (code := finish(steps, grow, steps.nodes + 1)) == STOPPED:
        pass
    assert (code, steps.nodes, steps.places.offset) == (ended, whole.nodes, whole.places.offset)


def test_a_tree_serves_one_search_after_the_other() -> None:
    instance = random_instance(11, most=7)
    best, tree = optimum(instance), make_tree(instance)
    for capacity, ended in ((best, FOUND), (best - 1, REFUTED), (best, FOUND)):
        plant(tree, rank(instance, "TAW"), capacity)
        assert finish(tree, grow, 100_000) == ended


def test_a_search_stops_at_its_limit() -> None:
    instance = random_instance(3, most=12)
    ended, tree = searched(instance, "TWA", sum(instance.size), limit=2)
    assert (ended, tree.nodes) == (STOPPED, 2)
