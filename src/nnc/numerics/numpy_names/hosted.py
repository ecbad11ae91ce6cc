"""Functions of NumPy on the host: elements go there, results come back as constants.

    gcd = hosted(np.gcd)            nnc.gcd(12, [8, 6])

They look at elements, so functions that are compiled, differentiated or mapped refuse them, and gradients do not flow
through them: a result of floats of a value that is recorded is an error, not a constant in silence. Floats are f32
where no operand was f64, as everywhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import update_wrapper
from typing import Any, ParamSpec, TypeVar

import numpy as np

from nnc.core.precautions.origin import caller_origin
from nnc.core.values.device import Device
from nnc.core.values.dtype import DType
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import tensor
from nnc.dynamic.variable import Variable
from nnc.errors import ArgumentError, SymbolError, UsageError

P = ParamSpec("P")
R = TypeVar("R")
NARROW: dict[Any, Any] = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}
SEQUENCES = (tuple, list)
# What NumPy says of wrong arguments.
WRONG = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, OSError)


def hosted(function: Callable[P, R], summary: str = "", name: str = "") -> Callable[..., Any]:
    """The function on elements, with NumPy's signature; `summary` in the place of its first line of documentation.

    Errors say its own name unless another one is given.
    """
    name = name or getattr(function, "__name__", "")

    def run(*args: Any, **named: Any) -> Any:  # noqa: ANN401  # what NumPy's function takes and gives
        operands = list(_operands((args, list(named.values()))))
        plain = [_plain(name, value) for value in args], {key: _plain(name, value) for key, value in named.items()}
        wide = any(_is_wide(value) for value in operands)
        try:
            given = function(*plain[0], **plain[1])
        except WRONG as error:
            got = f"{type(error).__name__}: {error}"
            raise ArgumentError(name, got=got, need="what NumPy's function takes", origin=caller_origin()) from None
        recorded = any(isinstance(each, Variable) and each.requires_grad for each in operands)
        home = next((each.device for each in operands if isinstance(each, Variable)), None)
        return _brought_back(name, given, home, wide=wide, recorded=recorded)

    update_wrapper(run, function, updated=())
    run.__module__ = __name__
    run.__annotations__ = {}
    with suppress(TypeError, ValueError):
        run.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # for completion
    del run.__wrapped__  # type: ignore[attr-defined]  # its defaults are NumPy's own
    first = summary or (function.__doc__ or name).strip().splitlines()[0]
    if "(" in first and not summary:
        lines = [line.strip() for line in (function.__doc__ or "").splitlines() if line.strip()]
        first = lines[1] if len(lines) > 1 else first
    run.__doc__ = f"{first}\n\nNumPy's function, of elements on the host: eager alone, without gradients."
    return run


def _operands(value: object) -> Iterator[Any]:
    """Arrays in nested arguments."""
    if isinstance(value, SEQUENCES):
        for part in value:
            yield from _operands(part)
    elif isinstance(value, slice):
        yield from _operands([value.start, value.stop, value.step])
    elif isinstance(value, ArrayOperand | np.ndarray | np.generic):
        yield value


def _is_wide(value: Any) -> bool:  # noqa: ANN401  # an array
    dtype = value.dtype.numpy if isinstance(value, ArrayOperand) else value.dtype
    return np.dtype(dtype) in NARROW


def _plain(name: str, value: Any) -> Any:  # noqa: ANN401  # what NumPy's function takes
    """An argument as NumPy has it."""
    if isinstance(value, Variable):
        return value.cpu().numpy()
    if isinstance(value, ArrayOperand):
        got = f"a {type(value).__name__} {value.spec}, which has no elements yet"
        fix = "call it outside of what is compiled, differentiated or mapped"
        raise SymbolError(name, got=got, need="elements", fix=fix, origin=caller_origin())
    if isinstance(value, DType):
        return np.dtype(value.numpy)
    if isinstance(value, slice):
        return slice(*(_plain(name, part) for part in (value.start, value.stop, value.step)))
    if type(value) in SEQUENCES:
        return type(value)(_plain(name, part) for part in value)
    return value


def _brought_back(name: str, value: Any, home: Device | None, *, wide: bool, recorded: bool) -> Any:  # noqa: ANN401  # what NumPy's function gives
    """Arrays as constants where operands were, in the containers that they came in."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_brought_back(name, part, home, wide=wide, recorded=recorded) for part in value))
    if type(value) in SEQUENCES:
        return type(value)(_brought_back(name, part, home, wide=wide, recorded=recorded) for part in value)
    if not isinstance(value, np.ndarray | np.number | np.bool_) or value.dtype.kind not in "biufc":
        return value
    if recorded and value.dtype.kind in "fc":
        got, fix = "a value that gradients are asked for", "x.detach()"
        raise UsageError(name, got=got, need="a constant: it is computed on the host", fix=fix, origin=caller_origin())
    narrow = None if wide else NARROW.get(value.dtype)
    return tensor(np.array(value) if narrow is None else np.array(value, narrow), device=home)


class HostedIndexer:
    """An object of NumPy that is indexed, such as `np.mgrid`."""

    # To go through one would never end.
    __iter__ = None

    def __init__(self, name: str, indexed: Any) -> None:  # noqa: ANN401  # of NumPy
        self._name, self._at = name, hosted(indexed.__getitem__, name=name)

    def __getitem__(self, key: Any) -> Any:  # noqa: ANN401  # slices, numbers and arrays
        return self._at(key)

    def __repr__(self) -> str:
        return f"nnc.{self._name}"
