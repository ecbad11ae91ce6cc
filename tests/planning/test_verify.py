"""The verifier against plans that were valid before somebody damaged them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nnc.planning import Block, Interference, Plan, Problem, Witness, faults, read_csv, solve

DATA = Path(__file__).parent / "data"
COMPANIONS = Problem(
    (Block("a", 8, 0, 2, alignment=4), Block("b", 8, 1, 3, alignment=4), Block("c", 8, 3, 5), Block("d", 4, 1, 5)),
    companions=((0, 2),),
)


def problems() -> list[Problem]:
    lives = [read_csv(path) for path in sorted(DATA.glob("*.csv"))]
    explicit = [Problem(p.blocks, interference=Interference.of_lives(p.blocks)) for p in lives]
    return [*lives, *explicit, COMPANIONS]


def moved(plan: Plan, block: int, offset: int, problem: Problem) -> Plan:
    """`plan` with one block elsewhere and with the arenas stated as they then are."""
    offsets = [*plan.offsets]
    offsets[block] = offset
    ends = dict.fromkeys(problem.memories, 0)
    for other, place in zip(problem.blocks, offsets, strict=True):
        ends[other.memory] = max(ends[other.memory], place + other.reserved)
    total = sum(ends.values())
    optimal = total == plan.lower_bound or plan.optimal
    return replace(plan, offsets=tuple(offsets), arenas=ends, arena_bytes=total, optimal=optimal)


@pytest.mark.parametrize("problem", problems())
def test_every_overlap_is_found(problem: Problem) -> None:
    plan = solve(problem)
    assert faults(problem, plan) == ()
    damaged = 0
    for i, block in enumerate(problem.blocks):
        for j, other in enumerate(problem.blocks):
            if not problem.interfere(i, j):
                continue
            bottom, top = plan.offsets[j], plan.offsets[j] + other.reserved
            for offset in (bottom, top - 1, bottom - block.reserved + 1):
                damaged += 1
                assert faults(problem, moved(plan, i, offset, problem)), (block.name, other.name, offset)
    assert damaged


def test_a_block_may_move_to_where_nobody_is() -> None:
    problem = read_csv(DATA / "bottleneck.csv")
    plan = solve(problem)
    assert faults(problem, moved(plan, 7, plan.arena_bytes, problem)) == ()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"offsets": (0,)}, "offsets for"),
        ({"arena_bytes": 19}, "the arena is stated"),
        ({"arena_bytes": 21}, "the arena is stated"),
        ({"arenas": {"host": 19}}, "arenas are stated"),
        ({"arenas": {}}, "arenas are stated"),
        ({"arenas": {"host": 20, "device": 4}}, "arenas are stated"),
        ({"lower_bound": 21}, "above the arena"),
        ({"lower_bound": 19}, "witnesses prove"),
        ({"optimal": False}, "not called optimal"),
        ({"witnesses": {"host": Witness(1, (0, 0, 3))}}, "twice"),
        ({"witnesses": {"host": Witness(2, (0, 1, 3))}}, "not alive"),
        ({"witnesses": {"device": Witness(1, (0, 1, 3))}}, "another memory"),
        ({"witness": Witness(0, ())}, "not one of the witnesses"),
    ],
)
def test_every_false_statement_is_found(change: dict[str, object], word: str) -> None:
    plan = solve(COMPANIONS)
    assert plan.arena_bytes == 20
    found = faults(COMPANIONS, replace(plan, **change))
    assert any(word in line for line in found), found


def test_companions_apart_are_found() -> None:
    plan = solve(COMPANIONS)
    elsewhere = moved(plan, 2, plan.offsets[1], COMPANIONS)
    assert any("apart" in line for line in faults(COMPANIONS, elsewhere))


def test_alignment_pins_and_negative_offsets_are_found() -> None:
    problem = Problem((Block("a", 8, 0, 2, alignment=8), Block("b", 8, 3, 4, offset=8)))
    plan = solve(problem)
    assert any("multiple" in line for line in faults(problem, moved(plan, 0, 4, problem)))
    assert any("pinned" in line for line in faults(problem, moved(plan, 1, 0, problem)))
    assert any("before its arena" in line for line in faults(problem, moved(plan, 0, -8, problem)))


def test_witnesses_of_an_explicit_graph_must_interfere() -> None:
    blocks = (Block("a", 8, 0, 9), Block("b", 8, 0, 9), Block("c", 8, 0, 9))
    problem = Problem(blocks, interference=Interference.of_pairs(3, [(0, 1)]))
    plan = solve(problem)
    witness = Witness(0, (0, 2))
    found = faults(problem, replace(plan, witness=witness, witnesses={"host": witness}))
    assert found == ("a and c are witnesses and do not interfere",)
