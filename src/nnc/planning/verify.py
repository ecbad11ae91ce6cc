"""The judge of plans: it knows the problem's rules and no solver.

faults(problem, plan) == ()  <=>  no two blocks that interfere share a byte, and every stated number is true
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import pairwise

from nnc.arguments import checked
from nnc.planning.plan import Plan
from nnc.planning.problem import Problem


@checked
def faults(problem: Problem, plan: Plan) -> tuple[str, ...]:
    """Every rule that `plan` breaks, in words; an empty tuple for a valid plan.

    A plan with faults has at least one line; once two blocks overlap, further overlaps beside them may go unnamed.
    """
    if len(plan.offsets) != len(problem.blocks):
        return (f"{len(plan.offsets)} offsets for {len(problem.blocks)} blocks",)
    broken = [*_place_faults(problem, plan), *_companion_faults(problem, plan), *_arena_faults(problem, plan)]
    if problem.interference is None:
        for memory in problem.memories:
            broken.extend(_overlaps_of_lives(problem, plan, memory))
    else:
        broken.extend(_overlaps_of_pairs(problem, plan))
    broken.extend(_certificate_faults(problem, plan))
    return tuple(broken)


def _place_faults(problem: Problem, plan: Plan) -> Iterator[str]:
    for block, offset in zip(problem.blocks, plan.offsets, strict=True):
        if offset < 0:
            yield f"{block.name} is at {offset}, before its arena"
        if offset % block.alignment:
            yield f"{block.name} is at {offset}, not a multiple of {block.alignment}"
        if block.offset is not None and offset != block.offset:
            yield f"{block.name} is at {offset}, pinned to {block.offset}"


def _companion_faults(problem: Problem, plan: Plan) -> Iterator[str]:
    for group in problem.companions:
        for first, second in pairwise(group):
            if plan.offsets[first] != plan.offsets[second]:
                yield f"companions {problem.blocks[first].name} and {problem.blocks[second].name} are apart"


def _arena_faults(problem: Problem, plan: Plan) -> Iterator[str]:
    ends = dict.fromkeys(problem.memories, 0)
    for i, (block, offset) in enumerate(zip(problem.blocks, plan.offsets, strict=True)):
        if problem.takes_bytes(i):
            ends[block.memory] = max(ends[block.memory], offset + block.reserved)
    if dict(plan.arenas) != ends:
        yield f"arenas are stated as {dict(plan.arenas)}, the blocks end at {ends}"
    if plan.arena_bytes != sum(ends.values()):
        yield f"the arena is stated as {plan.arena_bytes} bytes, the blocks end at {sum(ends.values())}"


def _overlaps_of_lives(problem: Problem, plan: Plan, memory: str) -> Iterator[str]:
    """Walk the steps: deaths before births, the living sorted by offset, each newcomer against both neighbours."""
    members = [i for i, block in enumerate(problem.blocks) if block.memory == memory and problem.takes_bytes(i)]
    events = [(problem.blocks[i].upper, 0, i) for i in members] + [(problem.blocks[i].lower, 1, i) for i in members]
    alive: list[tuple[int, int]] = []
    for _, birth, i in sorted(events):
        entry = (plan.offsets[i], i)
        if not birth:
            del alive[bisect_left(alive, entry)]
            continue
        place = bisect_left(alive, entry)
        for _, other in alive[max(place - 1, 0) : place + 1]:
            if _share_bytes(problem, plan, i, other):
                yield _overlap(problem, i, other)
        insort(alive, entry)


def _overlaps_of_pairs(problem: Problem, plan: Plan) -> Iterator[str]:
    assert problem.interference is not None
    for i, j in problem.interference.pairs():
        if problem.interfere(i, j) and _share_bytes(problem, plan, i, j):
            yield _overlap(problem, i, j)


def _share_bytes(problem: Problem, plan: Plan, i: int, j: int) -> bool:
    first, second = plan.offsets[i], plan.offsets[j]
    return first < second + problem.blocks[j].reserved and second < first + problem.blocks[i].reserved


def _overlap(problem: Problem, i: int, j: int) -> str:
    return f"{problem.blocks[i].name} and {problem.blocks[j].name} interfere and share bytes"


def _certificate_faults(problem: Problem, plan: Plan) -> Iterator[str]:
    """The witnesses must prove the bound, and `optimal` may not contradict it."""
    if plan.lower_bound > plan.arena_bytes:
        yield f"the bound {plan.lower_bound} is above the arena {plan.arena_bytes}"
    if plan.arena_bytes == plan.lower_bound and not plan.optimal:
        yield "the bound is met and the plan is not called optimal"
    proven = 0
    for memory, witness in plan.witnesses.items():
        blocks = [problem.blocks[i] for i in witness.blocks]
        pinned = [block.offset + block.reserved for block in blocks if block.offset is not None]
        proven += max(sum(block.reserved for block in blocks), *pinned, 0)
        if len(set(witness.blocks)) != len(witness.blocks):
            yield f"the witness of {memory} counts a block twice"
        if any(problem.blocks[i].memory != memory for i in witness.blocks):
            yield f"the witness of {memory} holds blocks of another memory"
        yield from _witness_faults(problem, witness.step, witness.blocks)
    if proven != plan.lower_bound:
        yield f"the witnesses prove {proven} bytes, the bound is stated as {plan.lower_bound}"
    if plan.witnesses and plan.witness not in plan.witnesses.values():
        yield "the witness is not one of the witnesses"


def _witness_faults(problem: Problem, step: int, blocks: tuple[int, ...]) -> Iterator[str]:
    if problem.interference is None:
        for i in blocks:
            if not problem.blocks[i].lower <= step < problem.blocks[i].upper:
                yield f"{problem.blocks[i].name} is a witness at step {step}, where it is not alive"
        return
    for place, i in enumerate(blocks):
        for j in blocks[place + 1 :]:
            if not problem.interfere(i, j):
                yield f"{problem.blocks[i].name} and {problem.blocks[j].name} are witnesses and do not interfere"
