"""Data derived from a graph, stamped with the version it was derived at: reading what is out of date raises.

A `Column` holds a value per key. A `Fact` is a typed key for one value about the whole graph; `Facts` is the table
of one graph. Who changes the graph and knows that a value still holds says so with `preserve`.

The passes of symbolic graphs keep their facts here. Columns are for those who build on `nnc.graph` (seeds 003 and 004,
rows G8 and D5 of docs/parity.md): what the compiler knows per key it knows of a graph that stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from nnc.arguments import explained
from nnc.errors import StaleError, UnknownKeyError
from nnc.graph.view import Keyed, Versioned

K = TypeVar("K", bound=int)
V = TypeVar("V")
T = TypeVar("T")


class _EmptyCell(Enum):
    CELL = "empty"


_EMPTY: Final = _EmptyCell.CELL


def _stale(name: str, stamp: int, version: int) -> StaleError:
    return StaleError(
        name,
        got=f"a value of version {stamp}; the graph is at version {version}",
        need="a value of the graph's version",
        fix="derive it again after the change, or declare that the change preserved it",
    )


@explained
class Column(Generic[K, V]):
    """`column[key] = value`: a dense side table over the keys of one graph or arena.

    Raises StaleError on any access after the graph has changed, until `preserve` is called.
    """

    __slots__ = ("_cells", "_owner", "_stamp", "name")

    def __init__(self, owner: Keyed[K], name: str = "column") -> None:
        self.name = name
        self._owner = owner
        self._stamp = owner.version
        self._cells: list[V | _EmptyCell] = []

    @property
    def is_stale(self) -> bool:
        """Whether the graph has changed since the column was made or last preserved."""
        return self._stamp != self._owner.version

    def preserve(self) -> None:
        """Declare that the values still hold at the graph's present version."""
        self._stamp = self._owner.version

    def __getitem__(self, key: K) -> V:
        self._check()
        cell = self._cell(key)
        if cell is _EMPTY:
            raise UnknownKeyError(f"{self.name}[{key!r}]", got="a key without a value", need="one that was set")
        return cell

    def get(self, key: K, default: V) -> V:
        """The key's value, or `default` where none was set."""
        self._check()
        cell = self._cell(key)
        return default if cell is _EMPTY else cell

    def __setitem__(self, key: K, value: V) -> None:
        self._check()
        if key not in self._owner:
            raise UnknownKeyError(f"{self.name}[{key!r}]", got="a key that is not in the graph", need="a live key")
        self._cells.extend([_EMPTY] * (key + 1 - len(self._cells)))
        self._cells[key] = value

    def __contains__(self, key: K) -> bool:
        self._check()
        return self._cell(key) is not _EMPTY

    def __len__(self) -> int:
        return sum(cell is not _EMPTY for cell in self._cells)

    def items(self) -> Iterator[tuple[K, V]]:
        """Pairs of key and value, by ascending key."""
        self._check()
        for key in self._owner:
            cell = self._cell(key)
            if cell is not _EMPTY:
                yield key, cell

    def _cell(self, key: K) -> V | _EmptyCell:
        return self._cells[key] if 0 <= key < len(self._cells) else _EMPTY

    def _check(self) -> None:
        if self._stamp != self._owner.version:
            raise _stale(self.name, self._stamp, self._owner.version)

    def __repr__(self) -> str:
        state = "stale" if self.is_stale else f"version {self._stamp}"
        return f"Column({self.name}, {len(self)} values, {state})"


class FactKey:
    """What a fact is apart from the type of its value: a name, used only for printing, and the object's identity."""

    __slots__ = ("__weakref__", "name")

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, facts: Facts) -> object:
        """The fact's value in a table. Raises UnknownKeyError when absent and StaleError when out of date."""
        raise NotImplementedError

    def stamp(self, facts: Facts) -> int | None:
        """The version at which the value was derived; None when there is none."""
        raise NotImplementedError

    def preserve(self, facts: Facts) -> None:
        """Declare that the value, if there is one, still holds at the graph's present version."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"Fact({self.name})"


class Fact(FactKey, Generic[T]):
    """`facts[FACT] -> T`: a typed key for one value about a whole graph.

    The key itself holds the values, one per table and weakly by table; so the type is exact without any cast.
    """

    __slots__ = ("_values",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._values: WeakKeyDictionary[Facts, tuple[int, T]] = WeakKeyDictionary()

    def read(self, facts: Facts) -> T:
        """The fact's value in a table. Raises UnknownKeyError when absent and StaleError when out of date."""
        stamped = self._values.get(facts)
        if stamped is None:
            raise UnknownKeyError(
                f"fact {self.name}", got="a fact that nothing has provided", need="its analysis to run"
            )
        stamp, value = stamped
        if stamp != facts.version:
            raise _stale(f"fact {self.name}", stamp, facts.version)
        return value

    def write(self, facts: Facts, value: T) -> None:
        """Set the value, derived at the graph's present version."""
        self._values[facts] = (facts.version, value)

    def stamp(self, facts: Facts) -> int | None:
        """The version at which the value was derived; None when there is none."""
        stamped = self._values.get(facts)
        return None if stamped is None else stamped[0]

    def preserve(self, facts: Facts) -> None:
        """Declare that the value, if there is one, still holds at the graph's present version."""
        stamped = self._values.get(facts)
        if stamped is None:
            return
        if isinstance(stamped[1], Column):
            stamped[1].preserve()
        self._values[facts] = (facts.version, stamped[1])


class Facts:
    """`facts[FACT] = value`: what is known about one graph as a whole, each value with the version it belongs to."""

    __slots__ = ("__weakref__", "_owner")

    def __init__(self, owner: Versioned) -> None:
        self._owner = owner

    @property
    def version(self) -> int:
        """The graph's present version."""
        return self._owner.version

    def __getitem__(self, fact: Fact[T]) -> T:
        return fact.read(self)

    def __setitem__(self, fact: Fact[T], value: T) -> None:
        fact.write(self, value)

    def __contains__(self, fact: FactKey) -> bool:
        """Whether the fact has a value that is up to date."""
        return fact.stamp(self) == self.version

    def preserve(self, *facts: FactKey) -> None:
        """Declare that these facts, where present, still hold at the graph's present version."""
        for fact in facts:
            fact.preserve(self)
