"""Products: Gemm, MatMul, Einsum, convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

from nnc import ops
from nnc.core.values.spec import Shape
from nnc.errors import ShapeError
from nnc.onnx.node import NodeCall, OnnxRow, Operand, Results
from nnc.onnx.rows.convolutions.window import channels_first, channels_last, kernel_sizes, pads_of, window_of
from nnc.ops.convolutions.window import Window


def matmul(a: Operand, b: Operand) -> Operand:
    """NumPy's rule: one axis is a row or a column, further axes broadcast."""
    left, right = a.spec.rank == 1, b.spec.rank == 1
    if left:
        a = ops.reshape(a, (1, *a.shape))
    if right:
        b = ops.reshape(b, (*b.shape, 1))
    y = ops.gemm(a, b)
    shape = list(y.shape)
    if right:
        shape.pop()
    if left:
        shape.pop(-1 if right else -2)
    return ops.reshape(y, shape) if left or right else y


def along(x: Operand, axis: int, matrix: Operand) -> Operand:
    """y[…, m, …] = sum_k x[…, k, …] * matrix[k, m] along an axis."""
    order = [operand for operand in range(x.spec.rank) if operand != axis] + [axis]
    inverse = tuple(order.index(operand) for operand in range(x.spec.rank))
    moved = ops.transpose(x, tuple(order))
    rows = ops.reshape(moved, (moved.spec.elements // max(x.shape[axis], 1), x.shape[axis]))
    y = matmul(rows, matrix)
    return ops.transpose(ops.reshape(y, (*moved.shape[:-1], matrix.shape[1])), inverse)


def _matmul(call: NodeCall) -> Results:
    return matmul(call[0], call[1])


def gemm(call: NodeCall) -> Operand:
    """alpha · a @ b + beta · bias"""
    a, b, bias = call[0], call[1], call.maybe(2)
    alpha, beta = call.real("alpha", 1.0), call.real("beta", 1.0)
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise ShapeError(call.node.label, got=f"a={a.spec}, b={b.spec}", need="two axes of each", fix="use MatMul")
    y = ops.gemm(a, b, transpose_a=bool(call.integer("transA", 0)), transpose_b=bool(call.integer("transB", 0)))
    if alpha != 1.0:
        y = y * alpha
    if bias is None:
        return y
    total = y + (bias if beta == 1.0 else bias * beta)
    if total.shape != y.shape:
        raise ShapeError(
            call.node.label, got=f"c={bias.spec} beside {y.spec}", need="c's sizes those of the product or 1"
        )
    return total


def _einsum(call: NodeCall) -> Results:
    return ops.einsum(_explicit(call.text("equation").replace(" ", ""), call.present), *call.present)


def _explicit(equation: str, operands: Sequence[Operand]) -> str:
    """With letters for `...`, and with the result written out: letters that occur once, in order."""
    left, arrow, right = equation.partition("->")
    terms, free = left.split(","), [letter for letter in ascii_letters if letter not in equation]
    ranks = [operand.spec.rank - len(term.replace("...", "")) for term, operand in zip(terms, operands, strict=True)]
    spread = "".join(free[: max(ranks, default=0)])
    terms = [
        term.replace("...", spread[len(spread) - rank :] if rank else "")
        for term, rank in zip(terms, ranks, strict=True)
    ]
    if arrow:
        return ",".join(terms) + "->" + right.replace("...", spread)
    every = "".join(terms)
    named = [operand for operand in sorted(set(every)) if every.count(operand) == 1 and operand not in spread]
    return ",".join(terms) + "->" + spread + "".join(named)


def kernel_of(w: Operand) -> Operand:
    """[k…, c, f] of ONNX's [f, c, k…]."""
    return ops.transpose(w, (*range(2, w.spec.rank), 1, 0))


def conv(call: NodeCall) -> Operand:
    """The convolution of operand 0 with operand 1, channels on axis 1, with the bias that is operand 2."""
    x, w, bias = call[0], call[1], call.maybe(2)
    kernel = kernel_sizes(call, w.shape)
    window = window_of(call, x.shape[2:], kernel)
    y = ops.convolution(channels_last(x), kernel_of(w), bias, window=window, groups=call.integer("group", 1))
    return channels_first(y)


def _conv_transpose(call: NodeCall) -> Results:
    x, w, bias = call[0], call[1], call.maybe(2)
    rank = x.spec.rank - 2
    kernel = kernel_sizes(call, w.shape)
    strides, dilations = call.integers("strides", (1,) * rank), call.integers("dilations", (1,) * rank)
    extra = call.integers("output_padding", (0,) * rank)
    pads, extra = _transposed_pads(call, x.shape[2:], kernel, strides, dilations, extra)
    window = Window(strides, tuple(pads), dilations)
    groups = call.integer("group", 1)
    y = ops.convolution_transpose(
        channels_last(x), kernel_of(w), bias, window=window, groups=groups, output_padding=extra
    )  # fmt: skip
    return channels_first(y)


def _transposed_pads(
    call: NodeCall, sizes: Shape, kernel: Shape, strides: Shape, dilations: Shape, extra: Shape
) -> tuple[list[tuple[int, int]], Shape]:
    """What is cut off, and what is added at the end, so that sizes are those asked for."""
    asked = call.optional("output_shape")
    mode = call.text("auto_pad", "NOTSET")
    rank = len(sizes)
    if asked is None and mode not in ("SAME_UPPER", "SAME_LOWER"):
        return ([(0, 0)] * rank if mode == "VALID" else pads_of(call, rank)), extra
    result, added = [], list(extra)
    for axis in range(rank):
        target = asked[axis - rank] if asked is not None else sizes[axis] * strides[axis]
        full = strides[axis] * (sizes[axis] - 1) + extra[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        total = max(full - target, 0)
        added[axis] += max(target - full, 0)
        half = total // 2
        result.append((half, total - half) if mode == "SAME_UPPER" else (total - half, half))
    return result, tuple(added)


ROWS = {
    "MatMul": OnnxRow(_matmul),
    "Gemm": OnnxRow(gemm),
    "Einsum": OnnxRow(_einsum),
    "Conv": OnnxRow(conv),
    "ConvTranspose": OnnxRow(_conv_transpose),
}
