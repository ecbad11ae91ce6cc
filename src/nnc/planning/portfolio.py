"""All solvers by name, and the portfolio that runs them from the cheapest on and keeps the best plan.

arena = max over parts of a memory of the part's arena;  stop as soon as it equals the bound
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter
from types import MappingProxyType

from nnc.arguments import checked
from nnc.classes import dataclass
from nnc.errors import MemoryLimitError, PlanningError
from nnc.planning import arrays
from nnc.planning.bound import proven_bytes, witnesses
from nnc.planning.instance import COMPANIONS, EXPLICIT, PINNED, Effort, ExpiredError, Solver
from nnc.planning.plan import Plan, Witness
from nnc.planning.problem import Problem
from nnc.planning.solvers import greedy, sweep
from nnc.planning.solvers.local import local_search
from nnc.planning.solvers.normalize import Subproblem, normalize
from nnc.planning.solvers.reference_coded import reference_coded
from nnc.planning.solvers.search import search
from nnc.planning.solvers.seed_text import seed_literal, seed_text
from nnc.planning.solvers.skyline import skyline
from nnc.planning.solvers.whole_slots import slots

PORTFOLIO_NAME = "portfolio"
LARGEST_WITH_ARRAYS = 100_000 if arrays.AVAILABLE else 6_000
# From this many blocks on the last resort comes first: its pass takes seconds, which are gone when all others failed.
MOST_TO_WAIT = 20_000

# From this many blocks on, two orders that another one betters in all networks come behind the search: in front of it
# they took 1.05 of 2.3 s for Inception-v2's step of 1,256 blocks.
SECONDS_FROM = 1_000


@dataclass(frozen=True, slots=True)
class SolverRow:
    """A solver and what the portfolio may ask of it.

    `takes` are the needs of an instance (`Instance.needs`) that it meets. It is worth its time for more blocks than
    `least` and at most the `largest` number; `turn` is its turn in the portfolio, `None` for solvers that only run by
    name.
    """

    name: str
    solver: Solver
    takes: frozenset[str] = frozenset()
    largest: int = 10**9
    least: int = 0
    turn: int | None = None


ANY = frozenset({PINNED, COMPANIONS, EXPLICIT})
ROWS = (
    SolverRow("peak_best_fit_wz", sweep.peak_best_fit("WZ"), turn=1),
    SolverRow("sweep_first_fit", sweep.sweep_first_fit, turn=2),
    SolverRow("size_first_fit", greedy.first_fit(greedy.by_size), ANY, LARGEST_WITH_ARRAYS, turn=3),
    SolverRow("peak_best_fit_zw", sweep.peak_best_fit("ZW"), turn=4),
    SolverRow("skyline_tz", skyline("TZ"), largest=SECONDS_FROM, turn=5),
    SolverRow("skyline_twa", skyline("TWA"), turn=6),
    SolverRow("breadth_first_fit", greedy.first_fit(greedy.by_breadth), ANY, largest=SECONDS_FROM, turn=7),
    SolverRow("search", search, largest=6_000, turn=8),
    SolverRow("skyline_tz", skyline("TZ"), least=SECONDS_FROM, turn=9),
    SolverRow("breadth_first_fit", greedy.first_fit(greedy.by_breadth), ANY, 6_000, SECONDS_FROM, turn=9),
    SolverRow("skyline_taw", skyline("TAW"), turn=9),
    SolverRow("skyline_awt", skyline("AWT"), turn=10),
    SolverRow("sweep_best_fit", sweep.sweep_best_fit, turn=11),
    SolverRow("size_best_fit", greedy.best_fit(greedy.by_size), ANY, largest=6_000, turn=12),
    SolverRow("area_first_fit", greedy.first_fit(greedy.by_area), ANY, largest=6_000, turn=13),
    SolverRow("conflicts_first_fit", greedy.first_fit(greedy.by_conflicts), ANY, largest=6_000, turn=14),
    SolverRow("reference_coded", reference_coded, frozenset({COMPANIONS, EXPLICIT}), largest=300, turn=15),
    SolverRow("local_search", local_search, ANY, largest=3_000, turn=16),
    SolverRow("width_first_fit", greedy.first_fit(greedy.by_width), ANY, largest=6_000),
    SolverRow("birth_first_fit", greedy.first_fit(greedy.by_birth), ANY, largest=6_000),
    SolverRow("birth_best_fit", greedy.best_fit(greedy.by_birth), ANY, largest=6_000),
    SolverRow("seed_text", seed_text, frozenset({EXPLICIT})),
    SolverRow("seed_literal", seed_literal, frozenset({EXPLICIT})),
)

LAST_RESORT = SolverRow("slots", slots, ANY)
SOLVERS: Mapping[str, Solver] = MappingProxyType({row.name: row.solver for row in ROWS})
PORTFOLIO = tuple(sorted((row for row in ROWS if row.turn is not None), key=lambda row: row.turn or 0))


@dataclass(slots=True)
class State:
    """How far a part is: its best offsets and their arena so far, who found them, and what is proven about it."""

    part: Subproblem
    offsets: list[int] | None = None
    arena: int = 0
    solver: str = ""
    proven: int = 0


@checked
def solve(
    problem: Problem,
    *,
    solver: str = PORTFOLIO_NAME,
    time_limit: float | None = 10.0,
    capacity: int | None = None,
    places: int | None = None,
    seed: int = 0,
) -> Plan:
    """`smallest_plan`; raises `MemoryLimitError` if that needs more than `capacity` bytes over all arenas."""
    plan = smallest_plan(problem, solver=solver, time_limit=time_limit, capacity=capacity, places=places, seed=seed)
    if capacity is not None and plan.arena_bytes > capacity:
        raise beyond(plan, capacity)
    return plan


@checked
def beyond(plan: Plan, capacity: int) -> MemoryLimitError:
    """The error that says that the smallest plan found does not fit."""
    return MemoryLimitError(
        "plan",
        got=f"{plan.arena_bytes} bytes ({'the optimum' if plan.optimal else f'bound {plan.lower_bound}'})",
        need=f"at most {capacity} bytes",
        fix="raise the capacity or the time limit, or free blocks at the peak",
    )


@checked
def smallest_plan(
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

    Where no solver of the portfolio is done in time, `slots` makes a plan in one pass, so that there always is one.
    With a `capacity`, in bytes over all arenas, a plan that fits is good enough and the search stops there; one that
    does not fit is given back too. Raises `PlanningError` for an unknown solver, for one that cannot take the problem,
    and for pinned blocks that share bytes.
    """
    begin = perf_counter()
    proofs = witnesses(problem)
    bounds = {memory: proven_bytes(problem, proof) for memory, proof in proofs.items()}
    targets = dict(bounds)
    if capacity is not None and bounds:
        # What is left beside the bounds of all others is enough for the largest.
        largest = max(bounds, key=lambda memory: bounds[memory])
        # In Python's integers: blocks may be larger than those of NumPy, which a capacity may be.
        targets[largest] = max(bounds[largest], int(capacity) - sum(bounds.values()) + bounds[largest])
    deadline = None if time_limit is None else begin + time_limit
    states = [State(part) for part in normalize(problem)]
    rows = _rows(solver, states)
    if solver == PORTFOLIO_NAME:
        _use_last_resort(states, [deadline is not None and each.part.instance.count > MOST_TO_WAIT for each in states])
    for row in rows:
        for state in states:
            effort = Effort(targets[state.part.memory], deadline, int(seed), state.arena, places)
            if solver != PORTFOLIO_NAME or _is_worth_its_time(state, row, effort):
                _advance(state, row, effort)
    if solver == PORTFOLIO_NAME:
        _use_last_resort(states, [state.offsets is None for state in states])
    return _plan(problem, states, solver, proofs, bounds, perf_counter() - begin)


def _use_last_resort(states: list[State], needed: list[bool]) -> None:
    """The plan of one pass, for the parts that need one."""
    for state, needs in zip(states, needed, strict=True):
        if needs:
            _advance(state, LAST_RESORT, Effort())


def _plan(
    problem: Problem,
    states: list[State],
    solver: str,
    proofs: Mapping[str, Witness],
    bounds: Mapping[str, int],
    seconds: float,
) -> Plan:
    """The parts as one plan; it is optimal where each memory is as small as its bound, or as a search has proven."""
    arenas = {memory: max((state.arena for state in _of(states, memory)), default=0) for memory in bounds}
    proven = {memory: max((state.proven for state in _of(states, memory)), default=0) for memory in bounds}
    return Plan(
        offsets=_offsets(problem, states),
        arena_bytes=sum(arenas.values()),
        lower_bound=sum(bounds.values()),
        solver=_names(states) or solver,
        optimal=all(arenas[memory] <= max(bounds[memory], proven[memory]) for memory in bounds),
        seconds=seconds,
        witness=max(proofs.items(), key=lambda item: bounds[item[0]], default=("", Witness(0, ())))[1],
        arenas=arenas,
        witnesses=proofs,
    )


def _rows(solver: str, states: list[State]) -> tuple[SolverRow, ...]:
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


def _advance(state: State, row: SolverRow, effort: Effort) -> None:
    """Let one solver try to better a part, if it can take it."""
    instance = state.part.instance
    if instance.needs - row.takes:
        return
    try:
        solution = row.solver(instance, effort)
    except ExpiredError:
        return
    state.proven = max(state.proven, solution.proven)
    if solution.offsets is None:
        return
    arena = instance.arena(solution.offsets)
    if state.offsets is None or arena < state.arena:
        state.offsets, state.arena, state.solver = solution.offsets, arena, row.name


def _is_worth_its_time(state: State, row: SolverRow, effort: Effort) -> bool:
    """Whether there is time, something to win, and no more blocks than the solver is quick for."""
    has_won = state.offsets is not None and state.arena <= effort.target
    return not has_won and not effort.expired and row.least < state.part.instance.count <= row.largest


def _of(states: list[State], memory: str) -> Iterator[State]:
    return (state for state in states if state.part.memory == memory)


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
