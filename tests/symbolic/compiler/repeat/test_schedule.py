"""Schedules against lives and bytes worked out by hand."""

from __future__ import annotations

from dataclasses import replace

from tests.symbolic.compiler.repeat.schedules import simple

from nnc.symbolic.compiler.repeat.schedule import NEVER, Events, ReplaySchedule


def test_values_live_to_their_last_use() -> None:
    found = ReplaySchedule(simple(), range(4))
    assert found.repeats == [False] * 4
    assert [found.lives(root) for root in range(5)] == [[(0, 0)], [(0, 3)], [(1, 2)], [(2, 3)], [(3, 3)]]
    assert found.bytes.during.tolist() == [8, 8 + 4, 8 + 4 + 2, 8 + 2 + 1]
    assert found.extra == 0


def test_a_step_that_runs_again_makes_a_second_version() -> None:
    found = ReplaySchedule(simple(), (0, 1, 2, 0, 3))
    assert found.repeats == [False, False, False, True, False]
    assert found.lives(1) == [(0, 1), (3, 4)]
    assert [found.version(1, position) for position in (1, 4)] == [0, 1]
    assert found.bytes.during.tolist() == [8, 8 + 4, 4 + 2, 2 + 8, 2 + 8 + 1]
    assert found.bytes.through.tolist() == [0, 8, 4, 2, 2 + 8]
    assert found.extra == 10


def test_what_lives_to_the_end_keeps_its_first_version() -> None:
    """a is wanted: when f runs again, its output is read by nobody, and takes memory for that run alone."""
    lasting = [False, True, False, False, True]
    found = ReplaySchedule(replace(simple(), lasting=lasting, scratch=[3, 0, 0, 0]), (0, 1, 0, 2, 3))
    assert found.lives(1) == [(0, 4)]
    assert found.bytes.during.tolist() == [8 + 3, 8 + 4, 8 + 4 + 8 + 3, 8 + 4 + 2, 8 + 2 + 1]


def test_outputs_that_take_over_memory_are_not_counted_twice() -> None:
    shared = replace(simple(), pairs=[(), (), ((2, 3),), ()], nbytes=[0, 8, 4, 4, 1])
    assert ReplaySchedule(shared, range(4)).bytes.during.tolist() == [8, 12, 12, 13]
    assert ReplaySchedule(shared, (0, 1, 2, 1, 2, 3)).bytes.shared.tolist() == [0, 0, 4, 0, 4, 0]


def test_what_is_made_piece_by_piece_lives_from_its_first_piece() -> None:
    """Steps 0 and 1 write halves of root 1; nothing makes it as a whole."""
    pieces = replace(
        simple(), writes=[(1,), (1,), (3,), (4,)], reads=[(0,), (0,), (1,), (3,)], maker=[NEVER, NEVER, NEVER, 2, 3]
    )
    assert [ReplaySchedule(pieces, range(4)).lives(root) for root in range(2)] == [[(0, 1)], [(0, 2)]]


def test_a_version_that_nobody_reads_lives_for_its_run() -> None:
    assert Events([0, 4, 6], [2, 4, 9]).lives(NEVER) == [(0, 4), (4, 4), (6, 9)]
    assert Events([NEVER], []).lives(NEVER) == [(0, 0)]
    assert Events([1], [2]).lives(7) == [(1, 7)]
