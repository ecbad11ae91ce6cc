"""What a generation keeps of earlier tokens, and the programs that are bound to it: handed on to the next one.

Rows whose texts begin alike may have pages of columns in common: each page is counted by who has it, and written by
nobody while there are several.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from nnc.arguments import shown
from nnc.classes import dataclass
from nnc.core.values.device import CPU
from nnc.core.values.tensor import Tensor
from nnc.errors import MemoryLimitError, UsageError
from nnc.nn.steps.keys import CacheType, StepKey
from nnc.nn.steps.model_step import ModelStep, PlannedStep
from nnc.nn.steps.padding import MOST_STEPS
from nnc.ops.sequence.cached_attention import PAGE

Array = NDArray[np.generic]


def pages_for(columns: int) -> int:
    """So many pages hold these columns."""
    return -(-columns // PAGE)


def pages_of_rows(rows: int, room: int, prefix: int) -> int:
    """Pages of `rows` texts of `room` tokens each that have the whole pages of their first `prefix` tokens in common.

    Rounded up to four binary digits, so that few programs serve all lengths, but no more than they have apart.
    UsageError for a prefix that no text has room for.

    >>> pages_of_rows(8, 4096, 1024), pages_of_rows(8, 4096, 0), pages_of_rows(4, 4864, 0)
    (104, 128, 76)
    """
    if prefix > room:
        got = f"a prefix of {prefix:,} tokens in a context of {room:,}"
        raise UsageError("prefix", got=got, need="at most the context", fix="a larger context")
    common, each = prefix // PAGE, pages_for(room)
    pages = common + rows * (each - common)
    unit = 1 << max(pages.bit_length() - 4, 0)
    return min(-(-pages // unit) * unit, rows * each)


def alike(*rows: Sequence[int]) -> int:
    """How many tokens of all rows are the same from the first on, by halves: whole parts are compared at once.

    >>> alike([3, 1, 4, 1, 5], [3, 1, 4, 2], [3, 1, 4])
    3
    """
    first, *others = map(list, rows)
    same, most = 0, min(map(len, rows))
    while same < most:
        stop = (same + most + 1) // 2
        part = first[same:stop]
        if all(row[same:stop] == part for row in others):
            same = stop
        else:
            most = stop - 1
    return same


# Each is a list, whether it has a page or not.
MOST_ROWS = 1 << 20


@dataclass(slots=True, eq=False)
class Pages:
    """Which of `count` pages each row has, in the order of its columns; `users` says how many rows have each.

    Pages that nobody has are `free`, and hold zeros. Any row is that of one thread; `rows` are all of them, or one.
    """

    count: int
    rows: list[list[int]]
    users: list[int]
    free: list[int]

    @classmethod
    def of(cls, count: int, rows: int) -> Pages:
        """All free; UsageError for more than `MOST_ROWS`."""
        if rows > MOST_ROWS:
            need = f"at most {MOST_ROWS:,} rows that share pages"
            raise UsageError("generation_caches", got=f"{shown(rows)} rows", need=need)
        try:
            return cls(count, [[] for _ in range(rows)], [0] * count, [*reversed(range(count))])
        except (MemoryError, OverflowError):
            got = f"{count:,} pages of {PAGE} tokens"
            raise MemoryLimitError("generation_caches", got=got, need="fewer rows or tokens") from None

    def row(self, number: int) -> Pages:
        """One row of them."""
        return Pages(self.count, [self.rows[number]], self.users, self.free)

    def taken(self) -> int:
        """A free page, which one row has from now on."""
        page = self.free.pop()
        self.users[page] = 1
        return page

    def starts(self, parts: int) -> NDArray[np.int32]:
        """Where each page of each row starts; of those that a row has not, nothing is read that counts."""
        starts = np.zeros((len(self.rows), parts), np.int32)
        for number, pages in enumerate(self.rows):
            starts[number] = PAGE * pages[0] if pages else 0
            starts[number, : len(pages)] = np.multiply(pages[:parts], PAGE)
        return starts

    def places(self, positions: Array, writing: Collection[int]) -> NDArray[np.int32]:
        """Where positions[rows, steps] are written: behind all pages where no page of this row alone holds them."""
        places = np.full(positions.shape, self.count * PAGE, np.int32)
        for number in writing:
            pages = self.rows[number]
            own = np.array([PAGE * page if self.users[page] == 1 else -1 for page in pages] or [-1], np.int64)
            part, within = np.divmod(positions[number].astype(np.int64), PAGE)
            start = np.where(part < len(pages), own[np.minimum(part, len(own) - 1)], -1)
            places[number] = np.where(start < 0, places[number], start + within)
        return places.reshape(-1)


@dataclass(slots=True, eq=False)
class GenerationCaches:
    """Tensors by path for `batch` rows with room for `capacity` tokens, zeros at first, and steps bound to them.

    Keys and values are `held` in this type; `reach` is behind the last place that was written, and `newest` behind the
    last one of the text at hand. A tensor of fewer columns has the latest tokens alone, of which no more than
    `MOST_STEPS` may be forgotten. With `pages` a tensor has the columns of all of them, and one behind these.
    """

    batch: int
    capacity: int
    held: CacheType = "f32"
    tensors: dict[str, Tensor] = field(default_factory=dict)
    bound: dict[StepKey, tuple[PlannedStep, ModelStep]] = field(default_factory=dict)
    reach: int = 0
    newest: int = 0
    pages: Pages | None = None

    def writes(self, stop: int) -> None:
        """Note, before that is done, that places up to here are written."""
        self.reach, self.newest = max(self.reach, stop), max(self.newest, stop)

    def hold(self, count: int) -> bool:
        """Whether a text may go on behind its first `count` tokens: all that is seen from there is here."""
        if self.pages is not None:
            return True
        least = min((tensor.shape[1] for tensor in self.tensors.values()), default=self.capacity)
        return least == self.capacity or self.newest <= least or self.newest - count <= MOST_STEPS

    @property
    def on_host(self) -> bool:
        """Whether they lie in the memory of the host."""
        return all(tensor.spec.device.is_host for tensor in self.tensors.values())

    def clear(self) -> None:
        """Zeros again: nothing of one text reaches another, not even what is no number."""
        if self.pages is not None:
            for own in self.pages.rows:
                self._released(own)
                own.clear()
        else:
            for tensor in self.tensors.values():
                if tensor.spec.device.is_host:
                    tensor.numpy()[:, : self.reach] = 0
                else:
                    tensor.clear()
        self.reach = self.newest = 0

    # ---- pages

    @property
    def page_count(self) -> int:
        """How many there are for all rows; 0 where each has columns of its own."""
        return 0 if self.pages is None else self.pages.count

    def row(self, number: int) -> GenerationCaches:
        """One row of those that have pages; steps of one row are those of any, whose pages are inputs."""
        assert self.pages is not None
        return GenerationCaches(1, self.capacity, self.held, self.tensors, self.bound, pages=self.pages.row(number))

    def addresses(self, positions: Array, writing: Collection[int] | None = None) -> tuple[Array, ...]:
        """What a step needs to know of pages: where it writes these, of all rows or of some, and where each starts."""
        if self.pages is None:
            return ()
        rows = range(len(self.pages.rows)) if writing is None else writing
        return self.pages.places(positions, rows), self.pages.starts(pages_for(self.capacity))

    def reserve(self, count: int, begin: int = 0) -> bool:
        """Pages for so many tokens of the first row, those from `begin` on its own; False where too few are free."""
        pages = self.pages
        if pages is None:
            return True
        own = pages.rows[0]
        foreign = [place for place in range(begin // PAGE, len(own)) if pages.users[own[place]] > 1]
        fresh = max(pages_for(count) - len(own), 0)
        if fresh + len(foreign) > len(pages.free):
            return False
        for place in foreign:
            page = pages.taken()
            if place == begin // PAGE and begin % PAGE:
                self._copy(own[place], page, begin % PAGE)
            self._released([own[place]])
            own[place] = page
        own.extend(pages.taken() for _ in range(fresh))
        return True

    def begin_as(self, other: GenerationCaches, count: int) -> int:
        """Let the first row begin with the first `count` tokens of another one's; how many there are then.

        Whole pages are those of the other, the rest is a copy: less where no page is free for it.
        """
        if self.pages is None or other.pages is None:
            for name in self.tensors:
                self.put(name, other.columns(name, count))
            return count
        own, theirs, whole = self.pages.rows[0], other.pages.rows[0], count // PAGE
        for page in theirs[:whole]:
            self.pages.users[page] += 1
        self._released(own[:whole])
        own[:whole] = theirs[:whole]
        if not count % PAGE or not self.reserve(count, whole * PAGE):
            return whole * PAGE
        self._copy(theirs[whole], own[whole], count % PAGE)
        return count

    def reorder(self, order: Array) -> None:
        """Let each row be the one that `order` names for it."""
        if self.pages is None:
            for cache in self.tensors.values():
                cache.copy_from(cache.to(CPU).numpy()[order])
            return
        pairs = [
            pair
            for row, source in enumerate(order)
            for pair in zip(self.pages.rows[row], self.pages.rows[source], strict=True)
        ]
        pages, sources = np.array([pair for pair in pairs if pair[0] != pair[1]] or np.zeros((0, 2), np.int64)).T
        for values in self._arrays():
            whole = values[0, :-1].reshape(self.pages.count, PAGE, *values.shape[2:])
            whole[pages] = whole[sources]

    def columns(self, name: str, count: int) -> Array:
        """What is held of the first `count` tokens of the first row: [1, count, …]."""
        values = self.tensors[name].to(CPU).numpy()
        return values[:1, :count] if self.pages is None else values[:, self._places(count)]

    def put(self, name: str, columns: Array) -> None:
        """Let the first tokens of the first row be these [1, count, …]."""
        cache = self.tensors[name]
        values = cache.to(CPU)
        if self.pages is None:
            values.numpy()[:1, : columns.shape[1]] = columns
        else:
            values.numpy()[:, self._places(columns.shape[1])] = columns
        if values is not cache:
            cache.copy_from(values)

    def _places(self, count: int) -> NDArray[np.int64]:
        assert self.pages is not None
        starts = np.array(self.pages.rows[0], np.int64) * PAGE
        return (starts[:, None] + np.arange(PAGE)).reshape(-1)[:count]

    def _released(self, pages: Sequence[int]) -> None:
        """One row less has these; zeros where it was the last one."""
        assert self.pages is not None
        for page in pages:
            self.pages.users[page] -= 1
            if not self.pages.users[page]:
                for values in self._arrays():
                    values[0, page * PAGE : (page + 1) * PAGE] = 0
                self.pages.free.append(page)

    def _copy(self, source: int, page: int, count: int) -> None:
        for values in self._arrays():
            values[0, page * PAGE : page * PAGE + count] = values[0, source * PAGE : source * PAGE + count]

    def _arrays(self) -> Iterator[Array]:
        return (tensor.numpy() for tensor in self.tensors.values())


def check_pages(caches: GenerationCaches, count: int, begin: int) -> None:
    """Pages for so many tokens of the first row, as `reserve` has them; UsageError where too few are free."""
    if not caches.reserve(count, begin):
        assert caches.pages is not None
        got = f"{len(caches.pages.free)} free pages of {PAGE} tokens for a text of {count}"
        raise UsageError("generate", got=got, need="a page for each", fix="end other texts, or a smaller prefix")
