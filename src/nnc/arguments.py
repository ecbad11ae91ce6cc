"""Arguments of public calls, checked against their annotations.

    @checked      a class, function or method: the arguments are checked before anything is done
    @explained    what is called often, of a class its public methods: looked at once it has failed, for the reason why
    check_made    in the `__new__` that a family of classes shares: the arguments of each class' constructor

A wrong one is an ArgumentError with got / need / fix, never Python's own TypeError from somewhere inside. An annotation
may state a range too, by name: `Count` (1, 2, …), `Size` (0, 1, …), both below 2^63,
`Seed` (0, 1, … without end), `Rate` (finite, ≥ 0), `Share` ([0, 1)), …

Annotations are read once, at the first call. What they leave open (`Any`, `object`, `ArrayLike`) is not looked at.
"""

from __future__ import annotations

import collections.abc
import inspect
import os
import sys
import types
import typing
import weakref
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import wraps
from math import inf, isfinite
from numbers import Real
from typing import Annotated, Any, Protocol, TypeVar

from nnc.classes import dataclass
from nnc.errors import ArgumentError
from nnc.vocabulary.words import MEANT, translated, unknown_argument

D = TypeVar("D", bound=Callable[..., Any])
Test = Callable[[Any], bool]
# What Python itself says of an argument that does not fit.
BUILTIN = (TypeError, AttributeError, ValueError, LookupError, ArithmeticError)
SHOWN = 40
# Integers of more bits are larger than any float, and Python refuses to print very long ones.
FLOAT_BITS = 1024
# One more than the largest size: shapes, strides and counts are 64-bit integers wherever they arrive.
PAST_SIZES = 2.0**63
_FREQUENT: list[object] = []
# Constructors whose arguments are checked before they run.
_BEFORE: weakref.WeakSet[Callable[..., Any]] = weakref.WeakSet()
# What constructors ask for, whose arguments `check_made` looks at.
_MADE: weakref.WeakKeyDictionary[Callable[..., Any], Rules] = weakref.WeakKeyDictionary()
# What can be gone through again and again, and holds what it gives.
HELD = (list, tuple, dict, set, frozenset, range)
PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


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
        """(parameter, rule, value) of the first argument that breaks its rule. Doors ask each time: no generator."""
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


# ---- doors


def checked(door: D) -> D:
    """The class, function or method with its arguments checked before each call."""
    if not callable(door) or door.__module__ == "builtins":
        raise ArgumentError("checked", got=shown(door), need="a function or class that is written in Python")
    return _wrapped(door, _before)


def checked_as(name: str) -> Callable[[D], D]:
    """The same of a class that the public class `name` makes: errors name that one, pickles the class itself."""

    def check(door: D) -> D:
        kind = _wrapped(door, _before, name)
        kind.__name__ = name
        return kind

    return check


def check_made(kind: type, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
    """ArgumentError for arguments that the constructors of `kind` do not take; one of a user's takes anything.

    What a constructor takes by any name is what that of the next class takes.
    """
    given: tuple[object, ...] = (None, *args)
    known: dict[str, Rule] = {}
    for base in kind.__mro__:
        initialize: Any = vars(base).get("__init__")
        if initialize is None:
            continue
        if not str(getattr(initialize, "__module__", "")).startswith("nnc."):
            return
        if initialize not in _MADE:
            _MADE[initialize] = _rules_of(initialize, _hints(initialize))
        rules = _MADE[initialize]
        broken = rules.broken(given, kwargs)
        if broken is not None:
            raise _fault(kind.__qualname__, *broken)
        known |= rules.named
        fault = unknown_argument(kind.__qualname__, kwargs, known) if rules.others is None else None
        if fault is not None:
            fault.origin = _origin()
            raise fault
        if rules.others is None:
            return
        given, kwargs = (), {name: value for name, value in kwargs.items() if name not in rules.named}


def explained(door: D) -> D:
    """The function or method with its arguments checked when one of Python's own errors comes out of it.

    Of a class the constructor and every public method that the class itself defines.
    """
    if not callable(door) or door.__module__ == "builtins":
        raise ArgumentError("explained", got=shown(door), need="a function or class that is written in Python")
    if not isinstance(door, type):
        return _wrapped(door, _after)
    _explain_methods(door, f"{door.__qualname__}.")
    made: Any = door
    return door if made.__init__ in _FREQUENT else _wrapped(door, _after)


def explained_as(name: str) -> Callable[[D], D]:
    """The same for the methods of a class that is a part of the public class `name`, which errors then say.

    A part of several classes has no name: errors say the method alone.
    """

    def explain(part: D) -> D:
        _explain_methods(part, name and f"{name}.")
        return part

    return explain


def _explain_methods(kind: Any, prefix: str) -> None:
    """Explain each public method that the class defines and that takes arguments, as `prefix` and its name."""
    for own, value in tuple(vars(kind).items()):
        if own.startswith("_") or getattr(value, "__func__", value) in _FREQUENT:
            continue
        subject = f"{prefix}{own}"
        if isinstance(value, types.FunctionType) and _takes_arguments(value):
            setattr(kind, own, _wrapped(value, _after, subject))
        elif isinstance(value, classmethod | staticmethod):
            setattr(kind, own, type(value)(_wrapped(value.__func__, _after, subject)))


def _takes_arguments(method: types.FunctionType) -> bool:
    """Whether there is anything to explain: of a method without arguments there is not."""
    code = method.__code__
    variadic = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return hasattr(method, "__wrapped__") or code.co_argcount + code.co_kwonlyargcount > 1 or bool(variadic)


def explain_functions(module: types.ModuleType, door: Callable[[Any], Any] = explained) -> None:
    """Let the functions of the module's package be explained to those who find them there, as pickle then does too.

    Functions call each other without that.
    """
    # Another name of a function stands for the same door, which is pickled by its first name.
    doors: dict[Callable[..., Any], Any] = {}
    for name, value in tuple(vars(module).items()):
        if isinstance(value, types.FunctionType) and value.__module__.startswith(str(module.__package__)):
            if value not in doors:
                doors[value] = door(value)
                doors[value].__module__ = module.__name__
            setattr(module, name, doors[value])


def frequent(method: D) -> D:
    """A method of an explained class that is called so often that the door itself, half a microsecond, is too much."""
    _FREQUENT.append(method)
    return method


def _wrapped(
    door: D, way: Callable[[Callable[..., Any], Callable[[], Rules], str], Callable[..., Any]], subject: str = ""
) -> D:
    subject = subject or getattr(door, "__qualname__", str(door))
    if not isinstance(door, type):
        return typing.cast(D, way(door, lambda: _rules_of(door, _hints(door)), subject))
    made: Any = door
    initialize = made.__init__
    source = door if is_dataclass(door) else initialize
    if initialize not in _BEFORE:
        # What was checked has nothing left to explain.
        made.__init__ = way(initialize, lambda: _rules_of(initialize, _hints(source)), subject)
    return door


def _before(function: Callable[..., Any], rules: Callable[[], Rules], subject: str) -> Callable[..., Any]:
    known: list[Rules] = []

    @wraps(function)
    def door(*args: Any, **kwargs: Any) -> Any:
        if not known:
            known.append(rules())
        if kwargs and known[0].others is None:
            # Another project's word for an argument, such as `lr`.
            ours = translated(kwargs, known[0].named, subject)
            kwargs = kwargs if ours is None else ours
        broken = known[0].broken(args, kwargs)
        if broken is not None:
            raise _fault(subject, *broken)
        if kwargs:
            _check_known(subject, known[0], kwargs)
        return function(*args, **kwargs)

    _BEFORE.add(door)
    return door


def _after(function: Callable[..., Any], rules: Callable[[], Rules], subject: str) -> Callable[..., Any]:
    @wraps(function)
    def door(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BUILTIN:
            broken = rules().broken(args, kwargs)
            if broken is None:
                _check_known(subject, rules(), kwargs)
                raise
        raise _fault(subject, *broken)

    return door


def _check_known(subject: str, rules: Rules, kwargs: Mapping[str, object]) -> None:
    """ArgumentError for an argument that there is not, with our form for it."""
    if rules.others is not None or translated(kwargs, rules.named, subject) is not None:
        # Doors further out may take another project's word for ours.
        return
    fault = unknown_argument(subject, kwargs, rules.named)
    if fault is not None:
        fault.origin = _origin()
        raise fault


def explanation(error: Exception, function: Callable[..., Any], subject: str, args: tuple[object, ...]) -> Exception:
    """What to raise where `function(*args)`, called `subject`, failed: the argument that broke its rule, else `error`.

    Of calls from inside the package it is `error`: whoever made them explains it by the arguments of its own.
    """
    caller = sys._getframe(2)
    if caller.f_code.co_filename.startswith(PACKAGE):
        return error
    broken = _rules_of(function, _hints(function)).broken(args, {})
    return error if broken is None else _fault(subject, *broken)


def _fault(subject: str, name: str, rule: Rule, value: object) -> ArgumentError:
    """An argument that breaks its rule, as an error."""
    fix = MEANT.get(f"{subject}.{name}") or _fix(rule, value)
    return ArgumentError(subject, got=f"{name}={shown(value)}", need=rule.need, fix=fix, origin=_origin())


def shown(value: object) -> str:
    """`value` where it is a number, a short text or None, else what it is: contents are never printed."""
    if isinstance(value, int) and value.bit_length() > FLOAT_BITS:
        return f"an integer of {value.bit_length()} bits, more than a float holds"
    if value is None or isinstance(value, str | bool | Real):
        text = repr(value)
        return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, tuple) and all(isinstance(part, bool | int) for part in value) and len(value) <= 8:
        return repr(value)
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _fix(rule: Rule, value: object) -> str:
    """What to write instead, where that can be guessed."""
    kind = rule.kind
    if kind is None:
        return ""
    if isinstance(value, type) and issubclass(value, kind):
        return f"make one of it: {value.__name__}(…)"
    below: list[type] = kind.__subclasses__()
    for outer in tuple(below):
        below += outer.__subclasses__()
    known = [entry.__name__ for entry in below if not entry.__name__.startswith("_")]
    names = {name.lower(): name for name in known}
    close = get_close_matches(value.lower(), names, n=1) if isinstance(value, str) else []
    some = [names[name] for name in close] or known[:3]
    return f"pass {' or '.join(f'{name}(…)' for name in some)}" if some else ""


def _origin() -> str:
    """`file.py:12` of the nearest frame outside the package."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return "" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


# ---- rules


def _hints(source: Any) -> dict[str, Any]:
    return typing.get_type_hints(source, include_extras=True)


def _rules_of(function: Callable[..., Any], hints: Mapping[str, Any]) -> Rules:
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
