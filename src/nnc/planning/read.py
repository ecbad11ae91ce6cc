"""Problems from files: one block per line, `id,lower,upper,size` and, if present, `alignment,offset,memory`."""

from __future__ import annotations

import csv
from pathlib import Path

from nnc.errors import FormatError, PlanningError
from nnc.planning.problem import Block, Problem

_NAMES = ("id", "name", "buffer", "buffer_id")
_NUMBERS = ("lower", "upper", "size")


def read_csv(path: str | Path) -> Problem:
    """The problem in the file at `path`: a header line, then one block per line, lives half-open, sizes in bytes.

    Raises `FormatError`, with file and line, for a file that cannot be read, a missing column, a field that is not an
    integer, or a block that cannot be.
    """
    try:
        return _read(path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        got = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        need = "a CSV file in UTF-8 that can be read"
        raise FormatError(
            str(path), got=got, need=need, fix="name a file whose first line is id,lower,upper,size"
        ) from None


def _read(path: str | Path) -> Problem:
    with Path(path).open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        header = [column.strip() for column in reader.fieldnames or ()]
        reader.fieldnames = header
        missing = [column for column in _NUMBERS if column not in header]
        if missing or not any(column in header for column in _NAMES):
            raise FormatError(
                "read_csv",
                got=f"columns {', '.join(header) or 'none'}",
                need="id, lower, upper, size",
                origin=f"{path}:1",
            )
        return Problem(tuple(_block(row, f"{path}:{reader.line_num}") for row in reader))


def _block(row: dict[str, str | None], origin: str) -> Block:
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
