from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nnc.backends.llvm import measure as measures
from nnc.backends.llvm.measure import measure
from nnc.backends.llvm.run import rates
from nnc.backends.llvm.run.engine import engine
from nnc.backends.llvm.run.profile import caches, profile_of


def test_a_machine_is_measured() -> None:
    found = measure(engine(), whole=True)
    assert profile_of(found.text()) == found
    assert found.multiply_adds > 0
    assert found.clock > 0
    assert [level.nbytes for level in found.caches] == [level.nbytes for level in caches()]
    assert all(level.loads > 0 for level in found.caches)
    assert (
        min(
            found.memory_loads,
            found.memory_stores,
            *(each for _, each in (*found.page_touches, *found.huge_touches)),
            *(rate for *_, rate in found.peaks),
        )
        > 0
    )


@pytest.mark.parametrize("moments", [lambda: 7, iter(range(10**9, 0, -1)).__next__], ids=["stands", "goes back"])
def test_a_clock_that_tells_nothing_gives_a_profile_within_limits(
    moments: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "perf_counter_ns", moments)
    monkeypatch.setattr(measures, "MEMORY_BYTES", 1 << 20)
    monkeypatch.setattr(rates, "sleep", lambda seconds: None)
    usual = engine().target
    found = measure(engine()).followed(usual)
    assert found.in_place == usual.in_place
    assert (found.machine.clock, found.machine.meeting) == (8.0, 1000.0)


def test_products_of_a_transformer_weigh_in_the_choice_between_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(engine(), target=replace(engine().target, in_place=False))
    asked: list[tuple[int, int, int]] = []

    def both_plans(machine: object, sizes: tuple[int, int, int]) -> list[float]:
        asked.append(sizes)
        return [0.9, 1.0] if len(set(sizes)) == 1 else [25.0, 10.0]

    monkeypatch.setattr(measures, "_both_plans", both_plans)
    assert not measures._in_place(few)
    assert tuple(asked) == measures.SIZES


def test_what_no_plan_needs_is_measured_when_it_is_asked_for() -> None:
    found = measure(engine())
    assert found.peaks == found.page_touches == found.huge_touches == ()
    assert profile_of(found.text()) == found
