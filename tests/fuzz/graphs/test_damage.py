"""Plans of random graphs that somebody damaged: the verifier of plans, or else the check of reads, finds each."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import replace

from tests.fuzz.graphs.checks import Case
from tests.symbolic.programs import random_program

from nnc.errors import VerificationError
from nnc.planning import Plan, Problem, faults
from nnc.symbolic import Compiled, compile
from nnc.symbolic.compile.liveness import Lives
from nnc.symbolic.compile.memory import lay_out
from nnc.symbolic.compile.ownership import check_reads

GRAPHS = 40


def compiled_graphs() -> Iterator[tuple[Case, Compiled, random.Random]]:
    for seed in range(GRAPHS):
        case = Case(random_program(seed), seed % 2)
        yield case, compile(case.built.graph, case.built.wanted, backend="reference"), random.Random(seed)


def moved(problem: Problem, plan: Plan, block: int, offset: int) -> Plan:
    """The plan with one block elsewhere, and with its other numbers as they then are."""
    offsets = [*plan.offsets]
    offsets[block] = offset
    ends = dict.fromkeys(problem.memories, 0)
    for other, place in zip(problem.blocks, offsets, strict=True):
        ends[other.memory] = max(ends[other.memory], place + other.reserved)
    total = sum(ends.values())
    return replace(plan, offsets=tuple(offsets), arenas=ends, arena_bytes=total, optimal=total == plan.lower_bound)


def share_bytes(problem: Problem, plan: Plan) -> bool:
    """Two blocks that live at one step have a byte in common: each pair is looked at."""
    places = [
        (block.memory, block.lower, block.upper, offset, offset + block.reserved)
        for block, offset in zip(problem.blocks, plan.offsets, strict=True)
    ]
    return any(
        one[0] == other[0] and one[1] < other[2] and other[1] < one[2] and one[3] < other[4] and other[3] < one[4]
        for place, one in enumerate(places)
        for other in places[:place]
    )


def test_a_moved_block_is_a_fault_where_it_lies_on_another() -> None:
    lying = beside = 0
    for _, compiled, numbers in compiled_graphs():
        problem, plan = compiled.plan()
        for _ in range(20 if len(problem.blocks) > 1 else 0):
            block = numbers.randrange(len(problem.blocks))
            step = problem.blocks[block].alignment
            found = moved(problem, plan, block, step * numbers.randrange(plan.arena_bytes // step + 1))
            shares = share_bytes(problem, found)
            assert any("share bytes" in line for line in faults(problem, found)) == shares
            lying, beside = lying + shares, beside + (not shares)
    assert min(lying, beside) > 20


def test_a_block_that_is_too_small_is_a_fault() -> None:
    found = 0
    for _, compiled, _ in compiled_graphs():
        problem, plan = compiled.plan()
        for place, block in enumerate(problem.blocks):
            larger = [*problem.blocks]
            larger[place] = replace(block, size=block.reserved + 1)
            asked = replace(problem, blocks=tuple(larger))
            lines = faults(asked, plan)
            # Nobody lies behind it: then the arena ends too early, or is stated to.
            assert lines or not share_bytes(asked, plan), lines
            found += bool(lines)
    assert found > 40


def is_refused(compiled: Compiled, lives: Lives) -> tuple[Problem, Plan, bool]:
    """The plan of these lives, and whether the check of reads, as debug runs make it, refuses it."""
    ground = compiled.ground
    layout = lay_out(lives, {root: ground.graph.label(root) for root in lives.of})
    assert faults(layout.problem, layout.plan) == ()
    blocks = zip(layout.blocks, layout.plan.offsets, strict=True)
    try:
        check_reads(ground.graph, ground.order, lives, blocks, ground.kept)
    except VerificationError:
        return layout.problem, layout.plan, True
    return layout.problem, layout.plan, False


def test_a_life_that_ends_too_early_is_found_where_somebody_takes_its_bytes() -> None:
    refused = kept = 0
    for _, compiled, _ in compiled_graphs():
        problem, _ = compiled.plan()
        for place, life in enumerate(compiled.ground.lives.blocks()):
            if life.upper - life.lower < 3 or not life.roots:
                continue
            lives = copy.deepcopy(compiled.ground.lives)
            lives.blocks()[place].upper = life.lower + 1
            _, plan, found = is_refused(compiled, lives)
            # Whoever is born at the last use may write over what it reads.
            blocks = [*problem.blocks]
            blocks[place] = replace(blocks[place], upper=life.upper - 1)
            if share_bytes(replace(problem, blocks=tuple(blocks)), plan):
                assert found
            elif not share_bytes(problem, plan):
                assert not found
            refused, kept = refused + found, kept + (not found)
    assert min(refused, kept) > 5


def test_a_value_in_the_memory_of_another_is_found() -> None:
    refused = 0
    for _, compiled, _ in compiled_graphs():
        lives = compiled.ground.lives
        pairs = [
            (one, other)
            for one, inner in lives.of.items()
            for other, outer in lives.of.items()
            if 0 < inner.nbytes <= outer.nbytes and outer.lower < inner.lower and inner.upper < outer.upper
        ]
        for one, other in pairs[:4]:
            damaged = copy.deepcopy(lives)
            damaged.of[other].roots.append(one)
            damaged.of[one] = damaged.of[other]
            assert is_refused(compiled, damaged)[2]
            refused += 1
    assert refused > 20
