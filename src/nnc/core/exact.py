"""Exact equality of values, for tables whose keys decide what code runs.

Python holds 0.0 and -0.0, and 1, 1.0 and True, for equal; a kernel can tell them apart.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import Any


def are_the_same(one: object, other: object) -> bool:
    """Whether no kernel could tell the values apart; dataclasses and tuples by their parts, nan equal to nan.

    A field of a dataclass that takes no part in its comparison (`compare=False`) takes none in this one.

    >>> are_the_same((1.0, "x"), (1.0, "x")), are_the_same(0.0, -0.0), are_the_same(1, True)
    (True, False, False)
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(are_the_same, one, other))
    if dataclasses.is_dataclass(one):
        return all(are_the_same(getattr(one, name), getattr(other, name)) for name in _compared(type(one)))  # type: ignore[arg-type]  # classes can be hashed
    return one == other


@cache
def _compared(kind: Any) -> tuple[str, ...]:  # noqa: ANN401  # a class of dataclasses, which has no name
    """The fields of a dataclass that take part in comparisons."""
    return tuple(field.name for field in dataclasses.fields(kind) if field.compare)


class Hashed:
    """Room for the hash of a value that is a key with every small kernel; it is no field of the value."""

    __slots__ = ("_hash",)
    _hash: int


@dataclass(frozen=True, slots=True, eq=False)
class Exact:
    """A key of a table: equal to another one when their values are the same."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exact) and are_the_same(self.value, other.value)

    def __hash__(self) -> int:
        return hash(self.value)
