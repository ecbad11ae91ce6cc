"""The only maker of keys: an arena holds records and hands out one integer key for each.

Keys are monotonic and never reused, so a key held outside stays valid, or names a removed record, for ever; it
never silently means another one. How records are stored is replaceable (`RecordStorage`): a list for graphs that mostly
grow, a dictionary for traces, where a removed record must really go away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, IntEnum
from numbers import Integral
from typing import Final, Generic, Protocol, TypeVar

from nnc.arguments import explained, frequent, shown
from nnc.errors import ArgumentError, KeyOverflowError, UnknownKeyError

K = TypeVar("K", bound=int)
D = TypeVar("D")


class KeyWidth(IntEnum):
    """`capacity = 2 ** width`: how many keys an arena may ever make, by the bits that hold one."""

    BITS8 = 8
    BITS16 = 16
    BITS32 = 32
    BITS64 = 64

    @property
    def capacity(self) -> int:
        """The number of different keys that fit in the width."""
        return 1 << self.value


class RecordStorage(Protocol[D]):
    """Where records lie, by index. `KeyError` means that the index holds nothing; iteration is ascending."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def __contains__(self, index: object, /) -> bool: ...
    def __getitem__(self, index: int, /) -> D: ...
    def __setitem__(self, index: int, data: D, /) -> None: ...
    def __delitem__(self, index: int, /) -> None: ...
    def copy(self) -> RecordStorage[D]:
        """A storage with the same records, to be changed on its own."""
        ...


class StorageFactory(Protocol):
    """Makes an empty storage for any type of record; a generic storage class is one."""

    def __call__(self) -> RecordStorage[D]: ...


class _EmptySlot(Enum):
    SLOT = "empty"


_EMPTY: Final = _EmptySlot.SLOT


class ListStorage(Generic[D]):
    """One slot per index ever used: fastest, for graphs that mostly grow."""

    __slots__ = ("_live", "_slots")

    def __init__(self) -> None:
        self._slots: list[D | _EmptySlot] = []
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def __iter__(self) -> Iterator[int]:
        return (index for index, data in enumerate(self._slots) if data is not _EMPTY)

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int):
            # NumPy's integers are indices of lists too.
            if not isinstance(index, Integral):
                return False
            index = int(index)
        return 0 <= index < len(self._slots) and self._slots[index] is not _EMPTY

    def __getitem__(self, index: int) -> D:
        try:
            data = self._slots[index] if index >= 0 else _EMPTY
        except (IndexError, TypeError, ValueError):
            # What cannot be compared, or is no index, is no key either.
            data = _EMPTY
        if data is _EMPTY:
            raise KeyError(index)
        return data

    def __setitem__(self, index: int, data: D) -> None:
        slots = self._slots
        if index == len(slots):
            slots.append(data)
            self._live += 1
            return
        slots.extend([_EMPTY] * (index + 1 - len(slots)))
        self._live += slots[index] is _EMPTY
        slots[index] = data

    def __delitem__(self, index: int) -> None:
        if index not in self:
            raise KeyError(index)
        self._slots[index] = _EMPTY
        self._live -= 1

    def copy(self) -> ListStorage[D]:
        """A storage with the same records, to be changed on its own."""
        duplicate: ListStorage[D] = ListStorage()
        duplicate._slots = self._slots.copy()
        duplicate._live = self._live
        return duplicate


class DictStorage(dict[int, D]):
    """Memory only for what lives: for traces. Keys are monotonic, so insertion order is ascending order."""

    __slots__ = ()

    def copy(self) -> DictStorage[D]:
        """A storage with the same records, to be changed on its own."""
        return DictStorage(self)


@explained
class Arena(Generic[K, D]):
    """`arena[key] == data`: records by key; `new` is the only place where keys are made.

    `key_type` turns an integer into a key, normally a `NewType` over `int`; it costs nothing at run time and lets
    the type checker keep the keys of different arenas apart.
    """

    __slots__ = ("_capacity", "_key_type", "_next", "_storage", "_version", "_width")

    def __init__(
        self,
        key_type: Callable[[int], K],
        width: KeyWidth = KeyWidth.BITS32,
        storage: StorageFactory = ListStorage,
    ) -> None:
        self._key_type = key_type
        self._width = width
        self._capacity = width.capacity
        self._storage: RecordStorage[D] = storage()
        if not hasattr(self._storage, "__delitem__"):
            need = "ListStorage, DictStorage or a class that is used as they are"
            raise ArgumentError("storage", got=shown(storage), need=need)
        self._next = 0
        self._version = 0

    @property
    def version(self) -> int:
        """Grows by one with each change; what was derived at another version is out of date."""
        return self._version

    @property
    def width(self) -> KeyWidth:
        """The bits of a key."""
        return self._width

    @property
    def key_name(self) -> str:
        """The name of the key type, for messages."""
        return getattr(self._key_type, "__name__", "key")

    @frequent
    def new(self, data: D) -> K:
        """Store `data` under a key never used before.

        Raises KeyOverflowError, and changes nothing, when the key width is used up.
        """
        if self._next >= self._capacity:
            raise KeyOverflowError(
                self.key_name,
                got=f"{self._next} keys made so far",
                need=f"at most {self._capacity} keys of {self._width.value} bits",
                fix="give the arena a wider KeyWidth",
            )
        key = self._key_type(self._next)
        self._storage[key] = data
        self._next += 1
        self._version += 1
        return key

    def replace(self, key: K, data: D) -> None:
        """`arena[key] = data` for a key that lives; the key keeps its place in the order."""
        self.require(key)
        self._storage[key] = data
        self._version += 1

    @frequent
    def remove(self, key: K) -> D:
        """Take the record out and return it; the key stays dead for ever."""
        self.require(key)
        data = self[key]
        del self._storage[key]
        self._version += 1
        return data

    @frequent
    def require(self, key: K) -> None:
        """Raise UnknownKeyError unless the key lives."""
        try:
            if key in self._storage:
                return
        except TypeError:
            pass
        raise self.unknown(key)

    def unknown(self, key: int) -> UnknownKeyError:
        """The error for a key that does not live here: it was removed, or this arena never made it."""
        was_made = isinstance(key, int) and 0 <= key < self._next
        return UnknownKeyError(
            f"{self.key_name} {key!r}",
            got="a key whose record was removed" if was_made else "a key that this arena never made",
            need=f"one of the {len(self)} live keys",
        )

    def copy(self) -> Arena[K, D]:
        """An arena with the same keys, records and version, to be changed on its own."""
        duplicate: Arena[K, D] = Arena(self._key_type, self._width)
        duplicate._storage = self._storage.copy()
        duplicate._next = self._next
        duplicate._version = self._version
        return duplicate

    def items(self) -> Iterator[tuple[K, D]]:
        """Pairs of key and record, by ascending key."""
        storage, key_type = self._storage, self._key_type
        return ((key_type(index), storage[index]) for index in storage)

    def __getitem__(self, key: K) -> D:
        try:
            return self._storage[key]
        except (KeyError, TypeError):
            raise self.unknown(key) from None

    def __contains__(self, key: object) -> bool:
        try:
            return key in self._storage
        except TypeError:
            return False

    def __len__(self) -> int:
        return len(self._storage)

    def __iter__(self) -> Iterator[K]:
        return map(self._key_type, self._storage)

    def __repr__(self) -> str:
        return f"Arena({self.key_name}, {len(self)} records, {self._width.value} bits, version {self._version})"
