"""Sizes that remember where they come from, as a graph is built with them: integers for whoever asks.

    trace = SizeTrace();  n = trace.read(8)
    n * 4              32, and how it follows from n
    n % 2 == 0         True, which is a guard of what is built from here on
    range(n)           0 to 7; that n is 8 is a guard then, as wherever the value itself is asked for

    renewal = Renewal({0: 9})
    renewal.of(spec of [n, 4])        spec of [9, 4], where n is the number at place 0 of its trace
    decided(choose, n, 4)             choose(8, 4); that it comes out alike is the guard, not what `choose` asks

So rules of shapes compute with them as with integers, and nothing can be lost: what a place makes of the value, it
makes at this value alone (docs/design/0033-programs-for-open-sizes.md).
"""

from __future__ import annotations

import dataclasses
import math
import operator
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol, TypeVar, TypeVarTuple, Unpack, cast, runtime_checkable

from nnc.core.values.derived import Derivation, Derived, Function, Known, is_binary

T = TypeVar("T")
A = TypeVarTuple("A")
# By the place of a size in its trace.
Numbers = Sequence[Known] | Mapping[int, Known]
# Values that are made of nothing else.
ATOMS = frozenset({bool, bytes, float, int, str, type(None)})


class _Tables(threading.local):
    """Whether sizes that are keys of tables are compared, and whether decisions are guarded by their outcome."""

    compare = False
    decide = False


_TABLES = _Tables()


@contextmanager
def comparing_sizes() -> Iterator[None]:
    """Inside, all sizes have one hash: which of them are equal is a guard, and not that each has its value."""
    before, _TABLES.compare = _TABLES.compare, True
    try:
        yield
    finally:
        _TABLES.compare = before


@contextmanager
def deciding_sizes() -> Iterator[None]:
    """Inside, what `decided` asks is a guard as a whole."""
    before, _TABLES.decide = _TABLES.decide, True
    try:
        yield
    finally:
        _TABLES.decide = before


def are_decided() -> bool:
    """Whether this is inside of `deciding_sizes`."""
    return _TABLES.decide


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


# ---- values made of sizes


@runtime_checkable
class Composite(Protocol):
    """What is no dataclass and made of values all the same: a graph."""

    def sized_parts(self) -> tuple[object, ...]:
        """What it is made of."""


def depends(value: object) -> bool:
    """Whether there is a size in a value, or in what it is made of, that remembers where it comes from."""
    return next(sizes_in(value), None) is not None


def sizes_in(value: object) -> Iterator[Size]:
    """The sizes in a value, or in what it is made of, that remember where they come from."""
    size, kind = size_of(value), type(value)
    if size is not None:
        yield size
    elif kind in ATOMS:
        return
    elif isinstance(value, tuple | list | frozenset):
        for part in value:
            yield from sizes_in(part)
    elif names := fields_of(cast(Hashable, kind)):
        for name in names:
            yield from sizes_in(getattr(value, name))
    elif _is_composite(cast(Hashable, kind)):
        yield from sizes_in(cast(Composite, value).sized_parts())


class Renewal:
    """Values with other numbers in the place of sizes; what has none stays as it is."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers

    def of(self, value: T) -> T:
        """The value with these numbers; itself where it has no sizes."""
        kind = type(value)
        if kind in ATOMS:
            return value
        size = size_of(value)
        if size is not None:
            return self.numbers[size.place]  # type: ignore[return-value]  # which stands where a number is expected
        if kind is tuple or kind is list or kind is frozenset:
            parts = [self.of(each) for each in value]  # type: ignore[attr-defined]  # a collection
            is_same = all(map(operator.is_, parts, value))  # type: ignore[call-overload]
            return value if is_same else kind(parts)  # type: ignore[call-arg]
        if names := fields_of(cast(Hashable, kind)):
            return self._of_parts(value, names)
        return value

    def _of_parts(self, value: T, names: Sequence[str]) -> T:
        """A dataclass of these fields."""
        is_same, renewed = True, {}
        for name in names:
            part = getattr(value, name)
            made = renewed[name] = self.of(part)
            is_same = is_same and made is part
        return value if is_same else type(value)(**renewed)


def renewing(value: T) -> Callable[[Numbers], T]:
    """What makes the value with other numbers, as `Renewal` does, but for looking at what has no sizes each time."""
    made = _renewing(value)
    return made if made is not None else lambda _: value


def _renewing(value: Any) -> Callable[[Numbers], Any] | None:
    """The same; None where there are no sizes in it."""
    kind, size = type(value), size_of(value)
    if kind in ATOMS:
        return None
    if size is not None:
        return operator.itemgetter(size.place)
    if kind is tuple or kind is list or kind is frozenset:
        return _renewing_all(kind, [*value])
    assert not _is_composite(cast(Hashable, kind)), "graphs are made anew by who knows them"
    names = fields_of(cast(Hashable, kind))
    parts = _renewing_all(tuple, [getattr(value, name) for name in names]) if names else None
    if parts is None:
        return None
    return lambda numbers: kind(**dict(zip(names, parts(numbers), strict=True)))


def _renewing_all(kind: Callable[[list[Any]], Any], values: list[Any]) -> Callable[[Numbers], Any] | None:
    changing = [(place, made) for place, each in enumerate(values) if (made := _renewing(each)) is not None]
    if not changing:
        return None
    for place, _ in changing:
        values[place] = None

    def renewed(numbers: Numbers) -> Any:
        parts = values.copy()
        for place, made in changing:
            parts[place] = made(numbers)
        return kind(parts)

    return renewed


@cache
def _is_composite(kind: Hashable) -> bool:
    """Asked once for each class: for each value, `isinstance` of a protocol took half of what makes a template."""
    return issubclass(cast(type, kind), Composite)


@cache
def fields_of(kind: Hashable) -> tuple[str, ...]:
    """What a dataclass is made of; nothing for other classes."""
    return tuple(each.name for each in dataclasses.fields(kind) if each.init) if dataclasses.is_dataclass(kind) else ()


def decided(function: Callable[[Unpack[A]], T], *arguments: *A) -> T:
    """function(*arguments), which is made of no sizes: that it comes out alike is a guard where `deciding_sizes`.

    A number that comes out follows from the sizes there. Elsewhere, and without sizes that remember where they come
    from, it is asked as it is.
    """
    trace = _trace_of(arguments) if are_decided() else None
    if trace is None:
        return function(*arguments)

    def at(numbers: Numbers) -> T:
        return function(*Renewal(numbers).of(arguments))

    outcome = at({size.place: size.value for size in sizes_in(arguments)})
    if type(outcome) in (int, float):
        return cast(T, trace.called(cast(Callable[[Sequence[Known]], Known], at), cast(Known, outcome)))
    trace.condition("equal", trace.called(lambda numbers: at(numbers) == outcome, True), True)
    return outcome


def _trace_of(value: object) -> SizeTrace | None:
    """The trace of the sizes in a value that is not closed."""
    traces = (size.derivation for size in sizes_in(value) if not size.derivation.closed)
    return cast("SizeTrace | None", next(traces, None))
