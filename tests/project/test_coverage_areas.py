"""What scripts/coverage measures is there: a moved file does not fall out of its area in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.coverage.areas import AREAS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("area", AREAS)
def test_the_sources_and_tests_of_an_area_are_where_it_says(area: str) -> None:
    sources, tests = AREAS[area].sources, AREAS[area].tests
    assert [one for one in sources if not list((ROOT / "src" / "nnc").glob(one))] == []
    assert [one for one in tests if not (ROOT / "tests" / one).exists()] == []
