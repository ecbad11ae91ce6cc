"""Rules of annotations: what an annotation asks of a value, as a test and in words; ranges of numbers by name.

What an annotation leaves open (`Any`, `object`, `ArrayLike`) is `ANYTHING`.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from math import inf, isfinite
from numbers import Real
from typing import Annotated, Any, Protocol, TypeVar

from nnc.classes import dataclass

Test = Callable[[Any], bool]
# One more than the largest size: shapes, strides and counts are 64-bit integers wherever they arrive.
PAST_SIZES = 2.0**63
# What can be gone through again and again, and holds what it gives.
HELD = (list, tuple, dict, set, frozenset, range)


@dataclass(frozen=True, slots=True)
class Range:
    """Finite numbers from `low` to `high`; the ends count where they are `closed`."""

    low: float = -inf
    high: float = inf
    closed: tuple[bool, bool] = (True, True)

    def holds(self, value: Any) -> bool:
        """Whether the number lies inside."""
        above = value >= self.low if self.closed[0] else value > self.low
        below = value <= self.high if self.closed[1] else value < self.high
        # Integers may be larger than any float.
        return bool(above and below) and (isinstance(value, int) or isfinite(value))

    def __str__(self) -> str:
        signs = ("≥" if self.closed[0] else ">", "≤" if self.closed[1] else "<")
        ends = [
            f"{sign} {'2^63' if end == PAST_SIZES else format(end, 'g')}"
            for sign, end in zip(signs, (self.low, self.high), strict=True)
            if isfinite(end)
        ]
        return " and ".join(ends)


Count = Annotated[int, Range(1, PAST_SIZES, closed=(True, False))]
Size = Annotated[int, Range(0, PAST_SIZES, closed=(True, False))]
Seed = Annotated[int, Range(0)]
Finite = Annotated[float, Range()]
Positive = Annotated[float, Range(0.0, closed=(False, True))]
Rate = Annotated[float, Range(0.0)]
Share = Annotated[float, Range(0.0, 1.0, closed=(True, False))]
Probability = Annotated[float, Range(0.0, 1.0)]


@dataclass(frozen=True, slots=True)
class Rule:
    """What an annotation asks of a value: a test, and the same in words; `kind` is the class asked for, if any.

    Values of `exact` classes pass without the test: most do, and a call of it takes as long as all else here.
    """

    test: Test
    need: str
    kind: type | None = None
    exact: frozenset[type] = frozenset()


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a call: of parameters by position, of which there are `places`, by name, and behind `*` and `**`."""

    positional: tuple[tuple[int, str, Rule], ...]
    places: int
    named: Mapping[str, Rule]
    more: tuple[str, Rule] | None = None
    others: Rule | None = None

    def broken(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> tuple[str, Rule, object] | None:
        """(parameter, rule, value) of the first argument that breaks its rule. Asked at each call: no generator."""
        count = len(args)
        for place, name, rule in self.positional:
            if place < count and type(args[place]) not in rule.exact and not rule.test(args[place]):
                return name, rule, args[place]
        if self.more is not None:
            name, rule = self.more
            for value in args[self.places :]:
                if not rule.test(value):
                    return name, rule, value
        for name, value in kwargs.items():
            named = self.named.get(name, self.others)
            if named is not None and type(value) not in named.exact and not named.test(value):
                return name, named, value
        return None


def hints_of(source: Any) -> dict[str, Any]:
    """The annotations of a function, or of the fields of a class, with their ranges."""
    return typing.get_type_hints(source, include_extras=True)


def rules_of(function: Callable[..., Any], hints: Mapping[str, Any]) -> Rules:
    """The rules of a call of the function, whose annotations are `hints`."""
    positional: list[tuple[int, str, Rule]] = []
    places = 0
    named: dict[str, Rule] = {}
    more: tuple[str, Rule] | None = None
    others: Rule | None = None
    # The constructor of a dataclass may not be written yet (`nnc.classes`).
    function = getattr(function, "written", lambda: function)()
    for name, parameter in inspect.signature(function).parameters.items():
        rule = rule_of(hints.get(name, Any))
        if parameter.kind is parameter.VAR_POSITIONAL:
            more = (name, rule)
        elif parameter.kind is parameter.VAR_KEYWORD:
            others = rule
        else:
            named[name] = rule
            if parameter.kind is not parameter.KEYWORD_ONLY:
                # What may be anything is not asked.
                positional += [(places, name, rule)] if rule is not ANYTHING else []
                places += 1
    return Rules(tuple(positional), places, named, more, others)


ANYTHING = Rule(lambda value: True, "anything")


def _is_integer(value: object) -> bool:
    # NumPy's integers are some too; an array may have an index and is none.
    return not isinstance(value, bool) and hasattr(type(value), "__index__") and not hasattr(value, "__len__")


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return True
    return not isinstance(value, bool) and (isinstance(value, Real) or _is_integer(value)) and not _overflows(value)


def _overflows(value: object) -> bool:
    """Whether it is a number larger than any float."""
    try:
        float(value)  # type: ignore[arg-type]  # what is no number at all is no larger one
    except OverflowError:
        return True
    except (TypeError, ValueError):
        return False
    return False


def _has_elements(value: object) -> bool:
    """Whether it can be gone through: an array of no axes has the method for it, and cannot."""
    return hasattr(value, "__iter__") and getattr(value, "ndim", 1) != 0


def _is_truth(value: object) -> bool:
    # NumPy's own truth values come out of its comparisons.
    return isinstance(value, bool) or (type(value).__module__ == "numpy" and type(value).__name__ == "bool")


PLAIN: Mapping[object, Rule] = {
    Any: ANYTHING,
    object: ANYTHING,
    None: Rule(lambda value: value is None, "None", exact=frozenset({type(None)})),
    type(None): Rule(lambda value: value is None, "None", exact=frozenset({type(None)})),
    int: Rule(_is_integer, "an integer", exact=frozenset({int})),
    float: Rule(_is_number, "a number", exact=frozenset({float})),
    complex: Rule(
        lambda value: isinstance(value, complex) or _is_number(value),
        "a number, which may be complex",
        exact=frozenset({complex, float}),
    ),
    bool: Rule(_is_truth, "True or False", exact=frozenset({bool})),
    str: Rule(lambda value: isinstance(value, str), "a text", exact=frozenset({str})),
}


def rule_of(annotation: Any) -> Rule:
    """The rule that an annotation states.

    >>> rule_of(Share | None).need, rule_of(tuple[int, ...]).test((1, "a"))
    ('a number ≥ 0 and < 1 or None', False)
    """
    if annotation in PLAIN:
        return PLAIN[annotation]
    if isinstance(annotation, TypeVar):
        return ANYTHING if annotation.__bound__ is None else rule_of(annotation.__bound__)
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    made = FORMS.get(origin)
    if made is not None:
        return made(inside)
    if isinstance(origin, type) and inside and issubclass(origin, collections.abc.Iterable):
        return _of_elements(origin, inside)
    supertype = getattr(annotation, "__supertype__", None)
    if supertype is not None:
        return rule_of(supertype)
    kind = origin or annotation
    return _of_class(kind) if isinstance(kind, type) else ANYTHING


def _of_annotated(inside: tuple[Any, ...]) -> Rule:
    base = rule_of(inside[0])
    ranges = [entry for entry in inside[1:] if isinstance(entry, Range)]
    if not ranges:
        return base
    (inner,) = ranges
    need = f"{base.need} {inner}" if str(inner) else f"a finite {base.need.removeprefix('a ')}"
    return Rule(lambda value: base.test(value) and inner.holds(value), need)


def _of_union(inside: tuple[Any, ...]) -> Rule:
    if any(getattr(entry, "__module__", "").startswith("numpy._typing") for entry in inside):
        # What NumPy makes arrays of is for NumPy to say.
        return ANYTHING
    rules = [rule_of(entry) for entry in inside]
    kind = next((rule.kind for rule in rules if rule.kind is not None), None)
    need, exact = " or ".join(rule.need for rule in rules), frozenset[type]().union(*(rule.exact for rule in rules))
    return Rule(lambda value: any(rule.test(value) for rule in rules), need, kind, exact)


def _of_literal(inside: tuple[Any, ...]) -> Rule:
    # An array compares element by element: what is of another class is asked no further.
    def is_one(value: object) -> bool:
        return any(value is entry or (isinstance(value, type(entry)) and value == entry) for entry in inside)

    return Rule(is_one, " or ".join(map(repr, inside)))


def _of_tuple(inside: tuple[Any, ...]) -> Rule:
    if len(inside) == 2 and inside[1] is Ellipsis:
        element = rule_of(inside[0])
        return Rule(
            lambda value: isinstance(value, tuple) and all(map(element.test, value)), f"a tuple of {element.need}"
        )
    parts = [rule_of(entry) for entry in inside]

    def test(value: object) -> bool:
        fits = isinstance(value, tuple) and len(value) == len(parts)
        return fits and all(rule.test(entry) for rule, entry in zip(parts, typing.cast(Any, value), strict=True))

    return Rule(test, f"a tuple ({', '.join(part.need for part in parts)})")


def _of_mapping(origin: type, inside: tuple[Any, ...]) -> Rule:
    keys, values = map(rule_of, inside)

    def test(value: object) -> bool:
        fits = isinstance(value, origin)
        return fits and all(
            keys.test(entry) and values.test(typing.cast(Any, value)[entry]) for entry in typing.cast(Any, value)
        )

    return Rule(test, f"a mapping of {keys.need} to {values.need}")


def _of_elements(origin: type, inside: tuple[Any, ...]) -> Rule:
    """Elements are looked at where that uses nothing up."""
    if issubclass(origin, collections.abc.Mapping):
        return _of_mapping(origin, inside)
    if not issubclass(collections.abc.Sequence, origin) and origin not in (list, collections.abc.Sequence):
        return _of_class(origin)
    element = rule_of(inside[0])
    sized = issubclass(origin, collections.abc.Sized)
    ordered = origin in (list, collections.abc.Sequence)

    def test(value: object) -> bool:
        if isinstance(value, str | bytes):
            return element is PLAIN[str] and isinstance(value, str)
        if isinstance(value, HELD):
            return not (ordered and isinstance(value, dict)) and all(map(element.test, value))
        if type(value).__module__ == "numpy" and _has_elements(value):
            # All elements of an array are of one type; those of an empty one would be as its zero.
            array = typing.cast(Any, value)
            return element.test(array[0] if len(array) else array.dtype.type())
        return _has_elements(value) and (not sized or hasattr(value, "__len__"))

    return Rule(test, f"several of {element.need}")


def _of_class(kind: type) -> Rule:
    name = f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__}"
    if getattr(kind, "_is_protocol", False):
        members = _members(kind)
        return Rule(lambda value: all(hasattr(value, member) for member in members), f"{name} ({', '.join(members)})")
    if kind is collections.abc.Iterable:
        return Rule(lambda value: isinstance(value, kind) and _has_elements(value), name, kind)
    return Rule(lambda value: isinstance(value, kind), name, kind, frozenset({kind}))


def _members(protocol: type) -> tuple[str, ...]:
    """What a protocol asks for."""
    bases = [base for base in protocol.__mro__ if base not in (object, Protocol, typing.Generic)]
    names = {name for base in bases for name in (*vars(base), *getattr(base, "__annotations__", {}))}
    ours = {name for name in names if not name.startswith("_") or name in _CALLED}
    return tuple(sorted(ours))


_CALLED = {"__call__", "__dlpack__", "__dlpack_device__", "__len__", "__iter__", "__getitem__", "__array__"}
FORMS: Mapping[object, Callable[[tuple[Any, ...]], Rule]] = {
    Annotated: _of_annotated,
    typing.Union: _of_union,
    types.UnionType: _of_union,
    typing.Literal: _of_literal,
    tuple: _of_tuple,
    collections.abc.Callable: lambda inside: Rule(callable, "something to call"),
    type: lambda inside: Rule(lambda value: isinstance(value, type), "a class"),
}
