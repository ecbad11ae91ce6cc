"""Data frames: named columns whose values are made when they are needed, and a place among them that resumes exactly.

    frame = DataFrame({"image": images, "label": labels}, seed=1)
    frame = frame.map("image", augment, random=True).shuffle().batch(64).prefetch(4, workers=2)
    model.fit(frame, epochs=3)
    state = frame.state()               # … in another process: frame.restore(state)

Every row, and all that is random in it, is a function of the seed, the epoch and the row's place: the same with any
number of workers, and after a resume.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import Count, Seed, Size, checked, shown
from nnc.core.precautions.shield import Shield
from nnc.errors import ArgumentError, DataError, UsageError
from nnc.nn.data.ahead import EpochStream, Prefetch, Row, Workers
from nnc.nn.data.arrow import csv_columns
from nnc.nn.data.batches import Batch, BatchState
from nnc.nn.data.collate import concatenated, stacked
from nnc.nn.data.data_set import Examples
from nnc.nn.data.parquet import parquet_columns
from nnc.nn.data.row_stages import (
    BatchedRows,
    ConcatenatedRows,
    FilteredRows,
    MappedRows,
    RepeatedRows,
    SampledRows,
    SelectedRows,
    ShuffledRows,
    ZippedRows,
)
from nnc.nn.data.rows import ArrayRows, Chunk, FrameEpoch, ItemRows, IteratedRows, Rows, Value

Names = str | tuple[str, ...]


@checked
class DataFrame:
    """Rows of named columns, in epochs; each method gives another frame, which begins at its first row.

    A `for` loop gives dictionaries of what is left of the current epoch; the next loop gives the next epoch. It closes
    the workers where it is left early. One reader at a time: two that are to see the same rows take a frame each.

    >>> frame = DataFrame({"x": [1, 2, 3], "y": [10, 20, 30]}).map("z", lambda x, y: x + y, "x", "y").batch(2)
    >>> [row["z"].tolist() for row in frame], frame.state()
    ([[11, 22], [33]], BatchState(seed=0, epoch=1, position=0))
    """

    size = 1

    def __init__(self, columns: Mapping[str, Any], *, seed: Seed = 0) -> None:
        arrays = {name: _column_of(name, values) for name, values in columns.items()}
        lengths = {name: len(values) for name, values in arrays.items()}
        if len(set(lengths.values())) != 1:
            got = ", ".join(f"{name} of {length}" for name, length in lengths.items()) or "no columns"
            raise DataError("data frame", got=got, need="columns of one length")
        self._begin(ArrayRows(arrays), seed, Prefetch())

    def _begin(self, rows: Rows, seed: int, prefetch: Prefetch, parts: tuple[Names, Names] | None = None) -> None:
        if rows.count == 0:
            raise DataError("data frame", got="no rows", need="at least one row in an epoch")
        self._rows, self._prefetch, self._parts = rows, prefetch, parts
        self._state = BatchState(seed)
        self._workers: Workers | None = None
        self._stream: EpochStream | None = None

    @classmethod
    def _of(cls, rows: Rows, seed: int, prefetch: Prefetch, parts: tuple[Names, Names] | None = None) -> DataFrame:
        frame = cls.__new__(cls)
        frame._begin(rows, seed, prefetch, parts)
        return frame

    def _with(self, rows: Rows) -> DataFrame:
        return self._of(rows, self._state.seed, self._prefetch, self._parts)

    # ---- sources

    @classmethod
    @checked
    def from_items(cls, items: object, names: Sequence[str] = (), *, seed: Seed = 0) -> DataFrame:
        """Rows from any data set with `len` and `[k]`, as those of torch and of Hugging Face, or from an iterable.

        Items are mappings by name, or tuples with a name for each place. What has an end, as a generator, is given by
        the function that makes it: each epoch begins it again.
        """
        source: Any = items
        indexed = hasattr(source, "__len__") and hasattr(source, "__getitem__")
        given = indexed or callable(source) or hasattr(source, "__iter__")
        # An array without axes has the methods of a sequence, and no elements.
        if not given or isinstance(source, Mapping) or getattr(source, "ndim", 1) == 0:
            need, fix = "items, or a function that gives some", "DataFrame(columns) takes columns by name"
            raise ArgumentError("from_items", got=shown(items), need=need, fix=fix)
        begin = source if callable(source) else partial(_begun, source)
        first = (source[0] if len(source) else None) if indexed else next(_rows_of(begin()), None)
        if first is None:
            raise DataError("from_items", got="no rows", need="at least one row in an epoch")
        columns = _names_of(first, names)
        return cls._of(ItemRows(columns, source) if indexed else IteratedRows(columns, begin), seed, Prefetch())

    @classmethod
    @checked
    def from_csv(cls, path: Path | str, columns: Sequence[str] = (), *, seed: Seed = 0) -> DataFrame:
        """A CSV file with a head, read on all cores by pyarrow (extra `data`); `read_table` needs no extra."""
        return cls._of(ArrayRows(csv_columns(Path(path), tuple(columns))), seed, Prefetch())

    @classmethod
    @checked
    def from_parquet(cls, path: Path | str, columns: Sequence[str] = (), *, seed: Seed = 0) -> DataFrame:
        """A Parquet file, read on all cores by pyarrow (extra `data`); `columns` are those that are read."""
        return cls._of(ArrayRows(parquet_columns(Path(path), tuple(columns))), seed, Prefetch())

    # ---- other frames

    @checked
    def map(self, name: str, function: Callable[..., Any], /, *columns: str, random: bool = False) -> DataFrame:
        """Column `name` = function(values of `columns`) in each row; of the column itself where none are named.

        Where it is `random` the function gets a NumPy generator of the row's own too, behind the values.
        """
        inputs = columns or (name,)
        self._rows.check(f"map {name!r}", inputs)
        return self._with(MappedRows((self._rows,), name, function, inputs, random))

    @checked
    def filter(self, function: Callable[..., Any], /, *columns: str) -> DataFrame:
        """The rows for which function(values of `columns`) is true."""
        if not columns:
            raise ArgumentError("filter", got="no columns", need="the columns that the function takes")
        self._rows.check("filter", columns)
        return self._with(FilteredRows((self._rows,), function, columns))

    @checked
    def select(self, *columns: str) -> DataFrame:
        """These columns only; others are not made."""
        self._rows.check("select", columns)
        return self._with(SelectedRows((self._rows,), columns))

    @checked
    def shuffle(self, buffer: Count | None = None, *, seed: Seed | None = None) -> DataFrame:
        """Another random order in each epoch: of all rows, or with a `buffer` of so many that are waiting.

        Waiting rows are places in a source, not values, but where the source is an iterable. The seed is that of all
        that is random in the frame.
        """
        shuffled = self._with(ShuffledRows((self._rows,), buffer))
        if seed is not None:
            shuffled.restore(BatchState(seed))
        return shuffled

    @checked
    def sample(self, count: Count, *, replace: bool = False) -> DataFrame:
        """`count` rows at random, others in each epoch; with `replace` a row may come again."""
        known = self._rows.count
        if known is not None and count > known and not replace:
            raise DataError("sample", got=f"{count} rows of {known}", need="no more than there are", fix="replace=True")
        return self._with(SampledRows((self._rows,), count, replace))

    @checked
    def zip(self, *others: DataFrame) -> DataFrame:
        """The columns of several frames side by side."""
        rows = (self._rows, *(other._rows for other in others))
        names = [name for value in rows for name in value.columns]
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        if twice:
            raise DataError("zip", got=f"two columns {twice[0]!r}", need="a name for each", fix="select or map before")
        counts = {value.count for value in rows} - {None}
        if len(counts) > 1:
            got = f"frames of {' and '.join(map(str, sorted(value for value in counts if value is not None)))} rows"
            raise DataError("zip", got=got, need="as many rows in each")
        return self._with(ZippedRows(rows))

    @checked
    def concatenate(self, *others: DataFrame) -> DataFrame:
        """The rows of several frames, one frame behind the other."""
        for other in others:
            if set(other.columns) != set(self.columns):
                got = f"columns {', '.join(self.columns)} and {', '.join(other.columns)}"
                raise DataError("concatenate", got=got, need="the same columns")
        return self._with(ConcatenatedRows((self._rows, *(other._rows for other in others))))

    @checked
    def repeat(self, times: Count) -> DataFrame:
        """Each row so many times in an epoch; what is random is drawn anew."""
        return self._with(RepeatedRows((self._rows,), times))

    @checked
    def batch(
        self,
        size: Count,
        *,
        drop_last: bool = False,
        pad: Mapping[str, Any] | None = None,
        by_length: str = "",
    ) -> DataFrame:
        """Rows of `size` rows, each column one array[b, …].

        Columns in `pad` are filled up with its value to the longest of the batch, and `NAME_mask`[b, t] says what is
        real. With `by_length` rows of about the same length in that column come together.
        """
        self._rows.check("batch", (*(pad or ()), *((by_length,) if by_length else ())))
        clash = [f"{name}_mask" for name in pad or () if f"{name}_mask" in self.columns]
        if clash:
            raise DataError("batch", got=f"a column {clash[0]!r}", need="that name for the mask", fix="name it anew")
        return self._with(BatchedRows((self._rows,), size, drop_last, dict(pad or {}), by_length))

    @checked
    def prefetch(self, depth: Size = 2, *, workers: Count = 1, processes: bool = False) -> DataFrame:
        """Make up to `depth` rows ahead, whole batches where they are such, by so many threads or processes.

        Rows, their order and the state are the same. Processes have copies of the sources, and functions of a module.
        """
        return self._of(self._rows, self._state.seed, Prefetch(depth, workers, processes), self._parts)

    @checked
    def examples(self, inputs: Names, targets: Names) -> DataFrame:
        """For `fit`: which columns go into a model, and which its losses compare with."""
        self._rows.check("examples", (*_tuple(inputs), *_tuple(targets)))
        return self._of(self._rows, self._state.seed, self._prefetch, (inputs, targets))

    # ---- what there is

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self._rows.columns

    @property
    def rows(self) -> int | None:
        """Rows of an epoch, batches where they are such; None where only a pass tells, as behind a filter."""
        return self._rows.count

    def __len__(self) -> int:
        """`rows`, or 0 where only a pass tells."""
        return self._rows.count or 0

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        rows = "?" if self.rows is None else f"{self.rows:,}"
        return f"DataFrame({', '.join(self.columns)}: {rows} {'batches' if self._rows.batched else 'rows'})"

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All columns of the current epoch as arrays, of all its rows or batches; the place stays."""
        epoch = FrameEpoch(self._state.seed, self._state.epoch)
        chunk = Chunk(self._rows, list(self._rows.tickets(epoch)))
        if not chunk.tickets:
            raise DataError("data frame", got="no rows", need="at least one row in an epoch")
        columns = {name: chunk.column(name) for name in self.columns}
        join = concatenated if self._rows.batched else stacked
        return {name: join(name, values) for name, values in columns.items()}

    def in_memory(self) -> Examples:
        """Inputs and targets of the current epoch: to validate with, or to train on without reading again."""
        inputs, targets = self._examples(batched=False)
        columns = self.select(*dict.fromkeys((*_tuple(inputs), *_tuple(targets)))).arrays()
        return Examples("data frame", _values(columns, inputs), _values(columns, targets))

    # ---- the place

    def state(self) -> BatchState:
        """Seed, epoch, and rows done in it: all that decides what comes next."""
        return self._state

    @checked
    def restore(self, state: BatchState) -> None:
        """Go on from there, exactly as the frame that it was taken from."""
        known = self._rows.count
        if min(state.seed, state.epoch, state.position) < 0 or (known is not None and state.position >= known):
            need = "seed, epoch and position of 0 or more" + ("" if known is None else f", a position below {known}")
            raise DataError("data frame", got=str(state), need=need, fix="resume with the data it was saved with")
        self._stream = None
        with Shield():
            self._state = state

    def __iter__(self) -> Iterator[Row]:
        epoch, whole = self._state.epoch, False
        try:
            while self._state.epoch == epoch:
                row = self._current().row()
                self.advance()
                yield row
            whole = True
        finally:
            if not whole:
                self.close()

    def next_row(self) -> Row:
        """The row whose turn it is: the same one until `advance`."""
        try:
            return self._current().row()
        except BaseException:
            self.close()
            raise

    def next_batch(self) -> Batch:
        """The batch whose turn it is, for `fit`."""
        inputs, targets = self._examples()
        row = self.next_row()
        x, y = _values(row, inputs), _values(row, targets)
        return Batch(x, y, len(y[0] if isinstance(y, tuple) else y))

    def advance(self) -> None:
        """Go on to the row behind it, or to the next epoch."""
        stream, state = self._current(), self._state
        last = stream.last
        # Whatever breaks in here: without a stream the state decides.
        self._stream = None
        if last:
            self._state = BatchState(state.seed, state.epoch + 1)
        else:
            self._state = replace(state, position=state.position + 1)
            stream.advance()
            self._stream = stream

    def close(self) -> None:
        """End the workers; the place stays, and the next row begins others."""
        workers, self._workers, self._stream = self._workers, None, None
        if workers is not None:
            workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, object]:
        """Without workers."""
        return vars(self) | {"_workers": None, "_stream": None}

    def _examples(self, *, batched: bool = True) -> tuple[Names, Names]:
        """Columns of inputs and targets: the only two, unless `examples` named some."""
        if batched and not self._rows.batched:
            raise UsageError("fit", got="a frame without batches", need="batches", fix="frame.batch(32)")
        if self._parts is None and len(self.columns) != 2:
            got = f"columns {', '.join(self.columns)}"
            raise UsageError("fit", got=got, need="inputs and targets", fix="frame.examples(inputs, targets)")
        return self._parts or (self.columns[0], self.columns[1])

    def _current(self) -> EpochStream:
        """The running epoch, taken up where the state says; anew in a forked process, which has no workers."""
        stream = self._stream
        if stream is None or not stream.same_process:
            state, prefetch = self._state, self._prefetch
            if prefetch.depth and (self._workers is None or not self._workers.same_process):
                self._workers = Workers(self._rows, prefetch)
            epoch = FrameEpoch(state.seed, state.epoch)
            stream = EpochStream(self._rows, epoch, state.position, self._workers, prefetch.depth)
            if stream.ended:
                got = f"no rows in epoch {state.epoch + 1} from position {state.position}"
                raise DataError("data frame", got=got, need="at least one row in an epoch")
            self._stream = stream
        return stream


def _tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _values(row: Mapping[str, Value], names: Names) -> Value:
    return row[names] if isinstance(names, str) else tuple(row[name] for name in names)


def _column_of(name: str, values: object) -> NDArray[Any] | list[Any]:
    """An array, or a list where rows are of several shapes or no numbers."""
    if isinstance(values, np.ndarray):
        column: NDArray[Any] | list[Any] = values
    elif isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise ArgumentError("data frame", got=f"{name}={shown(values)}", need="an array or a list for each column")
    else:
        column = list(values)
    if isinstance(column, np.ndarray) and not column.ndim:
        raise ArgumentError("data frame", got=f"{name} of a single value", need="one entry per row")
    return column


def _rows_of(items: object) -> Iterator[Any]:
    """What a function of items gave, if it can be gone through."""
    if not isinstance(items, Iterable):
        raise ArgumentError("from_items", got=f"a function that gives {shown(items)}", need="one that gives items")
    return iter(items)


def _begun(items: Iterable[Any]) -> Iterator[Any]:
    """An epoch of `items`, which the next one goes through again."""
    if iter(items) is items:
        got, fix = f"a {type(items).__name__}, which ends with the first epoch", "give the function that makes it"
        raise DataError("from_items", got=got, need="something that each epoch begins anew", fix=fix)
    return iter(items)


def _names_of(item: object, names: Sequence[str]) -> tuple[str, ...]:
    """The columns that the first item has."""
    if isinstance(item, Mapping):
        return tuple(names) or tuple(map(str, item))
    places = len(item) if isinstance(item, tuple | list) else 1
    if names and len(names) != places:
        raise DataError("from_items", got=f"{len(names)} names for items of {places}", need="a name for each place")
    return tuple(names) or tuple(map(str, range(places)))
