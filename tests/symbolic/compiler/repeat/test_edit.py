"""The costs of edits, against those of the edited schedules counted anew."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.symbolic.compiler.repeat.schedules import chain, program, random_program, simple

from nnc.symbolic.compiler.repeat.edit import edited, moved
from nnc.symbolic.compiler.repeat.schedule import ReplaySchedule


def test_edits_cost_what_the_edited_schedules_cost() -> None:
    generator = random.Random(0)
    for seed in range(60):
        made = random_program(seed, count=10)
        pairs = [tuple((root, step + 1) for root in read if root) for step, read in enumerate(made.reads)]
        scratch = [generator.randint(0, 3) for _ in made.reads]
        made = replace(made, pairs=pairs, scratch=scratch)
        now = ReplaySchedule(made, range(10))
        for _ in range(12):
            position = generator.randrange(1, len(now.steps))
            done = sorted(set(now.steps[:position]) - {9})
            steps = tuple(sorted(generator.sample(done, min(len(done), generator.randint(0, 3)))))
            repeats = [place for place, again in enumerate(now.repeats) if again]
            gone = generator.sample(repeats, min(len(repeats), generator.randint(0, 2)))
            trial = edited(now, gone, position, steps)
            assert trial is not None
            now = trial.schedule()
            _assert_equal(now, ReplaySchedule(made, trial.steps))


def _assert_equal(edited: ReplaySchedule, anew: ReplaySchedule) -> None:
    """An edited schedule is the one that is counted anew, in the parts of its bytes too: later edits begin there."""
    program = anew.program
    assert (list(edited.steps), list(edited.repeats), edited.extra) == (list(anew.steps), anew.repeats, anew.extra)
    for root in range(len(program.maker)):
        assert (edited.events(root), edited.lives(root)) == (anew.events(root), anew.lives(root))
    for step in range(len(program.reads)):
        assert edited.runs(step) == anew.runs(step)
    for name in ("through", "born", "own", "shared", "during"):
        assert getattr(edited.bytes, name).tolist() == getattr(anew.bytes, name).tolist()


def test_what_is_there_from_the_start_is_so_for_a_step_that_comes_first() -> None:
    """Step 1 reads x, which step 0 does not read."""
    made = program([(), (0,), (1, 2)], [4, 1, 2, 1])
    for now, place, position in ((ReplaySchedule(made, range(3)), 1, 0), (ReplaySchedule(made, range(3)), 0, 2)):
        trial = moved(now, place, position)
        assert trial is not None
        assert list(trial.steps) == [1, 0, 2]
        _assert_equal(trial.schedule(), ReplaySchedule(made, trial.steps))


def test_a_step_in_front_of_its_reader() -> None:
    trial = edited(ReplaySchedule(simple(), range(4)), (), 3, (0,))
    assert trial is not None
    assert list(trial.steps) == [0, 1, 2, 0, 3]
    assert trial.during.tolist() == [8, 8 + 4, 4 + 2, 2 + 8, 2 + 8 + 1]
    assert trial.extra == 10


def test_what_is_overwritten_is_not_read_again() -> None:
    """Step 2 writes over x, which step 0 reads."""
    assert edited(ReplaySchedule(replace(simple(), overwritten={0: 2}), range(4)), (), 3, (0,)) is None
    assert edited(ReplaySchedule(replace(simple(), overwritten={0: 3}), range(4)), (), 3, (0,)) is not None


def test_a_first_run_moves_where_nothing_depends_on_its_place() -> None:
    """b and c are made of a; d reads c and e reads b and d."""
    made = program([(0,), (1,), (1,), (3,), (2, 4)], [1, 8, 4, 2, 1, 1])
    now = ReplaySchedule(made, range(5))
    for place, position, steps in ((1, 4, [0, 2, 3, 1, 4]), (3, 4, [0, 1, 2, 3, 4]), (2, 1, [0, 2, 1, 3, 4])):
        trial = moved(now, place, position)
        assert trial is not None
        assert list(trial.steps) == steps
        _assert_equal(trial.schedule(), ReplaySchedule(made, steps))
        assert trial.extra == 0
    assert moved(now, 3, 1) is None
    assert moved(now, 0, 2) is None


def test_a_first_run_stays_in_front_of_what_needs_it_there() -> None:
    """Step 3 reads x and b: it stays in front of what writes over x, and step 0 in front of a repeat that reads a."""
    made = replace(program([(0,), (1,), (2,), (0, 2)], [1] * 5), before=[()] * 4)
    assert moved(ReplaySchedule(made, (0, 1, 2, 1, 3)), 0, 2) is None
    assert moved(ReplaySchedule(replace(made, overwritten={0: 2}), (0, 1, 3, 2)), 2, 4) is None
    assert moved(ReplaySchedule(replace(made, overwritten={0: 2}), (0, 1, 2, 3)), 3, 2) is not None


def test_a_repeat_moves() -> None:
    now = ReplaySchedule(chain(3), (0, 1, 2, 3, 4, 0, 1, 5, 6))
    trial = edited(now, (6,), 8, (1,))
    assert trial is not None
    assert list(trial.steps) == [0, 1, 2, 3, 4, 0, 5, 1, 6]
    assert trial.extra == now.extra
