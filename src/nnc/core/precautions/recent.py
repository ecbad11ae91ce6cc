"""Tables that keep what was used last, for caches that must not grow for ever; any thread may use them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from nnc.core.precautions.forking import fork_safe_lock
from nnc.core.settings import SETTINGS

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RecentlyUsed(Generic[K, V]):
    """Programs: at most `SETTINGS.kept_programs`, of at most `SETTINGS.kept_bytes` by what `nbytes` states of each.

    The one that nobody has asked for longest goes first, and lives on as long as somebody holds it. The last one stays,
    whatever it takes.
    """

    __slots__ = ("_last", "_lock", "_nbytes", "_table")

    def __init__(self, nbytes: Callable[[V], int]) -> None:
        self._nbytes = nbytes
        self._table: dict[K, V] = {}
        # The one used last, which a caller with the very key gets without hashing it.
        self._last: tuple[K, V] | None = None
        self._lock = fork_safe_lock()

    def get(self, key: K) -> V | None:
        """The value, which now is the one used last; None when it is not there."""
        last = self._last
        if last is not None and last[0] is key:
            return last[1]
        with self._lock:
            value = self._table.pop(key, None)
            if value is not None:
                self._table[key] = value
                self._last = (key, value)
            return value

    def put(self, key: K, value: V) -> V:
        """Keep a value, unless there is one: which it is."""
        with self._lock:
            kept = self._table.pop(key, value)
            self._table[key] = kept
            self._last = (key, kept)
            over = self._total() - SETTINGS.kept_bytes
            while len(self._table) > 1 and (over > 0 or len(self._table) > SETTINGS.kept_programs):
                over -= self._nbytes(self._table.pop(next(iter(self._table))))
            return kept

    def _total(self) -> int:
        return sum(map(self._nbytes, self._table.values()))

    @property
    def nbytes(self) -> int:
        """What is kept takes so many bytes, as stated."""
        with self._lock:
            return self._total()

    def values(self) -> tuple[V, ...]:
        """All of them, the one used last at the end."""
        with self._lock:
            return tuple(self._table.values())

    def __len__(self) -> int:
        return len(self._table)


class TwoGenerations(Generic[K, V]):
    """At most `most()` values; some of those that nobody has asked for longest go first, many at once.

    A hit in the younger generation costs one look-up, for tables whose keys take long to hash.

    >>> table = TwoGenerations(lambda: 2)
    >>> for key in "abc":
    ...     _ = table.put(key, key.upper())
    >>> table.get("a"), table.get("b"), table.get("c")
    (None, 'B', 'C')
    """

    __slots__ = ("_lock", "_most", "_old", "_young")

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._lock = fork_safe_lock()

    def get(self, key: K) -> V | None:
        """The value, which now is young; None when it is not there."""
        value = self._young.get(key)
        if value is None and self._old:
            value = self._old.get(key)
            if value is not None:
                value = self.put(key, value)
        return value

    def put(self, key: K, value: V) -> V:
        """Keep a value, unless there is a young one: which it is."""
        with self._lock:
            if key not in self._young and len(self._young) >= max(self._most() // 2, 1):
                self._old, self._young = self._young, {}
            return self._young.setdefault(key, value)

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._old, self._young = {}, {}

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())
