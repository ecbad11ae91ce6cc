"""Tables in CSV files as examples: numbers standardized, texts as one column per category.

x[n, k] = (number - mean) / deviation, a missing one is the mean; or 1 for the row's category and 0 for the others
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Size, checked
from nnc.classes import dataclass
from nnc.core.precautions.reading import kind_of, opened
from nnc.core.precautions.replacement import reason_of
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
    path: Path | str,
    target: str,
    *,
    scheme: TableScheme | None = None,
    classes: bool | None = None,
    held_out: Size = 0,
) -> tuple[Examples, TableScheme]:
    """The rows of a CSV file with a head: every column but `target` is an input.

    Columns of texts, and a target of texts, are categories; with `classes` a target of numbers too, or none. A `scheme`
    of an earlier table is applied to this one, as to a test set. Means and deviations leave every row out whose place
    `held_out` divides, for a test. DataError and FormatError name column and line.
    """
    cells = _columns(Path(path), target)
    if scheme is None:
        fitted = {name: _without(values, held_out) for name, values in cells.items()}
        columns = tuple(_column(str(path), name, cells[name], fitted[name]) for name in cells if name != target)
        wanted = _column(str(path), target, cells[target], fitted[target], classes)
        known = tuple(category for category in wanted.categories if category.lower() not in MISSING)
        scheme = TableScheme(columns, TableColumn(target, categories=known))
    inputs = _inputs(str(path), scheme, cells)
    return Examples(Path(path).name, inputs, _targets(str(path), scheme.target, cells[scheme.target.name])), scheme


@checked
def read_inputs(path: Path | str, scheme: TableScheme) -> NDArray[np.float32]:
    """The inputs of a CSV file by the scheme of an earlier table; there need be no target."""
    return _inputs(str(path), scheme, _columns(Path(path), *(column.name for column in scheme.columns)))


def _columns(path: Path, *needed: str) -> dict[str, tuple[str, ...]]:
    """The cells of each column, and an error where one is not there."""
    head, rows = _cells(path)
    for name in needed:
        if name not in head:
            close = get_close_matches(name, head, n=1)
            fix = f"did you mean {close[0]!r}?" if close else ""
            raise DataError(str(path), got=f"no column {name!r}", need=f"one of {', '.join(head)}", fix=fix)
    return dict(zip(head, zip(*rows, strict=True), strict=True))


def _without(cells: Sequence[str], held_out: int) -> Sequence[str]:
    """All but every `held_out`-th, where that leaves any."""
    return [cell for place, cell in enumerate(cells) if not held_out or place % held_out] or cells


def _inputs(path: str, scheme: TableScheme, cells: Mapping[str, Sequence[str]]) -> NDArray[np.float32]:
    """[n, features]"""
    missing = [column.name for column in scheme.columns if column.name not in cells]
    if missing or not scheme.columns:
        got = f"no column {missing[0]!r}" if missing else "no column beside the target"
        raise DataError(path, got=got, need="the columns of the scheme" if missing else "inputs")
    parts = [_numbers(path, column, cells[column.name]) for column in scheme.columns]
    return np.concatenate(parts, axis=1, dtype=np.float32)


def _cells(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with opened(path, "a CSV file"), path.open(newline="", encoding="utf-8-sig") as file:
            lines = [[cell.strip() for cell in row] for row in csv.reader(file)]
    except (csv.Error, UnicodeDecodeError) as error:
        kind = kind_of(path)
        fix = "read it by DataFrame.from_parquet" if "Parquet" in kind else ""
        raise FormatError(str(path), got=kind or str(error), need="a CSV file in UTF-8", fix=fix) from None
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


def _column(
    path: str, name: str, cells: Sequence[str], fitted: Sequence[str], classes: bool | None = None
) -> TableColumn:
    """Categories are those of all cells, mean and deviation those of the `fitted` ones."""
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
    known = np.array([_number(cell) for cell in fitted])
    known = known[np.isfinite(known)]
    if not known.size or not numbers.size:
        return TableColumn(name)
    with np.errstate(over="ignore"):
        mean, deviation = float(known.mean()), float(known.std())
    if not np.isfinite(deviation):
        got = f"numbers up to {np.abs(known).max():g} in column {name!r}"
        raise DataError(path, got=got, need="numbers whose squares are finite")
    return TableColumn(name, mean, deviation or 1.0)


def _numbers(path: str, column: TableColumn, cells: Sequence[str]) -> NDArray[np.float64]:
    """[n, 1] standardized numbers, or [n, categories]; a category that the scheme does not know has no column."""
    if column.categories:
        return np.array([[cell == category for category in column.categories] for cell in cells], np.float64)
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
