"""Methods that are declared alone: signatures without bodies in a class, one line each.

    @functions
    class FunctionMethods:
        def logsumexp(self, dim: Axes = None, keepdim: bool = False) -> Self: ...

Type checkers and completion read the signature; a row without a docstring gets one made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from types import FunctionType
from typing import Any, TypeAlias, TypeVar

from nnc.core.running.namespace import array_functions
from nnc.dynamic.arrays.located import located

C = TypeVar("C", bound=type)
# An array, or what becomes one beside arrays.
Value: TypeAlias = Any
# What a row computes: of its name, an array, and the arguments by position and by name.
Body: TypeAlias = Callable[[str, Value, tuple[Value, ...], Mapping[str, Value]], Value]


def _bare() -> None: ...


def _documented() -> None:
    """None."""


_EMPTY = {_bare.__code__.co_code, _documented.__code__.co_code}


def _declared(kind: C, body: Body, document: Callable[[str, list[str]], str], decorate: Callable[..., Any]) -> C:
    """The class, whose methods without a body compute `body`; `document` says it of their names and arguments."""
    for name, row in list(vars(kind).items()):
        if isinstance(row, FunctionType) and row.__code__.co_code in _EMPTY:
            words = list(signature(row).parameters)[1:]
            row.__doc__ = row.__doc__ or document(name, words)
            setattr(kind, name, decorate(_method(name, row, body)))
    return kind


def _method(name: str, row: FunctionType, body: Body) -> Callable[..., Value]:
    """The method of a row, which is called itself first: so Python refuses what does not fit."""
    known = signature(row)
    entries = list(known.parameters.values())[1:]
    is_plain = all(entry.kind is Parameter.POSITIONAL_OR_KEYWORD for entry in entries)

    @wraps(row)
    def method(self: object, *args: Value, **options: Value) -> Value:
        row(self, *args, **options)
        if is_plain and not options and len(args) == len(entries):
            return body(name, self, args, options)
        bound = known.bind(self, *args, **options)
        bound.apply_defaults()
        places = tuple(
            _value(entry, bound.arguments[entry.name]) for entry in entries if entry.kind is not Parameter.KEYWORD_ONLY
        )
        return body(name, self, places, bound.kwargs)

    return method


def _value(entry: Parameter, given: Value) -> Value:
    """An argument; sizes that are given one by one as one tuple."""
    return given[0] if entry.kind is Parameter.VAR_POSITIONAL and len(given) == 1 else given


# The functions of methods whose names they do not have.
FUNCTIONS = {"absolute": "abs", "neg": "negative", "clamp_min": "clip", "swapdims": "swapaxes"}


def _by_function(name: str, x: Value, args: tuple[Value, ...], options: Mapping[str, Value]) -> Value:
    """The function of that name of the layer above, of x and these."""
    return getattr(array_functions(), FUNCTIONS.get(name, name))(x, *args, **options)


def _settled(name: str, x: Value, args: tuple[Value, ...], options: Mapping[str, Value]) -> Value:
    """What the method without the `_` gives, which the array holds from then on."""
    return x._settled(name, getattr(x, name[:-1])(*args, **options))


def functions(kind: C) -> C:
    """A decorator: methods without a body are functions of the layer above, `nnc.NAME(x, …)`."""
    return _declared(kind, _by_function, lambda name, words: f"nnc.{name}({', '.join(['x', *words])})", located)


def twins(kind: C) -> C:
    """A decorator: methods without a body are in-place twins, `x = x.NAME(…)` of `x.NAME_(…)`."""
    return _declared(
        kind, _settled, lambda name, words: f"x.{name[:-1]}({', '.join(words)}) from now on.", lambda row: row
    )
