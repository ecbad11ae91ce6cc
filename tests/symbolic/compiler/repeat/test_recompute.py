"""The search for what to compute again, against the least work that there is."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.symbolic.compiler.repeat.schedules import chain, least_work, peaks, program, random_program

from nnc.symbolic.compiler.repeat.edit import edited, moved
from nnc.symbolic.compiler.repeat.recompute import (
    Point,
    _ended_at,
    _is_needed,
    _made_at,
    _unread_without,
    lowest,
    recompute,
    thin,
)
from nnc.symbolic.compiler.repeat.schedule import ReplaySchedule


def test_small_programs_need_the_least_work_at_almost_every_peak() -> None:
    """The search is none over all states; here it misses the least work at 1 peak in 70."""
    equal = total = 0
    for seed in range(25):
        made = random_program(seed)
        points = recompute(made)
        for peak in peaks(made):
            best = least_work(made, peak)
            found = min((point.extra for point in points if point.peak <= peak), default=None)
            assert found is None or (best is not None and found >= best)
            equal += found == best
            total += 1
    assert equal >= 0.98 * total
    assert total > 200


def test_points_fall_and_cost_more() -> None:
    made = chain(24)
    points = recompute(made)
    assert (points[0].peak, points[0].extra) == (ReplaySchedule(made, range(len(made.reads))).peak, 0)
    assert [point.peak for point in points] == sorted({point.peak for point in points}, reverse=True)
    assert [point.extra for point in points] == sorted({point.extra for point in points})
    for point in points:
        found = ReplaySchedule(made, point.steps)
        assert (found.peak, found.extra) == (point.peak, point.extra)


def test_a_long_chain_comes_down_to_little_more_than_twice_the_root_of_its_length() -> None:
    """Checkpoints √n apart need about 2 √n values and run each step once more (Chen et al. 2016)."""
    length = 64
    assert min(point.peak for point in recompute(chain(length)) if point.extra <= length) <= 2.5 * length**0.5


def test_another_order_comes_before_any_work() -> None:
    """A large value waits at the peak, which its reader may run before; and a small one is made of what is kept."""
    reads = [(0,), (1,), (2,), (1,), (3, 4)]
    made = program(reads, [1, 9, 1, 7, 1, 1])
    first, *_ = recompute(made)
    assert (first.steps, first.extra) == ((0, 1, 3, 2, 4), 0)
    assert first.peak < ReplaySchedule(made, range(5)).peak


def test_what_is_refused_without_a_count_would_raise_the_peak() -> None:
    """Repeats that are said to be needed, and moves over the peak for which more waits there than before."""
    needed = waiting = 0
    generator = random.Random(0)
    for _ in range(60):
        reads = [tuple({generator.randint(max(step - 5, 0), step) for _ in range(2)}) for step in range(12)]
        made = program(reads, [generator.randint(1, 8) for _ in range(13)])
        now = ReplaySchedule(made, (*range(8), *generator.sample(range(7), 3), *range(8, 12)))
        for position in (position for position, again in enumerate(now.repeats) if again):
            gone = _unread_without(now, position)
            if _is_needed(now, now.steps[position], gone):
                trial = edited(now, gone)
                assert trial is None or trial.peak > now.peak
                needed += 1
        peak = now.bytes.at_peak
        for position, again in enumerate(now.repeats):
            more, less = _made_at(now, position), _ended_at(now, position, 99 if position > peak else 1)
            if not again and position != peak and (more > less if position > peak else less > more):
                trial = moved(now, position, peak if position > peak else peak + 1)
                assert trial is None or trial.peak > now.peak
                waiting += trial is not None
    assert min(needed, waiting) > 9, (needed, waiting)


def test_nothing_runs_again_that_must_not() -> None:
    made = random_program(38)
    assert len(recompute(made)) > 1
    assert len(recompute(replace(made, repeatable=[False] * 8))) == 1
    for point in recompute(replace(made, repeatable=[step % 2 == 0 for step in range(8)])):
        found = ReplaySchedule(made, point.steps)
        assert all(step % 2 == 0 for step, again in zip(found.steps, found.repeats, strict=True) if again)


def test_repeats_that_lower_nothing_are_taken_out() -> None:
    """At the peak, in front of the repeats, nothing changes: both go, the second since only the first read it."""
    assert list(thin(ReplaySchedule(chain(3), (0, 1, 2, 3, 4, 5, 0, 1, 6))).steps) == list(range(7))


def test_only_points_that_none_is_better_than_are_kept() -> None:
    points = [Point((), peak, extra) for peak, extra in ((9, 0), (9, 1), (7, 2), (8, 3), (5, 4), (5, 5))]
    assert [(point.peak, point.extra) for point in lowest(points)] == [(9, 0), (7, 2), (5, 4)]
