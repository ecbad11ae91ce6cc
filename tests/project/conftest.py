"""What the tests of the project share, and give back."""

from __future__ import annotations

import pytest
from tests.project.sources import tree_of


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Trees of all sources, a million nodes, are nothing that a later test's `gc.collect()` should look at."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        tree_of.cache_clear()
