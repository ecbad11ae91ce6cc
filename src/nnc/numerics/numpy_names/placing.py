"""`out=`, `where=` and `initial=`, as NumPy's functions take them (PyTorch's and the standard's take `out=` too), and
PyTorch's `generator=`.

    nnc.add(x, y, out=z)                                 z holds the sum, and is given back
    nnc.divide(x, y, out=nnc.zeros(3), where=y != 0)     elements where the condition does not hold stay as they were
    nnc.mean(x, axis=1, where=mask)                      of what the mask lets through
    nnc.randn(2, 3, generator=nnc.Generator())           the next key of the generator

Doors ask here alone where Python refused such a word, so calls without them cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Signature, signature, unwrap
from typing import Any

import numpy as np

from nnc import ops
from nnc.arguments import shown
from nnc.core.precautions.origin import caller_origin
from nnc.core.values.dtype import BOOL, I64
from nnc.core.values.spec import broadcast_shapes
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.arrays.located import PLACES
from nnc.errors import ArgumentError, DTypeError, ShapeError
from nnc.numerics.comparison import can_cast
from nnc.numerics.conversion import Array, as_array, pair
from nnc.numerics.elementwise import add, maximum, minimum, multiply
from nnc.numerics.elementwise import sqrt as square_root
from nnc.numerics.order import where as chosen
from nnc.ops.movement.broadcast import normalize_axes
from nnc.vocabulary.words import translated

Function = Callable[..., Any]
# Of each reduction what stands for elements that are left out, and how the initial value joins the result.
SUMS: Mapping[str, tuple[Any, Function]] = {"sum": (0, add), "prod": (1, multiply)}
EXTREMES: Mapping[str, Function] = {"max": maximum, "amax": maximum, "min": minimum, "amin": minimum}
TRUTHS: Mapping[str, bool] = {"all": True, "any": False}
MOMENTS = ("mean", "std", "var")
REDUCTIONS = frozenset({*SUMS, *EXTREMES, *TRUTHS, *MOMENTS})
ELEMENTS = "nnc.numerics.elementwise"


def placing(function: Function) -> Callable[[Function, tuple[Any, ...], Mapping[str, Any]], Any] | None:
    """What a door of the function does with these words; None for one that takes them itself."""
    plain = unwrap(function)
    own = signature(plain)
    words = PLACES - own.parameters.keys()
    if "out" not in words:
        return None

    def placed(door: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:  # noqa: ANN401  # what the function gives
        if "generator" in words & kwargs.keys():
            kwargs = _keyed(plain.__qualname__, own, kwargs)
            if words.isdisjoint(kwargs):
                return door(*args, **kwargs)
        rest = {word: value for word, value in kwargs.items() if word not in words}
        out, mask, initial = (kwargs.get(word) for word in ("out", "where", "initial"))
        out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        if mask is True:
            mask = None
        if plain.__module__ == ELEMENTS and initial is None:
            result = _of_elements(door, args, rest, out, mask)
        elif plain.__name__ in REDUCTIONS:
            result = _reduced(plain.__name__, door, _bound(own, door, args, rest), mask, initial)
        elif mask is None and initial is None:
            result = door(*args, **rest)
        else:
            word = "where" if mask is not None else "initial"
            fix = "nnc.where(condition, x, other) around x"
            raise ArgumentError(plain.__name__, got=f"{word}=", need="arguments of its own", fix=fix)
        return result if out is None else written(plain.__name__, out, result)

    return placed


def _keyed(name: str, own: Signature, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with the next key of the generator; with the process's own numbers where that is None."""
    generator = kwargs["generator"]
    rest = {word: value for word, value in kwargs.items() if word != "generator"}
    if "key" not in own.parameters:
        raise ArgumentError(name, got="generator=", need=", ".join(own.parameters), origin=caller_origin())
    if generator is not None and not hasattr(generator, "next_key"):
        got, need = f"generator={shown(generator)}", "an nnc.Generator, or None"
        raise ArgumentError(name, got=got, need=need, origin=caller_origin())
    return rest if generator is None else {**rest, "key": generator.next_key()}


def _of_elements(door: Function, args: tuple[Any, ...], rest: Mapping[str, Any], out: Any, mask: Any) -> Array:  # noqa: ANN401  # arrays of all kinds
    if mask is None:
        given: Array = door(*args, **rest)
        return given
    seen = _mask(mask)
    # Elsewhere the function is taken of 1, which has a value and a slope nearly everywhere: no gradient is nan.
    safe = [chosen(seen, x, ops.fill_like(x, 1)) if x.dtype.is_continuous else x for x in map(as_array, args)]
    result = as_array(door(*safe, **rest))
    other = ops.fill_like(result, 0) if out is None else as_array(out).astype(result.dtype)
    return chosen(seen, result, other)


def _bound(own: Signature, door: Function, args: tuple[Any, ...], rest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments by our names; what the door itself says of those that it does not take."""
    ours = translated(rest, own.parameters.keys()) or rest
    try:
        return own.bind(*args, **ours).arguments
    except TypeError:
        door(*args, **ours)
        raise


def _mask(value: Any) -> Array:  # noqa: ANN401  # an array or truth value
    mask = as_array(value)
    if mask.dtype is not BOOL:
        raise DTypeError("where", got=str(mask.spec), need="truth values", fix="x != 0", origin=caller_origin())
    return mask


def _reduced(name: str, door: Function, given: Mapping[str, Any], mask: Any, initial: Any) -> Array:  # noqa: ANN401  # arrays of all kinds
    x, rest = as_array(given["x"]), {word: value for word, value in given.items() if word != "x"}
    seen = None if mask is None else _mask(mask)
    if name in MOMENTS and seen is not None:
        return _moment(name, x, rest, ops.broadcast_to(seen, broadcast_shapes(name, seen.shape, x.shape)))
    result: Array
    if seen is not None:
        fill = SUMS[name][0] if name in SUMS else TRUTHS.get(name, initial)
        if fill is None:
            fix = f"nnc.{name}(x, where=mask, initial=0.0)"
            raise ArgumentError(name, got="where= without initial=", need="what stands for no elements", fix=fix)
        x = chosen(seen, x, fill)
    if initial is not None and name in EXTREMES:
        x = _with_one_more(x, initial, rest.get("axis"))
    result = door(x, **rest)
    if initial is None:
        return result
    if name not in SUMS and name not in EXTREMES:
        raise ArgumentError(name, got="initial=", need="a sum, a product or an extreme", origin=caller_origin())
    joined: Array = (SUMS[name][1] if name in SUMS else EXTREMES[name])(result, initial)
    return joined


def _with_one_more(x: Array, initial: Any, axis: Any) -> Array:  # noqa: ANN401  # a number and axes
    """x of a kind that holds the initial value, which stands where an axis that is gone over has no elements."""
    whole, value = pair(x, initial)
    for place in normalize_axes("initial", axis, x.ndim):
        if not whole.shape[place]:
            sizes = (*whole.shape[:place], 1, *whole.shape[place + 1 :])
            whole = ops.broadcast_to(value, sizes)
    return whole


def _moment(name: str, x: Array, rest: Mapping[str, Any], seen: Array) -> Array:
    """Mean, variance or deviation of what the mask lets through."""
    axis, keepdims = rest.get("axis"), bool(rest.get("keepdims", False))
    x = x if rest.get("dtype") is None else x.astype(rest["dtype"])
    count = seen.astype(I64).sum(axis, keepdims=True)
    mean = chosen(seen, x, 0).sum(axis, keepdims=True) / count
    if name != "mean":
        away = chosen(seen, x - mean, 0)
        mean = (away * away).sum(axis, keepdims=True) / maximum(count - rest.get("correction", 0.0), 0)
        mean = square_root(mean) if name == "std" else mean
    return mean if keepdims else mean.squeeze(axis) if axis is not None else mean.reshape(())


def written(name: str, out: Any, result: Any) -> Any:  # noqa: ANN401  # arrays of all kinds
    """The result in the memory of `out`, which is given back."""
    if not isinstance(out, ArrayOperand | np.ndarray) or not isinstance(result, ArrayOperand):
        got = f"out={shown(out)}, {type(result).__name__} as the result"
        raise ArgumentError(name, got=got, need="an array for one array", origin=caller_origin())
    if broadcast_shapes(name, out.shape, result.shape) != out.shape:
        got = f"out {list(out.shape)} for {result.spec}"
        raise ShapeError(name, got=got, need="the shape of the result", origin=caller_origin())
    if isinstance(out, np.ndarray):
        if not np.can_cast(result.dtype.numpy, out.dtype, "same_kind") or not out.flags.writeable:
            got = f"out {out.dtype} for {result.dtype}"
            raise DTypeError(name, got=got, need="one to write into, of its kind", origin=caller_origin())
        np.copyto(out, result.numpy(), casting="same_kind")
        return out
    if not can_cast(result.dtype, out.dtype) and result.dtype.kind != out.dtype.kind:
        got = f"out {out.dtype} for {result.dtype}"
        raise DTypeError(name, got=got, need="an element type of its kind", origin=caller_origin())
    out[...] = result.astype(out.dtype)
    return out
