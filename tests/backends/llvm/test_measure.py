from __future__ import annotations

from nnc.backends.llvm.measure import measure
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


def test_what_no_plan_needs_is_measured_when_it_is_asked_for() -> None:
    found = measure(engine())
    assert found.peaks == found.page_touches == found.huge_touches == ()
    assert profile_of(found.text()) == found
