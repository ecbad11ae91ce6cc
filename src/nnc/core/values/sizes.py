"""Sizes that remember where they come from, as a graph is built with them: integers for whoever asks.

    trace = SizeTrace();  n = trace.read(8)
    n * 4              32, and how it follows from n
    n % 2 == 0         True, which is a guard of what is built from here on
    range(n)           0 to 7; that n is 8 is a guard then, as wherever the value itself is asked for

So rules of shapes compute with them as with integers, and nothing can be lost: what a place makes of the value, it
makes at this value alone (docs/design/0033-programs-for-open-sizes.md).
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from nnc.core.values.derived import Derivation, Derived, Function, Known, is_binary


class _Tables(threading.local):
    """Whether sizes that are keys of tables are told apart by comparing them."""

    compare = False


_TABLES = _Tables()


@contextmanager
def comparing_sizes() -> Iterator[None]:
    """Inside, all sizes have one hash: which of them are equal is a guard, and not that each has its value."""
    before, _TABLES.compare = _TABLES.compare, True
    try:
        yield
    finally:
        _TABLES.compare = before


class Size(Derived):
    """A size of a graph in the making."""

    __slots__ = ()

    @property  # type: ignore[misc]  # nobody sets it
    def __class__(self) -> type:
        """What `isinstance` sees: an integer, or a number made of some."""
        return type(self.value)

    def __hash__(self) -> int:
        return 0 if _TABLES.compare else super().__hash__()

    def __repr__(self) -> str:
        return repr(self.pinned)

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __floor__(self) -> Any:
        return -math.ceil(-self)

    def __divmod__(self, other: object) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: object) -> Any:
        return other // self, other % self

    def __getattr__(self, name: str) -> Any:
        """What else an integer can do, at this value alone."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.pinned, name)


def _pinned(number: Any) -> Any:
    return number.pinned if type(number) is Size else number


def _forward(function: Callable[[Any, Any], Any]) -> Callable[[Size, object], Any]:
    return lambda size, other: function(size.pinned, _pinned(other))


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Size, object], Any]:
    return lambda size, other: function(_pinned(other), size.pinned)


def _alone(function: Callable[[Any], Any]) -> Callable[[Size], Any]:
    return lambda size: function(size.pinned)


# What no formula follows is done at the value: special methods are looked up in the class.
_BOTH: dict[str, Callable[[Any, Any], Any]] = {
    "and": operator.and_, "lshift": operator.lshift, "or": operator.or_, "pow": operator.pow,
    "rshift": operator.rshift, "xor": operator.xor,
}  # fmt: skip
_SINGLE: dict[str, Callable[[Any], Any]] = {
    "invert": operator.invert, "pos": operator.pos, "round": round, "trunc": math.trunc,
}  # fmt: skip
for _name, _both in _BOTH.items():
    setattr(Size, f"__{_name}__", _forward(_both))
    setattr(Size, f"__r{_name}__", _reflected(_both))
for _name, _single in _SINGLE.items():
    setattr(Size, f"__{_name}__", _alone(_single))


class SizeTrace(Derivation):
    """What is computed of sizes while a graph is built, and the guards that its shape depends on."""

    __slots__ = ()

    def number(self, place: int, value: Known) -> Derived:
        return Size(self, place, value)


def size_of(number: object) -> Size | None:
    """The number, if it remembers where it comes from."""
    return number if type(number) is Size else None


def plain(number: float) -> Known:
    """The value, with nothing noted: for tables that only save work, and for messages."""
    size = size_of(number)
    return number if size is None else size.value


def follows(sizes: Iterable[Size], function: Function, value: Known) -> Known:
    """What a function makes of these sizes, among all numbers of their trace, and its value now.

    Without sizes that remember where they come from, the value.
    """
    traces = (size.derivation for size in sizes if not size.derivation.closed)
    trace = next(traces, None)
    return value if trace is None else cast("Known", trace.called(function, value))


def is_power_of_two(number: float) -> bool:
    """Whether a number is a power of two, or the negative of one; of a size that is a guard, and not its value."""
    size = size_of(number)
    if size is None or size.derivation.closed:
        return is_binary(plain(number))
    return size.derivation.condition("power_of_two", size, 0)
