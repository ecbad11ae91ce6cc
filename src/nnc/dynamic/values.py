"""Tensors of what users hand over: numbers, nested lists, arrays, other tensors.

Memory is copied, so that a buffer that its owner fills again changes no value that a gradient will read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from nnc.core.precautions.origin import caller_origin
from nnc.core.values.device import CPU, Device, current_device
from nnc.core.values.dtype import F32, F64, DType, dtype_of
from nnc.core.values.pool import Pool
from nnc.core.values.storage import WatchedMemory
from nnc.core.values.tensor import Tensor, as_array
from nnc.errors import UsageError


def tensor_of(
    value: ArrayLike | Tensor,
    dtype: DType | str | None,
    pool: Pool,
    *,
    share: bool = False,
    device: Device | None = None,
) -> Tensor:
    """A row-major tensor of `value`: a copy, or with `share` a tensor over the caller's own memory.

    A tensor stays on its device, and all else goes to that of the context, where no `device` is named.

    Without a `dtype` Python's own floats become f32, Python's integers i64, and whatever has an element type keeps it.
    UsageError for memory that cannot be shared: lists, other element types, elements with gaps between them.
    """
    if dtype is None and _is_pure(value) and as_array(value).dtype == F64.numpy:
        dtype = F32
    given = value if isinstance(value, Tensor) else Tensor.from_numpy(value, dtype)
    if dtype is not None and given.dtype is not dtype_of(dtype):
        given = Tensor.from_numpy(given.to(CPU).numpy(), dtype).to(given.spec.device)
    target = device or (given.spec.device if isinstance(value, Tensor) else current_device())
    if share and target == given.spec.device:
        _check_shared(value, given)
        if given.storage.label == "numpy" and given.spec.device.is_host:
            given.storage.watch = given.storage.watch or WatchedMemory()
        return given
    copy = Tensor.empty(given.spec.on(target), pool=pool)
    copy.copy_from(given.numpy() if given.spec.device.is_host else given)
    return copy


def _is_pure(value: object) -> bool:
    """True for Python's numbers, and for lists and tuples of nothing else, which have no element type of their own."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list | tuple):
            waiting.extend(item)
        elif type(item) not in (bool, int, float):
            return False
    return True


def _check_shared(value: object, tensor: Tensor) -> None:
    if not tensor.spec.device.is_host:
        return
    own = value.numpy() if isinstance(value, Tensor) else value
    shares = isinstance(own, np.ndarray) and np.shares_memory(own, tensor.numpy())
    if tensor.spec.elements and not (shares and tensor.is_contiguous):
        raise UsageError(
            "variable",
            got=f"{tensor.spec} in memory that cannot be shared",
            need="an array of this element type in row-major order",
            fix="leave share=True out: the value is copied",
            origin=caller_origin(),
        )
