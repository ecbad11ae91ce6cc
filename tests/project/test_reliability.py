"""The page of reliability is what the files of `benchmarks/results/reliability` render to; these are of the schema."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SPECIFICATION = importlib.util.spec_from_file_location("benchmark_reliability", ROOT / "benchmarks" / "reliability.py")
assert SPECIFICATION is not None
assert SPECIFICATION.loader is not None
RELIABILITY: Any = importlib.util.module_from_spec(SPECIFICATION)
sys.modules["benchmark_reliability"] = RELIABILITY
SPECIFICATION.loader.exec_module(RELIABILITY)


def row(name: str = "a", **changed: object) -> dict[str, Any]:
    texts = {"target": "0", "measured": "0", "command": "scripts/fuzz a | b", "date": "2026-01-02", "processor": "old"}
    return {"figure": 13, "name": name, **texts, **changed}


@pytest.mark.parametrize("path", sorted(RELIABILITY.FOLDER.iterdir()), ids=lambda path: path.stem)
def test_a_file_of_figures_is_of_the_schema(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert path.suffix == ".jsonl"
    assert RELIABILITY.faults(text, path.stem) == []
    assert RELIABILITY.text_of(RELIABILITY.rows_of(text)) == text


def test_the_page_is_what_the_files_render_to() -> None:
    written = RELIABILITY.PAGE.read_text(encoding="utf-8")
    assert RELIABILITY.page(RELIABILITY.all_rows()) == written, "python benchmarks/reliability.py"


def test_a_file_of_a_command_is_there() -> None:
    """What a row says measures it again can be called."""
    for one in RELIABILITY.all_rows():
        programs = [word for word in one["command"].split() if word.startswith(("scripts/", "benchmarks/", "tests/"))]
        assert programs, one
        assert all((ROOT / word.partition("::")[0]).exists() for word in programs), one


def test_a_row_stands_under_its_figure() -> None:
    text = RELIABILITY.page([row("later", figure=18), row("sooner")])
    assert text.index("## 13. ") < text.index("| sooner | 0 | 0 | `scripts/fuzz a \\| b` | 2026-01-02 | old |")
    assert text.index("| sooner ") < text.index("## 18. ") < text.index("| later ")


def test_a_row_measured_again_replaces_itself_alone() -> None:
    before = [row("a"), row("b"), row("a", processor="new")]
    assert RELIABILITY.with_row(before, row("a", measured="1")) == [row("a", measured="1"), *before[1:]]
    assert RELIABILITY.with_row(before, row("c")) == [*before, row("c")]


@pytest.mark.parametrize(
    "damaged",
    [
        [row(figure=12)],
        [row(figure="13")],
        [row(measured="")],
        [row(measured=0)],
        [row(measured="a\nb")],
        [row(date="2026-02-30")],
        [row(date="today")],
        [row(more="1")],
        [row(), row()],
        [[]],
    ],
)
def test_a_damaged_file_has_faults(damaged: list[dict[str, object]]) -> None:
    assert RELIABILITY.faults(RELIABILITY.text_of([row()]), "13") == []
    assert RELIABILITY.faults(RELIABILITY.text_of(damaged), "13") != []


def test_half_a_file_is_none() -> None:
    assert RELIABILITY.faults(RELIABILITY.text_of([row()])[:-9], "13") != []
