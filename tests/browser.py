"""A browser for tests of pages: the system's Chromium, driven by playwright; skipped where either is absent."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# Playwright itself gives a folder of its own, no first run, no updates and nothing in the background.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-sync"]


@contextmanager
def opened_browser() -> Iterator[Any]:
    """A fresh browser without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no chromium on this machine")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()
