"""Doors of what users call: errors name the line of the call, and arguments may have another project's names."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import ParamSpec, TypeVar

from nnc.core.precautions.origin import caller_origin
from nnc.errors import UsageError
from nnc.vocabulary.words import parameters_of, translated, unknown_argument

A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")
R = TypeVar("R")


def located_operator(method: Callable[[A, B], R]) -> Callable[[A, B], R]:
    """The same of a method of Python's operators, which take one operand and no names."""

    @wraps(method)
    def call(self: A, other: B) -> R:
        try:
            return method(self, other)
        except UsageError as error:
            error.origin = error.origin or caller_origin()
            raise

    return call


def located(method: Callable[P, R]) -> Callable[P, R]:
    """The method, whose errors name the line of the user's call; `dim=` and its like are taken for our words.

    Python refuses an argument that it does not know before anything is done, so a call may then be made again.
    """
    names = parameters_of(unwrap(method))

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except UsageError as error:
            error.origin = error.origin or caller_origin()
            raise
        except TypeError:
            ours = translated(kwargs, names, method.__qualname__)
            if ours is None:
                fault = unknown_argument(method.__qualname__, kwargs, names)
                if fault is None:
                    raise
                fault.origin = caller_origin()
                raise fault from None
        return call(*args, **ours)  # type: ignore[arg-type]  # the method's own words now

    return call
