"""Functions of users' in objects that are pickled: pickle keeps a function by its name in a module.

One without such a name, a lambda or one inside of another function, is a UsageError that says so, unless who pickles
keeps functions by value (cloudpickle, dill). `copy` and `deepcopy` take any.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from types import FrameType, FunctionType
from typing import Any, ClassVar, SupportsIndex

from nnc.core.precautions.origin import caller_origin
from nnc.errors import UsageError

BY_VALUE = ("cloudpickle", "dill")
NEED = "a function that def makes in a module"


class HoldsFunctions:
    """A class whose fields may be functions of users', alone or in lists and dictionaries."""

    __slots__ = ()
    pickled_as: ClassVar[str] = ""
    """What errors call an object whose class users do not know."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> str | tuple[Any, ...]:
        reduced = super().__reduce_ex__(protocol)
        # The first is what makes the object.
        if name := unnamed(() if isinstance(reduced, str) else reduced[1:]):
            kind = self.pickled_as or type(self).__name__
            got = f"pickle of {kind} with {name}, which no module has under this name"
            fix = "def it there, or cloudpickle, which keeps functions by value"
            raise UsageError("pickle", got=got, need=NEED, fix=fix, origin=caller_origin())
        return reduced


def unnamed(values: Iterable[object]) -> str:
    """The name of the first function among the values that pickle would not find again; empty where there is none."""
    for function in _functions(values):
        if not is_named(function) and not _is_kept_by_value():
            return function.__qualname__
    return ""


def is_named(function: object) -> bool:
    """Whether its module has it under its name, so that pickle keeps that."""
    place: object = sys.modules.get(getattr(function, "__module__", None) or "")
    for name in getattr(function, "__qualname__", "").split("."):
        place = getattr(place, name, None)
    return place is function


def _functions(values: Iterable[object]) -> Iterator[FunctionType]:
    """Functions among the values, in lists, tuples and dictionaries of them, and in what `partial` made of them."""
    waiting, seen = list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, FunctionType):
            yield value
        elif isinstance(value, partial):
            waiting.extend((value.func, value.args, value.keywords))
        elif isinstance(value, list | tuple | dict) and id(value) not in seen:
            seen.add(id(value))
            waiting.extend(value.values() if isinstance(value, dict) else value)


def _is_kept_by_value() -> bool:
    """Whether a copy is made in this thread, or a pickler is at work that keeps functions themselves."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module == "copy" or any(name in module for name in BY_VALUE):
            return True
        frame = frame.f_back
    return False
