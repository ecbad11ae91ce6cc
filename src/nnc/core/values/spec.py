"""What a tensor is, without its memory: shape, element type, layout, device."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable
from enum import Enum
from typing import Self, cast

from nnc.arguments import explained, shown
from nnc.classes import dataclass
from nnc.core.values.device import CPU, AnyDevice, Device, device_of
from nnc.core.values.dtype import F32, DType, dtype_of
from nnc.core.values.exact import Hashed
from nnc.core.values.sizes import plain, size_of
from nnc.core.values.storage import MAX_BYTES
from nnc.errors import ArgumentError, DTypeError, FormatError, LayoutError, ShapeError
from nnc.graph import Json

MAX_DIMENSIONS = 8

Shape = tuple[int, ...]


_BLOCKED = re.compile(r"((?:\d{1,18}x)*)(\d{1,18})/(\d{1,18})((?:x\d{1,18})*)(?:k(\d{1,9}))?(?:g(\d{1,9}))?")


class AnyLayout:
    """Where the elements of a tensor are: a `Layout` or `Blocked`. In files it is as it prints."""

    __slots__ = ()

    def to_json(self) -> str:
        """Its text."""
        return str(self)

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """The layout of a text; FormatError for what is none."""
        layout = layout_of(data) if isinstance(data, str) else None
        if not isinstance(layout, cls):
            raise FormatError("layout", got=shown(data), need="NHWC, NCHW, or blocks, as 768x3072/64")
        return layout


@explained
def layout_of(text: str) -> AnyLayout | None:
    """The layout that prints so: `NCHW`, `768x3072/64k2g3`; None for no layout.

    >>> print(layout_of("768x3072/64"))
    768x3072/64
    """
    if text in Layout.__members__:
        return Layout[text]
    match = _BLOCKED.fullmatch(text)
    if match is None:
        return None
    before, size, width, behind, steps, parts = match.groups()
    left, right = ([int(value) for value in part.split("x") if value] for part in (before, behind))
    return Blocked((*left, int(size), *right), len(left), int(width), int(steps or 1), int(parts or 1))


class Layout(AnyLayout, Enum):
    """Where the channels of an activation are: last (`NHWC`) or behind the batch (`NCHW`)."""

    NHWC = "NHWC"
    NCHW = "NCHW"

    def __str__(self) -> str:
        return self.value


@explained
@dataclass(frozen=True, slots=True)
class Blocked(AnyLayout):
    """Blocks of `width` places of one axis of x, whose shape is `sizes`, as kernels of products read weights.

        y[p, k, j] = x[place p · width + j on `axis`, k over all other axes in row-major order], 0 where x has no place
        y[p, q, j, r] = the same with k = q · steps + r, for more than one of `steps`

    The places are those of `parts` equal parts of the axis, each of which begins with a block of its own. Prints as
    `768x3072/64`, where the axis of 3072 is in blocks of 64.
    """

    sizes: Shape
    axis: int
    width: int
    steps: int = 1
    parts: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", check_shape(self.sizes, "blocked layout"))
        fits = 0 <= self.axis < len(self.sizes) and min(self.width, self.steps, self.parts) > 0
        if not fits or self.sizes[self.axis] % self.parts:
            got = f"{list(self.sizes)}, axis {self.axis}, width {self.width}, steps {self.steps}, parts {self.parts}"
            raise LayoutError("blocked layout", got=got, need="an axis of equal parts, and sizes of at least 1")

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return self.parts * -(-(self.sizes[self.axis] // self.parts) // self.width)

    @property
    def depth(self) -> int:
        """Elements of all other axes."""
        return math.prod(size for axis, size in enumerate(self.sizes) if axis != self.axis)

    @property
    def shape(self) -> Shape:
        """The shape of y."""
        steps = () if self.steps == 1 else (self.steps,)
        return (self.blocks, -(-self.depth // self.steps), self.width, *steps)

    def __str__(self) -> str:
        marks = (f"{size}/{self.width}" if axis == self.axis else f"{size}" for axis, size in enumerate(self.sizes))
        steps = "" if self.steps == 1 else f"k{self.steps}"
        return "x".join(marks) + steps + ("" if self.parts == 1 else f"g{self.parts}")


def check_shape(shape: Iterable[int], subject: str = "shape") -> Shape:
    """`shape` as a tuple of at most eight Python integers, each ≥ 0; ShapeError otherwise."""
    if type(shape) is tuple and len(shape) <= MAX_DIMENSIONS:
        for dim in shape:
            if (type(dim) is not int and size_of(dim) is None) or dim < 0:
                break
        else:
            return shape
    try:
        dims = tuple(operator.index(dim) if size_of(dim) is None else dim for dim in shape)
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
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    rank = max((len(shape) for shape in shapes), default=0)
    result = []
    for axis in range(-rank, 0):
        sizes = [shape[axis] for shape in shapes if -axis <= len(shape) and shape[axis] != 1]
        if any(size != sizes[0] for size in sizes[1:]):
            got = ", ".join(str(list(shape)) for shape in shapes)
            raise ShapeError(subject, got=got, need=f"sizes equal or 1 on axis {axis}")
        result.append(sizes[0] if sizes else 1)
    return tuple(result)


@dataclass(frozen=True, slots=True)
class TensorSpec(Hashed):
    """Shape, element type, layout and device of a tensor that may not exist yet; prints as `f32[4, 3]`."""

    shape: Shape
    dtype: DType = F32
    layout: AnyLayout = Layout.NHWC
    device: Device = CPU

    def __post_init__(self) -> None:
        dtype, layout = self.dtype, self.layout
        if not isinstance(dtype, DType):
            raise DTypeError("tensor", got=f"a {type(dtype).__name__}", need="a DType", fix="use spec() or dtype_of()")
        if (known := dtype_of(dtype)) is not dtype:
            object.__setattr__(self, "dtype", known)
        if not isinstance(cast(object, layout), AnyLayout) or not isinstance(cast(object, self.device), Device):
            got = f"layout={shown(layout)}, device={shown(self.device)}"
            raise ArgumentError("TensorSpec", got=got, need="a Layout and a Device")
        if (shape := check_shape(self.shape)) is not self.shape:
            object.__setattr__(self, "shape", shape)
        if isinstance(layout, Blocked) and shape != layout.shape:
            got, need = f"shape {list(shape)}, layout {layout}", f"shape {list(layout.shape)}"
            raise LayoutError("tensor", got=got, need=need, fix="convert_layout() to NHWC first")
        nbytes = dtype.itemsize
        for size in shape:
            # An empty tensor's other sizes count too: views of it have strides over them.
            nbytes *= size or 1
        if nbytes > MAX_BYTES:
            raise ShapeError("tensor", got=str(self), need="at most 2^62 bytes")

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            # What sizes follow from is no part of it: that two specs are equal is asked beside it.
            value = hash((tuple([plain(dim) for dim in self.shape]), self.dtype, self.layout, self.device))
            object.__setattr__(self, "_hash", value)
            return value

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

    @property
    def plain(self) -> TensorSpec:
        """The same elements with their axes in order, where they are in blocks."""
        layout = self.layout
        return TensorSpec(layout.sizes, self.dtype, device=self.device) if isinstance(layout, Blocked) else self

    @explained
    def laid(self, blocks: Blocked) -> TensorSpec:
        """The same elements in blocks."""
        return TensorSpec(blocks.shape, self.dtype, blocks, self.device)

    @explained
    def fits(self, other: TensorSpec) -> bool:
        """Whether a tensor of one may stand where the other is asked for: of its shape and type, read where that is."""
        same = (self.shape, self.dtype) == (other.shape, other.dtype)
        return same and self.device.space == other.device.space

    @explained
    def on(self, device: Device) -> TensorSpec:
        """The same there."""
        return self if device == self.device else TensorSpec(self.shape, self.dtype, self.layout, device)

    def __str__(self) -> str:
        suffix = "" if self.layout is Layout.NHWC else f":{self.layout}"
        suffix += "" if self.device == CPU else f"@{self.device}"
        return f"{self.dtype.name}[{', '.join([str(plain(size)) for size in self.shape])}]{suffix}"


# Of operands, optional ones among them.
OptionalSpecs = tuple[TensorSpec | None, ...]


@explained
def spec(
    shape: Iterable[int] = (), dtype: DType | str = F32, layout: AnyLayout = Layout.NHWC, device: AnyDevice = CPU
) -> TensorSpec:
    """A TensorSpec, on the CPU unless a device is named.

    >>> print(spec([4, 3], "f64"), spec([2], device="cuda"))
    f64[4, 3] f32[2]@cuda:0
    """
    return TensorSpec(check_shape(shape), dtype_of(dtype), layout, device_of(device))
