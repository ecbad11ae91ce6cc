"""Every solver against random problems: plans are valid, not below the bound, and the same twice."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nnc.errors import MemoryLimitError, PlanningError
from nnc.planning import SOLVERS, Block, Interference, Problem, faults, lower_bound, read_csv, solve
from nnc.planning.instance import Effort, ExpiredError, Instance
from nnc.planning.portfolio import PORTFOLIO, ROWS, SolverRow

DATA = Path(__file__).parent / "data"
GENERAL = [row.name for row in ROWS if len(row.takes) == 3]


@st.composite
def blocks(draw: st.DrawFn, memories: tuple[str, ...] = ("host",)) -> tuple[Block, ...]:
    found = []
    for i in range(draw(st.integers(0, 14))):
        lower = draw(st.integers(0, 12))
        upper = lower + draw(st.integers(0, 6))
        alignment = draw(st.sampled_from((1, 1, 1, 2, 4, 6)))
        found.append(
            Block(str(i), draw(st.integers(0, 20)), lower, upper, alignment, None, draw(st.sampled_from(memories)))
        )
    return tuple(found)


@st.composite
def plain(draw: st.DrawFn) -> Problem:
    return Problem(draw(blocks()))


@st.composite
def general(draw: st.DrawFn) -> Problem:
    """Two memories, perhaps an explicit interference, one pinned block at most, pairs of companions."""
    chosen = list(draw(blocks(("host", "device"))))
    assume(chosen)
    interference = None
    if draw(st.booleans()):
        pairs = [pair for pair in combinations(range(len(chosen)), 2) if draw(st.booleans())]
        interference = Interference.of_pairs(len(chosen), pairs)
    if draw(st.booleans()):
        pinned = draw(st.integers(0, len(chosen) - 1))
        chosen[pinned] = replace(chosen[pinned], offset=chosen[pinned].alignment * draw(st.integers(0, 5)))
    problem = Problem(tuple(chosen), interference)
    free = [i for i, block in enumerate(chosen) if block.offset is None]
    companions = []
    for i, j in zip(free[::2], free[1::2], strict=False):
        if chosen[i].memory == chosen[j].memory and not problem.interfere(i, j) and draw(st.booleans()):
            companions.append((i, j))
    return Problem(tuple(chosen), interference, tuple(companions))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(plain())
def test_every_solver_plans_lives(problem: Problem) -> None:
    bound = lower_bound(problem)
    for name in SOLVERS:
        plan = solve(problem, solver=name, time_limit=None)
        assert faults(problem, plan) == (), name
        assert plan.arena_bytes >= bound == plan.lower_bound
        assert plan == solve(problem, solver=name, time_limit=None), name


@settings(max_examples=30, deadline=None, derandomize=True)
@given(plain())
def test_the_portfolio_is_as_good_as_each_of_its_solvers(problem: Problem) -> None:
    plan = solve(problem, time_limit=None)
    assert faults(problem, plan) == ()
    assert plan.arena_bytes <= min(solve(problem, solver=row.name, time_limit=None).arena_bytes for row in PORTFOLIO)
    assert plan == solve(problem, time_limit=None)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(general())
def test_the_general_solvers_take_everything(problem: Problem) -> None:
    for name in GENERAL:
        if name != "local_search":
            plan = solve(problem, solver=name)
            assert faults(problem, plan) == (), name
            assert plan.arena_bytes >= plan.lower_bound


@settings(max_examples=12, deadline=None, derandomize=True)
@given(general(), st.integers(0, 3))
def test_the_portfolio_takes_everything_and_repeats_itself(problem: Problem, seed: int) -> None:
    plan = solve(problem, time_limit=None, seed=seed)
    assert faults(problem, plan) == ()
    assert plan == solve(problem, time_limit=None, seed=seed)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.csv")), ids=lambda path: path.stem)
def test_the_fixtures_are_planned_at_their_bound(path: Path) -> None:
    problem = read_csv(path)
    plan = solve(problem, time_limit=None)
    assert faults(problem, plan) == ()
    assert plan.arena_bytes == plan.lower_bound
    assert plan.optimal
    assert plan.gap == 0.0


def test_an_optimum_above_the_bound_is_proven() -> None:
    """Two steps hold 3 and 4 bytes of 4, and the long block of 2 fits under or over both only in 5."""
    lives = ((0, 3, 2), (0, 1, 2), (1, 2, 1), (2, 4, 2), (3, 5, 3), (1, 4, 1), (4, 6, 1))
    problem = Problem(tuple(Block(str(i), size, lower, upper) for i, (lower, upper, size) in enumerate(lives)))
    plan = solve(problem, time_limit=None)
    assert plan.optimal
    assert faults(problem, plan) == ()


def test_a_capacity_that_fits_ends_the_search() -> None:
    problem = read_csv(DATA / "bottleneck.csv")
    bound = lower_bound(problem)
    assert solve(problem, capacity=bound).arena_bytes == bound
    assert solve(problem, capacity=10 * bound).arena_bytes <= 10 * bound
    with pytest.raises(MemoryLimitError):
        solve(Problem((Block("a", 2**70, 0, 1),)), capacity=np.int64(2))


def test_a_capacity_that_cannot_be_met_is_an_error_with_the_bytes_needed() -> None:
    problem = read_csv(DATA / "bottleneck.csv")
    with pytest.raises(MemoryLimitError) as caught:
        solve(problem, capacity=lower_bound(problem) - 1)
    assert str(lower_bound(problem)) in caught.value.got


def dense(seed: int) -> Problem:
    draw = Random(seed)
    lives = [(lower, lower + draw.randrange(1, 8)) for lower in (draw.randrange(12) for _ in range(50))]
    return Problem(tuple(Block(str(i), draw.randrange(1, 40), lower, upper) for i, (lower, upper) in enumerate(lives)))


def test_places_are_what_the_searches_may_try() -> None:
    problem = dense(4)
    plans = [solve(problem, places=places, time_limit=None) for places in (0, 2_000, 2_000)]
    assert plans[0].arena_bytes > plans[1].arena_bytes == lower_bound(problem)
    assert plans[1].offsets == plans[2].offsets


def test_an_unknown_solver_is_an_error_with_the_names() -> None:
    with pytest.raises(PlanningError) as caught:
        solve(Problem(()), solver="guess")
    assert "skyline_twa" in caught.value.need


def test_a_solver_that_cannot_take_the_problem_says_so() -> None:
    with pytest.raises(PlanningError) as caught:
        solve(Problem((Block("a", 1, 0, 1, offset=0),)), solver="search")
    assert "pinned" in caught.value.got


def test_pinned_blocks_on_the_same_bytes_are_an_error() -> None:
    problem = Problem((Block("a", 8, 0, 2, offset=0), Block("b", 8, 1, 3, offset=4)))
    with pytest.raises(PlanningError):
        solve(problem)


def test_an_expired_time_limit_still_gives_a_plan() -> None:
    problem = read_csv(DATA / "guillotine.csv")
    plan = solve(problem, time_limit=0.0)
    assert faults(problem, plan) == ()
    explicit = Problem(problem.blocks, Interference.of_lives(problem.blocks))
    assert faults(explicit, solve(explicit, time_limit=0.0)) == ()


@pytest.mark.parametrize("name", ["peak_best_fit_wz", "sweep_first_fit", "sweep_best_fit", "size_first_fit"])
def test_orders_stop_at_the_deadline(name: str) -> None:
    """At a step with very many blocks each event is slow; the first solver once ran on for minutes."""
    count = 7_000
    instance = Instance([0] * count, [1] * count, list(range(1, count + 1)), [3] * count)
    assert SOLVERS[name](instance, Effort(deadline=0.0)).offsets is None


@pytest.mark.parametrize("row", PORTFOLIO, ids=lambda row: row.name)
def test_no_solver_goes_on_for_long_behind_the_deadline(row: SolverRow) -> None:
    """Pairs that interfere are listed, and the like, a bounded number at a time between looks at the clock."""
    count = 3_000
    instance = Instance([0] * count, [1] * count, list(range(1, count + 1)), [3] * count)
    try:
        solution = row.solver(instance, Effort(deadline=0.0))
    except ExpiredError:
        return
    assert solution.offsets is None


def test_very_many_blocks_have_a_plan_before_solvers_that_take_long_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last resort once began at the deadline, and took as long again for a million blocks."""
    monkeypatch.setattr("nnc.planning.portfolio.MOST_TO_WAIT", 3)
    asked = []
    monkeypatch.setattr("nnc.planning.portfolio._is_worth_its_time", lambda state, *_: asked.append(state.solver))
    solve(Problem(tuple(Block(str(i), 3, 0, 1) for i in range(4))))
    assert set(asked) == {"slots"}


def test_a_solver_is_not_asked_for_more_blocks_than_it_is_quick_for() -> None:
    """`local_search`, the last that takes pinned blocks, would list all pairs; the clock is not what keeps it away."""
    blocks = tuple(Block(str(i), 3, 0, 1, alignment=3) for i in range(6_100))
    problem = Problem((Block("pinned", 1, 0, 1, offset=0), *blocks))
    plan = solve(problem)
    assert (plan.solver, faults(problem, plan)) == ("slots", ())


def test_nothing_is_planned_in_no_bytes() -> None:
    plan = solve(Problem(()))
    assert (plan.arena_bytes, plan.optimal, plan.offsets) == (0, True, ())


def test_every_memory_has_its_own_arena() -> None:
    problem = read_csv(DATA / "mixed.csv")
    plan = solve(problem)
    # weights 1000 → 1024, b 500 → 512, c 300 → 512, all alive at step 4.
    assert plan.arenas == {"device": 2048, "host": 80}
    assert plan.arena_bytes == 2128


def test_sizes_beyond_a_machine_word_are_planned() -> None:
    large = 1 << 70
    blocks = (Block("a", large, 0, 2), Block("b", 3 * large, 1, 3), Block("c", 2 * large, 2, 4), Block("d", 5, 0, 4))
    problem = Problem(blocks)
    for solver in ("search", "portfolio"):
        plan = solve(problem, solver=solver)
        assert faults(problem, plan) == ()
        assert plan.arena_bytes <= 7 * large
