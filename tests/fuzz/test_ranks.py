"""Kinds of faults. `tests/parallel/test_faults.py` has one of each; the campaign: scripts/fuzz ranks --count 200."""

from __future__ import annotations

from tests.fuzz.ranks import kind_of


def test_kinds_come_as_often_as_they_are_told() -> None:
    kinds = [kind_of(seed) for seed in range(200)]
    assert [kinds.count(kind) for kind in ("kill", "full disk", "stop")] == [172, 20, 8]
