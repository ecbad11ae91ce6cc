"""Fields of a request, each checked: an error names the one that cannot be meant."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from nnc.errors import DataError

Json: TypeAlias = Mapping[str, object]


class RequestError(DataError):
    """A request that asks for what cannot be, by the field that says so."""

    def __init__(self, field: str, *, got: str, need: str, fix: str = "") -> None:
        super().__init__("request", got=got, need=need, fix=fix)
        self.field = field


def object_of(body: bytes) -> Json:
    """The object of JSON that a body is."""
    try:
        held = json.loads(body)
    except (ValueError, RecursionError):
        held = None
    if not isinstance(held, dict):
        raise RequestError("body", got="no object of JSON", need="fields by name")
    return held


def number(held: Json, name: str, low: float, high: float) -> float | None:
    """A number low … high, or None where none is given."""
    value = held.get(name)
    if value is None:
        return None
    # What is no number (NaN) is neither above nor below.
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise RequestError(name, got=f"{name} that is no such number", need=f"{low:g} to {high:g}")
    return float(value)


def integer(held: Json, names: Sequence[str], low: int, high: int) -> int | None:
    """An integer low … high - 1 of the first of these names that is given, or None."""
    name = next((each for each in names if held.get(each) is not None), names[0])
    value = held.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < high:
        raise RequestError(name, got=f"{name} that is no such integer", need=f"{low} or more, below {high}")
    return value


def flag(held: Json, name: str) -> bool:
    """Whether something is wanted: no unless said."""
    value = held.get(name)
    if value is not None and not isinstance(value, bool):
        raise RequestError(name, got=f"{name} that is no truth value", need="true or false")
    return bool(value)


def inside(held: Json, name: str) -> Json:
    """The fields of an object inside; none where it is not given."""
    value = held.get(name)
    if value is not None and not isinstance(value, dict):
        raise RequestError(name, got=f"{name} that is no object", need="fields by name")
    return value or {}


def texts(held: Json, name: str, most: int) -> tuple[str, ...]:
    """A text, or a list of 1 to `most` of them."""
    value = held.get(name)
    many = [value] if isinstance(value, str) else value
    if not isinstance(many, list) or not 1 <= len(many) <= most or not all(isinstance(each, str) for each in many):
        raise RequestError(name, got=f"no {name}", need=f"a text, or 1 to {most} of them")
    return tuple(many)
