"""What a tensor is, without its memory: shape, element type, layout, device."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import cast

from nnc.arguments import explained, shown
from nnc.core.device import CPU, Device
from nnc.core.dtype import F32, DType, dtype_of
from nnc.core.exact import Hashed
from nnc.core.storage import MAX_BYTES
from nnc.errors import ArgumentError, DTypeError, ShapeError

MAX_DIMENSIONS = 8

Shape = tuple[int, ...]


class Layout(Enum):
    """Where the channels of an activation are: last (`NHWC`) or behind the batch (`NCHW`)."""

    NHWC = "NHWC"
    NCHW = "NCHW"


def check_shape(shape: Iterable[int], subject: str = "shape") -> Shape:
    """`shape` as a tuple of at most eight Python integers, each ≥ 0; ShapeError otherwise."""
    try:
        dims = tuple(operator.index(dim) for dim in shape)
    except TypeError:
        raise ShapeError(subject, got=repr(shape), need="a sequence of integers") from None
    if len(dims) > MAX_DIMENSIONS:
        raise ShapeError(subject, got=f"{len(dims)} dimensions", need=f"at most {MAX_DIMENSIONS}")
    if any(dim < 0 for dim in dims):
        raise ShapeError(subject, got=str(list(dims)), need="every size ≥ 0")
    return dims


def contiguous_strides(shape: Shape) -> Shape:
    """Row-major strides in elements: `stride[i] = prod(shape[i + 1:])`.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def broadcast_shapes(subject: str, *shapes: Shape) -> Shape:
    """The NumPy rule: align to the right; sizes must be equal or 1.

    >>> broadcast_shapes("add", (4, 1, 3), (5, 1))
    (4, 5, 3)
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if -axis <= len(shape)} - {1}
        if len(sizes) > 1:
            got = ", ".join(str(list(shape)) for shape in shapes)
            raise ShapeError(subject, got=got, need=f"sizes equal or 1 on axis {axis}")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


@dataclass(frozen=True, slots=True)
class TensorSpec(Hashed):
    """Shape, element type, layout and device of a tensor that may not exist yet; prints as `f32[4, 3]`."""

    shape: Shape
    dtype: DType = F32
    layout: Layout = Layout.NHWC
    device: Device = CPU

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, DType):
            raise DTypeError(
                "tensor", got=f"a {type(self.dtype).__name__}", need="a DType", fix="use spec() or dtype_of()"
            )
        object.__setattr__(self, "dtype", dtype_of(self.dtype))
        if not isinstance(cast(object, self.layout), Layout) or not isinstance(cast(object, self.device), Device):
            got = f"layout={shown(self.layout)}, device={shown(self.device)}"
            raise ArgumentError("TensorSpec", got=got, need="a Layout and a Device")
        object.__setattr__(self, "shape", check_shape(self.shape))
        # An empty tensor's other sizes count too: views of it have strides over them.
        if math.prod(max(size, 1) for size in self.shape) * self.dtype.itemsize > MAX_BYTES:
            raise ShapeError("tensor", got=str(self), need="at most 2^62 bytes")

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            found = hash((self.shape, self.dtype, self.layout, self.device))
            object.__setattr__(self, "_hash", found)
            return found

    @property
    def elements(self) -> int:
        """Number of elements, a Python integer of any size."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, without padding."""
        return self.elements * self.dtype.itemsize

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __str__(self) -> str:
        suffix = "" if self.layout is Layout.NHWC else f":{self.layout.value}"
        suffix += "" if self.device == CPU else f"@{self.device}"
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]{suffix}"


# Of operands, optional ones among them.
OptionalSpecs = tuple[TensorSpec | None, ...]


@explained
def spec(shape: Iterable[int] = (), dtype: DType | str = F32, layout: Layout = Layout.NHWC) -> TensorSpec:
    """A TensorSpec on the CPU.

    >>> print(spec([4, 3], "f64"))
    f64[4, 3]
    """
    return TensorSpec(check_shape(shape), dtype_of(dtype), layout)
