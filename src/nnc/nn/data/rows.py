"""What a data frame is made of: sources of rows, and what is done with them, each value made when it is asked for.

    tickets(epoch)     what names each row of an epoch: cheap, in order, the same for the same epoch
    values(chunk, c)   column `c` of the rows that a chunk has tickets for: a pure function of the tickets

So the order is decided in one place, values are made anywhere (here, on threads, in processes), and a place in an epoch
is a number. What is random draws from a generator of its own, by seed, epoch and stage, or by the row's place too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnc.classes import dataclass
from nnc.core.precautions.named_functions import HoldsFunctions
from nnc.errors import DataError

# A value in a column is whatever users put there, and a ticket what a source names a row by.
Value: TypeAlias = Any
Ticket: TypeAlias = Any
Column: TypeAlias = NDArray[Any] | list[Any]


@dataclass(frozen=True, slots=True)
class FrameEpoch:
    """One pass, and the seed of all that is random in it."""

    seed: int
    number: int

    def generator(self, *place: int) -> np.random.Generator:
        """The stream of a place: a stage, and a row where each has its own."""
        keyed = np.random.SeedSequence(self.seed, spawn_key=(self.number, *place))
        return np.random.Generator(np.random.PCG64(keyed))


class Rows(HoldsFunctions, ABC):
    """Rows of named columns, over `sources` of other rows."""

    columns: tuple[str, ...]
    sources: tuple[Rows, ...]

    @property
    def stage(self) -> int:
        """Another number for each that stands on another."""
        return 1 + sum(source.stage for source in self.sources)

    @property
    def batched(self) -> bool:
        """Whether each row is a batch."""
        return any(source.batched for source in self.sources)

    @property
    def count(self) -> int | None:
        """Rows of an epoch; None where only a pass tells."""
        return self.sources[0].count

    def tickets(self, epoch: FrameEpoch) -> Iterable[Ticket]:
        """What names each row; a sequence where any of them is at hand."""
        return self.sources[0].tickets(epoch)

    def below(self, tickets: Sequence[Ticket]) -> tuple[Chunk, ...]:
        """What these rows are made of."""
        return tuple(Chunk(source, tickets) for source in self.sources)

    @abstractmethod
    def values(self, chunk: Chunk, name: str) -> Column:
        """One column of a chunk of these rows."""

    def describe(self, ticket: Ticket) -> str:
        """A row, for messages."""
        return self.sources[0].describe(ticket)

    def check(self, subject: str, names: Iterable[str]) -> None:
        """DataError for a column that is not there."""
        for name in names:
            if name not in self.columns:
                close = get_close_matches(name, self.columns, n=1)
                fix = f"did you mean {close[0]!r}?" if close else ""
                raise DataError(subject, got=f"no column {name!r}", need=f"one of {', '.join(self.columns)}", fix=fix)


@dataclass(slots=True, eq=False)
class Chunk:
    """Some rows, and those of their columns that were asked for."""

    rows: Rows
    tickets: Sequence[Ticket]
    made: dict[str, Column] = field(default_factory=dict)
    parts: tuple[Chunk, ...] | None = None

    def column(self, name: str) -> Column:
        """The values of one column, in order."""
        if name not in self.made:
            self.made[name] = self.rows.values(self, name)
        return self.made[name]

    @property
    def below(self) -> tuple[Chunk, ...]:
        """The chunks that this one is made of."""
        if self.parts is None:
            self.parts = self.rows.below(self.tickets)
        return self.parts


def made_row(rows: Rows, ticket: Ticket) -> dict[str, Any]:
    """All columns of one row."""
    chunk = Chunk(rows, [ticket])
    return {name: chunk.column(name)[0] for name in rows.columns}


def skipped(tickets: Iterable[Ticket], start: int) -> Iterator[Ticket]:
    """All but the first `start`; DataError where there are fewer."""
    if isinstance(tickets, Sequence):
        present, rest = min(start, len(tickets)), iter(tickets[start:])
    else:
        rest = iter(tickets)
        present = sum(1 for _ in islice(rest, start))
    if present < start:
        got, fix = f"position {start} in an epoch of {present} rows", "resume with the data that it was saved with"
        raise DataError("data frame", got=got, need=f"a position up to {present}", fix=fix)
    return rest


# ---- sources


class SourceRows(Rows):
    """Rows that stand on no others."""

    sources = ()


@dataclass(frozen=True, slots=True, eq=False)
class ArrayRows(SourceRows):
    """Row k is the k-th of each array, or of each list."""

    arrays: Mapping[str, Column]

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the arrays."""
        return tuple(self.arrays)

    @property
    def count(self) -> int:
        """That of any array."""
        return len(next(iter(self.arrays.values())))

    def tickets(self, epoch: FrameEpoch) -> range:
        """The places of the rows."""
        return range(self.count)

    def values(self, chunk: Chunk, name: str) -> Column:
        """Copies of the rows of an array."""
        column = self.arrays[name]
        return column[list(chunk.tickets)] if isinstance(column, np.ndarray) else [column[k] for k in chunk.tickets]

    def describe(self, ticket: Ticket) -> str:
        """`row 7`"""
        return f"row {ticket}"


@dataclass(frozen=True, slots=True, eq=False)
class ItemRows(SourceRows):
    """Row k is `items[k]`: a mapping by name, or a tuple with a name for each place."""

    columns: tuple[str, ...]
    items: Any

    @property
    def count(self) -> int:
        """Those that the items say."""
        return len(self.items)

    def tickets(self, epoch: FrameEpoch) -> range:
        """The places of the items."""
        return range(self.count)

    def values(self, chunk: Chunk, name: str) -> Column:
        """That part of each item, which is fetched once."""
        items = chunk.made.setdefault("", [self.items[place] for place in chunk.tickets])
        rows = zip(chunk.tickets, items, strict=True)
        return [part_of(item, name, self.columns, self.describe(place)) for place, item in rows]

    def describe(self, ticket: Ticket) -> str:
        """`row 7`"""
        return f"row {ticket}"


@dataclass(frozen=True, slots=True, eq=False)
class IteratedRows(SourceRows):
    """Each epoch goes through what `begin` gives: the tickets are the items themselves."""

    columns: tuple[str, ...]
    begin: Callable[[], Iterable[Any]]

    @property
    def count(self) -> int | None:
        """Only a pass tells."""
        return None

    def tickets(self, epoch: FrameEpoch) -> Iterable[Ticket]:
        """Each item with its place."""
        return enumerate(self.begin())

    def values(self, chunk: Chunk, name: str) -> Column:
        """That part of each item."""
        return [part_of(item, name, self.columns, f"row {place}") for place, item in chunk.tickets]

    def describe(self, ticket: Ticket) -> str:
        """`row 7`"""
        return f"row {ticket[0]}"


def part_of(item: Value, name: str, columns: tuple[str, ...], row: str) -> Value:
    """The value of a column; DataError where the item lacks it."""
    if isinstance(item, Mapping):
        if name in item:
            return item[name]
        raise DataError("data frame", got=f"no column {name!r} in {row}", need=f"one of {', '.join(map(str, item))}")
    values = item if isinstance(item, tuple | list) else (item,)
    if len(values) != len(columns):
        got, need = f"{len(values)} values in {row}", f"{len(columns)}: {', '.join(columns)}"
        raise DataError("data frame", got=got, need=need)
    return values[columns.index(name)]
