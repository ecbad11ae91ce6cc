"""Whether arrays are equal, or nearly, and what they are: looks at values, shapes and element types."""

from __future__ import annotations

import numpy as np

from nnc import ops
from nnc.array_api import data_types as standard
from nnc.array_api import elementwise
from nnc.core.values.dtype import AnyDType, DType, dtype_of
from nnc.dynamic.arrays.promotion import continuous, joined
from nnc.dynamic.tree import Tree, flatten
from nnc.dynamic.variable import Variable
from nnc.errors import DTypeError
from nnc.numerics.conversion import AnyArray, Array, as_array, pair, place_of

__all__ = [
    "allclose", "array_equal", "can_cast", "eval", "finfo", "iinfo", "isclose", "iscomplexobj", "isdtype",
    "isrealobj", "isscalar", "ndim", "promote_types", "result_type", "shape", "size",
]  # fmt: skip


def isclose(x1: AnyArray, x2: AnyArray, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
    """|x1 - x2| ≤ atol + rtol · |x2|, element by element; infinities are close to themselves.

    >>> nnc.isclose([1.0, 2.0], [1.0, 2.1])
    Variable(bool[2], constant)
    [ True False]
    """
    a, b = (continuous(entry) for entry in pair(x1, x2))
    finite = ops.logical_and(elementwise.isfinite(a), elementwise.isfinite(b))
    gap = elementwise.abs(a - b)
    close = ops.logical_and(finite, ops.less_equal(gap, elementwise.abs(b) * rtol + atol))
    result = ops.logical_or(close, ops.equal(a, b))
    return ops.logical_or(result, ops.logical_and(elementwise.isnan(a), elementwise.isnan(b))) if equal_nan else result


def allclose(x1: AnyArray, x2: AnyArray, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
    """Whether all are close: one truth value, which `if` takes.

    >>> nnc.allclose([1.0], [1.0 + 1e-7])
    Variable(bool[], constant)
    True
    """
    return isclose(x1, x2, rtol, atol, equal_nan).all()


def array_equal(x1: AnyArray, x2: AnyArray, equal_nan: bool = False) -> Array:
    """Whether shapes and all elements are equal: one truth value, which `if` takes.

    >>> nnc.array_equal([1, 2], [1, 2])
    Variable(bool[], constant)
    True
    """
    a, b = as_array(x1), as_array(x2)
    if a.shape != b.shape:
        return ops.cast(ops.fill_like(a.sum(), 0), dtype_of("bool"))
    array, other = pair(a, b)
    result = ops.equal(array, other)
    if equal_nan and array.dtype.is_continuous:
        result = ops.logical_or(result, ops.logical_and(elementwise.isnan(array), elementwise.isnan(other)))
    return result.all()


def eval(*values: Tree) -> None:
    """Compute what waits under `nnc.lazy()`: the arrays in these values, which may be nested."""
    for entry in flatten(values)[0]:
        if isinstance(entry, Variable):
            # Asked for its memory, on whatever device, a tensor that waits is computed.
            _ = entry.tensor.storage
        elif isinstance(entry, Array):
            entry.numpy()


def iscomplexobj(x: AnyArray) -> bool:
    """Whether the element type is complex."""
    return as_array(x).dtype.kind == "complex"


def isrealobj(x: AnyArray) -> bool:
    """Whether the element type is not complex."""
    return not iscomplexobj(x)


def isscalar(x: object) -> bool:
    """Whether x is one of Python's or NumPy's numbers, and no array."""
    return bool(np.isscalar(x))


def shape(x: AnyArray) -> tuple[int, ...]:
    """The sizes of the axes.

    >>> nnc.shape([[1, 2]])
    (1, 2)
    """
    return as_array(x).shape


def ndim(x: AnyArray) -> int:
    """How many axes there are.

    >>> nnc.ndim([[1, 2]])
    2
    """
    return as_array(x).ndim


def size(x: AnyArray, axis: int | None = None) -> int:
    """How many elements there are, or places along the axis.

    >>> nnc.size([[1, 2]])
    2
    """
    array = as_array(x)
    return array.size if axis is None else array.shape[place_of("size", axis, array.ndim)]


def finfo(dtype: AnyDType | Array) -> standard.FloatLimits:
    """Limits of a floating-point type.

    >>> nnc.finfo(nnc.f32).max
    3.4028234663852886e+38
    """
    return standard.finfo(_type(dtype))


def iinfo(dtype: AnyDType | Array) -> standard.IntegerLimits:
    """Limits of an integer type.

    >>> nnc.iinfo(nnc.i8).max
    127
    """
    return standard.iinfo(_type(dtype))


def _type(value: AnyDType | Array) -> DType:
    return value.dtype if isinstance(value, Array) else dtype_of(value)


def isdtype(dtype: AnyDType, kind: AnyDType | str | tuple[AnyDType | str, ...]) -> bool:
    """Whether the type is this one, or of this kind ("bool", "integral", "real floating" …), or of one of several.

    >>> nnc.isdtype(nnc.i32, "integral")
    True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, entry) for entry in kind)
    named = isinstance(kind, str) and kind in standard.KINDS
    return standard.isdtype(dtype_of(dtype), kind if named and isinstance(kind, str) else dtype_of(kind))


def can_cast(from_: AnyDType | Array, to: AnyDType) -> bool:
    """Whether promotion takes the first type to the second.

    >>> nnc.can_cast(nnc.i32, nnc.i64)
    True
    """
    return joined(_type(from_), dtype_of(to)) is dtype_of(to)


def result_type(*values: AnyDType | AnyArray) -> DType:
    """The element type of what is computed of all of them.

    >>> nnc.result_type(nnc.i64, nnc.f32)
    f32
    """
    named = Array | DType | str | type | np.dtype
    types = [_type(entry) if isinstance(entry, named) else as_array(entry).dtype for entry in values]
    if not types:
        raise DTypeError("result_type", got="nothing", need="an array or an element type")
    result = types[0]
    for other in types[1:]:
        wide = joined(result, other)
        if wide is None:
            need = "element types of which one holds the other"
            raise DTypeError("result_type", got=f"{result} and {other}", need=need)
        result = wide
    return result


def promote_types(type1: AnyDType, type2: AnyDType) -> DType:
    """The element type that holds both.

    >>> nnc.promote_types(nnc.i8, nnc.i32)
    i32
    """
    return result_type(dtype_of(type1), dtype_of(type2))
