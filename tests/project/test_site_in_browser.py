"""The site as people read it from a folder: it is built without a warning, asks nobody, and what is searched is found.

Skipped where Sphinx (the extra `docs`) is not installed or the system has no browser: `scripts/docs --install-browser`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.browser import opened_browser

ROOT = Path(__file__).parents[2]


@pytest.mark.nightly("45 s of Sphinx; pages, links and names have tests of their own")
def test_names_of_errors_and_options_are_found_without_a_network(tmp_path: Path) -> None:
    for package in ("furo", "myst_parser", "sphinx"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    said: list[str] = []
    asked: list[str] = []
    with opened_browser() as browser:
        subprocess.run([sys.executable, ROOT / "docs" / "site" / "build.py", tmp_path, "--unasked"], check=True)
        page = browser.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        for name, place in (
            ("MemoryLimitError", "nnc.errors"),
            ("memory_limit", "nnc.nn"),
            ("NNC_CACHE_DIR", "native"),
        ):
            page.goto(f"{(tmp_path / 'search.html').as_uri()}?q={name}")
            page.wait_for_selector(f'#search-results a[href*="{place}"]')
        page.goto((tmp_path / "docs" / "tour.html").as_uri())
        page.click('article a[href="memory.html"]')
        assert page.locator("article h1").text_content().startswith("Memory")
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
