"""Chains by dynamic programming, against the least work that there is."""

from __future__ import annotations

from dataclasses import replace

from tests.symbolic.compiler.repeat.schedules import chain, chain_reads, least_work, peaks, program, random_chain

from nnc.symbolic.compiler.repeat.chain import chain_schedules
from nnc.symbolic.compiler.repeat.schedule import Program, ReplaySchedule


def front(program: Program) -> dict[int, int]:
    """Work by peak."""
    found = [ReplaySchedule(program, steps) for steps in chain_schedules(program)]
    return {one.peak: one.extra for one in found}


def test_random_chains_need_the_least_work_at_every_peak() -> None:
    for seed in range(8):
        program = random_chain(seed)
        found = front(program)
        for peak in peaks(program):
            work = min((work for one, work in found.items() if one <= peak), default=None)
            assert work == least_work(program, peak)


def test_equal_steps() -> None:
    """With x, a value, its gradient and one more, each step runs again for each later one: 14 + … + 1 times in all."""
    found = front(chain(16))
    assert sorted(found) == list(range(4, 19))
    assert found[4] == sum(range(15))
    assert found[18] == 0
    assert [found[peak] for peak in sorted(found)] == sorted(found.values(), reverse=True)


def test_steps_between_checkpoints_are_one_segment() -> None:
    """Each value is made of two that the chain does not carry on; backward reads one of these and the value before."""
    forward = [(0,), (1,), (1, 2), (3,), (3, 4), (5,), (5, 6), (7,), (7, 8)]
    backward = [(9, 8), (10, 6), (11, 4), (12, 2)]
    made = program([*forward, *backward], [1] * 14)
    found = front(made)
    assert min(found) < ReplaySchedule(made, range(13)).peak
    for steps in chain_schedules(made):
        assert sorted(set(steps)) == list(range(13))
        first = [step for place, step in enumerate(steps) if step not in steps[:place]]
        assert first == list(range(13))


def test_what_is_no_chain_has_no_schedules() -> None:
    reads = chain_reads(6)
    across = [*reads[:-1], (*reads[-1], 1, 3, 5)]
    assert chain_schedules(program(reads, [1] * 14))
    assert not chain_schedules(program(across, [1] * 14))
    assert not chain_schedules(program([(0,), (1,)], [1] * 3))
    assert not chain_schedules(replace(program(reads, [1] * 14), repeatable=[False] * 13))
