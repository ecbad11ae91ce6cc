"""Arrays made of numbers, of other arrays, and of nothing.

    array([[1, 2], [3, 4]]), zeros((2, 3)), zeros(2, 3), ones(3, "i32"), arange(0, 1, 0.1), linspace(0, 1, 5), eye(3)

Python's floats are f32 and its integers i64 where no `dtype` says otherwise. Gradients flow through arrays of arrays.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np

from nnc import ops
from nnc.array_api import creation as standard
from nnc.array_api.creation import chosen_device, placed
from nnc.array_api.data_types import check_real, lifted, numpy_work
from nnc.core.values.device import current_device
from nnc.core.values.dtype import BOOL, F32, I64, AnyDType, DType, dtype_of
from nnc.core.values.exchange import SupportsDLPack
from nnc.core.values.spec import TensorSpec, check_shape
from nnc.core.values.tensor import Tensor
from nnc.dynamic.eager import tensor
from nnc.errors import AttributeValueError, ShapeError
from nnc.numerics.conversion import (
    AnyArray,
    AnyDevice,
    Array,
    Sizes,
    as_array,
    asked,
    chosen_dtype,
    met,
    place_of,
    sizes_of,
)
from nnc.ops.number import INTEGERS

__all__ = [
    "arange", "array", "as_tensor", "asarray", "astype", "copy", "diag", "diagflat",
    "diagonal", "e", "empty", "empty_like", "euler_gamma", "eye", "from_dlpack", "from_numpy", "full", "full_like",
    "geomspace", "identity", "indices", "inf", "linspace", "logspace", "meshgrid", "nan",
    "newaxis", "ones", "ones_like", "pi", "tri", "tril", "tril_indices", "triu", "triu_indices", "vander", "zeros",
    "zeros_like",
]  # fmt: skip


def array(value: AnyArray, dtype: AnyDType | None = None, *, copy: bool = True, device: AnyDevice = None) -> Array:
    """A new array of numbers, nested sequences of them, of arrays, or of an array.

    >>> nnc.array([[1.0, 2.0], [3.0, 4.0]])
    Variable(f32[2, 2], constant)
    [[1. 2.]
     [3. 4.]]
    """
    with chosen_device(device):
        made = placed(as_array(value), device)
    result = ops.contiguous(made) if copy and made is value else made
    return result if dtype is None else result.astype(dtype)


def asarray(value: AnyArray, dtype: AnyDType | None = None, *, device: AnyDevice = None) -> Array:
    """As `array`; an array of ours as it is.

    >>> nnc.asarray(np.ones(2))
    Variable(f64[2], constant)
    [1. 1.]
    """
    with chosen_device(device):
        made = placed(as_array(value), device)
    return made if dtype is None else made.astype(dtype)


def as_tensor(value: AnyArray, dtype: AnyDType | None = None, *, device: AnyDevice = None) -> Array:
    """As `asarray`."""
    return asarray(value, dtype, device=device)


def from_numpy(value: np.ndarray) -> Array:
    """An array over the same memory, which is not to be written while a gradient needs it.

    >>> nnc.from_numpy(np.ones(2, np.float32))
    Variable(f32[2], constant)
    [1. 1.]
    """
    return tensor(value, share=True)


def from_dlpack(value: SupportsDLPack) -> Array:
    """An array over the memory of another library's array."""
    return standard.from_dlpack(value)


def astype(x: AnyArray, dtype: AnyDType) -> Array:
    """The elements in another type.

    >>> nnc.astype([1.6, 2.4], nnc.i32)
    Variable(i32[2], constant)
    [1 2]
    """
    return as_array(x).astype(dtype)


def _filled(shape: Sequence[Sizes | AnyDType], dtype: AnyDType | None, value: float, device: AnyDevice) -> Array:
    """Of sizes as one tuple or one by one; a last one that is no size is an element type, as in NumPy."""
    given = list(shape)
    if given and dtype is None and not _is_size(given[-1]):
        dtype = given.pop()  # type: ignore[assignment]  # `dtype_of` says what is none
    sizes, kind = given[0] if len(given) == 1 else given, chosen_dtype(dtype, F32)
    with chosen_device(device):
        if not current_device().is_host:
            # Made there: the host need not have so much memory.
            return ops.broadcast_to(tensor(np.full((), value, kind.numpy)), sizes_of(sizes))  # type: ignore[arg-type]  # as above
        with numpy_work("shape"):
            return tensor(np.full(sizes_of(sizes), value, kind.numpy))  # type: ignore[arg-type]  # as above


def _is_size(value: object) -> bool:
    return isinstance(value, (*INTEGERS, tuple, list, np.ndarray)) and not isinstance(value, bool)


def copy(x: AnyArray) -> Array:
    """The same elements in memory of their own; gradients flow."""
    return ops.contiguous(as_array(x))


def zeros(
    *sizes: Sizes | AnyDType,
    shape: Sizes | None = None,
    dtype: AnyDType | None = None,
    device: AnyDevice = None,
    requires_grad: bool = False,
) -> Array:
    """An array of zeros: `zeros((2, 3))`, `zeros(2, 3)`, `zeros(3, "i32")`, `zeros(shape=(2, 3))`.

    >>> nnc.zeros((2, 2))
    Variable(f32[2, 2], constant)
    [[0. 0.]
     [0. 0.]]
    """
    return asked(_filled(sizes if shape is None else (shape, *sizes), dtype, 0, device), requires_grad)


def ones(
    *sizes: Sizes | AnyDType,
    shape: Sizes | None = None,
    dtype: AnyDType | None = None,
    device: AnyDevice = None,
    requires_grad: bool = False,
) -> Array:
    """An array of ones, given as to `zeros`.

    >>> nnc.ones(3, dtype=nnc.i32)
    Variable(i32[3], constant)
    [1 1 1]
    """
    return asked(_filled(sizes if shape is None else (shape, *sizes), dtype, 1, device), requires_grad)


def empty(*shape: Sizes | AnyDType, dtype: AnyDType | None = None, device: AnyDevice = None) -> Array:
    """An array of whatever numbers: of zeros."""
    return _filled(shape, dtype, 0, device)


def full(
    shape: Sizes,
    fill_value: AnyArray,
    dtype: AnyDType | None = None,
    *,
    device: AnyDevice = None,
    requires_grad: bool = False,
) -> Array:
    """An array of one value, which may itself be an array that is repeated.

    >>> nnc.full((2,), 7.0)
    Variable(f32[2], constant)
    [7. 7.]
    """
    with chosen_device(device):
        value = placed(as_array(fill_value), device)
    return asked(ops.broadcast_to(value if dtype is None else value.astype(dtype), sizes_of(shape)), requires_grad)


def _like(x: AnyArray, value: float, dtype: AnyDType | None) -> Array:
    first = as_array(x)
    return ops.fill_like(first if dtype is None else first.astype(dtype), value)


def zeros_like(x: AnyArray, dtype: AnyDType | None = None) -> Array:
    """Zeros, of the shape of x.

    >>> nnc.zeros_like([1.0, 2.0])
    Variable(f32[2], constant)
    [0. 0.]
    """
    return _like(x, 0, dtype)


def ones_like(x: AnyArray, dtype: AnyDType | None = None) -> Array:
    """Ones, of the shape of x.

    >>> nnc.ones_like([1, 2])
    Variable(i64[2], constant)
    [1 1]
    """
    return _like(x, 1, dtype)


def empty_like(x: AnyArray, dtype: AnyDType | None = None) -> Array:
    """Whatever numbers: zeros, of the shape of x."""
    return _like(x, 0, dtype)


def full_like(x: AnyArray, fill_value: float, dtype: AnyDType | None = None) -> Array:
    """One number, of the shape of x."""
    return _like(x, fill_value, dtype)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: AnyDType | None = None,
    *,
    device: AnyDevice = None,
    requires_grad: bool = False,
) -> Array:
    """start, start + step, … below stop; from 0 where one number is given.

    >>> nnc.arange(0, 6, 2)
    Variable(i64[3], constant)
    [0 2 4]
    """
    first, end = (0, start) if stop is None else (start, stop)
    check_real("arange", first, end, step)
    whole = all(isinstance(entry, INTEGERS) for entry in (first, end, step))
    chosen = chosen_dtype(dtype, I64 if whole else F32)
    with numpy_work("arange"), chosen_device(device):
        return asked(tensor(np.arange(first, end, step).astype(chosen.numpy)), requires_grad)


def linspace(
    start: complex,
    stop: complex,
    num: int = 50,
    endpoint: bool = True,
    dtype: AnyDType | None = None,
    *,
    device: AnyDevice = None,
    requires_grad: bool = False,
) -> Array:
    """`num` numbers at equal distances from start to stop.

    >>> nnc.linspace(0, 1, 5)
    Variable(f32[5], constant)
    [0.   0.25 0.5  0.75 1.  ]
    """
    chosen = None if dtype is None else dtype_of(dtype)
    with chosen_device(device):
        return asked(standard.linspace(start, stop, num, dtype=chosen, endpoint=endpoint), requires_grad)


def logspace(
    start: float, stop: float, num: int = 50, endpoint: bool = True, base: float = 10.0, dtype: AnyDType | None = None
) -> Array:
    """base^start to base^stop, in equal steps of the exponent."""
    check_real("logspace", start, stop, base)
    with numpy_work("logspace"):
        return _in(np.logspace(start, stop, num, endpoint, base), dtype)


def geomspace(start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: AnyDType | None = None) -> Array:
    """`num` numbers from start to stop, each so many times the one before."""
    check_real("geomspace", start, stop)
    with numpy_work("geomspace"):
        return _in(np.geomspace(start, stop, num, endpoint), dtype)


def _in(value: np.ndarray, dtype: AnyDType | None, otherwise: DType = F32) -> Array:
    return tensor(value.astype(chosen_dtype(dtype, otherwise).numpy))


def eye(n: int, m: int | None = None, k: int = 0, dtype: AnyDType | None = None, *, device: AnyDevice = None) -> Array:
    """Ones on the k-th diagonal, else zeros.

    >>> nnc.eye(2)
    Variable(f32[2, 2], constant)
    [[1. 0.]
     [0. 1.]]
    """
    with numpy_work("eye"), chosen_device(device):
        return _in(np.eye(n, m, k), dtype)


def identity(n: int, dtype: AnyDType | None = None) -> Array:
    """The square matrix with ones on its diagonal."""
    return eye(n, dtype=dtype)


def tri(n: int, m: int | None = None, k: int = 0, dtype: AnyDType | None = None) -> Array:
    """Ones on and below the k-th diagonal, else zeros."""
    with numpy_work("tri"):
        return _in(np.tri(n, m, k), dtype)


def tril(x: AnyArray, k: int = 0) -> Array:
    """What is on and below the k-th diagonal, else zeros.

    >>> nnc.tril([[1.0, 2.0], [3.0, 4.0]])
    Variable(f32[2, 2], constant)
    [[1. 0.]
     [3. 4.]]
    """
    return standard.tril(as_array(x), k=k)


def triu(x: AnyArray, k: int = 0) -> Array:
    """What is on and above the k-th diagonal, else zeros.

    >>> nnc.triu([[1.0, 2.0], [3.0, 4.0]])
    Variable(f32[2, 2], constant)
    [[1. 2.]
     [0. 4.]]
    """
    return standard.triu(as_array(x), k=k)


def diag(x: AnyArray, k: int = 0) -> Array:
    """The k-th diagonal of a matrix; of a vector the matrix that has it there, else zeros.

    >>> nnc.diag([1, 2])
    Variable(i64[2, 2], constant)
    [[1 0]
     [0 2]]
    """
    first = as_array(x)
    if first.ndim == 2:
        return diagonal(first, k)
    if first.ndim != 1:
        raise ShapeError("diag", got=str(first.spec), need="a vector or a matrix")
    return on_diagonal("diag", first, k)


def on_diagonal(subject: str, x: Array, k: int) -> Array:
    """y[…, i, i + k] = x[…, i] of square matrices, and 0 elsewhere."""
    with numpy_work(subject):
        k = operator.index(k)
    size, others = x.shape[-1] + abs(k), (0,) * (x.ndim - 1)
    entries = ops.pad(x, (*others, max(-k, 0)), (*others, max(k, 0)))
    rows = ops.broadcast_to(entries.expand_dims(-1), (*x.shape[:-1], size, size))
    return ops.where(eye(size, k=k, dtype=BOOL), rows, ops.fill_like(rows, 0))


def diagflat(x: AnyArray, k: int = 0) -> Array:
    """The matrix with all elements of x on its k-th diagonal."""
    return diag(as_array(x).ravel(), k)


def diagonal(x: AnyArray, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements on a diagonal of two axes, as the last axis of the result."""
    operand = as_array(x)
    if operand.ndim < 2:
        raise ShapeError("diagonal", got=str(operand.spec), need="two axes or more")
    first, second = place_of("diagonal", axis1, operand.ndim), place_of("diagonal", axis2, operand.ndim)
    if first == second:
        raise AttributeValueError("diagonal", got=f"axis {first} twice", need="two axes")
    rest = [axis for axis in range(operand.ndim) if axis not in (first, second)]
    turned = ops.transpose(operand, (*rest, first, second))
    rows, columns = turned.shape[-2:]
    start = (max(-offset, 0), max(offset, 0))
    count = max(min(rows - start[0], columns - start[1]), 0)
    with numpy_work("diagonal"):
        places = (np.arange(count) + start[0]) * columns + np.arange(count) + start[1]
    flat = turned.reshape((*turned.shape[:-2], rows * columns))
    return ops.index_select(flat, lifted(flat, places), flat.ndim - 1)


def vander(x: AnyArray, n: int | None = None, increasing: bool = False) -> Array:
    """y[i, j] = x[i]^j, or with the largest power first."""
    first = as_array(x)
    if first.ndim != 1:
        raise ShapeError("vander", got=str(first.spec), need="a vector")
    count = first.shape[0] if n is None else n
    powers = np.arange(count) if increasing else np.arange(count)[::-1]
    if not count:
        return first.expand_dims(1)[:, :0]
    columns = [ops.fill_like(first, 1)]
    while len(columns) < count:
        columns.append(ops.multiply(columns[-1], first))
    return ops.stack([columns[int(power)] for power in powers], 1)


def meshgrid(*values: AnyArray, indexing: str = "xy") -> list[Array]:
    """Coordinates of a grid: each array along an axis of its own, repeated along the others.

    >>> [axis.tolist() for axis in nnc.meshgrid([1, 2], [3, 4])]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
    """
    if not values:
        return []
    return list(standard.meshgrid(*met(values), indexing=indexing))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Rows and columns of what is on and below the k-th diagonal."""
    return _indices(_triangle(n, m, k))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Rows and columns of what is on and above the k-th diagonal."""
    return _indices(~_triangle(n, m, k - 1))


def _triangle(n: int, m: int | None, k: int) -> np.ndarray:
    """True on and below the k-th diagonal; whether there is memory for the places is asked first."""
    columns = n if m is None else m
    _check_room((n, columns))
    with numpy_work("triangle"):
        return np.tri(n, columns, max(min(k, columns), -n), dtype=np.bool_)


def _check_room(shape: tuple[int, ...]) -> None:
    """The error of an allocation where there is no memory for i64 numbers of a shape."""
    Tensor.empty(TensorSpec(check_shape(shape), I64))


def _indices(mask: np.ndarray) -> tuple[Array, Array]:
    rows, columns = np.nonzero(mask)
    return tensor(rows.astype(np.int64)), tensor(columns.astype(np.int64))


def indices(dimensions: Sequence[int]) -> Array:
    """The index of each element of such a shape: y[axis, …] is the place along the axis.

    >>> nnc.indices((2, 2)).shape
    (2, 2, 2)
    """
    sizes = sizes_of(dimensions)
    _check_room((len(sizes), *sizes))
    with numpy_work("indices"):
        return tensor(np.indices(sizes, np.int64))


e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None
euler_gamma = 0.5772156649015329
