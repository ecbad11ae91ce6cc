"""Columns of Parquet files, read by pyarrow (the extra `data`), within what a file of its size may take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from nnc.classes import dataclass
from nnc.errors import FormatError
from nnc.nn.data.arrow import ArrowValue, Column, extra_module, table_columns

# 910 KB of zeros were 200 million rows, which took 3.4 GB and 10 s. 24 columns of a million rows may be of one value.
MOST_CELLS, CELLS_A_BYTE = 24_000_000, 32
# What columns take when decoded: honest files are seldom packed by more than 100.
MOST_BYTES, BYTES_A_BYTE = 1 << 29, 128
# Texts that begin as the one before take few bytes each, however long: they are counted this many rows at a time.
SHARED_BEGINNINGS, COUNTED_ROWS = "DELTA_BYTE_ARRAY", 256
BYTES, BYTES_KINDS = "BYTE_ARRAY", frozenset({"string", "large_string", "binary", "large_binary"})


def parquet_columns(path: Path, columns: tuple[str, ...]) -> dict[str, Column]:
    """The columns of a Parquet file; the others are not read.

    Texts stay numbers of a dictionary while they are read, where the file has them so: 25 KB may name a text of 500 KB
    a million times.
    """
    parquet = extra_module("pyarrow.parquet")

    def read(chosen: Sequence[str] | None = None) -> ArrowValue:
        work = _Work.of(path, parquet, chosen)
        work.check()
        return parquet.read_table(path, columns=chosen, read_dictionary=work.dictionaries)

    if columns:
        present = table_columns(path, columns, lambda: parquet.read_schema(path).empty_table(), rows=False)
        return table_columns(path, columns, lambda: read(list(present)))
    return table_columns(path, columns, read)


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """What the chosen columns of a file say that they are: the leaves by path, and which of them have a dictionary."""

    path: Path
    parquet: ModuleType
    leaves: tuple[ArrowValue, ...]
    dictionaries: list[str]
    counted: list[str]

    @classmethod
    def of(cls, path: Path, parquet: ModuleType, chosen: Sequence[str] | None) -> _Work:
        """Of the columns chosen, or of all."""
        leaves = tuple(leaf for leaf in _leaves(parquet.read_metadata(path)) if chosen is None or _top(leaf) in chosen)
        schema = parquet.read_schema(path)
        texts = {leaf.path_in_schema: leaf for leaf in leaves if leaf.physical_type == BYTES}
        shared = {leaf.path_in_schema for leaf in leaves if SHARED_BEGINNINGS in leaf.encodings}
        plain = {name for name, leaf in texts.items() if name not in shared and _is_flat(schema.field(_top(leaf)).type)}
        rest = sorted({_top(leaf) for name, leaf in texts.items() if name not in plain})
        return cls(path, parquet, leaves, sorted(plain), rest)

    def check(self) -> None:
        """FormatError for a file that repeats few bytes until memory is full."""
        size = self.path.stat().st_size
        most = MOST_BYTES + BYTES_A_BYTE * size
        self._refuse(sum(leaf.num_values for leaf in self.leaves), "cells", MOST_CELLS + CELLS_A_BYTE * size)
        self._refuse(sum(leaf.total_uncompressed_size for leaf in self.leaves), "bytes when decoded", most)
        if self.counted:
            total, file = 0, self.parquet.ParquetFile(self.path)
            for batch in file.iter_batches(COUNTED_ROWS, columns=self.counted):
                total += batch.nbytes
                self._refuse(total, "bytes or more when decoded", most)

    def _refuse(self, count: int, what: str, most: int) -> None:
        if count > most:
            need = f"at most {most:,} in a file of its size"
            raise FormatError(str(self.path), got=f"{count:,} {what}", need=need, fix="read fewer columns")


def _leaves(metadata: ArrowValue) -> Iterator[ArrowValue]:
    """Each column in each group of rows."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        yield from map(group.column, range(group.num_columns))


def _top(leaf: ArrowValue) -> str:
    """The column that a leaf belongs to."""
    name: str = leaf.path_in_schema
    return name.partition(".")[0]


def _is_flat(kind: ArrowValue) -> bool:
    """Whether rows are texts or bytes, or lists of them, which pyarrow leaves as numbers of a dictionary."""
    for _ in range(3):
        if str(kind) in BYTES_KINDS:
            return True
        kind = getattr(kind, "value_type", None)
    return False
