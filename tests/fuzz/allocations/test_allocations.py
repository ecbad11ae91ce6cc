"""A slice of `scripts/fuzz allocations`, and that it would see what it looks for."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.fuzz.allocations import injection
from tests.fuzz.allocations.campaign import Report, run_programs, turns
from tests.fuzz.allocations.injection import counted
from tests.fuzz.allocations.programs import PROGRAMS
from tests.fuzz.interrupts.phases import Answer, Case

from nnc.core.values.storage import Storage
from nnc.errors import NncError, OutOfMemoryError

FEW = 3
# They make all native code anew each time.
SLOW = ("first run", "workers")


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in SLOW])
def test_a_program_goes_on_after_an_allocation_failed(name: str) -> None:
    report = run_programs([list(PROGRAMS).index(name)], FEW)
    assert report.failures == []
    assert report.raised == report.failed
    assert 0 < report.failed.total() <= FEW


def test_turns_reach_from_the_first_to_the_last() -> None:
    assert turns(2, 3) == [1, 2]
    assert turns(9, 3) == [1, 5, 9]
    assert turns(0, 3) == []


def test_the_allocation_that_was_chosen_fails() -> None:
    with counted(fails=2) as source:
        kept = Storage.allocate(100)
        with pytest.raises(OutOfMemoryError, match="storage: got 7 bytes; need memory that this machine has") as caught:
            Storage.allocate(7)
        assert isinstance(caught.value, MemoryError)
        assert isinstance(caught.value, NncError)
        assert source.live(164) == 164
        del kept
        assert source.live() == 0


@pytest.mark.parametrize(
    ("fault", "told"),
    [("another answer", "allocation 2 of 2: answer"), ("bytes held", "128 bytes held"), ("another error", "KeyError")],
)
def test_what_may_not_be_is_found(fault: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[Storage] = []

    def broken(random: Random, folder: Path) -> Case:
        answers = [b"right"]

        def work() -> None:
            first = Storage.allocate(64)
            try:
                Storage.allocate(64)
            except OutOfMemoryError as error:
                if fault == "another answer":
                    answers[0] = b"wrong"
                if fault == "bytes held":
                    held.append(first)
                if fault == "another error":
                    raise KeyError from error
                raise

        def answer() -> Answer:
            return {"answer": answers[0]}

        return Case(work, answer)

    monkeypatch.setitem(PROGRAMS, "graph", broken)
    monkeypatch.setattr(injection, "SECONDS", 0.0)
    report = run_programs([0])
    assert len(report.failures) == 1
    assert told in str(report)


def test_reports_add_up() -> None:
    whole = Report()
    for part in (Report(), Report()):
        part.failed["graph"] = part.raised["graph"] = 2
        part.failures.append("one")
        whole.add(part)
    assert (whole.failed["graph"], whole.raised["graph"], len(whole.failures)) == (4, 4, 2)
