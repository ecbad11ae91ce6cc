"""Problems from files: one block per line, `id,lower,upper,size` and, if present, `alignment,offset,memory`.

Capitals in the header do not matter, nor does the byte-order mark that spreadsheets write before it.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from nnc.arguments import checked
from nnc.errors import FormatError, PlanningError
from nnc.planning.problem import Block, Problem

_NAMES = ("id", "name", "buffer", "buffer_id")
_NUMBERS = ("lower", "upper", "size")


@checked
def read_csv(path: str | Path) -> Problem:
    """The problem in the file at `path`: a header line, then one block per line, lives half-open, sizes in bytes.

    Raises `FormatError`, with file and line, for a file that cannot be read, a missing column or one that stands
    twice, a line with more fields than the header, a field that is not an integer, or a block that cannot be.
    """
    place = Path(path)
    if "\0" in str(path):
        raise FormatError("CSV file", got="a path with a zero byte", need="the name of a file")
    if os.path.exists(place) and not (os.path.isfile(place) or os.path.isdir(place)):
        raise FormatError(str(path), got="a pipe or a device", need="a CSV file")
    try:
        return _read(path)
    except (OSError, UnicodeError, csv.Error) as error:
        got = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        need = "a CSV file in UTF-8 that can be read"
        raise FormatError(
            str(path), got=got, need=need, fix="name a file whose first line is id,lower,upper,size"
        ) from None


def _read(path: str | Path) -> Problem:
    if not os.path.getsize(path):
        # Files of /proc say so too, and may give bytes for ever.
        _header((), f"{path}:1")
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        before = os.fstat(file.fileno())
        reader = csv.DictReader(file)
        reader.fieldnames = _header(reader.fieldnames or (), f"{path}:1")
        problem = Problem(tuple(_block(row, f"{path}:{reader.line_num}") for row in reader))
        now = os.fstat(file.fileno())
    if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        got = f"{now.st_size:,} bytes: it was written while it was read"
        raise FormatError(str(path), got=got, need="a file that nobody writes into", fix="read it again")
    return problem


def _header(written: Sequence[str], origin: str) -> list[str]:
    """The columns, in small letters; an error if one is missing or stands twice."""
    header = [column.strip().lower() for column in written]
    named = [column for column in header if column]
    if len(set(named)) < len(named):
        twice = next(column for column in named if named.count(column) > 1)
        raise FormatError("read_csv", got=f"column {twice} twice", need="each column once", origin=origin)
    if not set(_NUMBERS) <= set(named) or not set(_NAMES) & set(named):
        got = f"columns {', '.join(header) or 'none'}"
        raise FormatError("read_csv", got=got, need="id, lower, upper, size", origin=origin)
    return header


def _block(row: Mapping[str | None, str | None], origin: str) -> Block:
    if None in row:  # where csv puts what is beyond the header
        raise FormatError("read_csv", got="more fields than columns", need="one field per column", origin=origin)
    name = next(row[column] for column in _NAMES if column in row)
    offset = row.get("offset")
    try:
        return Block(
            name=name or "",
            size=int(row["size"] or ""),
            lower=int(row["lower"] or ""),
            upper=int(row["upper"] or ""),
            alignment=int(row.get("alignment") or 1),
            offset=int(offset) if offset else None,
            memory=row.get("memory") or "host",
        )
    except ValueError as error:
        raise FormatError("read_csv", got="a field that is not an integer", need="integers", origin=origin) from error
    except PlanningError as error:
        raise FormatError("read_csv", got=error.got, need=error.need, origin=origin) from error
