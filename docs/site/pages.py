"""The code of documentation pages: `python docs/site/pages.py FILE…` runs it and writes what each block prints.

A page is one script. A `text` block behind a `python` block is what that prints; `…` in it stands for anything, and is
kept where what is printed now still fits. Written so, a page shows its results wherever it is read.

A table whose last column is called `nnc` is part of the script: each `code` of that column is a line of it, and
``code`` in two backticks, such as a shell's, is not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

BLOCK = r"(?P<code>```python\n(?P<source>.*?)```\n)(?P<shown>\n```text\n(?P<output>.*?)```\n)?"
TABLE = r"^\|[^\n]*\| nnc \|\n\|[-|]+\|\n(?P<rows>(?:\|[^\n]*\|\n)+)"
SCRIPT = re.compile(f"{BLOCK}|{TABLE}", re.DOTALL | re.MULTILINE)
CELL = re.compile(r"(?<!\\)\|")
CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")

Told = Callable[[str, str | None, str], str | None]


def run(page: Path, told: Told) -> str:
    """The text of a page whose blocks have run in turn, in a folder of their own.

    `told(source, shown, printed)` gives what shall stand behind each block.
    """
    names: dict[str, object] = {}
    text, parts, end = page.read_text(encoding="utf-8"), [], 0
    with TemporaryDirectory() as folder, chdir(folder):
        for number, block in enumerate(SCRIPT.finditer(text), 1):
            if block["rows"]:
                run_rows(block["rows"], names)
                continue
            with redirect_stdout(StringIO()) as printed:
                exec(compile(block["source"], f"block {number}", "exec"), names)
            shown = told(block["source"], block["output"], printed.getvalue())
            parts += [text[end : block.start()], block["code"], "" if shown is None else f"\n```text\n{shown}```\n"]
            end = block.end()
    return "".join([*parts, text[end:]])


def lines_of(rows: str) -> list[str]:
    """The code in the last column of a table, in turn."""
    cells = [CELL.split(row)[-2] for row in rows.splitlines()]
    return [code.replace("\\|", "|") for cell in cells for code in CODE.findall(cell)]


def run_rows(rows: str, names: dict[str, object]) -> None:
    """The last column of a table as a script that goes on with these names."""
    for line in lines_of(rows):
        with redirect_stdout(StringIO()):
            exec(compile(line, f"row `{line}`", "exec"), names)


def fits(shown: str, printed: str) -> bool:
    """Whether this output is the one that a page shows, `…` being anything."""
    pattern = ".*".join(re.escape(part) for part in re.split(" *… *", shown.rstrip()))
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None


def written(source: str, shown: str | None, printed: str) -> str | None:
    """What is printed now, where the page shows output at all or could."""
    if shown is not None and fits(shown, printed):
        return shown
    return printed.rstrip() + "\n" if printed.strip() else None


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(run(Path(name), written), encoding="utf-8")
