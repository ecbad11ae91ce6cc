"""Tables in CSV files as examples: numbers standardized, texts as one column per category.

x[n, k] = (number - mean) / deviation, a missing one is the mean; or 1 for the row's category and 0 for the others
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import checked
from nnc.core.replacement import reason_of
from nnc.errors import DataError, FormatError
from nnc.nn.data.data_set import Examples

# A column with more texts than this is a name or a sentence, not a category.
MOST_CATEGORIES = 100
MISSING = frozenset({"", "na", "nan", "null", "none", "?"})


@dataclass(frozen=True, slots=True)
class TableColumn:
    """How a column becomes numbers: by mean and deviation, or by its categories."""

    name: str
    mean: float = 0.0
    deviation: float = 1.0
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableScheme:
    """The columns of a table in their order, and its target: classes where they are texts, else numbers as they are."""

    columns: tuple[TableColumn, ...]
    target: TableColumn

    @property
    def features(self) -> int:
        """Numbers per example."""
        return sum(len(column.categories) or 1 for column in self.columns)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; empty where targets are numbers."""
        return self.target.categories


@checked
def read_table(
    path: Path | str, target: str, *, scheme: TableScheme | None = None, classes: bool | None = None
) -> tuple[Examples, TableScheme]:
    """The rows of a CSV file with a head: every column but `target` is an input.

    Columns of texts, and a target of texts, are categories; with `classes` a target of numbers too, or none. A `scheme`
    of an earlier table is applied to this one, as to a test set. DataError and FormatError name column and line.
    """
    head, rows = _cells(Path(path))
    if target not in head:
        close = get_close_matches(target, head, n=1)
        fix = f"did you mean {close[0]!r}?" if close else ""
        raise DataError(str(path), got=f"no column {target!r}", need=f"one of {', '.join(head)}", fix=fix)
    cells = dict(zip(head, zip(*rows, strict=True), strict=True))
    if scheme is None:
        columns = tuple(_column(str(path), name, values) for name, values in cells.items() if name != target)
        wanted = _column(str(path), target, cells[target], classes)
        scheme = TableScheme(columns, wanted if wanted.categories else TableColumn(target))
    missing = [column.name for column in (*scheme.columns, scheme.target) if column.name not in cells]
    if missing:
        raise DataError(str(path), got=f"no column {missing[0]!r}", need="the columns of the scheme")
    parts = [_numbers(str(path), column, cells[column.name]) for column in scheme.columns]
    inputs = np.concatenate(parts, axis=1, dtype=np.float32) if parts else np.zeros((len(rows), 0), np.float32)
    return Examples(Path(path).name, inputs, _targets(str(path), scheme.target, cells[target])), scheme


def _cells(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [[cell.strip() for cell in row] for row in csv.reader(file)]
    except (csv.Error, UnicodeDecodeError) as error:
        raise FormatError(str(path), got=str(error), need="a CSV file in UTF-8") from None
    except OSError as error:
        raise FormatError(str(path), got=reason_of(error), need="a file that can be read") from None
    head = lines[0] if lines else []
    if len(set(head)) < len(head) or not head:
        raise FormatError(str(path), got=f"the head {head}", need="a name for each column, each once")
    rows = []
    for number, row in enumerate(lines[1:], 2):
        if row and len(row) != len(head):
            raise FormatError(str(path), got=f"{len(row)} cells in row {number}", need=f"{len(head)} cells")
        if row:
            rows.append(row)
    if not rows:
        raise DataError(str(path), got="no rows", need="rows below the head")
    return head, rows


def _number(cell: str) -> float:
    """The number in a cell: NaN where it is missing; ValueError where it is a text."""
    return math.nan if cell.lower() in MISSING else float(cell)


def _column(path: str, name: str, cells: Sequence[str], classes: bool | None = None) -> TableColumn:
    try:
        if classes:
            raise ValueError
        numbers = np.array([_number(cell) for cell in cells])
    except ValueError:
        if classes is False:
            raise DataError(path, got=f"texts in column {name!r}", need="numbers") from None
        categories = tuple(sorted(set(cells)))
        if len(categories) > MOST_CATEGORIES:
            got = f"{len(categories)} different texts in column {name!r}"
            raise DataError(path, got=got, need=f"at most {MOST_CATEGORIES}", fix="leave the column out") from None
        return TableColumn(name, categories=categories)
    known = numbers[np.isfinite(numbers)]
    if not known.size:
        return TableColumn(name)
    return TableColumn(name, float(known.mean()), float(known.std()) or 1.0)


def _numbers(path: str, column: TableColumn, cells: Sequence[str]) -> NDArray[np.float64]:
    """[n, 1] standardized numbers, or [n, categories]; a category that the scheme does not know has no column."""
    if column.categories:
        return np.array([[cell == one for one in column.categories] for cell in cells], np.float64)
    values = np.empty(len(cells))
    for place, cell in enumerate(cells):
        values[place] = _parsed(path, column.name, place, cell)
    return np.where(np.isfinite(values), (values - column.mean) / column.deviation, 0.0)[:, None]


def _targets(path: str, column: TableColumn, cells: Sequence[str]) -> NDArray[np.generic]:
    if column.categories:
        places = {name: place for place, name in enumerate(column.categories)}
        for place, cell in enumerate(cells):
            if cell not in places:
                got = f"{cell!r} in column {column.name!r}, row {place + 2}"
                raise DataError(path, got=got, need=f"one of {', '.join(column.categories)}")
        return np.array([places[cell] for cell in cells], np.int32)
    values = np.array([_parsed(path, column.name, place, cell) for place, cell in enumerate(cells)], np.float32)
    if not np.isfinite(values).all():
        place = int(np.argmin(np.isfinite(values)))
        raise DataError(path, got=f"no number in column {column.name!r}, row {place + 2}", need="a target in each row")
    return values[:, None]


def _parsed(path: str, name: str, place: int, cell: str) -> float:
    try:
        return _number(cell)
    except ValueError:
        raise DataError(path, got=f"{cell!r} in column {name!r}, row {place + 2}", need="a number") from None
