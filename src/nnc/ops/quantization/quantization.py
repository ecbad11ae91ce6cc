"""Integers of 8 and 16 bits that stand for real numbers, and products of 8-bit integers, summed exactly.

    x ≈ (q - zero) · scale

    quantize:             q[i…] = saturate(round(x[i…] / scale) + zero), halves to even, nan as 0
    dequantize:           x[i…] = (q[i…] - zero) · scale
    dynamic_quantize:     q, scale and zero of x, so that 0 and all of x are in the range of q
    dequantized_product:  y[…, m, n] = (sum_k x[…, m, k] · q[k, n]) · scale[n] + bias[n]
    integer_product:      y[…, m, n] = sum_k (a[…, m, k] - a_zero) · (b[…, k, n] - b_zero)
    integer_convolution:  y[n, o…, f] = sum_{k…, c} (x[n, o·stride + k·dilation - before…, c] - x_zero)
                                                    · (w[k…, c, f] - w_zero)

Scales and zeros broadcast: one for all, or one per slice of an axis. Sums are i32, modulo 2^32; where a window reads
beside the data, x is x_zero. In `quads`, four places that are summed over lie side by side, as processors multiply
them: […, k, n] as […, ⌈k / 4⌉, n, 4], zeros behind the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnc.classes import dataclass
from nnc.core.values.command import Command
from nnc.core.values.dtype import F32, F64, I8, I16, I32, U8, U16, DType
from nnc.core.values.spec import OptionalSpecs, Shape, TensorSpec, broadcast_shapes, contiguous_strides, spec
from nnc.errors import ArityError, DTypeError, ShapeError
from nnc.ops.batching import BatchedCall, batched_behind
from nnc.ops.convolutions.convolutions import convolution
from nnc.ops.convolutions.window import Window, check_layout, output_sizes, window_of
from nnc.ops.elementwise.pointwise import add, cast, multiply, subtract
from nnc.ops.examples import IMAGE, MATRIX, ROW, SCALAR, Example
from nnc.ops.movement.broadcast import reduce_sum, reshape, sum_to
from nnc.ops.movement.fill import fill_like, scalar_like
from nnc.ops.movement.movement import EmbedAttrs, embed, slice_axis, transpose
from nnc.ops.operand import Operand, T, apply
from nnc.ops.products.products import gemm
from nnc.ops.rules import (
    FLOATS,
    Applied,
    Gradients,
    NoAttrs,
    NotDifferentiable,
    Pattern,
    Specs,
    check_kinds,
    operator,
    single,
)
from nnc.ops.work import per_element, present

__all__ = [
    "dequantize",
    "dequantized_product",
    "dynamic_quantize",
    "integer_convolution",
    "integer_product",
    "quads",
    "quantize",
]

QUANTIZED = (I8, U8, I16, U16)
BYTES = (I8, U8)
# Places that one instruction sums over.
QUAD = 4
_REASON = NotDifferentiable("integers do not change smoothly; x + stop_gradient(y - x) lets gradients straight through")


@dataclass(frozen=True, slots=True)
class DynamicQuantizeAttrs:
    """Each slice of the first `leading` axes has a scale and a zero of its own."""

    leading: int = 0


@dataclass(frozen=True, slots=True)
class IntegerProductAttrs:
    """Which operands are read transposed, and whether b is in quads, which are not transposed."""

    transpose_a: bool = False
    transpose_b: bool = False
    quads: bool = False


@dataclass(frozen=True, slots=True)
class IntegerConvolutionAttrs:
    """The window, the number of channel groups, and whether the channels of w are in quads."""

    window: Window
    groups: int = 1
    quads: bool = False


def _check(subject: str, what: str, given: TensorSpec, types: Sequence[DType]) -> None:
    if given.dtype not in types:
        raise DTypeError(subject, got=f"{what}={given}", need=f"{what} of {' or '.join(dtype.name for dtype in types)}")


def _check_order(subject: str, first: TensorSpec | None, second: TensorSpec | None) -> None:
    """An absent input has only absent ones behind it."""
    if first is None and second is not None:
        raise ArityError(subject, got="the second zero alone", need="both", fix="give 0 as the first")


def _check_zero(subject: str, zero: TensorSpec | None, x: TensorSpec, slices: Shape, axes: int) -> Shape:
    """The shape that a zero of x's type broadcasts to beside `slices`, whose last axes it leaves as they are."""
    if zero is None:
        return slices
    if zero.dtype is not x.dtype:
        raise DTypeError(subject, got=f"{x}, zero {zero}", need="a zero of the operand's element type")
    shape = broadcast_shapes(subject, slices, zero.shape if zero.elements != 1 else ())
    if shape[-axes:] != slices[-axes:]:
        raise ShapeError(subject, got=f"{x}, zero {zero}", need=f"one zero, or zeros {list(slices[-axes:])}")
    return shape


def _infer_quantize(attrs: NoAttrs, specs: Specs) -> Specs:
    x, scale, zero = specs
    check_kinds(FLOATS, x)
    _check("quantize", "scale", scale, (x.dtype, F32))
    _check("quantize", "zero", zero, QUANTIZED)
    return (replace(x, shape=broadcast_shapes("quantize", x.shape, scale.shape, zero.shape), dtype=zero.dtype),)


def _infer_dequantize(attrs: NoAttrs, specs: Specs) -> Specs:
    x, scale, zero = specs
    check_kinds(FLOATS, scale)
    _check("dequantize", "x", x, (*QUANTIZED, I32))
    _check("dequantize", "zero", zero, (x.dtype,))
    return (replace(x, shape=broadcast_shapes("dequantize", x.shape, scale.shape, zero.shape), dtype=scale.dtype),)


def _dequantize_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    """Of the scale alone: the rest are integers."""
    g, (x, scale, zero) = single(gradients), call.inputs
    if not call.needed[1]:
        return (None, None, None)
    whole = dequantize(x, scalar_like(scale, 1), zero)
    return (None, sum_to(multiply(g, whole), scale.shape), None)


def _infer_dynamic(attrs: DynamicQuantizeAttrs, specs: Specs) -> Specs:
    (x,) = specs
    check_kinds(FLOATS, x)
    if not 0 <= attrs.leading <= x.rank:
        raise ShapeError("dynamic_quantize", got=f"leading={attrs.leading}, x={x}", need=f"0 ≤ leading ≤ {x.rank}")
    slices = x.shape[: attrs.leading]
    return (replace(x, dtype=U8), replace(x, shape=slices, dtype=F64 if x.dtype is F64 else F32), spec(slices, U8))


def _infer_dequantized(attrs: NoAttrs, specs: tuple[TensorSpec | None, ...]) -> Specs:
    x, q, scale = (present(spec) for spec in specs[:3])
    bias = specs[3]
    shown = f"x={x}, q={q}, scale={scale}" + (f", bias={bias}" if bias else "")
    check_kinds(FLOATS, x)
    _check("dequantized_product", "q", q, BYTES)
    if scale.dtype is not x.dtype or (bias is not None and bias.dtype is not x.dtype):
        raise DTypeError("dequantized_product", got=shown, need="scale and bias of x's element type", fix="cast() them")
    if x.rank < 2 or q.rank != 2 or x.shape[-1] != q.shape[0]:
        raise ShapeError("dequantized_product", got=shown, need="x[…, m, k] and q[k, n]")
    columns = q.shape[1:]
    if scale.shape != columns or (bias is not None and bias.shape != columns):
        raise ShapeError("dequantized_product", got=shown, need=f"scale and bias of shape {list(columns)}")
    return (replace(x, shape=(*x.shape[:-1], *columns)),)


def _dequantized_gradient(call: Applied[NoAttrs], gradients: Gradients) -> Gradients:
    """Of x, scale and bias: q is of integers."""
    g, (x, q, scale, *_) = single(gradients), call.inputs
    axes = tuple(range(g.spec.rank - 1))
    left = gemm(g, dequantize(q, scale, scalar_like(q, 0)), transpose_b=True) if call.needed[0] else None
    sums = reduce_sum(multiply(g, dequantized_product(x, q, fill_like(scale, 1))), axes) if call.needed[2] else None
    return (left, None, sums, reduce_sum(g, axes) if call.needed[3:] == (True,) else None)


def _infer_product(attrs: IntegerProductAttrs, specs: tuple[TensorSpec | None, ...]) -> Specs:
    a, b = present(specs[0]), present(specs[1])
    shown = f"a={a}, b={b}, {attrs}"
    _check("integer_product", "a", a, BYTES)
    _check("integer_product", "b", b, BYTES)
    _check_order("integer_product", *specs[2:])
    if a.rank < 2 or b.rank < 2 + attrs.quads or (attrs.quads and attrs.transpose_b):
        need = "at least two axes each, three of b in quads, which are not transposed"
        raise ShapeError("integer_product", got=shown, need=need)
    rows, inner = reversed(a.shape[-2:]) if attrs.transpose_a else a.shape[-2:]
    *batch, other, columns = _plain_shape(b, attrs)
    if other != (-(-inner // QUAD) if attrs.quads else inner):
        need = f"a's k ({inner}) == b's k ({other}{' quads' if attrs.quads else ''})"
        raise ShapeError("integer_product", got=shown, need=need)
    left = _check_zero("integer_product", specs[2], a, (*a.shape[:-2], rows, 1), 2)
    right = _check_zero("integer_product", specs[3], b, (*batch, 1, columns), 2)
    leading = broadcast_shapes("integer_product", left[:-2], right[:-2])
    return (replace(a, shape=(*leading, rows, columns), dtype=I32),)


def _plain_shape(b: TensorSpec, attrs: IntegerProductAttrs) -> Shape:
    """[…, k, n], where k counts quads if b is in quads."""
    if attrs.quads:
        if b.shape[-1] != QUAD:
            raise ShapeError("integer_product", got=f"b={b} in quads", need=f"a last axis of {QUAD}")
        return b.shape[:-1]
    return (*b.shape[:-2], b.shape[-1], b.shape[-2]) if attrs.transpose_b else b.shape


def _infer_convolution(attrs: IntegerConvolutionAttrs, specs: tuple[TensorSpec | None, ...]) -> Specs:
    x, w = present(specs[0]), present(specs[1])
    rank, shown = len(attrs.window.strides), f"x={x}, w={w}, groups={attrs.groups}"
    _check("integer_convolution", "x", x, BYTES)
    _check("integer_convolution", "w", w, BYTES)
    _check_order("integer_convolution", *specs[2:])
    check_layout("integer_convolution", x)
    if x.rank != rank + 2 or w.rank != rank + 2 + attrs.quads or (attrs.quads and w.shape[-1] != QUAD):
        need = f"x[batch, {rank} spatial, channels], w[{rank} kernel, channels, filters]"
        raise ShapeError("integer_convolution", got=shown, need=f"{need}, and a last axis of {QUAD} in quads")
    *kernel, channels, filters = w.shape[: rank + 2]
    each = x.shape[-1] // max(attrs.groups, 1)
    whole = attrs.groups >= 1 and each * attrs.groups == x.shape[-1] and filters % attrs.groups == 0
    if not whole or channels != (-(-each // QUAD) if attrs.quads else each) or (attrs.quads and attrs.groups > 1):
        equation = f"x's channels ({x.shape[-1]}) == w's channels ({channels}) · groups ({attrs.groups})"
        need = f"{equation}, filters divisible by groups; in quads one group and ⌈channels / {QUAD}⌉"
        raise ShapeError("integer_convolution", got=shown, need=need)
    _check_zero("integer_convolution", specs[2], x, (x.shape[0], *(1,) * (rank + 1)), rank + 2)
    _check_zero("integer_convolution", specs[3], w, (filters,), 1)
    spatial = output_sizes("integer_convolution", x.shape[1:-1], tuple(kernel), attrs.window)
    return (replace(x, shape=(x.shape[0], *spatial, filters), dtype=I32),)


def _dequantized_work(attrs: NoAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """2 · |y| · k"""
    return 2 * outputs[0].elements * present(inputs[0]).shape[-1]


def _product_work(attrs: IntegerProductAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """2 · |y| · k"""
    return 2 * outputs[0].elements * present(inputs[0]).shape[-2 if attrs.transpose_a else -1]


def _convolution_work(attrs: IntegerConvolutionAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """2 · |y| · |w| / filters"""
    return 2 * outputs[0].elements * (present(inputs[1]).elements // max(outputs[0].shape[-1], 1))


def _batched_dequantized(call: BatchedCall[NoAttrs]) -> tuple[Operand, ...]:
    """One product over the rows of all examples where these share all but x, else one of floats for each."""
    if not any(call.batched[1:]):
        return call.apply([call.spread(0), *(call.plain(place) for place in (1, 2, 3))])

    def wide(operands: Sequence[Operand]) -> Sequence[Operand]:
        x, q, scale, *bias = operands
        y = gemm(x, dequantize(q, scale, scalar_like(q, 0)))
        return [add(y, bias[0]) if bias else y]

    return call.composed(wide)


def _batched_product(call: BatchedCall[IntegerProductAttrs]) -> tuple[Operand, ...]:
    rank = max(call.spec(0).rank, call.spec(1).rank - call.attrs.quads)
    extra = (0, call.attrs.quads, 0, 0)
    return call.apply(
        [None if spec is None else call.aligned(place, rank + extra[place]) for place, spec in enumerate(call.specs)]
    )


def _batched_convolution(call: BatchedCall[IntegerConvolutionAttrs]) -> tuple[Operand, ...]:
    """One convolution over all examples where these share all but x, else one of i32 in groups of channels."""
    if call.batched[0] and not any(call.batched[1:]) and (call.specs[2] is None or call.spec(2).elements == 1):
        inputs = [call.merged(0, 0), call.plain(1), call.plain(2), call.plain(3)]
        return tuple(call.parted(y, 0) for y in call.apply(inputs))
    names = [name for name, spec in zip(("x", "w", "x_zero", "w_zero"), call.specs, strict=True) if spec is not None]

    def wide(operands: Sequence[Operand]) -> Sequence[Operand]:
        given = {name: cast(operand, I32) for name, operand in zip(names, operands, strict=True)}
        x, w = given["x"], given["w"]
        if call.attrs.quads:
            w = _without_quads(w, x.shape[-1])
        x = subtract(x, given["x_zero"]) if "x_zero" in given else x
        w = subtract(w, given["w_zero"]) if "w_zero" in given else w
        return [convolution(x, w, window=call.attrs.window, groups=call.attrs.groups)]

    return call.composed(wide)


_BYTE, _WHOLE, _WORD = spec((), U8), spec((4, 4), U8), spec((4, 4), I8)
_SAME, _FILTER = window_of(3, padding="same"), spec((3, 3, 4, 4), I8)

QUANTIZE = operator(
    "quantize",
    NoAttrs,
    ("x", "scale", "zero"),
    infer=_infer_quantize,
    gradient=_REASON,
    pattern=Pattern.BROADCAST,
    example=Example(NoAttrs(), (MATRIX, SCALAR, _BYTE)),
    doc="y = round(x / scale) + zero in zero's type, halves to even, saturating, nan as 0",
)
DEQUANTIZE = operator(
    "dequantize",
    NoAttrs,
    ("x", "scale", "zero"),
    infer=_infer_dequantize,
    gradient=_dequantize_gradient,
    pattern=Pattern.BROADCAST,
    example=Example(NoAttrs(), (_WHOLE, SCALAR, _BYTE)),
    doc="y = (x - zero) · scale in scale's type",
)
DYNAMIC_QUANTIZE = operator(
    "dynamic_quantize",
    DynamicQuantizeAttrs,
    ("x",),
    ("y", "scale", "zero"),
    infer=_infer_dynamic,
    gradient=_REASON,
    work=per_element(4),
    batched=batched_behind(lambda attrs: DynamicQuantizeAttrs(attrs.leading + 1)),
    example=Example(DynamicQuantizeAttrs(), (MATRIX,)),
    doc="scale = (max(x, 0) - min(x, 0)) / 255, 1 where x is 0; zero = round(-min(x, 0) / scale); y = quantize(x, …)",
)
DEQUANTIZED_PRODUCT = operator(
    "dequantized_product",
    NoAttrs,
    ("x", "q", "scale", "bias"),
    infer=_infer_dequantized,
    gradient=_dequantized_gradient,
    optional=(3,),
    work=_dequantized_work,
    batched=_batched_dequantized,
    example=Example(NoAttrs(), (MATRIX, _WORD, ROW, ROW)),
    doc="y[…, m, n] = (sum_k x[…, m, k] · q[k, n]) · scale[n] + bias[n], q of bytes",
)
INTEGER_PRODUCT = operator(
    "integer_product",
    IntegerProductAttrs,
    ("a", "b", "a_zero", "b_zero"),
    infer=_infer_product,
    gradient=_REASON,
    pattern=Pattern.FUSABLE_OUTPUT,
    optional=(2, 3),
    work=_product_work,
    batched=_batched_product,
    example=Example(IntegerProductAttrs(), (_WHOLE, _WORD, None, None)),
    doc="y[…, m, n] = sum_k (a[…, m, k] - a_zero) · (b[…, k, n] - b_zero), bytes into i32, modulo 2^32",
)
INTEGER_CONVOLUTION = operator(
    "integer_convolution",
    IntegerConvolutionAttrs,
    ("x", "w", "x_zero", "w_zero"),
    infer=_infer_convolution,
    gradient=_REASON,
    pattern=Pattern.FUSABLE_OUTPUT,
    optional=(2, 3),
    work=_convolution_work,
    batched=_batched_convolution,
    example=Example(IntegerConvolutionAttrs(_SAME), (replace(IMAGE, dtype=U8), _FILTER, None, None)),
    doc="the convolution of x - x_zero with w - w_zero, bytes into i32, modulo 2^32",
)


def quantize(x: T, scale: T, zero: T) -> T:
    """y = saturate(round(x / scale) + zero) in zero's type, halves to even, nan as 0; scale and zero broadcast."""
    return apply(QUANTIZE, NoAttrs(), x, scale, zero)


def dequantize(x: T, scale: T, zero: T) -> T:
    """y = (x - zero) · scale in scale's type; scale and zero broadcast."""
    return apply(DEQUANTIZE, NoAttrs(), x, scale, zero)


def dynamic_quantize(x: T, *, leading: int = 0) -> tuple[T, T, T]:
    """(y, scale, zero): x in u8, 0 and all of x in the range; one scale, or one per slice of the `leading` axes.

    Scales are f32, beside f64 f64, 1 where x is 0, and not finite where x is not.
    """
    y, scale, zero = x.apply(Command(DYNAMIC_QUANTIZE, DynamicQuantizeAttrs(leading)), (x,))
    return y, scale, zero


def dequantized_product(x: T, q: T, scale: T, bias: T | None = None) -> T:
    """y = (x @ q) · scale + bias: floats times the bytes q[k, n], with a scale per column; q is read as it is."""
    return apply(DEQUANTIZED_PRODUCT, NoAttrs(), x, q, scale, bias)


def quads(x: T) -> T:
    """[…, k, n] as […, ⌈k / 4⌉, n, 4], zeros behind the last k: the order in which products of bytes read weights."""
    if x.spec.rank < 2:
        raise ShapeError("quads", got=str(x.spec), need="at least two dimensions")
    *leading, size, columns = x.shape
    count = -(-size // QUAD)
    if count * QUAD != size:
        steps = contiguous_strides((*leading, count * QUAD, columns))
        x = embed(x, EmbedAttrs((*leading, count * QUAD, columns), 0, steps))
    rank = len(leading)
    return transpose(reshape(x, (*leading, count, QUAD, columns)), (*range(rank + 1), rank + 2, rank + 1))


def _without_quads(x: T, size: int) -> T:
    """[…, ⌈size / 4⌉, n, 4] as […, size, n]."""
    *leading, count, columns, _ = x.shape
    rank = len(leading)
    rows = reshape(transpose(x, (*range(rank + 1), rank + 2, rank + 1)), (*leading, count * QUAD, columns))
    return slice_axis(rows, rank, 0, size)


def integer_product(
    a: T,
    b: T,
    a_zero: T | None = None,
    b_zero: T | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    quads: bool = False,
) -> T:
    """y = (a - a_zero) @ (b - b_zero) of bytes as i32, modulo 2^32, batched over leading axes.

    `transpose_*` read the last two axes swapped. a_zero is one, or [m, 1]; b_zero is one, or [n]; either may be one per
    row or column of each matrix. b may be in `quads`.
    """
    if a_zero is None and b_zero is not None:
        a_zero = scalar_like(a, 0)
    return apply(INTEGER_PRODUCT, IntegerProductAttrs(transpose_a, transpose_b, quads), a, b, a_zero, b_zero)


def integer_convolution(
    x: T,
    w: T,
    x_zero: T | None = None,
    w_zero: T | None = None,
    *,
    window: Window,
    groups: int = 1,
    quads: bool = False,
) -> T:
    """The convolution of x - x_zero with w - w_zero, of bytes as i32, modulo 2^32; x is x_zero beside the data.

    x_zero is one, or [batch, 1…]; w_zero is one, or one per filter. w may have its channels in `quads`.
    """
    if x_zero is None and w_zero is not None:
        x_zero = scalar_like(x, 0)
    return apply(INTEGER_CONVOLUTION, IntegerConvolutionAttrs(window, groups, quads), x, w, x_zero, w_zero)
