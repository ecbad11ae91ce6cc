"""Figures of reliability: `results/reliability/FIGURE.jsonl`, and `docs/reliability.md` that is rendered from them.

    python benchmarks/reliability.py                                   writes the page anew
    python benchmarks/reliability.py FIGURE NAME TARGET MEASURED COMMAND   keeps a row of today first

A line of a file is a row: what was measured, its target, the command that measures it again, the day and the kind of
processor, as LLVM names it. A row is replaced when its name is measured again on a processor of the same kind.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import llvmlite.binding as llvm

from nnc.core.precautions.replacement import write_atomically

ROOT = Path(__file__).resolve().parents[1]
FOLDER, PAGE = ROOT / "benchmarks" / "results" / "reliability", ROOT / "docs" / "reliability.md"
Row = Mapping[str, int | str]
TEXTS = ("name", "target", "measured", "command", "date", "processor")
"""Of a row, beside the number of its figure."""

TITLES: Mapping[int, str] = {
    1: "ONNX's own node tests",
    2: "The same tests behind every pass",
    3: "Memory predicted and taken",
    4: "The peak of a training step",
    5: "Loading a large file",
    6: "Import",
    7: "From the start to the first training step",
    8: "What is installed",
    9: "Leaks",
    10: "Gradients",
    11: "Tolerances",
    12: "Bad inputs",
    13: "Every allocation fails once",
    14: "The verifier of plans",
    15: "Quality of plans",
    16: "Checkpoints and crashes",
    17: "Resuming to the bit",
    18: "Signals",
    19: "Determinism",
    20: "Several processes",
    21: "Threads and forks",
    22: "The page of a memory map",
    23: "Branches that tests run",
    24: "Array API and DLPack",
}

INTRODUCTION = """# Reliability

What was measured, when, and the command that measures it again. Rows are kept in `benchmarks/results/reliability/`, a
file for each figure; `python benchmarks/reliability.py` renders this page from them. What no row shows is not known.
"""


def rows_of(text: str) -> list[dict[str, int | str]]:
    """Of a file that has no `faults`."""
    return [json.loads(line) for line in text.splitlines()]


def text_of(rows: Iterable[Row]) -> str:
    """A row a line."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def all_rows(folder: Path = FOLDER) -> list[dict[str, int | str]]:
    """In the order of the figures, and within one in that of its file."""
    paths = sorted(folder.glob("*.jsonl"), key=lambda path: int(path.stem))
    return [row for path in paths for row in rows_of(path.read_text(encoding="utf-8"))]


def with_row(rows: Sequence[Row], row: Row) -> list[Row]:
    """In the place of the row of this name and processor, else behind all others."""
    keys = [(one["name"], one["processor"]) for one in rows]
    mine = (row["name"], row["processor"])
    return [row if key == mine else one for key, one in zip(keys, rows)] + ([] if mine in keys else [row])


def faults(text: str, figure: str) -> list[str]:
    """Why the file of this figure is none; an empty list if it is one."""
    try:
        rows = rows_of(text)
    except ValueError as error:
        return [f"no JSON: {error}"]
    wrong = [f"line {line}: {fault}" for line, row in enumerate(rows, 1) for fault in row_faults(row, figure)]
    keys = [(row.get("name"), row.get("processor")) for row in rows if isinstance(row, dict)]
    return wrong + [f"twice: {key}" for key in sorted(set(keys), key=str) if keys.count(key) > 1]


def row_faults(row: Row, figure: str) -> list[str]:
    if not isinstance(row, dict) or tuple(row) != ("figure", *TEXTS):
        return [f"need the keys {', '.join(('figure', *TEXTS))} in this order"]
    wrong = [key for key in TEXTS if not isinstance(row[key], str) or not row[key] or "\n" in str(row[key])]
    number = row["figure"]
    wrong += [] if number in TITLES and str(number) == figure else [f"figure {number}"]
    return wrong + ([] if is_day(str(row["date"])) else ["date"])


def is_day(text: str) -> bool:
    try:
        return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", text)) and date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def page(rows: Sequence[Row]) -> str:
    """The whole document."""
    parts = [INTRODUCTION]
    for number, title in TITLES.items():
        if chosen := [row for row in rows if row["figure"] == number]:
            parts += [f"## {number}. {title}\n", table(chosen)]
    return "\n".join(parts)


def table(rows: Iterable[Row]) -> str:
    heads = ("figure", "target", "measured", "command", "date", "processor")
    cells = [
        (row["name"], row["target"], row["measured"], f"`{row['command']}`", row["date"], row["processor"])
        for row in rows
    ]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in (heads, ["---"] * len(heads), *cells))


def cell(text: object) -> str:
    """With bars that do not end it."""
    return str(text).replace("|", "\\|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", nargs="*", help="figure, name, target, measured, command")
    options = parser.parse_args()
    if options.row:
        if len(options.row) != 5:
            parser.error("a row is: figure, name, target, measured, command")
        figure, *texts = options.row
        today = datetime.now(UTC).strftime("%Y-%m-%d")
        row = dict(zip(("figure", *TEXTS), (int(figure), *texts, today, llvm.get_host_cpu_name()), strict=True))
        if wrong := row_faults(row, figure):
            parser.error(", ".join(wrong))
        path = FOLDER / f"{figure}.jsonl"
        before = rows_of(path.read_text(encoding="utf-8")) if path.exists() else []
        write_atomically(path, [text_of(with_row(before, row)).encode()])
    write_atomically(PAGE, [page(all_rows()).encode()])


if __name__ == "__main__":
    main()
