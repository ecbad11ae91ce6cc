"""Movement of elements: copies, transposes, broadcasts, concatenation, embedding.

y[i...] = x[i...], with strides that say where the elements are: pointwise identities, and transpositions
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnc.backends.llvm.frame.access import Shape, StridedAccess, contiguous
from nnc.backends.llvm.frame.kernel import Generator, Phase, WithoutMemory
from nnc.backends.llvm.frame.row import (
    KernelRow,
    Rows,
    Specs,
    Views,
    any_type,
)
from nnc.backends.llvm.ir.builder import Module, Number, Scalar
from nnc.backends.llvm.ir.expression import CONSTANT, PARAMETER, Instruction
from nnc.backends.llvm.kernels.pointwise import Pointwise
from nnc.backends.llvm.kernels.transposition import Transposition
from nnc.ops.broadcast import BROADCAST_TO, BroadcastAttrs
from nnc.ops.copy import COPY, STOP_GRADIENT
from nnc.ops.fill import FILL, FillAttrs
from nnc.ops.layout import CONVERT_LAYOUT, LayoutAttrs, layout_permutation
from nnc.ops.movement import CONCATENATE, EMBED, TRANSPOSE, ConcatenateAttrs, EmbedAttrs, TransposeAttrs, lies_apart
from nnc.ops.resize import FLIP, PAD, FlipAttrs, PadAttrs

Move = Pointwise | Transposition


def move(shape: Shape, source: StridedAccess, target: StridedAccess, arguments: tuple[int, int] = (0, 1)) -> Move:
    """target[i...] = source[i...] for i in shape"""
    turned = Transposition.of(shape, source, target, arguments)
    return turned or Pointwise(shape, (source,), (target,), (), (0,), arguments)


def fill(shape: Shape, value: Number, target: StridedAccess, arguments: tuple[int, ...] = ()) -> Pointwise:
    """target[i...] = value for i in shape"""
    constant = Instruction(CONSTANT, numbers=(value,), result=target.scalar.name)
    return Pointwise(shape, (), (target,), (constant,), (0,), arguments)


@dataclass(frozen=True, slots=True)
class Moves(WithoutMemory):
    """Several movements as phases of one kernel, in order."""

    parts: tuple[Move, ...]

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """The phases of all parts."""
        return tuple(phase for index, part in enumerate(self.parts) for phase in part.emit(module, f"{name}_{index}"))


def concatenate(scalar: Scalar, shapes: Sequence[Shape], strides: Sequence[Shape], axis: int, result: Shape) -> Moves:
    """y = x_0, x_1, ... one after another along `axis`; y has strides `result`"""
    parts = []
    start = 0
    for index, (shape, steps) in enumerate(zip(shapes, strides, strict=True)):
        target = StridedAccess(scalar, result, start * result[axis])
        parts.append(move(shape, StridedAccess(scalar, steps), target, (index, len(shapes))))
        start += shape[axis]
    return Moves(tuple(parts))


def embed(scalar: Scalar, shape: Shape, strides: Shape, whole: Shape, offset: int, inside: Shape) -> Moves:
    """y = 0 but for y.flat[offset + sum(i * inside)] = x[i...]; y has shape `whole` and is contiguous"""
    clear = fill(whole, 0.0, StridedAccess(scalar, contiguous(whole)), (1,))
    return Moves((clear, move(shape, StridedAccess(scalar, strides), StridedAccess(scalar, inside, offset), (0, 1))))


def _fill(attrs: FillAttrs, inputs: Views, outputs: Views) -> Generator:
    """The value is read when it runs."""
    value = Instruction(PARAMETER, numbers=(0,), result=outputs[0].scalar.name)
    return Pointwise(outputs[0].shape, (), (outputs[0].whole,), (value,), (0,), numbers=(attrs.value,))


def _copy(attrs: object, inputs: Views, outputs: Views) -> Generator:
    rank = len(outputs[0].shape)
    return move(outputs[0].shape, inputs[0].access(rank), outputs[0].whole)


def _broadcast(attrs: BroadcastAttrs, inputs: Views, outputs: Views) -> Generator:
    return _copy(attrs, inputs, outputs)


def _transpose(attrs: TransposeAttrs, inputs: Views, outputs: Views) -> Generator:
    (x,), (y,) = inputs, outputs
    return move(y.shape, StridedAccess(x.scalar, tuple(x.strides[axis] for axis in attrs.permutation)), y.whole)


def _convert_layout(attrs: LayoutAttrs, inputs: Views, outputs: Views) -> Generator:
    permutation = layout_permutation(attrs.target, len(outputs[0].shape))
    return _transpose(TransposeAttrs(permutation), inputs, outputs)


def _concatenate(attrs: ConcatenateAttrs, inputs: Views, outputs: Views) -> Generator:
    shapes, strides = [view.shape for view in inputs], [view.strides for view in inputs]
    return concatenate(outputs[0].scalar, shapes, strides, attrs.axis, outputs[0].strides)


def _flip(attrs: FlipAttrs, inputs: Views, outputs: Views) -> Generator:
    """x is walked backwards along the reversed axes, from their last elements."""
    (x,), (y,) = inputs, outputs
    start = sum((x.shape[axis] - 1) * x.strides[axis] for axis in attrs.axes)
    strides = tuple(-stride if axis in attrs.axes else stride for axis, stride in enumerate(x.strides))
    return move(y.shape, StridedAccess(x.scalar, strides, start), y.whole)


def _bordered(attrs: PadAttrs, inputs: Specs, outputs: Specs) -> str:
    return "" if attrs.mode == "constant" else f"mode {attrs.mode}"


def _pad(attrs: PadAttrs, inputs: Views, outputs: Views) -> Generator:
    """The border, then the inside; both are written where they are in y."""
    (x,), (y,) = inputs, outputs
    start = sum(before * stride for before, stride in zip(attrs.before, y.strides, strict=True))
    inside = move(x.shape, x.whole, StridedAccess(y.scalar, y.strides, start), (0, 1))
    return Moves((fill(y.shape, attrs.value, y.whole, (1,)), inside))


def _apart(attrs: EmbedAttrs, inputs: Specs, outputs: Specs) -> str:
    return "" if lies_apart(inputs[0].shape, attrs.strides) else "elements that fall on one place"


def _embed(attrs: EmbedAttrs, inputs: Views, outputs: Views) -> Generator:
    x = inputs[0]
    return embed(x.scalar, x.shape, x.strides, attrs.shape, attrs.offset, attrs.strides)


ROWS: Rows = {
    FILL: KernelRow(_fill, any_type, scattered=True),
    COPY: KernelRow(_copy, any_type, strided=True, scattered=True),
    STOP_GRADIENT: KernelRow(_copy, any_type, strided=True, scattered=True),
    BROADCAST_TO: KernelRow(_broadcast, any_type, strided=True, scattered=True),
    TRANSPOSE: KernelRow(_transpose, any_type, strided=True, scattered=True),
    CONVERT_LAYOUT: KernelRow(_convert_layout, any_type, strided=True, scattered=True),
    CONCATENATE: KernelRow(_concatenate, any_type, strided=True, scattered=True),
    FLIP: KernelRow(_flip, any_type, strided=True, scattered=True),
    PAD: KernelRow(_pad, _bordered, strided=True, scattered=True),
    EMBED: KernelRow(_embed, _apart, strided=True),
}
