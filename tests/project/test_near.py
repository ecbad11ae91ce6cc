"""Which tests are near a change."""

from __future__ import annotations

from pathlib import PurePosixPath

from tests.conformance.case import names_of
from tests.conformance.cases import CASES
from tests.near import first_rows, imports_of_tests, near


def of(*paths: str) -> list[str]:
    return near(map(PurePosixPath, paths))


def test_a_changed_test_is_near_itself() -> None:
    assert of("tests/project/test_near.py", "tests/near.py") == ["tests/project/test_near.py"]


def test_a_module_is_near_what_mirrors_it_and_what_imports_it() -> None:
    tests = of("src/nnc/symbolic/ir.py")
    assert "tests/symbolic/test_ir.py" in tests
    assert all("nnc.symbolic.ir" in imports_of_tests()[test] for test in tests if test != "tests/symbolic/test_ir.py")


def test_what_is_reached_through_a_face_is_near_the_tests_of_its_folder() -> None:
    assert "tests/planning/test_problem.py" in of("src/nnc/planning/plan.py")


def test_a_family_is_near_a_row_of_each_of_its_operators() -> None:
    rows = [argument for argument in of("src/nnc/codegen/kernels/random/random.py") if "conformance" in argument]
    assert any("[dropout-" in row for row in rows)
    assert not any("gemm" in row for row in rows)


def test_each_row_has_a_name_of_its_own() -> None:
    """pytest numbers rows of one text: `--near` ran none of a family where that was an operator's first."""
    names = names_of(CASES).values()
    assert len(set(names)) == len(names)
    assert {name for _, name in first_rows()} <= set(names)


def test_doctests_and_pages_are_near_themselves() -> None:
    assert "src/nnc/dynamic/eager.py" in of("src/nnc/dynamic/eager.py")
    (page,) = of("docs/tour.md", "docs/parity.md")
    assert page.endswith("[tour.md]")
