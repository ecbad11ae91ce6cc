from __future__ import annotations

from itertools import combinations, pairwise
from random import Random

from nnc.planning import Block, Interference, Problem, Witness, faults, lower_bound, solve
from nnc.planning.bound import witnesses


def test_the_fullest_step_counts_deaths_before_births() -> None:
    problem = Problem((Block("a", 4, 0, 2), Block("b", 5, 2, 4), Block("c", 3, 1, 3)))
    assert lower_bound(problem) == 8
    assert witnesses(problem) == {"host": Witness(2, (1, 2))}


def test_sizes_count_as_reserved() -> None:
    problem = Problem((Block("a", 1, 0, 2, alignment=64), Block("b", 65, 1, 4, alignment=64)))
    assert lower_bound(problem) == 192


def test_each_memory_has_its_own_bound() -> None:
    problem = Problem(
        (Block("a", 4, 0, 2, memory="x"), Block("b", 5, 0, 2, memory="y"), Block("c", 3, 1, 2, memory="x"))
    )
    assert lower_bound(problem) == 12
    assert witnesses(problem)["x"] == Witness(1, (0, 2))


def test_nothing_needs_nothing() -> None:
    assert lower_bound(Problem(())) == 0
    assert lower_bound(Problem((Block("a", 0, 0, 2), Block("b", 8, 3, 3)))) == 0


def test_the_end_of_a_pinned_block_counts() -> None:
    """100 bytes lie below the pinned block, which no plan may save: the plan is optimal, and says so."""
    blocks = (Block("a", 40, 0, 2), Block("b", 8, 1, 3, offset=100), Block("c", 4, 0, 2, memory="x"))
    for problem in (Problem(blocks), Problem(blocks, Interference.of_lives(blocks))):
        assert witnesses(problem)["host"] == Witness(1, (0, 1))
        assert lower_bound(problem) == 112
        plan = solve(problem)
        assert (plan.arena_bytes, plan.optimal, faults(problem, plan)) == (112, True, ())
    dead = (Block("a", 40, 0, 1), *blocks[1:])
    assert lower_bound(Problem((*dead, Block("d", 90, 4, 5)))) == 112
    assert lower_bound(Problem((*dead, Block("d", 190, 4, 5)))) == 194


def test_an_odd_cycle_is_bounded_by_its_heaviest_edge() -> None:
    blocks = tuple(Block(str(i), size, i, i + 1) for i, size in enumerate((3, 4, 5, 6, 7)))
    cycle = Interference.of_pairs(5, [(i, (i + 1) % 5) for i in range(5)])
    problem = Problem(blocks, interference=cycle)
    assert lower_bound(problem) == 13
    assert witnesses(problem)["host"].blocks == (3, 4)


def test_the_clique_is_the_heaviest_on_random_graphs() -> None:
    draw = Random(3)
    for _ in range(40):
        count = draw.randrange(1, 9)
        blocks = tuple(Block(str(i), draw.randrange(1, 20), i, i + 1) for i in range(count))
        pairs = {pair for pair in combinations(range(count), 2) if draw.random() < 0.6}
        heaviest = max(
            sum(blocks[i].size for i in chosen)
            for length in range(1, count + 1)
            for chosen in combinations(range(count), length)
            if pairs.issuperset(combinations(chosen, 2))
        )
        assert lower_bound(Problem(blocks, interference=Interference.of_pairs(count, pairs))) == heaviest


def test_the_fullest_step_counts_where_a_graph_only_adds_to_the_lives() -> None:
    """300 blocks, 20 alive at a time, and some pairs beside: the blocks alive at any step are still a clique."""
    draw = Random(1)
    blocks = tuple(Block(str(i), draw.randrange(1, 99), i, i + 20) for i in range(300))
    pairs = {*Interference.of_lives(blocks).pairs(), *((i, i + 150) for i in range(0, 150, 7))}
    problem = Problem(blocks, interference=Interference.of_pairs(300, pairs))
    assert lower_bound(problem) >= lower_bound(Problem(blocks))


def test_explicit_lives_and_implied_lives_have_one_bound() -> None:
    blocks = tuple(Block(str(i), 7 * i % 11 + 1, lower, lower + 3) for i, lower in enumerate(range(12)))
    assert all(first.lower < second.lower for first, second in pairwise(blocks))
    explicit = Problem(blocks, interference=Interference.of_lives(blocks))
    assert lower_bound(explicit) == lower_bound(Problem(blocks))
