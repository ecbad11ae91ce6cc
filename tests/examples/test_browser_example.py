"""The page that tells drawn digits: drawn and taught in Debian's chromium, skipped where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.browser.build import build
from tests.browser import opened_browser, served


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    build(tmp_path, epochs=2)
    with served(tmp_path) as place:
        yield place


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as browser:
        yield browser


@pytest.mark.nightly("pages of tests/export/test_browser.py run in every run")
def test_a_digit_is_drawn_told_and_learned(browser: Any, address: str) -> None:
    page = browser.new_page()
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address)
    page.wait_for_function('document.title === "Digits: ready"')
    box = page.locator("#paper").bounding_box()
    page.mouse.move(box["x"] + 128, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 128, box["y"] + 220, steps=12)
    page.mouse.up()
    assert page.locator("#told").inner_text().startswith("This is a ")
    for digit in ("8", "3"):
        page.get_by_role("button", name=digit, exact=True).click()
        assert page.locator("#told").inner_text() == f"This is a {digit}"
    assert said == []
    page.close()
