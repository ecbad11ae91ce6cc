"""All solvers by name, and the portfolio that runs them from the cheapest on and keeps the best plan.

arena = max over parts of a memory of the part's arena;  stop as soon as it equals the bound
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from types import MappingProxyType

from nnc.errors import MemoryLimitError, PlanningError
from nnc.planning import arrays
from nnc.planning.bound import witnesses
from nnc.planning.instance import COMPANIONS, EXPLICIT, PINNED, Effort, Solver
from nnc.planning.plan import Plan, Witness
from nnc.planning.problem import Problem
from nnc.planning.solvers import greedy, sweep
from nnc.planning.solvers.local import local_search
from nnc.planning.solvers.normalize import Part, normalize
from nnc.planning.solvers.reference_coded import reference_coded
from nnc.planning.solvers.search import search
from nnc.planning.solvers.seed_text import seed_literal, seed_text
from nnc.planning.solvers.skyline import skyline

PORTFOLIO_NAME = "portfolio"
LARGEST_WITH_ARRAYS = 100_000 if arrays.AVAILABLE else 6_000


@dataclass(frozen=True, slots=True)
class Row:
    """A solver and what the portfolio may ask of it.

    `takes` are the needs of an instance (`Instance.needs`) that it meets, `largest` is the number of blocks up to
    which it is worth its time, `turn` its turn in the portfolio, `None` for solvers that only run by name.
    """

    name: str
    solver: Solver
    takes: frozenset[str] = frozenset()
    largest: int = 10**9
    turn: int | None = None


ANY = frozenset({PINNED, COMPANIONS, EXPLICIT})
ROWS = (
    Row("peak_best_fit_wz", sweep.peak_best_fit("WZ"), turn=1),
    Row("sweep_first_fit", sweep.first_fit, turn=2),
    Row("size_first_fit", greedy.first_fit(greedy.by_size), ANY, LARGEST_WITH_ARRAYS, turn=3),
    Row("peak_best_fit_zw", sweep.peak_best_fit("ZW"), turn=4),
    Row("skyline_tz", skyline("TZ"), turn=5),
    Row("skyline_twa", skyline("TWA"), turn=6),
    Row("breadth_first_fit", greedy.first_fit(greedy.by_breadth), ANY, largest=6_000, turn=7),
    Row("search", search, largest=6_000, turn=8),
    Row("skyline_taw", skyline("TAW"), turn=9),
    Row("skyline_awt", skyline("AWT"), turn=10),
    Row("sweep_best_fit", sweep.best_fit, turn=11),
    Row("size_best_fit", greedy.best_fit(greedy.by_size), ANY, largest=6_000, turn=12),
    Row("area_first_fit", greedy.first_fit(greedy.by_area), ANY, largest=6_000, turn=13),
    Row("conflicts_first_fit", greedy.first_fit(greedy.by_conflicts), ANY, largest=6_000, turn=14),
    Row("reference_coded", reference_coded, frozenset({COMPANIONS, EXPLICIT}), largest=300, turn=15),
    Row("local_search", local_search, ANY, largest=3_000, turn=16),
    Row("width_first_fit", greedy.first_fit(greedy.by_width), ANY, largest=6_000),
    Row("birth_first_fit", greedy.first_fit(greedy.by_birth), ANY, largest=6_000),
    Row("birth_best_fit", greedy.best_fit(greedy.by_birth), ANY, largest=6_000),
    Row("seed_text", seed_text, frozenset({EXPLICIT})),
    Row("seed_literal", seed_literal, frozenset({EXPLICIT})),
)

SOLVERS: Mapping[str, Solver] = MappingProxyType({row.name: row.solver for row in ROWS})
PORTFOLIO = tuple(sorted((row for row in ROWS if row.turn is not None), key=lambda row: row.turn or 0))


@dataclass(slots=True)
class State:
    """How far a part is: its best offsets and their arena so far, who found them, and what is proven about it."""

    part: Part
    offsets: list[int] | None = None
    arena: int = 0
    solver: str = ""
    proven: int = 0


def solve(
    problem: Problem,
    *,
    solver: str = PORTFOLIO_NAME,
    time_limit: float | None = 10.0,
    capacity: int | None = None,
    places: int | None = None,
    seed: int = 0,
) -> Plan:
    """The smallest plan of `problem` that `solver` finds within `time_limit` seconds (`None`: no limit).

    In each part of it a search puts blocks somewhere at most `places` times (`None`: its own limit).

    The first plan is made without hurry, so that the portfolio always has one. With a `capacity`, in bytes over all
    arenas, a plan that fits is good enough and the search stops there.
    Raises `MemoryLimitError` if the plan found does not fit, `PlanningError` for an unknown solver, for one that
    cannot take the problem, and for pinned blocks that share bytes.
    """
    begin = perf_counter()
    proofs = witnesses(problem)
    bounds = {memory: sum(problem.blocks[i].reserved for i in proof.blocks) for memory, proof in proofs.items()}
    targets = dict(bounds)
    if capacity is not None and len(bounds) == 1:
        targets = {memory: max(bound, capacity) for memory, bound in bounds.items()}
    deadline = None if time_limit is None else begin + time_limit
    states = [State(part) for part in normalize(problem)]
    for row in _rows(solver, states):
        for state in states:
            unhurried = solver == PORTFOLIO_NAME and state.offsets is None
            limit = None if unhurried else deadline
            _advance(state, row, Effort(targets[state.part.memory], limit, seed, state.arena, places))
    arenas = {memory: max(_values(states, memory, "arena"), default=0) for memory in bounds}
    proven = {memory: max(_values(states, memory, "proven"), default=0) for memory in bounds}
    plan = Plan(
        offsets=_offsets(problem, states),
        arena_bytes=sum(arenas.values()),
        lower_bound=sum(bounds.values()),
        solver=_names(states) or solver,
        optimal=all(arenas[memory] <= max(bounds[memory], proven[memory]) for memory in bounds),
        seconds=perf_counter() - begin,
        witness=max(proofs.items(), key=lambda item: bounds[item[0]], default=("", Witness(0, ())))[1],
        arenas=arenas,
        witnesses=proofs,
    )
    if capacity is not None and plan.arena_bytes > capacity:
        raise MemoryLimitError(
            "plan",
            got=f"{plan.arena_bytes} bytes ({'the optimum' if plan.optimal else f'bound {plan.lower_bound}'})",
            need=f"at most {capacity} bytes",
            fix="raise the capacity or the time limit, or free blocks at the peak",
        )
    return plan


def _rows(solver: str, states: list[State]) -> tuple[Row, ...]:
    if solver == PORTFOLIO_NAME:
        return PORTFOLIO
    chosen = tuple(row for row in ROWS if row.name == solver)
    if not chosen:
        raise PlanningError("solve", got=f"solver {solver!r}", need=f"{PORTFOLIO_NAME}, {', '.join(SOLVERS)}")
    missing = {need for state in states for need in state.part.instance.needs - chosen[0].takes}
    if missing:
        raise PlanningError(
            f"solver {solver}",
            got=f"a problem with {', '.join(sorted(missing))}",
            need=f"at most {', '.join(sorted(chosen[0].takes)) or 'blocks whose lives alone decide'}",
            fix="use the portfolio or a greedy order",
        )
    return chosen


def _advance(state: State, row: Row, effort: Effort) -> None:
    """Let one solver try to better a part; the first that can take it always runs."""
    instance = state.part.instance
    if instance.needs - row.takes:
        return
    if state.offsets is not None and (state.arena <= effort.target or instance.count > row.largest or effort.expired):
        return
    layout = row.solver(instance, effort)
    state.proven = max(state.proven, layout.proven)
    if layout.offsets is None:
        return
    arena = instance.arena(layout.offsets)
    if state.offsets is None or arena < state.arena:
        state.offsets, state.arena, state.solver = layout.offsets, arena, row.name


def _values(states: list[State], memory: str, field: str) -> list[int]:
    return [getattr(state, field) for state in states if state.part.memory == memory]


def _names(states: list[State]) -> str:
    return "+".join(dict.fromkeys(state.solver for state in states))


def _offsets(problem: Problem, states: list[State]) -> tuple[int, ...]:
    """Offsets per block of the problem; a block without bytes or steps goes where it is pinned, or to 0."""
    offsets = [block.offset or 0 for block in problem.blocks]
    for state in states:
        if state.offsets is None:
            raise PlanningError("solve", got="no plan within the effort allowed", need="a longer time limit")
        for block, offset in zip(state.part.blocks, state.offsets, strict=True):
            offsets[block] = offset
    return tuple(offsets)
