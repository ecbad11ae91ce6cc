"""Columns of CSV files, read on all cores by pyarrow (the extra `data`), and what its tables become."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.core.precautions.reading import kind_of, opened
from nnc.core.precautions.replacement import reason_of
from nnc.errors import BackendError, DataError, FormatError, OutOfMemoryError

# pyarrow's own types, which are known only where it is installed.
ArrowValue: TypeAlias = Any
Column: TypeAlias = NDArray[Any] | list[Any]
# A column of a CSV file takes pyarrow 10 KB and 50 us while it is read, however short: 120,000 in a file of 1 MB took
# 1.3 GB together, in groups of 8,192 0.3 GB. More than 65,536 take more than 5 s where they are texts.
GROUP_OF_COLUMNS, MOST_COLUMNS = 1 << 13, 1 << 16
# An array of texts has room for the longest in each row: 120,000 rows, one of them 500 KB long, would take 224 GB.
MOST_TEXT_BYTES = 1 << 28


def extra_module(name: str) -> ModuleType:
    """A module of the extra `data`; BackendError where it is absent."""
    try:
        return import_module(name)
    except ImportError:
        need = f"the package {'pillow' if name.startswith('PIL') else name.partition('.')[0]}"
        raise BackendError("data", got=f"no module {name}", need=need, fix="pip install 'nnc[data]'") from None


def csv_columns(path: Path, columns: tuple[str, ...]) -> dict[str, Column]:
    """The columns of a CSV file with a head; all of them unless some are named."""
    arrow_csv = extra_module("pyarrow.csv")
    names = _wide_head(path)
    if not names:
        return table_columns(path, columns, lambda: arrow_csv.read_csv(path))
    _check_names(path, names, columns)
    chosen = list(columns) or names
    if len(chosen) > MOST_COLUMNS:
        fix = "name those to read, some at a time: columns=[…]"
        raise FormatError(str(path), got=f"{len(chosen):,} columns", need=f"at most {MOST_COLUMNS:,} at once", fix=fix)
    # Threads take columns one by one: 0.66 s of processor for 8,000 texts, alone 0.42.
    alone, whole = arrow_csv.ReadOptions(use_threads=False), dict[str, Column]()
    for start in range(0, len(chosen), GROUP_OF_COLUMNS):
        group = chosen[start : start + GROUP_OF_COLUMNS]
        options = arrow_csv.ConvertOptions(include_columns=group)
        # Copies: arrays over pyarrow's memory would keep the whole group's.
        read = table_columns(path, (), lambda: arrow_csv.read_csv(path, alone, convert_options=options))  # noqa: B023
        whole |= {name: np.array(column) if isinstance(column, np.ndarray) else column for name, column in read.items()}
    return whole


def _wide_head(path: Path) -> list[str]:
    """The names in the head of a file with more columns than a group; else none."""
    try:
        with opened(path, "a table"), path.open("rb") as file:
            line = file.readline()
        if line.count(b",") < GROUP_OF_COLUMNS:
            return []
        return next(csv.reader([line.decode("utf-8-sig")]))
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(str(path), got=kind_of(path) or str(error), need="a whole file of that kind") from None
    except OSError as error:
        raise FormatError(str(path), got=reason_of(error), need="a file that can be read") from None


def table_columns(
    path: Path, wanted: Sequence[str], read: Callable[[], ArrowValue], *, rows: bool = True
) -> dict[str, Column]:
    """The wanted columns of the table that `read` gives, all where none are named; errors are ours."""
    arrow = extra_module("pyarrow")
    try:
        with opened(path, "a table"):
            table = read()
    except (arrow.ArrowInvalid, arrow.ArrowKeyError, UnicodeDecodeError) as error:
        kind = kind_of(path)
        got = f"{kind}: {str(error).splitlines()[0]}" if kind else str(error).splitlines()[0]
        raise FormatError(str(path), got=got, need="a whole file of that kind") from None
    except MemoryError:
        raise OutOfMemoryError(
            str(path), got="less memory than the table takes", need="more, or fewer columns"
        ) from None
    except OSError as error:
        raise FormatError(str(path), got=reason_of(error), need="a file that can be read") from None
    names = list(table.column_names)
    _check_names(path, names, wanted)
    if rows and not table.num_rows:
        raise DataError(str(path), got="no rows", need="rows below the head")
    return {name: _array(table.column(name)) for name in wanted or names}


def _check_names(path: Path, names: Sequence[str], wanted: Iterable[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise FormatError(str(path), got=f"two columns {twice[0]!r}", need="a name for each column, each once")
    missing = [name for name in wanted if name not in names]
    if missing:
        listed = ", ".join(names[:50]) + (", …" if len(names) > 50 else "")
        raise DataError(str(path), got=f"no column {missing[0]!r}", need=f"one of {listed}")


def _array(column: ArrowValue) -> Column:
    """Numbers, a missing one not a number; texts, a missing one empty; a list where rows are sequences or too long."""
    kind = column.type
    if hasattr(kind, "index_type"):
        entries = [entry for chunk in column.chunks for entry in _entries(chunk)]
        return _texts(entries) if _are_texts(entries) else entries
    if hasattr(getattr(kind, "value_type", None), "index_type"):
        return _rows([row for chunk in column.chunks for row in _lists(chunk)])
    array = np.asarray(column.to_numpy())
    if array.dtype.kind != "O":
        return array
    values = array.tolist()
    return _texts(values) if _are_texts(values) else _rows(values)


def _are_texts(values: Sequence[Any]) -> bool:
    return all(value is None or isinstance(value, str) for value in values)


def _entries(chunk: ArrowValue) -> list[Any]:
    """Each row's entry of the chunk's dictionary, of which there is one object; None for a missing one."""
    values = chunk.dictionary.to_pylist()
    entries = [*(value if isinstance(value, str) else np.asarray(value) for value in values), None]
    places = chunk.indices.fill_null(len(values)).to_pylist()
    return [entries[place] for place in places]


def _lists(chunk: ArrowValue) -> list[Any]:
    """Each row's entries; None for a missing row."""
    entries, ends = _entries(chunk.values), chunk.offsets.to_pylist()
    rows = zip(ends[:-1], ends[1:], chunk.is_valid().to_pylist(), strict=True)
    return [entries[start:stop] if valid else None for start, stop, valid in rows]


def _texts(values: Sequence[str | None]) -> Column:
    """An array of texts, or a list where the longest makes it too wide."""
    present = [value or "" for value in values]
    return present if _width(present) > MOST_TEXT_BYTES else np.array(present)


def _rows(values: Sequence[Any]) -> list[Any]:
    """An array for each row; rows of texts stay lists where their arrays were too wide together."""
    listed = [value if isinstance(value, list) and _are_texts(value) else None for value in values]
    if sum(_width([text or "" for text in row]) for row in listed if row) > MOST_TEXT_BYTES:
        return list(values)
    return [np.asarray(value) for value in values]


def _width(texts: Sequence[str]) -> int:
    return len(texts) * max(map(len, texts), default=0) * np.dtype("U1").itemsize
