"""The smallest arena, by searches at one capacity after the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.planning.solvers.optimum import optimum, random_instance

from nnc.planning import Block, Problem, read_csv, solve
from nnc.planning.instance import Effort, Instance
from nnc.planning.native import compiled
from nnc.planning.solvers.branch_and_bound import FULL, STOPPED, grow
from nnc.planning.solvers.normalize import normalize, totals
from nnc.planning.solvers.search import search
from nnc.planning.solvers.search_tree import extend, make_tree, plant
from nnc.planning.solvers.skyline import rank

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("seed", range(60))
def test_the_search_finds_and_proves_the_optimum(seed: int) -> None:
    instance = random_instance(seed, most=6)
    solution = search(instance, Effort())
    assert solution.offsets is not None
    assert instance.arena(solution.offsets) == optimum(instance)
    assert solution.proven == instance.arena(solution.offsets) or instance.arena(solution.offsets) == max(
        totals(instance)
    )


def test_a_perfect_packing_is_found() -> None:
    instance = normalize(read_csv(DATA / "guillotine.csv"))[0].instance
    solution = search(instance, Effort())
    assert solution.offsets is not None
    assert instance.arena(solution.offsets) == max(totals(instance)) == 4096


def test_the_search_stops_at_the_target() -> None:
    instance = Instance([0, 0], [1, 1], [3, 4], [1, 1])
    assert search(instance, Effort(target=10, known=9)).offsets is None


def test_no_more_blocks_are_placed_than_allowed() -> None:
    instance = normalize(read_csv(DATA / "guillotine.csv"))[0].instance
    assert search(instance, Effort(known=10**6, places=instance.count - 1)).offsets is None


def test_a_search_ends_behind_so_many_blocks_that_lean_on_others() -> None:
    """Few nodes may have any number of them: of a training step 2,000 nodes took 8 s."""
    instance = normalize(read_csv(DATA / "networks" / "inception_v2.csv"))[0].instance
    tree = make_tree(instance)
    plant(tree, rank(instance, "TAW"), max(totals(instance)))
    tree.most_leans = 100
    loop = compiled(grow) or grow
    while (ended := loop(tree, 10**6)) == FULL:
        extend(tree)
    assert ended == STOPPED
    assert tree.nodes < 3 * instance.count
    assert 100 <= tree.leans < 100 + 10 * instance.count


def test_native_and_python_search_the_same_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = normalize(read_csv(DATA / "guillotine.csv"))[0].instance
    native = search(instance, Effort(seed=1))
    monkeypatch.setattr("nnc.planning.solvers.search.compiled", lambda loop: None)
    assert compiled(grow) is None or search(instance, Effort(seed=1)) == native


FOUR = {
    20: ((8, 1, 3, 1), (6, 1, 4, 1), (1, 1, 4, 3), (3, 2, 4, 1)),
    26: ((9, 2, 4, 2), (7, 2, 5, 1), (1, 3, 4, 3), (6, 3, 5, 3)),
    25: ((9, 2, 5, 1), (9, 2, 5, 3), (2, 1, 4, 4), (1, 2, 4, 3)),
}


@pytest.mark.parametrize("arena", FOUR)
def test_four_blocks_of_mixed_alignment_are_planned_at_their_optimum(arena: int) -> None:
    """The native search once gave up on them for want of room for its notes, a byte or two above."""
    blocks = tuple(Block(str(i), *block) for i, block in enumerate(FOUR[arena]))
    plan = solve(Problem(blocks), solver="search", time_limit=None)
    assert (plan.arena_bytes, plan.optimal) == (arena, True)


def test_gradients_of_a_network_are_planned_at_their_bound() -> None:
    """Inception-v2 of ONNX's light models, one image, a backward pass that reads everything: 0.12 % were left over."""
    problem = read_csv(DATA / "networks" / "inception_v2.csv")
    plan = solve(problem, time_limit=None, places=40_000)
    assert plan.arena_bytes == plan.lower_bound == 107_027_648
    assert plan.solver == "search"
