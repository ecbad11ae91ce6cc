"""What terminals and notebooks show of something long: no more than a screen."""

from __future__ import annotations

from html import escape

MOST_LINES = 40
MOST_CHARACTERS = 160


def fitted(text: str) -> str:
    """The first and the last lines of a text, each no wider than a screen."""
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        lines = [*lines[:half], f"… {len(lines) - 2 * half} more lines …", *lines[-half:]]
    return "\n".join(line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…" for line in lines)


def preformatted(text: str) -> str:
    """The same for a notebook."""
    return f"<pre>{escape(fitted(text))}</pre>"
