"""Exact equality of values, for tables whose keys decide what code runs.

Python holds 0.0 and -0.0, and 1, 1.0 and True, for equal; a kernel can tell them apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from enum import Enum
from functools import cache
from types import FunctionType
from typing import Any

from nnc.classes import dataclass
from nnc.graph import Op

PLAIN = frozenset({bool, int, float, str, bytes})


def are_the_same(first: object, other: object) -> bool:
    """Whether no kernel could tell the values apart; dataclasses and tuples by their parts, nan equal to nan.

    A field of a dataclass that takes no part in its comparison (`compare=False`) takes none in this one.

    >>> are_the_same((1.0, "x"), (1.0, "x")), are_the_same(0.0, -0.0), are_the_same(1, True)
    (True, False, False)
    """
    if first is other:
        return True
    if type(first) is not type(other):
        return False
    if isinstance(first, float):
        return repr(first) == repr(other)
    if isinstance(first, tuple) and isinstance(other, tuple):
        return len(first) == len(other) and all(map(are_the_same, first, other))
    if dataclasses.is_dataclass(first):
        return all(are_the_same(getattr(first, name), getattr(other, name)) for name in _compared(type(first)))  # type: ignore[arg-type]  # classes can be hashed
    return first == other


def exact_text(value: object) -> str:
    """A text that is equal, in any process, for values that are the same; empty for those it cannot tell apart.

    Dataclasses, enumerations and functions are named by their modules, of which this package's alone are known.

    >>> exact_text((1, 1.0, True, -0.0, "x")), exact_text(object())
    ("(1,1.0,True,-0.0,'x',)", '')
    """
    parts: list[str] = []
    return "".join(parts) if _write(value, parts) else ""


def _write(value: Any, parts: list[str]) -> bool:  # noqa: ANN401  # of any type: those that are not known are refused
    kind = type(value)
    if value is None or kind in PLAIN:
        parts.append(repr(value))
        return True
    if kind is tuple:
        return _write_all(value, parts)
    function = isinstance(value, FunctionType | Op)
    named = value if function else kind
    name = f"{named.__module__}.{getattr(named, '__qualname__', '<>')}"
    if not name.startswith("nnc.") or "<" in name:
        return False
    parts.append(name)
    if isinstance(value, Enum):
        parts.append(f".{value.name}")
        return True
    if dataclasses.is_dataclass(kind):
        return _write_all([getattr(value, field) for field in _compared(kind)], parts)
    return function


def _write_all(values: Iterable[object], parts: list[str]) -> bool:
    parts.append("(")
    for value in values:
        if not _write(value, parts):
            return False
        parts.append(",")
    parts.append(")")
    return True


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
