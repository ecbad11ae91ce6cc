"""Arrays made of numbers, of other arrays, and of nothing: constants, through which no gradient flows."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nnc import ops
from nnc.array_api.data_types import (
    OF_NUMBERS,
    Number,
    check_broadcast,
    check_real,
    lifted,
    meet,
    numpy_work,
    real_values,
)
from nnc.array_api.elementwise import checked_array
from nnc.core.running.device_context import present
from nnc.core.values.device import AnyDevice, Device, device_of
from nnc.core.values.dtype import C64, C128, F32, F64, DType, dtype_of
from nnc.core.values.exchange import SupportsDLPack
from nnc.core.values.exchange import from_dlpack as tensor_from_dlpack
from nnc.core.values.spec import check_shape
from nnc.core.values.tensor import Tensor, as_array
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.eager import tensor
from nnc.errors import DTypeError, ShapeError, UsageError
from nnc.ops.number import INTEGERS

Array = ArrayOperand
Shape = int | tuple[int, ...]


def placed(x: Array, device: AnyDevice | None) -> Array:
    """The array there; where it is, without a device."""
    return x if device is None else ops.to_device(x, device)


def chosen_device(device: AnyDevice | None) -> AbstractContextManager[object]:
    """Inside, arrays of numbers are made on that device; without one, where they would be anyway."""
    return nullcontext() if device is None else present(device_of(device))


def _made(value: ArrayLike, dtype: DType, device: Device | None) -> Array:
    with chosen_device(device):
        return tensor(real_values("full", np.asarray(value), dtype_of(dtype)))


def _sizes(shape: Shape) -> tuple[int, ...]:
    return check_shape((shape,) if isinstance(shape, INTEGERS) else shape)


def _like(x: Array, value: Number, dtype: DType | None, device: Device | None) -> Array:
    chosen = checked_array("like", x).dtype if dtype is None else dtype_of(dtype)
    with numpy_work("full_like"):
        return placed(
            lifted(x, np.full(x.shape, real_values("full_like", np.asarray(value), chosen), chosen.numpy)), device
        )


def _number_dtype(value: Number) -> DType:
    return OF_NUMBERS[type(value)]


def asarray(
    obj: Any,  # noqa: ANN401  # arrays, numbers, nested sequences of them, buffers
    /,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    copy: bool | None = None,
) -> Array:
    """An array of numbers, nested sequences, buffers or other arrays; of an array of this namespace with its gradient.

    With `copy=False` an array of NumPy is used where it is: ValueError where that cannot be.
    """
    if isinstance(obj, ArrayOperand):
        if copy is False and (dtype not in (None, obj.dtype) or device not in (None, obj.device)):
            got, need = f"{obj.spec} to {dtype} on {device} with copy=False", "the same element type and device"
            raise ValueError(f"asarray: got {got}; need {need}")
        return placed(astype(ops.contiguous(obj) if copy else obj, dtype or obj.dtype), device)
    if copy is not False and _has_arrays(obj):
        stacked = placed(_stacked(obj), device)
        return stacked if dtype is None else stacked.astype(dtype)
    if copy is not False:
        given = obj if hasattr(obj, "__array__") or isinstance(obj, Tensor) else _nested(obj, dtype)
        with chosen_device(device):
            return tensor(given, dtype)
    try:
        return tensor(obj, dtype, share=True)
    except UsageError as error:
        raise ValueError(str(error)) from None


def _nested(obj: Any, dtype: DType | None) -> Any:  # noqa: ANN401  # numbers and sequences of them, of arrays too
    """Numbers and sequences as NumPy has them, with the types that Python's numbers have here where none is asked."""
    own = isinstance(obj, bytes | bytearray | memoryview)
    array = as_array(memoryview(obj) if own else obj)
    if own or dtype is not None or array.dtype not in (np.float64, np.complex128) or not _is_python(obj):
        return array
    # What f32 does not hold is infinite in it.
    with np.errstate(over="ignore"):
        return array.astype(np.float32 if array.dtype == np.float64 else np.complex64)


def _has_arrays(obj: object) -> bool:
    """True for sequences with arrays of this namespace in them, whose gradients are to be kept."""
    if isinstance(obj, list | tuple):
        return any(map(_has_arrays, obj))
    return isinstance(obj, ArrayOperand)


def _stacked(obj: Any) -> Array:  # noqa: ANN401  # arrays, numbers and sequences of them
    if isinstance(obj, list | tuple):
        return ops.stack(meet("asarray", *map(_stacked, obj)))
    return obj if isinstance(obj, ArrayOperand) else asarray(obj)


def _is_python(obj: object) -> bool:
    """True where all elements are Python's own numbers."""
    waiting = [obj]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list | tuple):
            waiting.extend(part)
        elif type(part) not in OF_NUMBERS:
            return False
    return True


def astype(x: Array, dtype: DType, /, *, copy: bool = True, device: Device | None = None) -> Array:
    """The elements in another type; without `copy` the array itself where it has that type."""
    if not copy and checked_array("astype", x).dtype is dtype:
        return placed(x, device)
    return placed(checked_array("astype", x).astype(dtype_of(dtype)), device)


def from_dlpack(x: SupportsDLPack, /, *, device: Device | None = None, copy: bool | None = None) -> Array:
    """An array over the memory of another library's array, or over a copy."""
    return placed(tensor(tensor_from_dlpack(x), share=not copy), device)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
) -> Array:
    """start, start + step, … below stop; from 0 where one number is given."""
    first, end = (0, start) if stop is None else (start, stop)
    whole = all(isinstance(number, int) for number in (first, end, step))
    check_real("arange", first, end, step)
    with numpy_work("arange"):
        return _made(np.arange(first, end, step), dtype or OF_NUMBERS[int if whole else float], device)


def empty(shape: Shape, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """An array of whatever numbers: of zeros."""
    return zeros(shape, dtype=dtype, device=device)


def empty_like(x: Array, /, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """An array of the shape of x."""
    return _like(x, 0, dtype, device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: Device | None = None,
) -> Array:
    """Ones on the k-th diagonal, else zeros."""
    with numpy_work("eye"):
        return _made(np.eye(n_rows, n_cols, k), dtype or F32, device)


def full(shape: Shape, fill_value: Number, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """An array of one number."""
    with numpy_work("full"):
        return _made(np.full(_sizes(shape), fill_value), dtype or _number_dtype(fill_value), device)


def full_like(x: Array, /, fill_value: Number, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """An array of one number, of the shape of x."""
    return _like(x, fill_value, dtype, device)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: Device | None = None,
    endpoint: bool = True,
) -> Array:
    """`num` numbers at equal distances from start to stop."""
    default = C64 if any(isinstance(end, complex) for end in (start, stop)) else F32
    chosen = dtype or default
    exact = C128 if chosen.kind == "complex" else F64
    with numpy_work("linspace"):
        return _made(np.linspace(start, stop, num, endpoint=endpoint, dtype=exact.numpy), chosen, device)


def meshgrid(*arrays: Array, indexing: str = "xy") -> tuple[Array, ...]:
    """Coordinates of a grid: each array along an axis of its own, repeated along the others."""
    if indexing not in ("xy", "ij"):
        raise UsageError("meshgrid", got=f"indexing={indexing!r}", need='"xy" or "ij"')
    if len({array.dtype for array in arrays}) > 1:
        raise DTypeError("meshgrid", got=", ".join(str(array.dtype) for array in arrays), need="one element type")
    order = list(range(len(arrays)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = 1, 0
    rank = len(arrays)
    placed = [
        array.reshape(tuple(-1 if axis == place else 1 for axis in range(rank)))
        for array, place in zip(arrays, order, strict=True)
    ]
    shape = check_broadcast("meshgrid", *placed) if placed else ()
    return tuple(ops.broadcast_to(array, shape) for array in placed)


def ones(shape: Shape, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """An array of ones."""
    with numpy_work("ones"):
        return _made(np.ones(_sizes(shape)), dtype or F32, device)


def ones_like(x: Array, /, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Ones, of the shape of x."""
    return _like(x, 1, dtype, device)


def tril(x: Array, /, *, k: int = 0) -> Array:
    """What is on and below the k-th diagonal, else zeros."""
    return _triangle(x, k, lower=True)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """What is on and above the k-th diagonal, else zeros."""
    return _triangle(x, k, lower=False)


def _triangle(x: Array, k: int, *, lower: bool) -> Array:
    if checked_array("tri", x).ndim < 2:
        raise ShapeError("tril" if lower else "triu", got=str(x.spec), need="two axes or more")
    with numpy_work("tril" if lower else "triu"):
        kept = np.tri(x.shape[-2], x.shape[-1], k if lower else k - 1, dtype=np.bool_)
    zero = lifted(x, np.zeros((), x.dtype.numpy))
    return ops.where(lifted(x, kept if lower else ~kept), x, zero)


def zeros(shape: Shape, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """An array of zeros."""
    with numpy_work("zeros"):
        return _made(np.zeros(_sizes(shape)), dtype or F32, device)


def zeros_like(x: Array, /, *, dtype: DType | None = None, device: Device | None = None) -> Array:
    """Zeros, of the shape of x."""
    return _like(x, 0, dtype, device)
