"""`x.max`, `x.min` and `x.sort` in PyTorch's words give elements and their places; in NumPy's the elements alone.

    values, places = x.max(dim=1)       _, predicted = nnc.max(outputs, 1)      x.max(1).indices        x.max(axis=1)

`dim=` and `keepdim=` are PyTorch's words. With an axis by position the call is PyTorch's where its result is unpacked
into two names or asked for `values` or `indices`; `x.max(1)[0]` reads otherwise in each project and is refused.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import lru_cache, wraps
from types import CodeType, FrameType
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from nnc.core.precautions.origin import caller_origin, is_of_package
from nnc.dynamic.arrays import located
from nnc.errors import UsageError
from nnc.ops.indexing.indexing import gather

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

# PyTorch's words for the axis and for keeping it.
DIM, KEEPDIM = "dim", "keepdim"
# Files whose frames stand between a wrapper and who calls it.
_WRAPPERS = (sys.modules["nnc.arguments.checking"].__file__, located.__file__, __file__)


class ValuesAndPlaces(NamedTuple, Generic[T]):
    """Elements, and where along the axis they are."""

    values: T
    indices: T


def paired(
    of_pair: Callable[..., tuple[Any, Any]], otherwise: int | None = None
) -> Callable[[Callable[P, R]], Callable[..., Any]]:
    """The function in front of f(x, axis, …), which gives `of_pair(x, axis, keepdims)` to who asks in PyTorch's words.

    `otherwise` is the axis that PyTorch takes without one.
    """

    def decorated(function: Callable[P, R]) -> Callable[..., Any]:
        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> R | ValuesAndPlaces[Any]:  # noqa: ANN401  # what the function takes
            if DIM not in kwargs and KEEPDIM not in kwargs:
                free = isinstance(args[1], int) if len(args) > 1 else otherwise is not None and "axis" not in kwargs
                if not free or not _is_read_as_pair(function.__name__, args[0]):
                    return function(*args, **kwargs)
            options = dict(kwargs)
            keepdims = options.pop(KEEPDIM, False)
            axis = args[1] if len(args) > 1 else options.pop(DIM, options.pop("axis", otherwise))
            if axis is None or isinstance(axis, tuple | list):
                return function(*args, **kwargs)
            return ValuesAndPlaces(*of_pair(args[0], axis, keepdims, **options))

        return wrapper

    return decorated


def _is_read_as_pair(name: str, x: object) -> bool:
    """Whether the user's line takes two of the result apart; UsageError for `x.max(1)[0]`."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename in _WRAPPERS:
        frame = frame.f_back
    if frame is None or is_of_package(frame.f_code.co_filename):
        return False
    reading = _reading(frame.f_code, frame.f_lasti)
    if reading == "element":
        fix = (
            f"x.{name}(dim=1)[0] for PyTorch's elements and [1] for their places, x.{name}(axis=1)[0] for the first row"
        )
        raise UsageError(
            name, got=f"x.{name}(axis)[…] by position", need="a word for the axis", fix=fix, origin=caller_origin()
        )
    if reading == "pair" and getattr(x, "shape", ()) == (2,):
        got, fix = (
            "two elements that are unpacked",
            f"values, places = x.{name}(dim=0), or low, high = x.{name}(axis=0)",
        )
        raise UsageError(name, got=got, need="a word for the axis", fix=fix, origin=caller_origin())
    return reading == "pair"


@lru_cache(maxsize=4096)
def _reading(code: CodeType, offset: int) -> str:
    """What the line does with the result of its call: "pair", "element" or ""."""
    steps = [step for step in dis.get_instructions(code) if step.offset > offset][:2]
    names = [step.opname for step in steps]
    if not steps:
        return ""
    if names[0] == "UNPACK_SEQUENCE" and steps[0].argval == 2:
        return "pair"
    if names[0] in ("LOAD_ATTR", "LOAD_METHOD") and steps[0].argval in ValuesAndPlaces._fields:
        return "pair"
    is_constant = names[0] in ("LOAD_CONST", "LOAD_SMALL_INT") and steps[0].argval in (0, 1)
    is_subscript = names[-1] == "BINARY_SUBSCR" or (names[-1] == "BINARY_OP" and steps[-1].argrepr == "[]")
    return "element" if is_constant and is_subscript and steps[0].argval is not True else ""


def extreme(largest: bool) -> Callable[[Any, int, bool], tuple[Any, Any]]:
    """Of x, an axis and whether it stays: the largest or smallest elements along it, and where the first ones are."""

    def of_pair(x: Any, axis: int, keepdims: bool) -> tuple[Any, Any]:  # noqa: ANN401  # an array of any kind
        places = x.argmax(axis, keepdims=True) if largest else x.argmin(axis, keepdims=True)
        values = gather(x, places, axis)
        return (values, places) if keepdims else (values.squeeze(axis), places.squeeze(axis))

    return of_pair
