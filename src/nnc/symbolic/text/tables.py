"""Tables for notebooks: plain HTML, everything from outside escaped, no script; and the same as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

# No table is longer than a screen.
MOST_ROWS = 40


def table_of(caption: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a caption; where there are too many rows, those in the middle are left out."""
    lines = _bounded([[escape(str(cell)) for cell in row] for row in rows])
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>"


def text_table(caption: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The same for a terminal: columns as wide as they need."""
    lines = _bounded([list(names), *([str(cell) for cell in row] for row in rows)])
    whole = [line for line in lines if len(line) == len(names)]
    widths = [max(map(len, column)) for column in zip(*whole, strict=True)]
    return "\n".join([caption, *("  ".join(map(str.rjust, line, widths)).rstrip() for line in lines)])


def _bounded(lines: list[list[str]]) -> list[list[str]]:
    """No more than fit on a screen: those in the middle are left out."""
    if len(lines) <= MOST_ROWS:
        return lines
    return [*lines[: MOST_ROWS // 2], [f"… {len(lines) - MOST_ROWS} more …"], *lines[-MOST_ROWS // 2 :]]
