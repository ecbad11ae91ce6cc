"""What several test modules of this folder use."""

from __future__ import annotations

import pytest

from nnc.core.settings import SETTINGS


@pytest.fixture
def debug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verified graphs, and freed memory full of not-a-number."""
    monkeypatch.setattr(SETTINGS, "debug", True)
