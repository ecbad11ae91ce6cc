"""Columns of CSV and Parquet files, read on all cores by pyarrow (the extra `data`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.core.precautions.reading import check_plain, kind_of
from nnc.core.precautions.replacement import reason_of
from nnc.errors import BackendError, DataError, FormatError

# pyarrow's own types, which are known only where it is installed.
ArrowValue: TypeAlias = Any
# Of a Parquet file: 910 KB of zeros were 200 million rows, which took 3.4 GB and 10 s. 24 columns of a million rows
# may be of one value each.
MOST_CELLS, CELLS_A_BYTE = 24_000_000, 32


def extra_module(name: str) -> ModuleType:
    """A module of the extra `data`; BackendError where it is absent."""
    try:
        return import_module(name)
    except ImportError:
        need = f"the package {'pillow' if name.startswith('PIL') else name.partition('.')[0]}"
        raise BackendError("data", got=f"no module {name}", need=need, fix="pip install 'nnc[data]'") from None


def csv_columns(path: Path, columns: tuple[str, ...]) -> dict[str, NDArray[Any] | list[Any]]:
    """The columns of a CSV file with a head; all of them unless some are named."""
    csv = extra_module("pyarrow.csv")
    return _columns(path, columns, lambda: csv.read_csv(path))


def parquet_columns(path: Path, columns: tuple[str, ...]) -> dict[str, NDArray[Any] | list[Any]]:
    """The columns of a Parquet file; the others are not read."""
    parquet = extra_module("pyarrow.parquet")

    def read(chosen: list[str] | None = None) -> ArrowValue:
        metadata = parquet.read_metadata(path)
        _check_cells(path, metadata.num_rows * (metadata.num_columns if chosen is None else len(chosen)))
        return parquet.read_table(path, columns=chosen)

    if columns:
        present = _columns(path, columns, lambda: parquet.read_schema(path).empty_table(), rows=False)
        return _columns(path, columns, lambda: read(list(present)))
    return _columns(path, columns, read)


def _check_cells(path: Path, cells: int) -> None:
    """FormatError for a file that repeats few bytes until memory is full."""
    most = MOST_CELLS + CELLS_A_BYTE * path.stat().st_size
    if cells > most:
        got = f"{cells:,} cells"
        raise FormatError(str(path), got=got, need=f"at most {most:,} in a file of its size", fix="read fewer columns")


def _columns(path: Path, wanted: Sequence[str], read: Callable[[], ArrowValue], *, rows: bool = True) -> dict[str, Any]:
    arrow = extra_module("pyarrow")
    check_plain(path, "a table")
    try:
        table = read()
    except (arrow.ArrowInvalid, arrow.ArrowKeyError, UnicodeDecodeError) as error:
        kind = kind_of(path)
        got = f"{kind}: {str(error).splitlines()[0]}" if kind else str(error).splitlines()[0]
        raise FormatError(str(path), got=got, need="a whole file of that kind") from None
    except OSError as error:
        raise FormatError(str(path), got=reason_of(error), need="a file that can be read") from None
    names = list(table.column_names)
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise FormatError(str(path), got=f"two columns {twice[0]!r}", need="a name for each column, each once")
    missing = [name for name in wanted if name not in names]
    if missing:
        raise DataError(str(path), got=f"no column {missing[0]!r}", need=f"one of {', '.join(names)}")
    if rows and not table.num_rows:
        raise DataError(str(path), got="no rows", need="rows below the head")
    return {name: _array(table.column(name)) for name in wanted or names}


def _array(column: ArrowValue) -> NDArray[Any] | list[Any]:
    """Numbers, a missing one not a number; texts, a missing one empty; a list where rows are sequences."""
    array = np.asarray(column.to_numpy())
    if array.dtype.kind != "O":
        return array
    values = array.tolist()
    if all(value is None or isinstance(value, str) for value in values):
        return np.array([value or "" for value in values])
    return [np.asarray(value) for value in values]
