"""Where examples of docstrings are looked for. A plugin of pytest."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """In files that have some, and in faces, whose functions may be rows: all others took each worker 3 s."""
    collectors = yield
    if file_path.suffix != ".py" or any(mark in file_path.read_text("utf-8") for mark in (">>>", "__all__")):
        return collectors
    return [collector for collector in collectors if not isinstance(collector, DoctestModule)]
