"""Doors of what users call: errors name the line of the call, and arguments may have another project's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import unwrap
from typing import Any, ParamSpec, TypeAlias, TypeVar

from nnc.core.precautions.origin import caller_origin
from nnc.errors import UsageError
from nnc.vocabulary.words import parameters_of, translated, unknown_argument

A = TypeVar("A")
B = TypeVar("B")
P = ParamSpec("P")
R = TypeVar("R")
Placing: TypeAlias = Callable[[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]], Any]
# Words of NumPy's that say where a result goes, and PyTorch's that says where random numbers come from.
PLACES = frozenset({"out", "where", "initial", "generator"})


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


def located(method: Callable[P, R], placing: Placing | None = None) -> Callable[P, R]:
    """The method, whose errors name the line of the user's call; `dim=` and its like are taken for our words.

    Python refuses an argument that it does not know before anything is done, so a call may then be made again, or by
    `placing`, which is told the door and the arguments, where there is one of `PLACES`.
    """
    names = parameters_of(unwrap(method))
    placed = PLACES.difference(names)

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except (UsageError, TypeError) as error:
            if placing is not None and not placed.isdisjoint(kwargs):
                return placing(call, args, kwargs)  # type: ignore[no-any-return]  # what the method gives
            if isinstance(error, UsageError):
                error.origin = error.origin or caller_origin()
                raise
            ours = translated(kwargs, names, method.__qualname__)
            if ours is None:
                fault = unknown_argument(method.__qualname__, kwargs, names)
                if fault is None:
                    raise
                fault.origin = caller_origin()
                raise fault from None
        return call(*args, **ours)  # type: ignore[arg-type]  # the method's own words now

    return call
