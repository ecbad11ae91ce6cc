"""What is done with the rows of a data frame: mapped, filtered, shuffled, drawn, joined and put into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice

import numpy as np

from nnc.classes import dataclass
from nnc.errors import DataError, UsageError
from nnc.nn.data.collate import lengths_of, padded, stacked
from nnc.nn.data.rows import Chunk, Column, FrameEpoch, Rows, Ticket, Value

# Batches by length sort this many batches' worth of rows at a time: long enough to pad little, short enough to shuffle.
BUCKET_WINDOW = 32


@dataclass(frozen=True, slots=True, eq=False)
class PassingRows(Rows):
    """Rows below as they are, others or in another order."""

    sources: tuple[Rows, ...]

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """As below."""
        return self.sources[0].columns

    def values(self, chunk: Chunk, name: str) -> Column:
        """As below."""
        return chunk.below[0].column(name)


@dataclass(frozen=True, slots=True, eq=False)
class MappedRows(Rows):
    """column `name` = function(inputs …, generator of the row where it is random); the others as they are."""

    sources: tuple[Rows, ...]
    name: str
    function: Callable[..., Value]
    inputs: tuple[str, ...]
    random: bool

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The new column behind the others, unless it replaces one."""
        present = self.sources[0].columns
        return present if self.name in present else (*present, self.name)

    def tickets(self, epoch: FrameEpoch) -> Iterable[Ticket]:
        """Where it is random, with what the generator of each row is keyed by."""
        tickets = self.sources[0].tickets(epoch)
        return (
            KeyedTickets(tickets, epoch)
            if self.random and isinstance(tickets, Sequence)
            else self._keyed(tickets, epoch)
        )

    def _keyed(self, tickets: Iterable[Ticket], epoch: FrameEpoch) -> Iterable[Ticket]:
        return ((epoch, place, ticket) for place, ticket in enumerate(tickets)) if self.random else tickets

    def below(self, tickets: Sequence[Ticket]) -> tuple[Chunk, ...]:
        """Without the keys."""
        return (Chunk(self.sources[0], [ticket[2] for ticket in tickets] if self.random else tickets),)

    def values(self, chunk: Chunk, name: str) -> Column:
        """The function of each row, an error with the row and the column."""
        (below,) = chunk.below
        if name != self.name:
            return below.column(name)
        rows = zip(chunk.tickets, *(below.column(operand) for operand in self.inputs), strict=True)
        return [self._call(ticket, values) for ticket, *values in rows]

    def _call(self, ticket: Ticket, values: list[Value]) -> Value:
        if self.random:
            epoch, place, _ = ticket
            values = [*values, epoch.generator(self.stage, place)]
        return called(self, f"map {self.name!r}", self.function, values, ticket)

    def describe(self, ticket: Ticket) -> str:
        """As below."""
        return self.sources[0].describe(ticket[2] if self.random else ticket)


class KeyedTickets(Sequence[Ticket]):
    """(epoch, place, ticket) for each of a sequence of tickets."""

    def __init__(self, tickets: Sequence[Ticket], epoch: FrameEpoch, places: range | None = None) -> None:
        self.tickets, self.epoch = tickets, epoch
        self.places = range(len(tickets)) if places is None else places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: int | slice) -> Value:
        if isinstance(place, slice):
            return KeyedTickets(self.tickets, self.epoch, self.places[place])
        at = self.places[place]
        return self.epoch, at, self.tickets[at]


def called(rows: Rows, subject: str, function: Callable[..., Value], values: Sequence[Value], ticket: Ticket) -> Value:
    """function(values …); what goes wrong in it says of which row it is. Typed errors stay what they are."""
    try:
        return function(*values)
    except UsageError:
        raise
    except Exception as error:
        got = f"{type(error).__name__}: {error} in {rows.describe(ticket)}"
        raise DataError(subject, got=got, need="a function that takes every row") from error


@dataclass(frozen=True, slots=True, eq=False)
class FilteredRows(PassingRows):
    """The rows for which the function of their `inputs` is true."""

    function: Callable[..., Value]
    inputs: tuple[str, ...]

    @property
    def count(self) -> int | None:
        """Only a pass tells."""
        return None

    def tickets(self, epoch: FrameEpoch) -> Iterable[Ticket]:
        """Those of rows that stay."""
        (source,) = self.sources
        for ticket in source.tickets(epoch):
            chunk = Chunk(source, [ticket])
            if called(self, "filter", self.function, [chunk.column(name)[0] for name in self.inputs], ticket):
                yield ticket


@dataclass(frozen=True, slots=True, eq=False)
class SelectedRows(Rows):
    """Some of the columns."""

    sources: tuple[Rows, ...]
    columns: tuple[str, ...]

    def values(self, chunk: Chunk, name: str) -> Column:
        """As below."""
        return chunk.below[0].column(name)


@dataclass(frozen=True, slots=True, eq=False)
class ShuffledRows(PassingRows):
    """In random order: of all rows, or of those that a buffer of `buffer` tickets holds at a time."""

    buffer: int | None

    def tickets(self, epoch: FrameEpoch) -> Iterable[Ticket]:
        """Those below in another order."""
        tickets, random = self.sources[0].tickets(epoch), epoch.generator(self.stage)
        if self.buffer is not None:
            return _buffered(iter(tickets), self.buffer, random)
        every = tickets if isinstance(tickets, Sequence) else list(tickets)
        return [every[place] for place in random.permutation(len(every)).tolist()]


def _buffered(tickets: Iterator[Ticket], size: int, random: np.random.Generator) -> Iterator[Ticket]:
    """A random one of the buffer goes out for each that comes in."""
    held = list(islice(tickets, size))
    for ticket in tickets:
        place = int(random.integers(size))
        yield held[place]
        held[place] = ticket
    for place in random.permutation(len(held)).tolist():
        yield held[place]


@dataclass(frozen=True, slots=True, eq=False)
class SampledRows(PassingRows):
    """`amount` rows at random, other ones in each epoch; the same one several times where it is put back."""

    amount: int
    replace: bool

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.amount

    def tickets(self, epoch: FrameEpoch) -> Sequence[Ticket]:
        """Those that were drawn."""
        below = self.sources[0].tickets(epoch)
        every = below if isinstance(below, Sequence) else list(below)
        if not every or (len(every) < self.amount and not self.replace):
            got, need = f"{self.amount} rows of {len(every)}", "no more than there are"
            raise DataError("sample", got=got, need=need, fix="replace=True" if every else "")
        random = epoch.generator(self.stage)
        drawn = random.integers(len(every), size=self.amount) if self.replace else random.permutation(len(every))
        return [every[place] for place in drawn[: self.amount].tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class RepeatedRows(PassingRows):
    """All rows `times` times in one epoch, each time as in an epoch of its own."""

    times: int

    @property
    def count(self) -> int | None:
        """times · count"""
        below = self.sources[0].count
        return None if below is None else self.times * below

    def tickets(self, epoch: FrameEpoch) -> Iterable[Ticket]:
        """One pass after the other."""
        first = epoch.number * self.times
        passes = (FrameEpoch(epoch.seed, first + turn) for turn in range(self.times))
        return chain.from_iterable(map(self.sources[0].tickets, passes))


@dataclass(frozen=True, slots=True, eq=False)
class ZippedRows(Rows):
    """Rows of several sources side by side."""

    sources: tuple[Rows, ...]

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of all."""
        return tuple(name for source in self.sources for name in source.columns)

    def tickets(self, epoch: FrameEpoch) -> Iterable[Ticket]:
        """A tuple for each row; DataError where one source ends before another."""
        parts = [source.tickets(epoch) for source in self.sources]
        try:
            yield from zip(*parts, strict=True)
        except ValueError:
            raise DataError("zip", got="frames of unequal lengths", need="as many rows in each") from None

    def below(self, tickets: Sequence[Ticket]) -> tuple[Chunk, ...]:
        """A chunk of each source."""
        parts = zip(*tickets, strict=True)
        return tuple(Chunk(source, part) for source, part in zip(self.sources, parts, strict=True))

    def values(self, chunk: Chunk, name: str) -> Column:
        """Of the source that has the column."""
        return next(part for part in chunk.below if name in part.rows.columns).column(name)

    def describe(self, ticket: Ticket) -> str:
        """As in the first source."""
        return self.sources[0].describe(ticket[0])


@dataclass(frozen=True, slots=True, eq=False)
class ConcatenatedRows(Rows):
    """The rows of one source behind those of another."""

    sources: tuple[Rows, ...]

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the first, which are those of all."""
        return self.sources[0].columns

    @property
    def count(self) -> int | None:
        """The sum."""
        counts = [source.count for source in self.sources]
        return None if None in counts else sum(value for value in counts if value is not None)

    def tickets(self, epoch: FrameEpoch) -> Iterable[Ticket]:
        """With the number of the source."""
        for place, source in enumerate(self.sources):
            for ticket in source.tickets(epoch):
                yield place, ticket

    def below(self, tickets: Sequence[Ticket]) -> tuple[Chunk, ...]:
        """Each source's own rows."""
        return tuple(
            Chunk(source, [ticket for value, ticket in tickets if value == place])
            for place, source in enumerate(self.sources)
        )

    def values(self, chunk: Chunk, name: str) -> Column:
        """In order of the tickets."""
        columns = [iter(part.column(name) if part.tickets else ()) for part in chunk.below]
        return [next(columns[place]) for place, _ in chunk.tickets]

    def describe(self, ticket: Ticket) -> str:
        """`row 7 of frame 1`"""
        place, inner = ticket
        return f"{self.sources[place].describe(inner)} of frame {place}"


@dataclass(frozen=True, slots=True, eq=False)
class BatchedRows(Rows):
    """Each row is a batch: `size` rows below as arrays[b, …], shorter ones filled up where `pad` has a value for them.

    With `by` the rows of a batch are of about the same length in that column: `BUCKET_WINDOW` batches' worth is sorted
    at a time, and its batches come in random order.
    """

    sources: tuple[Rows, ...]
    size: int
    drop_last: bool
    pad: Mapping[str, Value]
    by: str

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those below, and a mask for each that is padded."""
        return (*self.sources[0].columns, *(f"{name}_mask" for name in self.pad))

    @property
    def batched(self) -> bool:
        """It is."""
        return True

    @property
    def count(self) -> int | None:
        """Batches, the last one smaller or left out."""
        below = self.sources[0].count
        return None if below is None else self._batches(below)

    def _batches(self, rows: int) -> int:
        return rows // self.size if self.drop_last else -(-rows // self.size)

    def tickets(self, epoch: FrameEpoch) -> Iterable[Ticket]:
        """Lists of tickets."""
        below = self.sources[0].tickets(epoch)
        if self.by:
            below = self._sorted(iter(below), epoch)
            return below if not self.drop_last else (batch for batch in below if len(batch) == self.size)
        if isinstance(below, Sequence):
            return TicketGroups(below, self.size, range(self._batches(len(below))))
        return self._grouped(iter(below))

    def _grouped(self, tickets: Iterator[Ticket]) -> Iterator[Ticket]:
        while batch := list(islice(tickets, self.size)):
            if len(batch) == self.size or not self.drop_last:
                yield batch

    def _sorted(self, tickets: Iterator[Ticket], epoch: FrameEpoch) -> Iterator[Ticket]:
        for window in count():
            held = list(islice(tickets, self.size * BUCKET_WINDOW))
            if not held:
                return
            lengths = lengths_of(self.by, Chunk(self.sources[0], held).column(self.by))
            order = np.argsort(lengths, kind="stable").tolist()
            groups = [[held[place] for place in order[at : at + self.size]] for at in range(0, len(held), self.size)]
            yield from (groups[place] for place in epoch.generator(self.stage, window).permutation(len(groups)))

    def below(self, tickets: Sequence[Ticket]) -> tuple[Chunk, ...]:
        """A chunk for each batch."""
        return tuple(Chunk(self.sources[0], batch) for batch in tickets)

    def values(self, chunk: Chunk, name: str) -> Column:
        """An array for each batch."""
        if name in self.columns[len(self.sources[0].columns) :]:
            values = name.removesuffix("_mask")
            return [padded(values, part.column(values), self.pad[values])[1] for part in chunk.below]
        if name in self.pad:
            return [padded(name, part.column(name), self.pad[name])[0] for part in chunk.below]
        return [stacked(name, part.column(name)) for part in chunk.below]

    def describe(self, ticket: Ticket) -> str:
        """`the batch from row 7`"""
        return f"the batch from {self.sources[0].describe(ticket[0])}"


class TicketGroups(Sequence[Ticket]):
    """Groups of `size` from a sequence of tickets, made when they are asked for: those of some places."""

    def __init__(self, tickets: Sequence[Ticket], size: int, places: range) -> None:
        self.tickets, self.size, self.places = tickets, size, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: int | slice) -> Value:
        if isinstance(place, slice):
            return TicketGroups(self.tickets, self.size, self.places[place])
        start = self.places[place] * self.size
        return list(self.tickets[start : start + self.size])
