"""A slice of `scripts/fuzz interrupts`, one case of each phase, and that it would see what it looks for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import pytest
from tests.forks import forking
from tests.fuzz.interrupts.campaign import interrupt, phase_of, run_interrupts
from tests.fuzz.interrupts.injection import chosen, interrupted, interrupted_by_clock, places
from tests.fuzz.interrupts.phases import PHASES, Case

ROOT = Path(__file__).resolve().parents[3]
PREPARATION = f"import sys; sys.path.append({str(ROOT)!r}); import tests.fuzz.interrupts.campaign"
SLICE = 9
PROGRAM = f"from tests.fuzz.interrupts.campaign import run_interrupts; print(run_interrupts(range({SLICE})))"


def test_the_same_objects_go_on_after_an_interrupt() -> None:
    # In a process of its own: an interrupted `repr` of a dataclass says `...` for ever, to whatever test comes next.
    code, out, told = forking(PREPARATION).run(PROGRAM)
    assert code == 0, told
    report = json.loads(out.splitlines()[-1])
    assert (report["interrupts"], report["failures"]) == (SLICE, []), told


def test_seeds_reach_every_phase() -> None:
    assert {phase_of(seed) for seed in range(SLICE)} == set(PHASES)


def test_an_interrupt_comes_at_the_place_that_was_drawn() -> None:
    seen: list[int] = []

    def work() -> None:
        for count in range(5):
            seen.append(count)

    counts = places(work)
    (place,) = [place for place in counts if counts[place] == 5]
    seen.clear()
    assert interrupted(work, place, 3)
    assert seen == [0, 1, 2]
    assert chosen(counts, Random(1)) == chosen(counts, Random(1))
    assert not interrupted(work, place, 6)


def test_an_interrupt_comes_when_it_is_time() -> None:
    def work() -> None:
        while True:
            pass

    assert interrupted_by_clock(work, 0.01)
    assert not interrupted_by_clock(lambda: None, 100.0)


def test_a_torn_object_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(random: Random, folder: Path) -> Case:
        """One list is as long as the other but for a moment."""
        one: list[int] = []
        other: list[int] = []

        def work() -> None:
            one.append(1)
            other.append(1)

        def answer() -> dict[str, bytes]:
            return {"equal": bytes([len(one) == len(other)])}

        return Case(work, answer)

    monkeypatch.setitem(PHASES, "compile", torn)
    failures: list[str] = []
    runs = 0
    # Each collects garbage, for 0.1 s behind other tests.
    while runs < 24 and not 0 < len(failures) < runs:
        failures += run_interrupts([runs * len(PHASES)]).failures
        runs += 1
    assert 0 < len(failures) < runs
    assert all("equal" in failure for failure in failures)


def test_a_case_may_be_run_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python drops an interrupt that comes in a finalizer, such as one of what an earlier test left.
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    assert interrupt(4, tmp_path) in (True, False)
