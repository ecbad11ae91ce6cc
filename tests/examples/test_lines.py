"""Our examples have no more lines than what others show for the task, and the page says how many they have."""

from __future__ import annotations

from pathlib import Path

from benchmarks import example_lines

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "coming-from.md"


def test_the_page_has_the_table_and_ours_are_no_longer() -> None:
    table = example_lines.table()
    assert table in PAGE.read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in table.splitlines()[2:]]
    assert len(rows) == 15
    for task, own, _, second, original, *_ in rows:
        assert max(int(own), int(second)) <= int(original), task


def test_comments_and_docstrings_are_no_code() -> None:
    text = '"""A\n\ntext."""\n\n# no code\nx = (\n    1\n)\n\n\ndef f():\n    """Says."""\n    return "a"\n'
    assert example_lines.code_lines(text) == 5
