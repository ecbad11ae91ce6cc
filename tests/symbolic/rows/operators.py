"""Rows of operators on any operands: symbols, or eager variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.symbolic.rows.scope import (
    Fits,
    Operand,
    Row,
    Scope,
    Step,
    has_axes,
    is_any,
    is_float,
    is_integer,
    is_number,
    is_truth,
)

from nnc import ops
from nnc.core.values.dtype import BF16, F16, F32, F64, I32, I64, U8
from nnc.core.values.spec import contiguous_strides
from nnc.errors import ShapeError
from nnc.ops.convolutions.window import window_of

Results = Sequence[Operand]
CASTS = (F32, F64, F32, F16, BF16, I32, I64, U8)

SMOOTH: tuple[Callable[[Any], Any], ...] = (
    ops.tanh,
    ops.sin,
    ops.cos,
    ops.sigmoid,
    ops.softplus,
    ops.gelu,
    ops.gelu_tanh,
    ops.swish,
    ops.erf,
    ops.atan,
    ops.erfc,
    ops.square,
    lambda x: ops.exp(ops.tanh(x)),
    lambda x: ops.expm1(ops.sin(x)),
    lambda x: ops.log1p(ops.square(x)),
    lambda x: ops.log(ops.affine(ops.square(x), 1.0, 0.5)),
    lambda x: ops.sqrt(ops.affine(ops.square(x), 2.0, 0.25)),
    lambda x: ops.reciprocal(ops.affine(ops.square(x), 1.0, 0.5)),
)
KINKED: tuple[Callable[[Any], Any], ...] = (
    ops.relu,
    ops.relu,
    ops.abs,
    ops.leaky_relu,
    ops.sign,
    ops.floor,
    ops.ceil,
    ops.round,
    ops.step,
    lambda x: ops.clamp(x, -0.5, 0.75),
)
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    ops.add,
    ops.add,
    ops.subtract,
    ops.multiply,
    ops.maximum,
    ops.minimum,
)
FLOAT_BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: ops.divide(a, ops.affine(ops.square(b), 1.0, 0.5)),
    lambda a, b: ops.power(ops.affine(ops.abs(a), 1.0, 0.5), ops.tanh(b)),
    lambda a, b: ops.scaled_add(a, b, 0.5, -1.5),
    lambda a, b: ops.mean_squared_error(a, b),
    lambda a, b: ops.smooth_l1(a, b),
    lambda a, b: ops.sigmoid_binary_cross_entropy(a, ops.sigmoid(b))[0],
)
COMPARISONS = (ops.less, ops.less_equal, ops.greater, ops.greater_equal, ops.equal, ops.not_equal)
LOGICAL = (ops.logical_and, ops.logical_or, ops.logical_xor)
REDUCTIONS: tuple[Callable[..., Any], ...] = (
    ops.reduce_sum,
    ops.reduce_sum,
    ops.reduce_mean,
    ops.reduce_max,
    ops.reduce_min,
    lambda x, axes, keepdims: ops.sqrt(ops.affine(ops.reduce_sum(ops.square(x), axes, keepdims=keepdims), 1.0, 0.5)),
)


def _second(scope: Scope, a: Operand, step: Step) -> Operand:
    """Another operand of a's type that broadcasts with it, or `a` itself."""

    def fits(b: Operand) -> bool:
        pairs = zip(reversed(a.shape), reversed(b.shape))
        return b.spec.dtype is a.spec.dtype and all(one == other or 1 in (one, other) for one, other in pairs)

    return scope.choose(step.second, fits)


def _pairwise(functions: Sequence[Callable[[Any, Any], Any]]) -> Callable[[Scope, Operand, Step], Results]:
    def apply(scope: Scope, a: Operand, step: Step) -> Results:
        return [functions[step.option % len(functions)](a, _second(scope, a, step))]

    return apply


def _chain(scope: Scope, a: Operand, step: Step) -> Results:
    """Several commands, each of which may write over what the one before has written."""
    for place in range(2 + step.option % 4):
        a = SMOOTH[(step.second + 3 * place) % 9](a) if place % 2 else ops.affine(a, 0.75, 0.25 * place)
    return [a]


def _selected(scope: Scope, a: Operand, step: Step) -> Results:
    b = _second(scope, a, step)
    condition = scope.choose(step.option, is_truth) if step.option % 2 else None
    return [ops.where(ops.less(a, b) if condition is None else condition, a, b)]


def _reduced(scope: Scope, a: Operand, step: Step) -> Results:
    axes = None if step.option % 3 == 0 or not a.shape else step.option % len(a.shape)
    return [REDUCTIONS[step.second % len(REDUCTIONS)](a, axes, keepdims=bool(step.option % 2))]


def _product(scope: Scope, a: Operand, step: Step) -> Results:
    """a · b, with b of the sizes that fit, perhaps transposed, perhaps with a bias."""
    inner, columns = a.shape[-1], 1 + step.option % 4
    turned = bool(step.option % 8 // 4)
    batch = a.shape[:-2] if step.option % 16 // 8 else ()
    b = scope.shaped(step.second, (*batch, *((columns, inner) if turned else (inner, columns))), a.spec.dtype)
    if b is None:
        return [ops.gemm(a, a, transpose_b=True)]
    bias = scope.shaped(step.second + 1, (columns,), a.spec.dtype) if step.option % 32 // 16 else None
    return [ops.gemm(a, b, bias, transpose_b=turned)]


def _convolution(scope: Scope, a: Operand, step: Step) -> Results:
    kernel, channels = 1 + step.option % 3, 1 + step.option // 3 % 3
    w = scope.shaped(step.second, (kernel, kernel, a.shape[-1], channels), a.spec.dtype)
    if w is None:
        return []
    bias = scope.shaped(step.second + 1, (channels,), a.spec.dtype) if step.option % 5 == 0 else None
    window = window_of(kernel, stride=1 + step.option // 9 % 2, padding=step.option // 18 % 2)
    return [ops.convolution(a, w, bias, window=window)]


def _pool(scope: Scope, a: Operand, step: Step) -> Results:
    window = window_of(2, stride=1 + step.option % 2, padding=0)
    table: tuple[Callable[[], Any], ...] = (
        lambda: ops.max_pool(a, (2, 2), window),
        lambda: ops.average_pool(a, (2, 2), window, count_border=bool(step.option % 4)),
        lambda: ops.global_average_pool(a),
        lambda: ops.global_max_pool(a),
        lambda: ops.upsample(a, (a.shape[1] + 1, a.shape[2] + 2), ("nearest", "bilinear")[step.option % 2]),
    )
    return [table[step.second % len(table)]()]


def _norm(scope: Scope, a: Operand, step: Step) -> Results:
    channels = a.shape[-1]
    scale, bias, mean, spread = (scope.shaped(step.second + place, (channels,), a.spec.dtype) for place in range(4))
    table: tuple[Callable[[], Any], ...] = (
        lambda: ops.layer_norm(a),
        lambda: ops.layer_norm(a, scale, bias),
        lambda: ops.rms_norm(a, scale),
        lambda: ops.group_norm(a, 1),
        lambda: ops.instance_norm(a),
        lambda: ops.batch_norm_inference(a, scale, bias, mean, ops.square(spread)),
    )
    return [table[step.option % len(table)]()]


def _softmax(scope: Scope, a: Operand, step: Step) -> Results:
    if step.option % 3 == 2:
        labels = ops.argmax(_second(scope, a, step), -1)
        loss, probability = ops.softmax_cross_entropy(a, labels)
        return [probability, loss]
    return [(ops.softmax, ops.log_softmax)[step.option % 3](a)]


def _attention(scope: Scope, a: Operand, step: Step) -> Results:
    keys, values = scope.shaped(step.second, a.shape, a.spec.dtype), scope.alike(step.option, a.spec)
    return [ops.scaled_dot_product_attention(a, keys, values, causal=bool(step.option % 2))]


def _ordered(scope: Scope, a: Operand, step: Step) -> Results:
    axis = step.option % len(a.shape)
    table: tuple[Callable[[], Results], ...] = (
        lambda: ops.sort(a, axis, descending=bool(step.option % 2)),
        lambda: ops.top_k(a, 1 + step.option % a.shape[axis], axis),
        lambda: [ops.cumsum(a, axis, exclusive=bool(step.option % 2))],
        lambda: [ops.argmax(a, axis, keepdims=bool(step.option % 2))],
    )
    return table[step.second % len(table)]()


def _indexed(scope: Scope, a: Operand, step: Step) -> Results:
    """Rows of `a` that integers name, brought into the range first."""
    axis = step.option % len(a.shape)
    size = a.shape[axis]
    index = scope.choose(step.second, is_integer)
    if index is None or not size or index.spec.dtype not in (I32, I64):
        return []
    inside = ops.maximum(ops.minimum(index, ops.scalar_like(index, size - 1)), ops.scalar_like(index, 0))
    if step.option % 3 == 0:
        return [ops.one_hot(inside, size, a.spec.dtype)]
    if step.option % 3 == 1 and index.shape == a.shape:
        return [ops.gather(a, inside, axis)]
    return [ops.index_select(a, inside, axis)]


def _slice(scope: Scope, a: Operand, step: Step) -> Results:
    axis = step.option % len(a.shape)
    if not a.shape[axis]:
        return []
    start = (step.option // 4) % a.shape[axis]
    stop = start + 1 + (step.option // 16) % (a.shape[axis] - start)
    return [ops.slice_axis(a, axis, start, stop, 1 + step.second % 5 // 4)]


def _strided(scope: Scope, a: Operand, step: Step) -> Results:
    """An alias with its axes turned, or its diagonal: read as it lies."""
    axis, other = step.option % len(a.shape), step.second % len(a.shape)
    order = list(range(len(a.shape)))
    order[axis], order[other] = order[other], order[axis]
    shape = tuple(a.shape[place] for place in order)
    strides = tuple(a.strides[place] for place in order)
    if step.option % 3 == 0 and a.shape[0] == a.shape[-1]:
        shape, strides = (a.shape[0],), (a.strides[0] + a.strides[-1] if len(a.shape) > 1 else a.strides[0],)
    return [a.alias(type(a.spec)(shape, a.spec.dtype), a.offset, strides)]


def _crossed(scope: Scope, a: Operand, step: Step) -> Results:
    """A new value with itself in another order, or with its first row: it is read out of step with the writing."""
    new = SMOOTH[step.second % len(SMOOTH)](a)
    axis = step.option // 6 % len(a.shape)
    (turned,) = _strided(scope, new, step)
    pair = (new, turned if turned.shape == new.shape else ops.slice_axis(new, axis, 0, 1))
    return [BINARY[step.option % len(BINARY)](*pair)]


def _flat(scope: Scope, a: Operand, step: Step) -> Results:
    shapes = ((-1,), (*a.shape, 1), (1, *a.shape), (2, -1), (-1, 2))
    return [ops.reshape(a, shapes[step.option % len(shapes)])]


def _joined(scope: Scope, a: Operand, step: Step) -> Results:
    b = scope.alike(step.second, a.spec)
    return [ops.concatenate([a, b, a][: 2 + step.option % 5 // 4], step.option % len(a.shape))]


def _moved(scope: Scope, a: Operand, step: Step) -> Results:
    axis, rank = step.option % len(a.shape), len(a.shape)
    before = tuple(int(place == axis) for place in range(rank))
    table: tuple[Callable[[], Any], ...] = (
        lambda: ops.transpose(a),
        lambda: ops.transpose(a, tuple((place + axis) % rank for place in range(rank))),
        lambda: ops.flip(a, axis),
        lambda: ops.pad(a, before, (0,) * rank, ("constant", "edge")[step.option % 2]),
        lambda: ops.tile(a, tuple(1 + one for one in before)),
        lambda: ops.contiguous(a),
        lambda: ops.broadcast_to(a, (2, *a.shape)),
    )
    return [table[step.second % len(table)]()]


def _cast(scope: Scope, a: Operand, step: Step) -> Results:
    """To another type; floats are brought to where every type has them."""
    target = CASTS[step.option % len(CASTS)]
    if is_float(a) and not target.is_float:
        positive = ops.where(ops.greater(a, ops.scalar_like(a, 0.0)), a, ops.fill_like(a, 0.0))
        a = ops.minimum(ops.affine(positive, 2.0, 0.0), ops.scalar_like(a, 100.0))
    return [ops.cast(a, target)]


def _whole_numbers(scope: Scope, a: Operand, step: Step) -> Results:
    table: tuple[Callable[[], Any], ...] = (
        lambda: ops.affine(a, 2.0, -3.0) if a.spec.dtype is not U8 else ops.affine(a, 2.0, 1.0),
        lambda: ops.reduce_sum(a),
        lambda: ops.cast(a, F32),
        lambda: ops.cast(a, F64),
        lambda: ops.arange_like(a, 3, 0.0, 1.0, I64),
    )
    return [table[step.option % len(table)]()]


def _written_in_parts(scope: Scope, a: Operand, step: Step) -> Results:
    """Products and sums along an equation."""
    b = _second(scope, a, step)
    if len(a.shape) == 2 and a.shape == b.shape:
        return [ops.einsum(("ij,ij->i", "ij,kj->ik", "ij,ij->ji")[step.option % 3], a, b)]
    raise ShapeError("einsum", got=str(a.spec), need="a matrix")


def is_dense(operand: Operand) -> bool:
    """In row-major order."""
    return bool(operand.strides == contiguous_strides(operand.shape))


def _row(name: str, fits: Fits, apply: Callable[[Scope, Operand, Step], Results], times: int = 1) -> tuple[Row, ...]:
    return (Row(name, fits, apply),) * times


# These give tensors of the type of their operands, and depend on them.
OF_FLOATS = frozenset((
    "smooth", "kinked", "affine", "copy", "chain", "binary", "binary of floats", "where", "reduction",
    "product", "einsum", "convolution", "pool", "norm", "softmax", "attention", "slice", "strided", "crossed",
    "reshape", "concatenate", "movement",
))  # fmt: skip
PLAIN: tuple[Row, ...] = (
    *_row("smooth", is_float, lambda scope, a, step: [SMOOTH[step.option % len(SMOOTH)](a)], 5),
    *_row("kinked", is_float, lambda scope, a, step: [KINKED[step.option % len(KINKED)](a)], 2),
    *_row("affine", is_number, lambda scope, a, step: [ops.affine(a, 1.0 + step.option % 3, step.second % 3 - 1.0)]),
    *_row("constant", is_number, lambda scope, a, step: [ops.fill_like(a, (0.0, 1.0, 0.5)[step.option % 2])]),
    *_row("copy", is_any, lambda scope, a, step: [ops.contiguous(a)]),
    *_row("chain", is_float, _chain, 2),
    *_row("binary", is_number, _pairwise(BINARY), 7),
    *_row("binary of floats", is_float, _pairwise(FLOAT_BINARY), 2),
    *_row("comparison", is_number, _pairwise(COMPARISONS)),
    *_row("logical", is_truth, _pairwise(LOGICAL)),
    *_row("where", is_any, _selected, 2),
    *_row("reduction", is_float, _reduced, 3),
    *_row("product", has_axes(2, 3), _product, 2),
    *_row("einsum", has_axes(2, 2), _written_in_parts),
    *_row("convolution", has_axes(4), _convolution, 2),
    *_row("pool", has_axes(4), _pool),
    *_row("norm", has_axes(2), _norm),
    *_row("softmax", has_axes(1), _softmax),
    *_row("attention", has_axes(4), _attention),
    *_row("order", has_axes(1), _ordered),
    *_row("index", has_axes(1), _indexed),
    *_row("slice", has_axes(1, 4, is_any), _slice, 4),
    *_row("strided", has_axes(1, 4, is_any), _strided, 2),
    *_row("crossed", has_axes(1), _crossed),
    *_row("reshape", is_any, _flat, 2),
    *_row("concatenate", has_axes(1, 4, is_any), _joined),
    *_row("movement", has_axes(1, 4, is_number), _moved, 2),
    *_row("cast", is_any, _cast),
    *_row("integers", is_integer, _whole_numbers),
)
