"""Trails on disk: found once, and again where the entry is damaged."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from tests.symbolic.compiler.repeat.schedules import random_chain

from nnc.core.settings import SETTINGS
from nnc.symbolic.compiler.repeat import trails
from nnc.symbolic.compiler.repeat.recompute import Point, recompute
from nnc.symbolic.compiler.repeat.schedule import Program

Numbers = list[tuple[tuple[int, ...], int, int]]


@pytest.fixture(autouse=True)
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The programs that were searched; entries are in a folder of the test, and programs may be small."""
    found = list[Program]()

    def search(program: Program, deadline: float) -> tuple[Point, ...]:
        found.append(program)
        return recompute(program, deadline)

    monkeypatch.setattr(trails, "recompute", search)
    monkeypatch.setattr(trails, "FEWEST_STEPS", 2)
    monkeypatch.setattr(SETTINGS, "cache_folder", tmp_path)
    return found


def numbers(points: tuple[Point, ...]) -> Numbers:
    return [(tuple(point.steps), point.peak, point.extra) for point in points]


def test_a_trail_is_searched_once(searched: list[Program]) -> None:
    first, second = trails.trail(random_chain(1)), trails.trail(random_chain(1))
    assert numbers(first) == numbers(second) == numbers(recompute(random_chain(1)))
    assert len(searched) == 1


def test_other_programs_have_other_trails(searched: list[Program]) -> None:
    made = random_chain(1)
    others = [
        made,
        replace(made, work=[2 * work for work in made.work]),
        replace(made, scratch=[1] * len(made.reads)),
        replace(made, lasting=[True] * len(made.nbytes)),
    ]
    for other in others:
        trails.trail(other)
    assert len(searched) == len(others)


def test_a_damaged_entry_is_ignored_and_written_again(searched: list[Program], tmp_path: Path) -> None:
    expected = numbers(trails.trail(random_chain(2)))
    (entry,) = (tmp_path / "trails").iterdir()
    sound = entry.read_bytes()
    for damaged in (b"", sound[:-3], sound[:60] + b"?" + sound[61:]):
        entry.write_bytes(damaged)
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            assert numbers(trails.trail(random_chain(2))) == expected
        assert entry.read_bytes() == sound
    assert len(searched) == 4


def test_without_a_folder_every_trail_is_searched(searched: list[Program], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "cache_folder", None)
    trails.trail(random_chain(3))
    trails.trail(random_chain(3))
    assert len(searched) == 2


def test_what_a_deadline_cuts_short_is_used_and_not_kept(searched: list[Program], tmp_path: Path) -> None:
    (start,) = trails.trail(random_chain(4), deadline=0.0)
    assert (start.extra, tuple(start.steps)) == (0, tuple(range(len(random_chain(4).reads))))
    assert not (tmp_path / "trails").exists()
    assert numbers(trails.trail(random_chain(4))) == numbers(recompute(random_chain(4)))
    assert len(searched) == 2
