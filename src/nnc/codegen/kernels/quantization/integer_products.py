"""Integer products and convolutions: their problems as sums of products of bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nnc.codegen.frame.access import Shape, broadcast, contiguous
from nnc.codegen.frame.integer_panels import WeightOrder
from nnc.codegen.frame.row import KernelRow, Rows, Specs, View, Views, any_type
from nnc.codegen.kernels.convolutions.convolutions import lift
from nnc.codegen.kernels.quantization.integer_sums import IntegerProblem, ZeroPoints
from nnc.codegen.kernels.quantization.integer_sums_writer import IntegerSums
from nnc.ops.quantization import quantization as ops
from nnc.ops.quantization.quantization import QUAD, IntegerConvolutionAttrs, IntegerProductAttrs


def _zeros(zeros: Sequence[View], outer: int, axis: int) -> ZeroPoints | None:
    """Zero points that broadcast beside `outer` axes and two more, and move along one of these."""
    if not zeros:
        return None
    view = zeros[0]
    if view.elements == 1:
        return ZeroPoints((0,) * outer, 0)
    steps = broadcast(view.shape, view.strides, outer + 2)
    return ZeroPoints(steps[:outer], steps[outer + axis])


def _outer(view: View, kept: int, outer: int) -> Shape:
    """Steps of an operand along `outer` axes in front of those it has at the end."""
    return broadcast(view.shape[:-kept], view.strides[:-kept], outer)


def _product(attrs: IntegerProductAttrs, inputs: Views, outputs: Views) -> IntegerSums:
    a, b, *zeros = inputs
    (y,) = outputs
    sizes, (rows, columns) = y.shape[:-2], y.shape[-2:]
    outer = len(sizes)
    inner = a.shape[-2] if attrs.transpose_a else a.shape[-1]
    order = WeightOrder(1, inner) if attrs.transpose_b else WeightOrder(columns)
    if attrs.quads:
        order = WeightOrder(QUAD * columns, quads=True)
    problem = IntegerProblem(
        a.scalar, b.scalar, y.scalar, sizes, _outer(a, 2, outer), _outer(b, 3 if attrs.quads else 2, outer),
        y.strides[:-2], height=rows, width=1, channels=inner, x_row=1 if attrs.transpose_a else inner,
        x_step=rows if attrs.transpose_a else 1, border=(0, 0), steps=(1, 1), groups=1, x_group=0, w_group=0,
        depth=inner, order=order, filters=columns, taps=((0, 0),), bases=(0,), rows=rows, columns=1, y_row=columns,
        y_column=0, x_zero=_zeros(zeros[:1], outer, 0), w_zero=_zeros(zeros[1:], outer, 1),
    )  # fmt: skip
    return IntegerSums(_merged(problem))


def _merged(p: IntegerProblem) -> IntegerProblem:
    """Matrices that share all but their rows are more rows of one."""
    zeros = [*(p.x_zero.outer if p.x_zero else ()), *(p.w_zero.outer if p.w_zero else ())]
    behind = p.x_outer == tuple(step * p.rows * p.channels for step in _counts(p.outer)) and p.x_step == 1
    if not p.outer or any(p.w_outer) or any(zeros) or (p.x_zero and p.x_zero.step) or not behind:
        return p
    rows = p.rows * math.prod(p.outer)
    x_zero, w_zero = (zero and replace(zero, outer=()) for zero in (p.x_zero, p.w_zero))
    # One row alone that is read transposed has its columns one behind the other.
    return replace(
        p, outer=(), x_outer=(), w_outer=(), y_outer=(), height=rows, rows=rows, x_row=p.channels, x_zero=x_zero,
        w_zero=w_zero,
    )  # fmt: skip


def _counts(sizes: Shape) -> Shape:
    """Strides of an index that counts along axes of these sizes; 0 along axes of size 1, which nothing moves."""
    return tuple(step if size > 1 else 0 for size, step in zip(sizes, contiguous(sizes), strict=True))


def _convolution(attrs: IntegerConvolutionAttrs, inputs: Views, outputs: Views) -> IntegerSums:
    x, w, *zeros = inputs
    (y,) = outputs
    plain = w.shape[:-1] if attrs.quads else w.shape
    kernel, filters = lift(plain[:-2], 1), plain[-1]
    window, each = attrs.window, x.shape[-1] // attrs.groups
    (height, width), (rows, columns) = lift(x.shape[1:-1], 1), lift(y.shape[1:-1], 1)
    (down, right), channels = lift(window.dilations, 1), x.shape[-1]
    # Channels of neighbouring taps lie behind each other, but for what fills up quads.
    merged = attrs.groups == 1 and right == 1 and not (attrs.quads and channels % QUAD)
    across = 1 if merged else kernel[1]
    tap = math.prod(plain[-2:]) * (QUAD if attrs.quads else 1)
    places = [(row, column) for row in range(kernel[0]) for column in range(across)]
    x_zero, w_zero = _zeros(zeros[:1], 1, 0), _zeros(zeros[1:], 1, 1)
    if x_zero and zeros[0].elements > 1:
        x_zero = ZeroPoints((1,), 0)
    return IntegerSums(IntegerProblem(
        x.scalar, w.scalar, y.scalar, x.shape[:1], x.strides[:1], (0,), y.strides[:1], height, width, channels,
        x_row=width * channels, x_step=1, border=lift([before for before, _ in window.padding], 0),
        steps=lift(window.strides, 1), groups=attrs.groups, x_group=each, w_group=filters // attrs.groups,
        depth=each * (kernel[1] if merged else 1),
        order=WeightOrder(QUAD * filters, quads=True) if attrs.quads else WeightOrder(filters),
        filters=filters // attrs.groups, taps=tuple((row * down, column * right) for row, column in places),
        bases=tuple((row * kernel[1] + column) * tap for row, column in places), rows=rows, columns=columns,
        y_row=columns * filters, y_column=filters, x_zero=x_zero, w_zero=w_zero,
    ))  # fmt: skip


def _planar(attrs: IntegerConvolutionAttrs, inputs: Specs, outputs: Specs) -> str:
    rank = len(attrs.window.strides)
    if any(spec.elements == 0 for spec in (*inputs, *outputs)):
        return "an empty operand"
    return "" if rank in (1, 2) else f"{rank} spatial axes"


ROWS: Rows = {
    ops.INTEGER_PRODUCT: KernelRow(_product, any_type),
    ops.INTEGER_CONVOLUTION: KernelRow(_convolution, _planar),
}
