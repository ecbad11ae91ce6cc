"""Lets the tests import what several test modules share as `tests.…`, however pytest was started; debug mode."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nnc.core.settings import SETTINGS

sys.path.append(str(Path(__file__).resolve().parents[2]))


@pytest.fixture
def debug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verified graphs, and freed memory full of not-a-number."""
    monkeypatch.setattr(SETTINGS, "debug", True)
