"""Of cases that take turns some run in the whole suite: at least one, the same each time, in all workers."""

from __future__ import annotations

from types import SimpleNamespace

from tests.turns import waiting


class Case(SimpleNamespace):
    """What a collected test says of itself."""

    def __init__(self, nodeid: str, number: int | None) -> None:
        super().__init__(nodeid=nodeid, name=nodeid.rpartition("::")[2])
        self.number = number

    def __hash__(self) -> int:
        return hash(self.nodeid)

    def get_closest_marker(self, name: str) -> SimpleNamespace | None:
        return SimpleNamespace(args=(self.number,)) if name == "turns" and self.number else None


def test_every_nth_case_runs_and_tests_without_turns_run_whole() -> None:
    cases = [
        Case(f"tests/a.py::{test}[{place}]", number) for test, number in (("x", 3), ("y", None)) for place in range(7)
    ]
    cases.append(Case("tests/a.py::alone", 2))
    left = {item.nodeid for item in waiting(cases)}
    assert {item.nodeid for item in waiting(cases[::-1])} == left
    assert len(left) == 4
    assert all("::x[" in name for name in left)
