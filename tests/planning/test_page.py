"""The page of a plan: one file, data that cannot become markup, and what a reader finds in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser import opened_browser

from nnc.errors import PlanningError
from nnc.planning import Block, BlockText, Problem, StepText, memory_map, solve
from nnc.planning.page import LONGEST_TEXT

EVIL = '</script><script>document.title = "taken"</script><img src=x onerror=alert(1)>\u202e\u2028\ud800'
PROBLEM = Problem((Block("a", 64, 0, 2), Block("b", 32, 1, 3), Block("c", 64, 2, 4)))


def data_of(page: str) -> Any:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_blocks_stand_with_their_lives_and_addresses() -> None:
    plan = solve(PROBLEM)
    whole = data_of(memory_map(PROBLEM, plan, "three"))
    data = whole["maps"][0]
    assert [whole["texts"][row[0]] for row in data["blocks"]] == ["a", "b", "c"]
    assert [tuple(row[5:]) for row in data["blocks"]] == [
        (block.size, block.lower, block.upper, offset)
        for block, offset in zip(PROBLEM.blocks, plan.offsets, strict=True)
    ]
    assert (data["arena"], data["bound"], data["optimal"], data["title"]) == (96, 96, True, "three")


def test_arenas_of_several_memories_lie_above_each_other() -> None:
    problem = Problem((Block("a", 64, 0, 2, memory="one"), Block("b", 32, 0, 2, memory="two")))
    rows = data_of(memory_map(problem, solve(problem)))["maps"][0]["blocks"]
    assert sorted(row[8] for row in rows) in ([0, 32], [0, 64])


def test_names_never_become_markup() -> None:
    page = memory_map(PROBLEM, solve(PROBLEM), EVIL, [BlockText(EVIL, EVIL, EVIL, EVIL, EVIL)] * 3, [StepText(0, EVIL)])
    assert page.count("<script") == memory_map(PROBLEM, solve(PROBLEM)).count("<script")
    assert "onerror=alert" not in page.replace(r"\u003cimg src=x onerror=alert", "")
    assert data_of(page)["title"] == EVIL
    page.encode()


def test_long_names_are_cut() -> None:
    problem = Problem((Block("n" * 10_000_000, 64, 0, 2),))
    page = memory_map(problem, solve(problem))
    assert len(page) < 50_000
    assert data_of(page)["texts"] == ["n" * LONGEST_TEXT, ""]


def test_a_plan_of_nothing_has_a_page() -> None:
    assert data_of(memory_map(Problem(()), solve(Problem(()))))["maps"][0]["blocks"] == []


def test_the_page_asks_for_nothing_from_outside() -> None:
    page = memory_map(PROBLEM, solve(PROBLEM))
    assert "default-src 'none'" in page
    assert re.findall(r"(?:https?:|src=|href=|url\(|import )", page) == []


def test_texts_must_be_as_many_as_blocks() -> None:
    with pytest.raises(PlanningError, match="memory_map: got 3 blocks, 3 offsets, 1 texts; need as many of each"):
        memory_map(PROBLEM, solve(PROBLEM), blocks=[BlockText("a")])


@pytest.fixture
def browser() -> Iterator[Any]:
    with opened_browser() as browser:
        yield browser


def test_a_browser_shows_searches_and_tells(browser: Any, tmp_path: Path) -> None:
    steps = [StepText(0, "first"), StepText(2, "second")]
    texts = [BlockText(EVIL), BlockText("b", "stage1", "convolution", "between", "main.py:3"), BlockText("c")]
    (tmp_path / "map.html").write_text(memory_map(PROBLEM, solve(PROBLEM), EVIL, texts, steps), encoding="utf-8")
    page, said, asked = browser.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "map.html").as_uri())
    page.fill("#find", "conv")
    assert page.text_content("#found") == "1 of 3"
    page.click("#peak button")
    assert "others use its bytes" in page.text_content("#chosen")
    page.keyboard.press("Escape")
    box = page.locator("#map").bounding_box()
    offset = solve(PROBLEM).offsets[1]
    page.mouse.move(box["x"] + box["width"] * 1.5 / 4, box["y"] + box["height"] * (1 - (offset + 16) / (96 * 1.02)))
    assert "b · 32 B · steps 0 · first to 1 · second" in page.text_content("#tip")
    assert (said, len(asked)) == ([], 1)
