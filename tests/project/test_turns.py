"""Of cases that take turns some run in the whole suite: at least one, the same each time, in all workers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from tests.turns import COSTS, FOLDERS, costly, turns, waiting

TESTS = Path(__file__).parents[1]


class Case(SimpleNamespace):
    """What a collected test says of itself."""

    def __init__(self, nodeid: str, **marks: object) -> None:
        super().__init__(nodeid=nodeid, name=nodeid.rpartition("::")[2], path=TESTS / nodeid.partition("::")[0])
        self.marks = marks

    def __hash__(self) -> int:
        return hash(self.nodeid)

    def get_closest_marker(self, name: str) -> SimpleNamespace | None:
        return SimpleNamespace(args=(self.marks[name],)) if name in self.marks else None


def test_every_nth_case_runs_and_as_many_where_a_test_does_not_say() -> None:
    cases = [Case(f"a.py::x[{place}]", turns=3) for place in range(7)]
    cases += [Case(f"a.py::y[{place}]") for place in range(7)]
    cases += [Case(f"a.py::few[{place}]") for place in range(3)]
    cases += [Case("a.py::alone", turns=2), Case("a.py::unsaid")]
    left = [item.nodeid for item in cases if item in waiting(cases)]
    assert {item.nodeid for item in waiting(cases[::-1])} == {*left}
    assert [name[:7] for name in left] == ["a.py::x"] * 4 + ["a.py::y"] * 3
    assert [turns(count) for count in (1, 3, 4, 7, 8, 31, 32, 64, 1000)] == [1, 1, 2, 2, 3, 4, 5, 6, 6]


def test_pages_and_programs_run_each_time_and_what_is_left_to_the_night_does_not() -> None:
    assert all((TESTS / folder).is_dir() for folder in FOLDERS)
    cases = [Case(f"{folder}/a.py::x[{place}]") for folder in FOLDERS for place in range(9)]
    night = Case("examples/a.py::y", nightly="its reason")
    assert waiting([*cases, night]) == {night}


def test_costly_cases_run_every_second_to_fourth_time() -> None:
    seconds = {f"tests/nn/a.py::x[{place}]": (0.5, 1.0, 2.0)[place % 3] for place in range(12)}
    cases = [Case(name) for name in (*seconds, "tests/nn/a.py::quick")]
    runs = [[case.nodeid for case in cases if case not in costly(cases, seconds, turn)] for turn in range(12)]
    assert all("tests/nn/a.py::quick" in run for run in runs)
    often = {(cost, sum(name in run for run in runs)) for name, cost in seconds.items()}
    assert often == {(0.5, 6), (1.0, 4), (2.0, 3)}
    assert {len(run) for run in runs} == {5, 6}


def test_costs_are_of_tests_that_are_there() -> None:
    files: dict[str, str] = {}
    for name in json.loads(COSTS.read_text(encoding="utf-8")):
        file, *_, test = name.partition("[")[0].split("::")
        text = files.setdefault(file, (TESTS.parent / file).read_text(encoding="utf-8"))
        assert file.endswith(".py")
        assert f"def {test.rpartition('.')[2]}(" in text or file.startswith("src/")
