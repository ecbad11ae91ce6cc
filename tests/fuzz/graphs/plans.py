"""The judges of memory: no fault in plans as they are made, and every fault in plans that are damaged on purpose."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.fuzz.graphs.case import Case, Fault

from nnc.errors import VerificationError
from nnc.planning import Plan, Problem, faults
from nnc.symbolic import Compiled, compile
from nnc.symbolic.compiler.check.lent_memory import check_plan
from nnc.symbolic.compiler.place.liveness import LiveRanges
from nnc.symbolic.compiler.place.memory import ArenaLayout, BlockSpan, lay_out

# Damages of each kind to a plan or to a graph's lives.
TIMES = 3


def layouts(compiled: Compiled) -> list[ArenaLayout]:
    """The plan of a graph, and those of the bodies in it by themselves."""
    found, waiting = [], [compiled.planned]
    while waiting:
        planned = waiting.pop()
        found.append(planned.layout)
        waiting.extend(inner for bodies in planned.inner.values() for inner in bodies)
    return found


def check_plans(compiled: Compiled) -> None:
    """Fault where the verifier of plans finds one."""
    for layout in layouts(compiled):
        if broken := faults(layout.problem, layout.plan):
            raise Fault(f"the plan: {broken[0]}")


def check_damaged(case: Case, numbers: random.Random) -> None:
    """Fault where a damaged plan, or a plan of damaged lives, is taken for a valid one, or a valid one is not."""
    built = case.built
    compiled = compile(built.graph, built.wanted, backend="reference", streams=numbers.choice((1, 1, 1, 2)))
    for layout in layouts(compiled):
        problem, plan = layout.problem, layout.plan
        for _ in range(TIMES if len(problem.blocks) > 1 else 0):
            case.outcomes.add(_moved(problem, plan, numbers))
            case.outcomes.add(_grown(problem, plan, numbers))
        for what, change in STATEMENTS.items():
            if problem.blocks and not faults(problem, change(plan)):
                raise Fault(f"damaged: {what} is not found")
    for _ in range(TIMES if compiled.planned.streams == 1 else 0):
        case.outcomes.add(_ended_early(compiled, numbers))
        case.outcomes.add(_inside_another(compiled, numbers))


STATEMENTS: Mapping[str, Callable[[Plan], Plan]] = {
    "a larger arena": lambda plan: replace(plan, arena_bytes=plan.arena_bytes + 64),
    "a smaller arena": lambda plan: replace(plan, arenas={name: size - 1 for name, size in plan.arenas.items()}),
    "a lower bound": lambda plan: replace(plan, lower_bound=plan.lower_bound - 1),
    "a block too few": lambda plan: replace(plan, offsets=plan.offsets[1:]),
    "an offset below zero": lambda plan: replace(plan, offsets=(-64, *plan.offsets[1:])),
    "an offset between": lambda plan: replace(plan, offsets=(plan.offsets[0] + 1, *plan.offsets[1:])),
}


# ---- damaged plans


def _moved(problem: Problem, plan: Plan, numbers: random.Random) -> str:
    """One block elsewhere: a fault where it lies on another, and nowhere else."""
    block = numbers.randrange(len(problem.blocks))
    step = problem.blocks[block].alignment
    offsets = [*plan.offsets]
    offsets[block] = step * numbers.randrange(plan.arena_bytes // step + 1)
    found = _with_offsets(problem, plan, offsets)
    shares = share_bytes(problem, found)
    if any("share bytes" in line for line in faults(problem, found)) != shares:
        raise Fault(f"damaged: block {block} at {offsets[block]} {'is' if shares else 'is not'} on another")
    return "moved onto another" if shares else "moved beside others"


def _with_offsets(problem: Problem, plan: Plan, offsets: list[int]) -> Plan:
    """The plan with blocks elsewhere, and with its other numbers as they then are."""
    ends = dict.fromkeys(problem.memories, 0)
    for block, offset in zip(problem.blocks, offsets, strict=True):
        ends[block.memory] = max(ends[block.memory], offset + block.reserved)
    total = sum(ends.values())
    return replace(plan, offsets=tuple(offsets), arenas=ends, arena_bytes=total, optimal=total == plan.lower_bound)


def _grown(problem: Problem, plan: Plan, numbers: random.Random) -> str:
    """One block that takes more: a fault where somebody lies behind it; else its arena ends too early."""
    place = numbers.randrange(len(problem.blocks))
    larger = [*problem.blocks]
    larger[place] = replace(larger[place], size=larger[place].reserved + 1)
    asked = replace(problem, blocks=tuple(larger))
    found = faults(asked, plan)
    if not found and share_bytes(asked, plan):
        raise Fault(f"damaged: block {place} is too small")
    return "too small" if found else "room behind it"


def share_bytes(problem: Problem, plan: Plan) -> bool:
    """Two blocks that are needed at once have a byte in common: each pair is looked at."""
    rows = None if problem.interference is None else problem.interference.rows
    for one, first in enumerate(problem.blocks):
        for other, second in enumerate(problem.blocks[:one]):
            overlap = first.lower < second.upper and second.lower < first.upper
            at_once = overlap if rows is None else rows[one] >> other & 1
            begin, start = plan.offsets[one], plan.offsets[other]
            meet = begin < start + second.reserved and start < begin + first.reserved
            if at_once and meet and first.memory == second.memory:
                return True
    return False


# ---- damaged lives


def _ended_early(compiled: Compiled, numbers: random.Random) -> str:
    """A life that ends before its last use: refused where somebody takes its bytes before."""
    problem = _judged(compiled, _copied(compiled.planned.lives))[0].problem
    long = [
        place
        for place, life in enumerate(compiled.planned.lives.blocks())
        if life.upper - life.lower > 2 and life.roots
    ]
    if not long:
        return "no long life"
    place = numbers.choice(long)
    lives = _copied(compiled.planned.lives)
    life = lives.blocks()[place]
    # Whoever is born at the last use may write over what it reads.
    blocks = [*problem.blocks]
    blocks[place] = replace(blocks[place], upper=life.upper - 1)
    life.upper = life.lower + 1
    layout, refused = _judged(compiled, lives)
    if share_bytes(replace(problem, blocks=tuple(blocks)), layout.plan) and not refused:
        raise Fault(f"damaged: the life of block {place} ends too early")
    if refused and not share_bytes(problem, layout.plan):
        raise Fault(f"damaged: nobody takes the bytes of block {place}")
    return "bytes lost" if refused else "bytes kept"


def _inside_another(compiled: Compiled, numbers: random.Random) -> str:
    """A value in the memory of another that lives before it and behind it: refused."""
    lives = _copied(compiled.planned.lives)
    pairs = [
        (one, other)
        for one, inner in lives.of.items()
        for other, outer in lives.of.items()
        if 0 < inner.nbytes <= outer.nbytes and outer.lower < inner.lower and inner.upper < outer.upper
    ]
    if not pairs:
        return "no life around another"
    one, other = numbers.choice(pairs)
    lives.of[other].roots.append(one)
    lives.of[one] = lives.of[other]
    if not _judged(compiled, lives)[1]:
        raise Fault(f"damaged: {one} is in the memory of {other}")
    return "inside another"


def _copied(lives: LiveRanges) -> LiveRanges:
    """The same lives to damage, but for the blocks of bodies, whose plans know them."""
    return copy.deepcopy(lives, {id(life): life for inside in lives.inside.values() for life in inside})


def _judged(compiled: Compiled, lives: LiveRanges) -> tuple[ArenaLayout, bool]:
    """The plan of these lives, and whether the check of reads, as debug runs make it, refuses it."""
    planned = compiled.planned
    inside = [(life, step, step + 1) for step, blocks in lives.inside.items() for life in blocks]
    spans = [*((life, life.lower, life.upper) for life in lives.blocks()), *inside]
    layout = lay_out([BlockSpan(life, lower, upper, "", planned.graph) for life, lower, upper in spans])
    try:
        check_plan(replace(planned, lives=lives, layout=layout))
    except VerificationError:
        return layout, True
    return layout, False
