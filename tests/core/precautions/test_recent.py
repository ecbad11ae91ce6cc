"""Tables of what was used last: bounded by number and by stated bytes."""

from __future__ import annotations

import pytest

from nnc.core.precautions.recent import RecentlyUsed
from nnc.core.settings import SETTINGS


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> RecentlyUsed[str, str]:
    """Texts of one byte for each letter; at most 4 texts of 10 bytes together."""
    monkeypatch.setattr(SETTINGS, "kept_programs", 4)
    monkeypatch.setattr(SETTINGS, "kept_bytes", 10)
    return RecentlyUsed(len)


def test_the_one_that_nobody_has_asked_for_longest_goes_first(table: RecentlyUsed[str, str]) -> None:
    for key in "abcd":
        assert table.put(key, key.upper()) == key.upper()
    assert table.get("a") == "A"
    table.put("e", "E")
    assert [table.get(key) for key in "abcde"] == ["A", None, "C", "D", "E"]
    assert len(table) == 4


def test_there_are_no_more_bytes_than_the_budget(table: RecentlyUsed[str, str]) -> None:
    table.put("a", "A" * 4)
    table.put("b", "B" * 4)
    table.put("c", "C" * 3)
    assert (table.values(), table.nbytes) == (("BBBB", "CCC"), 7)


def test_one_that_is_larger_than_the_budget_stays_alone(table: RecentlyUsed[str, str]) -> None:
    table.put("a", "A")
    table.put("b", "B" * 20)
    assert table.values() == ("B" * 20,)
    table.put("c", "C")
    assert table.values() == ("C",)


def test_what_is_there_is_not_replaced(table: RecentlyUsed[str, str]) -> None:
    assert table.put("a", "A") == "A"
    assert table.put("a", "other") == "A"
