"""Rows of quantization and of products of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.conformance.case import FLOATS, NONE, Argument, Array, Case, Generator, positive, special

from nnc.core.values.command import Command
from nnc.core.values.dtype import F32, I8, I16, I32, U8, DType
from nnc.core.values.spec import Shape
from nnc.ops.composed.fused import FUSED_OUTPUT, FusedAttrs, FusedStep
from nnc.ops.convolutions.window import window_of
from nnc.ops.elementwise.pointwise import add, relu
from nnc.ops.quantization.quantization import (
    DEQUANTIZE,
    DEQUANTIZED_PRODUCT,
    DYNAMIC_QUANTIZE,
    INTEGER_CONVOLUTION,
    INTEGER_PRODUCT,
    QUANTIZE,
    DynamicQuantizeAttrs,
    IntegerConvolutionAttrs,
    IntegerProductAttrs,
)

ANY = (F32,)


def whole(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """All bits, so that every range is covered and 16-bit sums of two products saturate."""
    return generator.integers(0, 256, shape)


def few(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Between 1/64 and 1/16."""
    return generator.uniform(1 / 64, 1 / 16, shape)


def zeros(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Zero points anywhere among the positive numbers."""
    return generator.integers(0, 128, shape)


def _elementwise() -> Iterator[Case]:
    for shape, scales, points in (((5, 7), (), ()), ((3, 33), (33,), (33,)), ((2, 4, 5), (4, 1), ()), ((0, 3), (), ())):
        for kind in (U8, I8, I16):
            scale, zero = Argument(scales, few), Argument(points, zeros, kind)
            yield Case(QUANTIZE, NONE, (Argument(shape), scale, zero), FLOATS, f"{kind}", smooth=False)
            yield Case(DEQUANTIZE, NONE, (Argument(shape, whole, kind), scale, zero), FLOATS, f"{kind}")
        yield Case(DEQUANTIZE, NONE, (Argument(shape, whole, I32), scale, Argument(points, zeros, I32)), FLOATS, "i32")
    odd = (Argument((24,), special), Argument((), few), Argument((), zeros, U8))
    yield Case(QUANTIZE, NONE, odd, FLOATS, "special", smooth=False)


def _dynamic() -> Iterator[Case]:
    for shape, leading in (
        ((5, 7), 0),
        ((3, 67), 1),
        ((2, 3, 5), 2),
        ((2, 3, 5), 3),
        ((0, 3), 0),
        ((0, 3), 1),
        ((3, 0), 1),
    ):
        attrs = DynamicQuantizeAttrs(leading)
        yield Case(DYNAMIC_QUANTIZE, attrs, (Argument(shape),), FLOATS, f"{leading}", smooth=False)
    yield Case(
        DYNAMIC_QUANTIZE, DynamicQuantizeAttrs(), (Argument((40, 9), positive),), FLOATS, "positive", smooth=False
    )


def _dequantized() -> Iterator[Case]:
    for shape, inner, columns in (
        ((1,), 19, 70),
        ((8,), 16, 33),
        ((9,), 16, 33),
        ((2, 1), 5, 160),
        ((2,), 0, 3),
        ((0,), 4, 4),
        ((3,), 40, 1),
    ):
        for kind in (I8, U8):
            x, q, scale = Argument((*shape, inner)), Argument((inner, columns), whole, kind), Argument((columns,), few)
            yield Case(DEQUANTIZED_PRODUCT, NONE, (x, q, scale, None), FLOATS, f"{kind}")
        yield Case(DEQUANTIZED_PRODUCT, NONE, (x, q, scale, Argument((columns,))), FLOATS, "bias")


PLAIN = (IntegerProductAttrs(), IntegerProductAttrs(True), IntegerProductAttrs(False, True))
QUADS = IntegerProductAttrs(quads=True)
# m, k, n
SIZES = ((3, 5, 7), (1, 64, 33), (17, 36, 64), (2, 0, 3), (0, 4, 4), (2, 5, 0), (3, 40, 1))
PAIRS = ((U8, I8), (U8, U8), (I8, I8), (I8, U8))


def _points(left: DType, right: DType, a: Shape, b: Shape) -> Iterator[tuple[str, Argument | None, Argument | None]]:
    """Without zeros, with one each, with one per row and column."""
    yield "", None, None
    yield "zeros", Argument((), zeros, left), Argument((), zeros, right)
    yield "per row", Argument(a, zeros, left), Argument(b, zeros, right)


def _products() -> Iterator[Case]:
    for attrs in (*PLAIN, QUADS):
        for m, k, n in SIZES:
            a = (k, m) if attrs.transpose_a else (m, k)
            b = (-(-k // 4), n, 4) if attrs.quads else (n, k) if attrs.transpose_b else (k, n)
            for left, right in PAIRS if (m, attrs) == (17, PLAIN[0]) or attrs is QUADS else PAIRS[:1]:
                for note, a_zero, b_zero in _points(left, right, (m, 1), (n,)):
                    arguments = (Argument(a, whole, left), Argument(b, whole, right), a_zero, b_zero)
                    suffix = " ".join(filter(None, (str(left), str(right), note, "quads" if attrs.quads else "")))
                    flips = f"{'t' if attrs.transpose_a else 'n'}{'t' if attrs.transpose_b else 'n'} {suffix}"
                    yield Case(INTEGER_PRODUCT, attrs, arguments, ANY, flips)
    columns = (Argument((2, 73, 1), whole, I8), Argument((73, 3), whole, I8), None, None)
    yield Case(INTEGER_PRODUCT, PLAIN[1], columns, ANY, "batch of columns")
    batches: tuple[tuple[Shape, Shape, Shape], ...] = (((2, 3, 4), (4, 5), (2, 3, 1)), ((3, 4), (2, 4, 5), (3, 1)))
    for left_shape, right_shape, rows in batches:
        for zero in (None, Argument(rows, zeros, U8)):
            pair = (Argument(left_shape, whole, U8), Argument(right_shape, whole, I8), zero, None)
            yield Case(INTEGER_PRODUCT, PLAIN[0], pair, ANY, "batch" if zero is None else "batch zeros")


def _convolutions() -> Iterator[Case]:
    rows = (
        ((2, 6, 5, 4), (3, 3, 4, 8), window_of(3, padding="same"), 1, False),
        ((1, 7, 7, 8), (1, 1, 8, 16), window_of(1), 1, False),
        ((1, 9, 9, 3), (5, 5, 3, 4), window_of(5, stride=2, padding="same"), 1, False),
        ((2, 8, 6, 6), (3, 3, 1, 6), window_of(3, padding="same"), 6, False),
        ((1, 8, 8, 8), (3, 3, 4, 6), window_of(3, dilation=2), 2, False),
        ((2, 7, 6, 8), (3, 3, 2, 33, 4), window_of(3, padding="same"), 1, True),
        ((1, 7, 6, 16), (1, 1, 4, 64, 4), window_of(1, stride=2), 1, True),
        ((1, 9, 9, 3), (7, 7, 1, 64, 4), window_of(7, stride=2, padding="same"), 1, True),
    )
    for x, w, window, groups, quads in rows:
        attrs = IntegerConvolutionAttrs(window, groups, quads)
        filters = w[-2] if quads else w[-1]
        for left, right in PAIRS[:3]:
            for note, x_zero, w_zero in _points(left, right, (x[0], 1, 1, 1), (filters,)):
                arguments = (Argument(x, whole, left), Argument(w, whole, right), x_zero, w_zero)
                suffix = " ".join(filter(None, (str(left), str(right), note, f"groups {groups}")))
                yield Case(INTEGER_CONVOLUTION, attrs, arguments, ANY, suffix)


def _epilogues() -> Iterator[Case]:
    """relu((a @ b - zero[n]) · scale[n] + bias[n]), and the same as bytes again; values: a, b, scale, zero, bias, …"""
    column, whole_zero = Argument((33,), few, F32), Argument((33,), zeros, I32)
    attrs = IntegerConvolutionAttrs(window_of(3, padding="same"), quads=True)
    heads = (
        (Command(INTEGER_PRODUCT, QUADS), (5, 36), (9, 33, 4), ()),
        (Command(INTEGER_CONVOLUTION, attrs), (1, 5, 6, 8), (3, 3, 2, 33, 4), ()),
        (Command(INTEGER_CONVOLUTION, attrs), (1, 5, 6, 8), (3, 3, 2, 33, 4), (Argument((), zeros, U8),)),
    )
    for head, a, b, zero in heads:
        count = 5 + len(zero)
        steps = [FusedStep(head, tuple(range(2 + len(zero))))]
        plain = (DEQUANTIZE, (count, count - 3, count - 2)), (add, (count + 1, count - 1)), (relu, (count + 2,))
        steps += [FusedStep(Command(op, NONE), operands) for op, operands in plain]
        operands = (Argument(a, whole, U8), Argument(b, whole, I8), *zero, column, whole_zero, Argument((33,)))
        note = " ".join(filter(None, (head.op.name, "zero" if zero else "")))
        yield Case(FUSED_OUTPUT, FusedAttrs(count, tuple(steps)), operands, ANY, note)
        again = [FusedStep(one.command, tuple(_moved(place, count) for place in one.operands)) for one in steps]
        again.append(FusedStep(Command(QUANTIZE, NONE), (count + 5, count, count + 1)))
        more = (*operands, Argument((), few, F32), Argument((), zeros, U8))
        yield Case(FUSED_OUTPUT, FusedAttrs(count + 2, tuple(again)), more, ANY, f"{note} bytes", smooth=False)


def _moved(place: int, count: int) -> int:
    """The place of a value where two inputs more stand behind the first `count`."""
    return place if place < count else place + 2


def rows() -> Iterator[Case]:
    """All."""
    yield from _epilogues()
    yield from _elementwise()
    yield from _dynamic()
    yield from _dequantized()
    yield from _products()
    yield from _convolutions()
