"""Movement of elements: copies, transposes, broadcasts, concatenation, embedding.

y[i...] = x[i...], with strides that say where the elements are: pointwise identities, and transpositions
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from nnc.classes import dataclass
from nnc.codegen.frame.access import Shape, StridedAccess, collapse, contiguous
from nnc.codegen.frame.kernel import Generator, WithoutMemory, WithoutScratch, WithSizes
from nnc.codegen.frame.row import (
    KernelRow,
    Rows,
    Specs,
    View,
    Views,
    any_type,
    numeric,
)
from nnc.codegen.ir.builder import Module, Number, Scalar
from nnc.codegen.ir.expression import CONSTANT, PARAMETER, Instruction, computed
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.ir.target import TargetDescription
from nnc.codegen.kernels.elementwise.pointwise import Pointwise
from nnc.codegen.kernels.movement.interleaving import Interleaving
from nnc.codegen.kernels.movement.transposition import Transposition
from nnc.core.values.derived import Read
from nnc.core.values.spec import Blocked, Layout
from nnc.ops.convolutions.resize import FLIP, PAD, PAD_GRADIENT, FlipAttrs, PadAttrs
from nnc.ops.movement import copy
from nnc.ops.movement.broadcast import BROADCAST_TO, BroadcastAttrs
from nnc.ops.movement.fill import FILL, FillAttrs
from nnc.ops.movement.layout import CONVERT_LAYOUT, LayoutAttrs, layout_permutation
from nnc.ops.movement.movement import (
    CONCATENATE,
    EMBED,
    TRANSPOSE,
    ConcatenateAttrs,
    EmbedAttrs,
    TransposeAttrs,
    is_scattered,
)
from nnc.ops.movement.transfer import TO_DEVICE

Move = Pointwise | Transposition | Interleaving
MOST_PHASES = 64


def move(shape: Shape, source: StridedAccess, target: StridedAccess, arguments: tuple[int, int] = (0, 1)) -> Move:
    """target[i...] = source[i...] for i in shape"""
    turned = Transposition.of(shape, source, target, arguments) or Interleaving.of(shape, source, target, arguments)
    return turned or Pointwise(shape, (source,), (target,), (), (0,), arguments)


def fill(shape: Shape, value: Number, target: StridedAccess, arguments: tuple[int, ...] = ()) -> Pointwise:
    """target[i...] = value for i in shape"""
    constant = Instruction(CONSTANT, numbers=(value,), result=target.scalar.name)
    return Pointwise(shape, (), (target,), (constant,), (0,), arguments)


@dataclass(frozen=True, slots=True)
class Moves(WithoutMemory, WithSizes):
    """Several movements as phases of one kernel, in order."""

    parts: tuple[Move, ...]

    def opened(self, read: Read, target: TargetDescription) -> Moves:
        """All sizes of all parts are read."""
        return Moves(tuple([part.opened(read, target) for part in self.parts]))

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


def in_blocks(x: View, layout: Blocked) -> Moves:
    """y = 0 where blocks are not full; whole blocks; what is left of each part, in steps and without"""
    count, words, size = layout.sizes[layout.axis] // layout.parts, layout.shape[1], layout.steps * layout.width
    lane, block = x.strides[layout.axis], words * size
    others = [axis for axis in range(len(layout.sizes)) if axis != layout.axis]
    sizes, (inner,) = collapse(tuple(x.shape[axis] for axis in others), [tuple(x.strides[axis] for axis in others)])
    *outer, last = sizes or (1,)
    inner = inner or (0,)
    moves: list[Move] = []
    if count % layout.width or last % layout.steps:
        moves.append(fill(layout.shape, 0, StridedAccess(x.scalar, contiguous(layout.shape)), (1,)))
    # Steps of the sum that fill words, and the rest.
    depths = [(0, last // layout.steps, layout.steps), (last // layout.steps * layout.steps, 1, last % layout.steps)]
    widths = [(0, count // layout.width, layout.width), (count // layout.width * layout.width, 1, count % layout.width)]
    for (k, groups, steps), (place, blocks, lanes) in product(depths, widths):
        shape = (layout.parts, blocks, *outer, groups, steps, lanes)
        apart = [stride // layout.steps * size for stride in contiguous((*outer, last))[:-1]]
        source = (count * lane, layout.width * lane, *inner[:-1], layout.steps * inner[-1], inner[-1], lane)
        target = (layout.blocks // layout.parts * block, block, *apart, size, 1, layout.steps)
        begin = place // layout.width * block + k // layout.steps * size
        start = place * lane + k * inner[-1]
        if math.prod(shape):
            moves.append(move(shape, StridedAccess(x.scalar, source, start), StridedAccess(x.scalar, target, begin)))
    return Moves(tuple(moves))


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
    if isinstance(attrs.target, Blocked):
        return in_blocks(inputs[0], attrs.target)
    assert isinstance(attrs.target, Layout)
    permutation = layout_permutation(attrs.target, len(outputs[0].shape))
    return _transpose(TransposeAttrs(permutation), inputs, outputs)


def _unblocked(attrs: LayoutAttrs, inputs: Specs, outputs: Specs) -> str:
    return "an operand in blocks" if isinstance(inputs[0].layout, Blocked) else ""


def _concatenate(attrs: ConcatenateAttrs, inputs: Views, outputs: Views) -> Generator:
    shapes, strides = [view.shape for view in inputs], [view.strides for view in inputs]
    return concatenate(outputs[0].scalar, shapes, strides, attrs.axis, outputs[0].strides)


def _flip(attrs: FlipAttrs, inputs: Views, outputs: Views) -> Generator:
    """x is walked backwards along the reversed axes, from their last elements."""
    (x,), (y,) = inputs, outputs
    start = sum((x.shape[axis] - 1) * x.strides[axis] for axis in attrs.axes)
    strides = tuple(-stride if axis in attrs.axes else stride for axis, stride in enumerate(x.strides))
    return move(y.shape, StridedAccess(x.scalar, strides, start), y.whole)


@dataclass(frozen=True, slots=True)
class Strip:
    """A part of the border along one axis, and the positions that it repeats, inside a padded tensor."""

    shape: Shape
    border: StridedAccess
    repeated: StridedAccess


def _strips(attrs: PadAttrs, whole: View) -> list[Strip]:
    """Axis by axis: what lies before and behind the inside, over all of the axes in front, inside of those behind."""
    strips = []
    for axis, (before, after, stride) in enumerate(zip(attrs.before, attrs.after, whole.strides, strict=True)):
        end = whole.shape[axis] - after
        mirrored = attrs.mode == "reflect"
        for first, count, source in ((0, before, 2 * before if mirrored else before), (end, after, end - 1 - mirrored)):
            inner = [size - a - b for size, a, b in zip(whole.shape, attrs.before, attrs.after, strict=True)]
            shape = (*whole.shape[:axis], count, *inner[axis + 1 :])
            start = sum(a * s for a, s in zip(attrs.before[axis + 1 :], whole.strides[axis + 1 :], strict=True))
            back = (*whole.strides[:axis], -stride if mirrored else 0, *whole.strides[axis + 1 :])
            border = StridedAccess(whole.scalar, whole.strides, start + first * stride)
            strips.append(Strip(shape, border, StridedAccess(whole.scalar, back, start + source * stride)))
    return [strip for strip in strips if 0 not in strip.shape]


def _inside(attrs: PadAttrs, whole: View) -> StridedAccess:
    start = sum(before * stride for before, stride in zip(attrs.before, whole.strides, strict=True))
    return StridedAccess(whole.scalar, whole.strides, start)


def _pad(attrs: PadAttrs, inputs: Views, outputs: Views) -> Generator:
    """Both are written where they are in y: the constant and the inside, or the inside and what repeats it."""
    (x,), (y,) = inputs, outputs
    inside = move(x.shape, x.whole, _inside(attrs, y), (0, 1))
    if attrs.mode == "constant":
        return Moves((fill(y.shape, attrs.value, y.whole, (1,)), inside))
    return Moves((inside, *(move(strip.shape, strip.repeated, strip.border, (1, 1)) for strip in _strips(attrs, y))))


@dataclass(frozen=True, slots=True)
class BorderSums(WithoutScratch):
    """The adjoint of a border that repeats the inside: strip by strip, a copy of g adds it to what it repeats.

    Operands: g, x, workspace for the copy, of the type that is computed in.
    """

    g: View
    attrs: PadAttrs

    @property
    def copy(self) -> View:
        """g in the type that is computed in, without gaps."""
        return View(computed(self.g.scalar), self.g.shape, contiguous(self.g.shape))

    def workspace(self, target: TargetDescription) -> int:
        """The copy."""
        return self.copy.elements * self.copy.scalar.size

    def emit(self, module: Module, name: str) -> tuple[Phase, ...]:
        """The copy, a phase for each sum, and the inside."""
        g, copy, add = self.g, self.copy, (Instruction("add", (0, 1)),)
        inside = _inside(self.attrs, copy)
        sizes = zip(g.shape, self.attrs.before, self.attrs.after, strict=True)
        shape = tuple(size - before - after for size, before, after in sizes)
        x = StridedAccess(g.scalar, contiguous(shape))
        parts = [Pointwise(g.shape, (g.whole,), (copy.whole,), (), (0,), (0, 2))]
        for strip in reversed(_strips(self.attrs, copy)):
            for piece in _apart_from(strip):
                access = piece.repeated, piece.border
                parts.append(Pointwise(piece.shape, access, (piece.repeated,), add, (2,), (2, 2, 2)))
        parts.append(Pointwise(shape, (inside,), (x,), (), (0,), (2, 1)))
        return tuple(phase for index, part in enumerate(parts) for phase in part.emit(module, f"{name}_{index}"))


def _apart_from(strip: Strip) -> list[Strip]:
    """The strip in pieces, none of which repeats a position twice."""
    still = next((axis for axis, stride in enumerate(strip.repeated.strides) if not stride), None)
    if still is None:
        return [strip]
    shape = (*strip.shape[:still], 1, *strip.shape[still + 1 :])
    stride = strip.border.strides[still]
    places = (replace(strip.border, offset=strip.border.offset + k * stride) for k in range(strip.shape[still]))
    return [Strip(shape, place, strip.repeated) for place in places]


def _narrow(attrs: PadAttrs, inputs: Specs, outputs: Specs) -> str:
    """Each position of a repeated edge is a phase of its own."""
    phases = sum((*attrs.before, *attrs.after)) if attrs.mode == "edge" else 0
    return "a wide edge" if phases > MOST_PHASES else numeric(attrs, inputs, outputs)


def _pad_gradient(attrs: PadAttrs, inputs: Views, outputs: Views) -> Generator:
    (g,), (x,) = inputs, outputs
    return move(x.shape, _inside(attrs, g), x.whole) if attrs.mode == "constant" else BorderSums(g, attrs)


def _apart(attrs: EmbedAttrs, inputs: Specs, outputs: Specs) -> str:
    return "" if is_scattered(inputs[0].shape, attrs.strides) else "elements that fall on one place"


def _embed(attrs: EmbedAttrs, inputs: Views, outputs: Views) -> Generator:
    x = inputs[0]
    return embed(x.scalar, x.shape, x.strides, attrs.shape, attrs.offset, attrs.strides)


ROWS: Rows = {
    FILL: KernelRow(_fill, any_type, scattered=True),
    copy.contiguous: KernelRow(_copy, any_type, strided=True, scattered=True),
    copy.stop_gradient: KernelRow(_copy, any_type, strided=True, scattered=True),
    TO_DEVICE: KernelRow(_copy, any_type, strided=True, scattered=True),
    BROADCAST_TO: KernelRow(_broadcast, any_type, strided=True, scattered=True),
    TRANSPOSE: KernelRow(_transpose, any_type, strided=True, scattered=True),
    CONVERT_LAYOUT: KernelRow(_convert_layout, _unblocked, strided=True, scattered=True),
    CONCATENATE: KernelRow(_concatenate, any_type, strided=True, scattered=True),
    FLIP: KernelRow(_flip, any_type, strided=True, scattered=True),
    PAD: KernelRow(_pad, any_type, strided=True, scattered=True),
    PAD_GRADIENT: KernelRow(_pad_gradient, _narrow, strided=True),
    EMBED: KernelRow(_embed, _apart, strided=True),
}
