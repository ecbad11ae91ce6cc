"""Operands of sums of products of bytes: where they lie, images with their borders, and packed weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nnc.classes import dataclass
from nnc.codegen.frame.access import locate
from nnc.codegen.frame.kernel import PhaseWriter, phase
from nnc.codegen.frame.tile import column_masks
from nnc.codegen.ir.builder import ADDRESS, I32, U8, Builder, Module, Type, Value
from nnc.codegen.ir.dot_products import OTHER_SIGN
from nnc.codegen.ir.native_kernel import Phase
from nnc.codegen.kernels.quantization.integer_sums import IntegerPlan

NANOSECONDS_PER_BYTE = 0.05
X, W, X_ZERO = 0, 1, 2
Masks = Sequence[Value | None]


@dataclass(frozen=True, slots=True)
class IntegerOperands:
    """Where operands are found."""

    plan: IntegerPlan
    w: PhaseWriter

    @property
    def w_zero(self) -> Value:
        """The zero points of the weights."""
        return self.w.argument(X_ZERO + (self.plan.problem.x_zero is not None))

    @property
    def first_extra(self) -> int:
        """The position behind the zero points."""
        p = self.plan.problem
        return X_ZERO + sum(zero is not None for zero in (p.x_zero, p.w_zero))

    @property
    def y(self) -> int:
        """The position of y; the workspace is behind it."""
        epilogue = self.plan.problem.epilogue
        return self.first_extra + (len(epilogue.extras) if epilogue else 0)

    @property
    def held(self) -> Value:
        """Where images are read."""
        return self.w.argument(self.y + 1) if self.plan.held else self.w.argument(X)

    @property
    def packed(self) -> Value:
        """Where packed weights are."""
        return self.w.b.offset(self.w.argument(self.y + 1), self.plan.held_bytes, U8)

    def x_zero(self, start: Value, row: Value) -> Value:
        """The zero point of a row of pixels as it is held, i32; those of its image begin at `start`."""
        plan, b = self.plan, self.w.b
        if plan.problem.x_zero is None:
            return b.constant(plan.dot.shift, Type(I32))
        place = start + row * plan.problem.x_zero.step
        return b.cast(b.load(self.w.argument(X_ZERO), place, Type(plan.dot.x)), I32) + plan.dot.shift

    def w_zeros(self, start: Value, first: Value, masks: Sequence[Value | None]) -> list[Value]:
        """The zero points of filters from `first` on, vectors of i32; those of these weights begin at `start`."""
        plan, b = self.plan, self.w.b
        lanes, scalar = plan.tile.lanes, plan.dot.w
        if plan.problem.w_zero and plan.problem.w_zero.step == 0:
            zero = b.cast(b.load(self.w_zero, start, Type(scalar)), I32)
            return [b.splat(zero, lanes)] * len(masks)
        place = b.offset(self.w_zero, start + first, scalar)
        kind = Type(scalar, lanes)
        return [b.cast(b.load(place, j * lanes, kind, mask), I32) for j, mask in enumerate(masks)]


def hold_images(module: Module, name: str, plan: IntegerPlan) -> Phase:
    """Items are rows of images with their border: held = x shifted, or without its zero point."""
    p = plan.problem
    height, width = plan.image_size
    row_elements = width * p.channels
    sizes = plan.own_images
    images = math.prod(sizes)
    with phase(module, name) as w:
        b, operands = w.b, IntegerOperands(plan, w)
        none = (0,) * len(sizes)
        strides = (p.x_outer, p.x_zero.outer if p.x_zero else none)
        with b.loop(w.begin, w.end) as item:
            image, row = item // height, item % height
            start, first_zero = locate(b, image, sizes, strides)
            source = row - p.border[0]
            inside = b.both(b.compare(">=", source, 0), b.compare("<", source, p.height))
            place = b.offset(operands.held, item * row_elements, plan.read)
            zero = operands.x_zero(first_zero, b.least(b.greatest(source, 0), p.height - 1))
            border = b.zero(Type(plan.read)) if plan.dot.in_pairs else b.cast(zero, plan.read)
            length, before = p.width * p.channels, p.border[1] * p.channels
            with b.when(inside):
                _fill(b, place, before, border)
                read = b.offset(w.argument(X), start + source * p.x_row, plan.dot.x)
                _hold_run(b, plan, read, b.offset(place, before, plan.read), length, zero)
                end = before + length
                _fill(b, b.offset(place, end, plan.read), row_elements - end, border)
            with b.when(b.opposite(inside)):
                _fill(b, place, row_elements, border)
    cost = NANOSECONDS_PER_BYTE * images * height * row_elements * plan.read.size
    return Phase(name, images * height if row_elements else 0, cost)


def _hold_run(b: Builder, plan: IntegerPlan, source: Value, target: Value, count: int, zero: Value) -> None:
    """`count` elements of x as they are held."""
    dot = plan.dot

    def move(index: Value, lanes: int) -> None:
        value = b.load(source, index * plan.problem.x_step, Type(dot.x, lanes))
        if dot.in_pairs:
            low = b.cast(zero, plan.read)
            value = b.cast(value, plan.read) - (b.splat(low, lanes) if lanes else low)
        elif dot.shift:
            value = b.exclusive(value, b.constant(OTHER_SIGN, Type(U8, lanes)))
        b.store(b.cast(value, plan.read), target, index)

    # Elements that lie apart are moved one by one.
    _runs(b, count, b.vector(plan.read).lanes if plan.problem.x_step == 1 else count + 1, move)


def _fill(b: Builder, target: Value, count: int, element: Value) -> None:
    """target[i] = element"""

    def fill(index: Value, lanes: int) -> None:
        b.store(b.splat(element, lanes) if lanes else element, target, index)

    _runs(b, count, b.vector(element.type.scalar).lanes, fill)


def _runs(b: Builder, count: int, lanes: int, move: Callable[[Value, int], None]) -> None:
    """move(index, lanes) for all of `count` elements: vectors, of which the last may overlap; few one by one."""
    if count < lanes:
        with b.loop(0, count) as index:
            move(index, 0)
        return
    with b.loop(0, count // lanes * lanes, lanes) as index:
        move(index, lanes)
    if count % lanes:
        move(b.constant(count - lanes), lanes)


def pack_weights(module: Module, name: str, plan: IntegerPlan) -> Phase:
    """Items are panels."""
    p = plan.problem
    with phase(module, name) as w:
        b = w.b
        bases = table(module, f"{name}_bases", b, p.bases)
        operands = IntegerOperands(plan, w)
        with b.loop(w.begin, w.end) as item:
            target = b.offset(operands.packed, item * plan.packing.words, I32)
            none = b.constant(0)
            pack_panel(operands, bases, (none, none), item // plan.panels, item % plan.panels, target)
    size = p.groups * p.filters * p.depth * len(p.taps)
    return Phase(name, p.groups * plan.panels, NANOSECONDS_PER_BYTE * size)


def pack_panel(
    operands: IntegerOperands, bases: Value, starts: tuple[Value, Value], group: Value, panel: Value, target: Value
) -> None:
    """The panel of a group of weights that begin, as do their zero points, at `starts`."""
    plan, b = operands.plan, operands.w.b
    p, first = plan.problem, panel * plan.tile.columns
    count = p.filters - first
    zeros = None
    if plan.dot.in_pairs and p.w_zero is not None:
        masks = column_masks(b, plan.tile, count, plan.packing.ragged and p.w_zero.step > 0)
        zeros = operands.w_zeros(starts[1], group * p.filters + first, masks)
    place = starts[0] + group * p.w_group + first * p.order.filter_elements
    source = b.offset(operands.w.argument(W), place, plan.dot.w)
    plan.packing.pack(b, source, bases, count, target, zeros)


def table(module: Module, name: str, b: Builder, values: Sequence[int]) -> Value:
    """A constant of the module."""
    return Value(module.table(name, values), ADDRESS, b)
