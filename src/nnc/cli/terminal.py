"""What goes to the terminal: text made safe, JSON that is always valid, one line for a complaint."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nnc.planning import Plan, Problem
from nnc.planning.pictures import text_map

PIPE_WIDTH = 160
MAP_ROWS = 12
LONGEST_CELL = 500

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def plain(text: str) -> str:
    """`text` with every character that could steer a terminal written as an escape.

    >>> plain("a\\x1b[31mred\\n")
    'a\\\\x1b[31mred\\\\n'
    """
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def output() -> Console:
    """Standard output for people: as wide as the terminal, wide enough for tables where there is none."""
    return _console(sys.stdout)


def errors() -> Console:
    """Standard error for people."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


def complain(message: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"nnc: {plain(message)}\n")
    sys.stderr.flush()


def write_json(value: Mapping[str, Json]) -> None:
    """One JSON object in one line on standard output; numbers that JSON does not know (nan, inf) become null."""
    sys.stdout.write(json.dumps(_finite(dict(value)), allow_nan=False) + "\n")


def _finite(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(title: str, *columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """An empty table; the columns named in `numbers` are set to the right."""
    result = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False, min_width=len(title)
    )
    for column in columns:
        result.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return result


def add_row(target: Table, *cells: str) -> None:
    """A row of plain text; what is longer than anybody reads is cut."""
    target.add_row(*(Text(plain(cell if len(cell) <= LONGEST_CELL else f"{cell[:LONGEST_CELL]}…")) for cell in cells))


def print_map(problem: Problem, plan: Plan, memory: str) -> None:
    """An arena as wide as the terminal."""
    console = output()
    ink = "#" if console.options.ascii_only else "█"
    lines = text_map(problem, plan, memory, console.width, MAP_ROWS, ink)
    console.print("\n".join(lines), soft_wrap=True)


def count(number: int) -> str:
    """1234567 as `1,234,567`."""
    return f"{number:,}"


def size(nbytes: int) -> str:
    """Bytes with the nearest binary unit.

    >>> size(999), size(1851520), size(3 * 2**30)
    ('999 B', '1.77 MiB', '3.00 GiB')
    """
    power = min(max(nbytes.bit_length() - 1, 0) // 10, 4)
    return f"{nbytes} B" if power == 0 else f"{nbytes / 2 ** (10 * power):.2f} {'KMGT'[power - 1]}iB"
