"""Tables for notebooks: plain HTML, everything from outside escaped, no script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

# No table is longer than a screen.
MOST_ROWS = 40


def table_of(caption: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a caption; where there are too many rows, those in the middle are left out."""
    lines = [[escape(str(cell)) for cell in row] for row in rows]
    if len(lines) > MOST_ROWS:
        left = len(lines) - MOST_ROWS
        lines = [*lines[: MOST_ROWS // 2], [f"… {left} more …"], *lines[-MOST_ROWS // 2 :]]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>"
