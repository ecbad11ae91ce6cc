"""Keys: made once, never reused, checked against their width in one place."""

from __future__ import annotations

from typing import NewType

import pytest

from nnc.errors import KeyOverflowError, UnknownKeyError
from nnc.graph import Arena, DictStorage, KeyWidth, ListStorage, StorageFactory

RowKey = NewType("RowKey", int)


def filled(storage: StorageFactory, *records: str) -> Arena[RowKey, str]:
    arena: Arena[RowKey, str] = Arena(RowKey, storage=storage)
    for record in records:
        arena.new(record)
    return arena


def test_M8_256_keys_of_8_bits_pass_and_the_257th_raises_and_changes_nothing(storage: StorageFactory) -> None:
    arena: Arena[RowKey, int] = Arena(RowKey, KeyWidth.BITS8, storage)
    keys = [arena.new(number) for number in range(256)]
    before = (list(arena.items()), len(arena), arena.version)
    with pytest.raises(KeyOverflowError, match=r"RowKey: got 256 keys made so far; need at most 256 keys of 8 bits"):
        arena.new(256)
    assert (list(arena.items()), len(arena), arena.version) == before
    assert keys == list(range(256))


def test_M8_the_width_is_a_parameter() -> None:
    assert [width.capacity for width in KeyWidth] == [2**8, 2**16, 2**32, 2**64]
    assert Arena[RowKey, str](RowKey, KeyWidth.BITS16).width == 16


def test_M8_removing_does_not_give_keys_back(storage: StorageFactory) -> None:
    arena: Arena[RowKey, int] = Arena(RowKey, KeyWidth.BITS8, storage)
    for number in range(256):
        arena.remove(arena.new(number))
    assert len(arena) == 0
    with pytest.raises(KeyOverflowError):
        arena.new(0)


def test_records_are_read_replaced_and_removed_by_key(storage: StorageFactory) -> None:
    arena = filled(storage, "a", "b", "c")
    first, second, third = arena
    arena.replace(second, "B")
    assert arena.remove(first) == "a"
    assert list(arena.items()) == [(second, "B"), (third, "c")]
    assert (len(arena), first in arena, second in arena, arena[third]) == (2, False, True, "c")
    assert arena.version == 5
    assert repr(arena) == "Arena(RowKey, 2 records, 32 bits, version 5)"


@pytest.mark.parametrize("key", [-1, 3, 10**30])
def test_a_key_never_made_is_an_error_everywhere(storage: StorageFactory, key: int) -> None:
    arena = filled(storage, "a", "b", "c")
    bad = RowKey(key)
    for use in (lambda: arena[bad], lambda: arena.remove(bad), lambda: arena.replace(bad, "x")):
        with pytest.raises(UnknownKeyError, match=f"RowKey {key}: got a key that this arena never made"):
            use()
    assert arena.version == 3


def test_a_removed_key_says_so(storage: StorageFactory) -> None:
    arena = filled(storage, "a", "b")
    key = next(iter(arena))
    arena.remove(key)
    with pytest.raises(UnknownKeyError, match=r"RowKey 0: got a key whose record was removed; need one of the 1 live"):
        arena.remove(key)


def test_a_key_that_is_no_integer_is_an_unknown_key(storage: StorageFactory) -> None:
    arena = filled(storage, "a")
    for key in (None, "0", 0.5, ()):
        with pytest.raises(UnknownKeyError):
            arena[key]  # type: ignore[index]  # the point of the test
        assert key not in arena


def test_a_copy_has_its_own_life(storage: StorageFactory) -> None:
    arena = filled(storage, "a", "b")
    first, second = arena
    arena.remove(first)
    duplicate = arena.copy()
    assert list(duplicate.items()) == [(second, "b")]
    assert duplicate.version == arena.version
    assert duplicate.new("c") == arena.new("d") == 2
    assert (duplicate[RowKey(2)], arena[RowKey(2)]) == ("c", "d")


def test_M25_a_dictionary_forgets_and_a_list_keeps_order() -> None:
    sparse: DictStorage[str] = DictStorage()
    dense: ListStorage[str] = ListStorage()
    for storage in (sparse, dense):
        storage[0], storage[4] = "a", "b"
        del storage[0]
        assert (list(storage), len(storage), 4 in storage, -1 in storage) == ([4], 1, True, False)
        with pytest.raises(KeyError):
            storage[0]
        with pytest.raises(KeyError):
            del storage[2]
