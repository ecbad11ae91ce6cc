"""Callables whose arguments are checked before or after a call, and what is said of the one that is wrong."""

from __future__ import annotations

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
from numbers import Real
from typing import Any, TypeVar

from nnc.arguments.annotation_rules import Rule, Rules, hints_of, rules_of
from nnc.errors import ArgumentError
from nnc.vocabulary.words import MEANT, translated, unknown_argument

D = TypeVar("D", bound=Callable[..., Any])
# What Python itself says of an argument that does not fit.
BUILTIN = (TypeError, AttributeError, ValueError, LookupError, ArithmeticError)
SHOWN = 40
# Integers of more bits are larger than any float, and Python refuses to print very long ones.
FLOAT_BITS = 1024
_FREQUENT: list[object] = []
# Constructors whose arguments are checked before they run.
_BEFORE: weakref.WeakSet[Callable[..., Any]] = weakref.WeakSet()
# What constructors ask for, whose arguments `check_made` looks at.
_MADE: weakref.WeakKeyDictionary[Callable[..., Any], Rules] = weakref.WeakKeyDictionary()
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def checked(wrapped: D) -> D:
    """The class, function or method with its arguments checked before each call."""
    if not callable(wrapped) or wrapped.__module__ == "builtins":
        raise ArgumentError("checked", got=shown(wrapped), need="a function or class that is written in Python")
    return _wrapped(wrapped, _before)


def checked_as(name: str) -> Callable[[D], D]:
    """The same of a class that the public class `name` makes: errors name that one, pickles the class itself."""

    def check(wrapped: D) -> D:
        kind = _wrapped(wrapped, _before, name)
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
            _MADE[initialize] = rules_of(initialize, hints_of(initialize))
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


def explained(wrapped: D) -> D:
    """The function or method with its arguments checked when one of Python's own errors comes out of it.

    Of a class the constructor and every public method that the class itself defines.
    """
    if not callable(wrapped) or wrapped.__module__ == "builtins":
        raise ArgumentError("explained", got=shown(wrapped), need="a function or class that is written in Python")
    if not isinstance(wrapped, type):
        return _wrapped(wrapped, _after)
    _explain_methods(wrapped, f"{wrapped.__qualname__}.")
    made: Any = wrapped
    return wrapped if made.__init__ in _FREQUENT else _wrapped(wrapped, _after)


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


def explain_functions(module: types.ModuleType, decorate: Callable[[Any], Any] = explained) -> None:
    """Let the functions of the module's package be explained to those who find them there, as pickle then does too.

    Functions call each other without that.
    """
    # Another name of a function stands for the same wrapper, which is pickled by its first name.
    wrappers: dict[Callable[..., Any], Any] = {}
    for name, value in tuple(vars(module).items()):
        if name == "__getattr__":
            continue
        if isinstance(value, types.FunctionType) and value.__module__.startswith(str(module.__package__)):
            if value not in wrappers:
                wrappers[value] = decorate(value)
                wrappers[value].__module__ = module.__name__
            setattr(module, name, wrappers[value])


def frequent(method: D) -> D:
    """A method of an explained class that is called so often that a wrapper, half a microsecond, is too much."""
    _FREQUENT.append(method)
    return method


def _wrapped(
    wrapped: D, way: Callable[[Callable[..., Any], Callable[[], Rules], str], Callable[..., Any]], subject: str = ""
) -> D:
    subject = subject or getattr(wrapped, "__qualname__", str(wrapped))
    if not isinstance(wrapped, type):
        return typing.cast(D, way(wrapped, lambda: rules_of(wrapped, hints_of(wrapped)), subject))
    made: Any = wrapped
    initialize = made.__init__
    source = wrapped if is_dataclass(wrapped) else initialize
    if initialize not in _BEFORE:
        # What was checked has nothing left to explain.
        made.__init__ = way(initialize, lambda: rules_of(initialize, hints_of(source)), subject)
    return wrapped


def _before(function: Callable[..., Any], rules: Callable[[], Rules], subject: str) -> Callable[..., Any]:
    known: list[Rules] = []

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
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

    _BEFORE.add(wrapper)
    return wrapper


def _after(function: Callable[..., Any], rules: Callable[[], Rules], subject: str) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BUILTIN:
            broken = rules().broken(args, kwargs)
            if broken is None:
                _check_known(subject, rules(), kwargs)
                raise
        raise _fault(subject, *broken)

    return wrapper


def _check_known(subject: str, rules: Rules, kwargs: Mapping[str, object]) -> None:
    """ArgumentError for an argument that there is not, with our form for it."""
    if rules.others is not None or translated(kwargs, rules.named, subject) is not None:
        # Wrappers further out may take another project's word for ours.
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
    broken = rules_of(function, hints_of(function)).broken(args, {})
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
