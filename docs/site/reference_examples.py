"""Examples of public names, all run: `python docs/site/reference_examples.py [PACKAGE …]` writes what tables show.

The docstring of a name has one as a doctest, or `docs/reference/PACKAGE.md` a row `| name | example | shows |` where
a docstring would only be repeated: rows of operators, records, whole families. What rows share stands in a `python`
block before the table. What an example shows is its output and the value of its last line, on one line, cut where it is
long; `…` stands for anything, and an error is shown where the row says `XError`.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from doctest import DocTestParser
from functools import cache
from importlib import import_module
from io import StringIO
from os import chdir
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from pages import fits
from reference import PACKAGES, other_name, public_names

TABLES = Path(__file__).resolve().parents[1] / "reference"
SETUP = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\| `(?P<name>\w+)` \| `(?P<source>.*?)` \|(?: `(?P<shown>.*?)`)? \|$", re.MULTILINE)
WIDTH = 100
# What every example may name.
COMMON = "import nnc\nfrom nnc import nn, ops, optim\nimport numpy as np"


@cache
def table(package: str) -> str:
    """The page of examples of a package, empty where it has none."""
    path = TABLES / f"{package}.md"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def setup(package: str) -> str:
    """What the rows of a package share."""
    return "\n".join([COMMON, *SETUP.findall(table(package))])


@cache
def rows(package: str) -> dict[str, tuple[str, str]]:
    """By name, the source of its row's example and what it shows."""
    unescaped = {row["name"]: (row["source"], row["shown"] or "") for row in ROW.finditer(table(package))}
    return {
        name: (source.replace("\\|", "|"), shown.replace("\\|", "|")) for name, (source, shown) in unescaped.items()
    }


def sources(package: str, name: str) -> str:
    """The code of a name's example, of its row or its docstring; empty where it has none."""
    if name in rows(package):
        return rows(package)[name][0]
    text = inspect.getdoc(getattr(import_module(package), name)) or ""
    return "".join(example.source for example in DocTestParser().get_examples(text))


def result(source: str, names: dict[str, object], *, refused: bool = False) -> tuple[str, object]:
    """What is shown by code that runs in `names`, and the value of its last line."""
    *statements, last = ast.parse(source).body
    value = None
    with redirect_stdout(StringIO()) as printed, np.printoptions(precision=4):
        try:
            exec(compile(ast.Module(statements, []), "example", "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "example", "eval"), names)
            else:
                exec(compile(ast.Module([last], []), "example", "exec"), names)
        except Exception as error:
            if not refused:
                raise
            return f"{type(error).__name__}: {said(error)}", None
    return " ".join(f"{printed.getvalue()} {'' if value is None else repr(value)}".split()), value


def said(error: Exception) -> str:
    """The message of an error without the line where it happened."""
    return re.sub(r" \([^()]*?:\d+\)$", "", str(error).partition("\n")[0])


def shown_now(package: str) -> Iterator[tuple[str, str, str]]:
    """Of each row: its name, what it shows, and what it showed when it was written."""
    names: dict[str, object] = {}
    exec(setup(package), names)
    for name, (source, shown) in rows(package).items():
        error = package == "nnc.errors" or re.match(r"\w+Error: ", shown) is not None
        text, _ = result(source, dict(names), refused=error)
        yield name, text, shown


def written(package: str) -> str:
    """The page of examples of a package with what they show now."""
    texts = {name: before if before and fits(before, text) else cut(text) for name, text, before in shown_now(package)}

    def row(match: re.Match[str]) -> str:
        text = texts[match["name"]].replace("|", "\\|").replace("`", "'")
        return f"| `{match['name']}` | `{match['source']}` |{f' `{text}`' if text else ''} |"

    return ROW.sub(row, table(package))


def cut(text: str) -> str:
    """Text as long as a row shows it, without addresses."""
    text = re.sub(r"0x[0-9a-f]+", "…", text)
    return text if len(text) <= WIDTH else text[:WIDTH] + "…"


def introduced(package: str) -> str:
    """What the rows of a package begin with, as a reader needs it; empty where it has no rows."""
    if not rows(package):
        return ""
    return f"Examples below begin with\n\n```python\n{setup(package)}\n```\n"


def shown(package: str, name: str) -> Iterator[str]:
    """The example of a row as a page shows it; nothing where the docstring has one."""
    if name in rows(package):
        source, text = rows(package)[name]
        yield from ("```python", *(f">>> {ast.unparse(each)}" for each in ast.parse(source).body))
        yield from (*([text] if text else []), "```", "")


def lacking(package: str) -> list[str]:
    """The public names of a package that have no example."""
    return [
        name
        for name in own_names(package)
        if not re.search(rf"\b{name}\b", f"{sources(package, name)} {rows(package).get(name, ('', ''))[1]}")
    ]


def own_names(package: str) -> list[str]:
    """The public names of a package whose entry is on its page, under this name."""
    module = import_module(package)
    before = [import_module(each) for each in PACKAGES[: PACKAGES.index(package)]]
    return [
        name
        for name in public_names(module)
        if not any(name in public_names(other) and getattr(other, name) is getattr(module, name) for other in before)
        and not other_name(module, name)
    ]


if __name__ == "__main__":
    # Examples may write files.
    chdir(mkdtemp())
    for asked in sys.argv[1:] or [path.stem for path in sorted(TABLES.glob("*.md"))]:
        (TABLES / f"{asked}.md").write_text(written(asked), encoding="utf-8")
        print(asked, "lacks", *lacking(asked))
