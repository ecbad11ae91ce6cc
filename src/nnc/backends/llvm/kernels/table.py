"""Which operator is served by which generator: one row per operator.

A row says why it refuses a command on given specs, and makes the generator for operands whose strides are known. A
row names the inputs that may have any strides; all other operands are made contiguous around the kernel.
"""

from __future__ import annotations

import math
from typing import Any

from nnc.backends.llvm.frame.access import StridedAccess
from nnc.backends.llvm.frame.kernel import Generator
from nnc.backends.llvm.frame.row import Generate, KernelRow, Specs, View, Views, filled, floating, only
from nnc.backends.llvm.frame.widened import with_wide_results
from nnc.backends.llvm.ir.builder import BF16, BOOL, F16, F32
from nnc.backends.llvm.ir.expression import CONVERT, OPERATIONS, Instruction
from nnc.backends.llvm.kernels.argmax import Argmax
from nnc.backends.llvm.kernels.movement import Moves, concatenate, embed, fill, move
from nnc.backends.llvm.kernels.optimizer import AdamRule, GradientDescentRule, OptimizerUpdate, SgdRule
from nnc.backends.llvm.kernels.pointwise import Pointwise
from nnc.backends.llvm.kernels.pooling import KINDS, Pooling
from nnc.backends.llvm.kernels.reduction import Reduction
from nnc.backends.llvm.kernels.softmax import Softmax
from nnc.backends.llvm.kernels.table_fused import REDUCTIONS, fused_rows
from nnc.backends.llvm.kernels.table_layers import LAYER_ROWS
from nnc.backends.llvm.kernels.table_products import PRODUCT_ROWS
from nnc.graph import Op
from nnc.ops.broadcast import BROADCAST_TO, REDUCE_SUM, BroadcastAttrs, ReduceAttrs
from nnc.ops.copy import COPY
from nnc.ops.fill import FILL, FillAttrs
from nnc.ops.layout import CONVERT_LAYOUT, LayoutAttrs, layout_permutation
from nnc.ops.movement import CONCATENATE, EMBED, TRANSPOSE, ConcatenateAttrs, EmbedAttrs, TransposeAttrs, lies_apart
from nnc.ops.optimizer import ADAM, GRADIENT_DESCENT, SGD, AdamAttrs, GradientDescentAttrs, SgdAttrs
from nnc.ops.pointwise import (
    ABSOLUTE,
    ADD,
    AFFINE,
    CAST,
    CEIL,
    COS,
    DIVIDE,
    EQUAL,
    ERF,
    EXP,
    EXPM1,
    FLOOR,
    GELU,
    GELU_TANH,
    GREATER,
    GREATER_EQUAL,
    IS_NAN,
    LESS,
    LESS_EQUAL,
    LOG,
    LOG1P,
    LOGICAL_AND,
    LOGICAL_NOT,
    LOGICAL_OR,
    LOGICAL_XOR,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    NOT_EQUAL,
    POWER,
    PREFERENCE,
    RECIPROCAL,
    RELU,
    ROUND,
    SIGMOID,
    SIGN,
    SIN,
    SOFTPLUS,
    SQRT,
    SQUARE,
    STEP,
    SUBTRACT,
    SWISH,
    TANH,
    WHERE,
    AffineAttrs,
    CastAttrs,
)
from nnc.ops.pooling import (
    AVERAGE_POOL,
    AVERAGE_POOL_GRADIENT,
    MAX_POOL,
    MAX_POOL_GATHER,
    MAX_POOL_GRADIENT,
    AveragePoolGradientAttrs,
    PoolAttrs,
)
from nnc.ops.reduction import ARGMAX, ARGMIN, REDUCE_MAX, REDUCE_MEAN, REDUCE_MIN, REDUCE_NORM
from nnc.ops.resize import FLIP, PAD, FlipAttrs, PadAttrs
from nnc.ops.softmaxes import (
    LABEL_DIFFERENCE,
    LOG_SOFTMAX,
    SOFTMAX,
    SOFTMAX_CROSS_ENTROPY,
    SOFTMAX_CROSS_ENTROPY_GRADIENT,
)

# -- reasons to refuse


def _any_type(attrs: object, inputs: Specs, outputs: Specs) -> str:
    return ""


def _numeric(attrs: object, inputs: Specs, outputs: Specs) -> str:
    return next((f"element type {s.dtype}" for s in (*inputs, *outputs) if s.dtype.name == BOOL.name), "")


def _positions(attrs: object, inputs: Specs, outputs: Specs) -> str:
    return _numeric(attrs, inputs, ())


def _truth(attrs: object, inputs: Specs, outputs: Specs) -> str:
    return only(BOOL)(attrs, inputs, outputs)


def _floating_read(attrs: object, inputs: Specs, outputs: Specs) -> str:
    return floating(attrs, inputs, ())


def _bordered(attrs: PadAttrs, inputs: Specs, outputs: Specs) -> str:
    return "" if attrs.mode == "constant" else f"mode {attrs.mode}"


def _labelled(attrs: object, inputs: Specs, outputs: Specs) -> str:
    if inputs[-1].dtype.kind not in ("int", "uint"):
        return f"labels of type {inputs[-1].dtype}"
    return _rows(attrs, inputs[:-1], outputs)


def _rows(attrs: object, inputs: Specs, outputs: Specs) -> str:
    classes = max(spec.shape[-1] if spec.shape else 1 for spec in (*inputs, *outputs))
    return "no classes" if classes == 0 else floating(attrs, inputs, outputs)


def _summed(attrs: ReduceAttrs, inputs: Specs, outputs: Specs) -> str:
    return _numeric(attrs, inputs, outputs)


# -- generators


def _pointwise(name: str) -> Generate:
    def generate(attrs: object, inputs: Views, outputs: Views) -> Generator:
        numbers = (attrs.scale, attrs.shift) if isinstance(attrs, AffineAttrs) else ()
        return _chain(Instruction(name, tuple(range(len(inputs))), numbers), inputs, outputs[0])

    return generate


def _chain(instruction: Instruction, inputs: Views, output: View) -> Pointwise:
    rank = len(output.shape)
    sources = tuple(view.access(rank) for view in inputs)
    return Pointwise(output.shape, sources, (output.whole,), (instruction,), (len(inputs),))


def _cast(attrs: CastAttrs, inputs: Views, outputs: Views) -> Generator:
    return _chain(Instruction(CONVERT, (0,), result=attrs.dtype.name), inputs, outputs[0])


def _fill(attrs: FillAttrs, inputs: Views, outputs: Views) -> Generator:
    return fill(outputs[0].shape, attrs.value, outputs[0].whole)


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


def _apart(attrs: EmbedAttrs, inputs: Specs, outputs: Specs) -> str:
    return "" if lies_apart(inputs[0].shape, attrs.strides) else "elements that fall on one place"


def _embed(attrs: EmbedAttrs, inputs: Views, outputs: Views) -> Generator:
    x = inputs[0]
    return embed(x.scalar, x.shape, x.strides, attrs.shape, attrs.offset, attrs.strides)


def _reduction(op: Op[ReduceAttrs]) -> Generate:
    def generate(attrs: ReduceAttrs, inputs: Views, outputs: Views) -> Generator:
        (x,) = inputs
        marks = tuple(axis in attrs.axes for axis in range(len(x.shape)))
        return Reduction(REDUCTIONS[op], x.shape, (x.whole,), marks, outputs[0].scalar)

    return generate


def _position(smallest: bool) -> Generate:
    def generate(attrs: ReduceAttrs, inputs: Views, outputs: Views) -> Generator:
        return Argmax(inputs[0].shape, inputs[0].whole, attrs.axes[0], smallest)

    return generate


def _flip(attrs: FlipAttrs, inputs: Views, outputs: Views) -> Generator:
    """x is walked backwards along the reversed axes, from their last elements."""
    (x,), (y,) = inputs, outputs
    start = sum((x.shape[axis] - 1) * x.strides[axis] for axis in attrs.axes)
    strides = tuple(-stride if axis in attrs.axes else stride for axis, stride in enumerate(x.strides))
    return move(y.shape, StridedAccess(x.scalar, strides, start), y.whole)


def _pad(attrs: PadAttrs, inputs: Views, outputs: Views) -> Generator:
    """The border, then the inside; both are written where they are in y."""
    (x,), (y,) = inputs, outputs
    start = sum(before * stride for before, stride in zip(attrs.before, y.strides, strict=True))
    inside = move(x.shape, x.whole, StridedAccess(y.scalar, y.strides, start), (0, 1))
    return Moves((fill(y.shape, attrs.value, y.whole, (1,)), inside))


def _pool(kind: str) -> Generate:
    """x and y are found by their names among the operands."""
    names = KINDS[kind].operands

    def generate(attrs: PoolAttrs | AveragePoolGradientAttrs, inputs: Views, outputs: Views) -> Generator:
        operands = dict(zip(names, (*inputs, *outputs), strict=True))
        data = operands["result"] if "x" not in operands else operands["x"]
        pooled = operands["g"] if "y" not in operands else operands["y"]
        pool = attrs.pool if isinstance(attrs, AveragePoolGradientAttrs) else attrs
        before = tuple(low for low, _ in pool.window.padding)
        pooling = Pooling(
            kind, data.scalar, data.shape[0], data.shape[-1], data.shape[1:-1], pooled.shape[1:-1], pool.kernel,
            pool.window.strides, before, pool.window.dilations, pool.count_border,
        )  # fmt: skip
        return with_wide_results(pooling, inputs, outputs) if pooling.adds else pooling

    return generate


def _softmax(kind: str, matrix: int, labels: int | None = None) -> Generate:
    """`matrix` and `labels` are the positions of the inputs that have the classes and the labels."""

    def generate(attrs: object, inputs: Views, outputs: Views) -> Generator:
        x = inputs[matrix]
        rows = math.prod(x.shape[:-1])
        return Softmax(kind, x.scalar, rows, x.shape[-1], None if labels is None else inputs[labels].scalar)

    return generate


def _gradient_descent(attrs: GradientDescentAttrs, inputs: Views, outputs: Views) -> Generator:
    out = outputs[0]
    return OptimizerUpdate(GradientDescentRule(attrs.decay), out.scalar, out.elements, (inputs[2].scalar,))


def _sgd(attrs: SgdAttrs, inputs: Views, outputs: Views) -> Generator:
    rule = SgdRule(attrs.momentum, attrs.dampening, attrs.decay, attrs.nesterov)
    return OptimizerUpdate(rule, outputs[0].scalar, outputs[0].elements, tuple(view.scalar for view in inputs[3:]))


def _adam(attrs: AdamAttrs, inputs: Views, outputs: Views) -> Generator:
    rule = AdamRule(attrs.beta1, attrs.beta2, attrs.epsilon, attrs.decay, attrs.decoupled)
    return OptimizerUpdate(rule, outputs[0].scalar, outputs[0].elements, tuple(view.scalar for view in inputs[4:]))


# -- the table

# Comparisons read truth values as well as numbers; all other pointwise operators want numbers.
PREDICATES = (EQUAL, NOT_EQUAL)
LOGICAL = (LOGICAL_AND, LOGICAL_OR, LOGICAL_XOR, LOGICAL_NOT)
COMPARISONS = (LESS, LESS_EQUAL, GREATER, GREATER_EQUAL)
POINTWISE: tuple[Op[Any], ...] = (
    AFFINE,
    EXP,
    LOG,
    SQRT,
    RECIPROCAL,
    SQUARE,
    TANH,
    SIGMOID,
    RELU,
    SIN,
    COS,
    ERF,
    ABSOLUTE,
    SIGN,
    STEP,
    ADD,
    SUBTRACT,
    MULTIPLY,
    DIVIDE,
    MAXIMUM,
    MINIMUM,
    POWER,
    PREFERENCE,
    FLOOR,
    CEIL,
    ROUND,
    EXPM1,
    LOG1P,
    SOFTPLUS,
    SWISH,
    GELU,
    GELU_TANH,
)


def _pointwise_row(op: Op[Any]) -> KernelRow:
    refuse = floating if OPERATIONS[op.name].floating_only else _numeric
    return KernelRow(_pointwise(op.name), refuse, strided=True, scattered=True)


def _comparison_row(op: Op[Any]) -> KernelRow:
    def refuse(attrs: object, inputs: Specs, outputs: Specs) -> str:
        return "" if op in PREDICATES else _numeric(attrs, inputs, ())

    return KernelRow(_pointwise(op.name), refuse, strided=True, scattered=True)


ROWS: dict[Op[Any], KernelRow] = {
    FILL: KernelRow(_fill, _any_type, scattered=True),
    COPY: KernelRow(_copy, _any_type, strided=True, scattered=True),
    BROADCAST_TO: KernelRow(_broadcast, _any_type, strided=True, scattered=True),
    TRANSPOSE: KernelRow(_transpose, _any_type, strided=True, scattered=True),
    CONVERT_LAYOUT: KernelRow(_convert_layout, _any_type, strided=True, scattered=True),
    CONCATENATE: KernelRow(_concatenate, _any_type, strided=True, scattered=True),
    FLIP: KernelRow(_flip, _any_type, strided=True, scattered=True),
    PAD: KernelRow(_pad, _bordered, strided=True, scattered=True),
    EMBED: KernelRow(_embed, _apart, strided=True),
    CAST: KernelRow(_cast, _any_type, strided=True, scattered=True),
    WHERE: KernelRow(_pointwise("where"), _any_type, strided=True, scattered=True),
    **{op: _pointwise_row(op) for op in POINTWISE},
    **{op: KernelRow(_pointwise(op.name), _truth, strided=True, scattered=True) for op in LOGICAL},
    IS_NAN: KernelRow(_pointwise("is_nan"), _floating_read, strided=True, scattered=True),
    **{op: _comparison_row(op) for op in (*PREDICATES, *COMPARISONS)},
    REDUCE_SUM: KernelRow(_reduction(REDUCE_SUM), _summed, strided=True),
    REDUCE_MEAN: KernelRow(_reduction(REDUCE_MEAN), floating, strided=True),
    REDUCE_MAX: KernelRow(_reduction(REDUCE_MAX), _numeric, strided=True),
    REDUCE_MIN: KernelRow(_reduction(REDUCE_MIN), _numeric, strided=True),
    REDUCE_NORM: KernelRow(_reduction(REDUCE_NORM), only(F32, F16, BF16), strided=True),
    ARGMAX: KernelRow(_position(smallest=False), _positions, strided=True),
    ARGMIN: KernelRow(_position(smallest=True), _positions, strided=True),
    MAX_POOL: KernelRow(_pool("max_pool"), filled),
    MAX_POOL_GRADIENT: KernelRow(_pool("max_pool_gradient"), filled),
    MAX_POOL_GATHER: KernelRow(_pool("max_pool_gather"), filled),
    AVERAGE_POOL: KernelRow(_pool("average_pool"), filled),
    AVERAGE_POOL_GRADIENT: KernelRow(_pool("average_pool_gradient"), filled),
    SOFTMAX: KernelRow(_softmax("softmax", 0), _rows),
    LOG_SOFTMAX: KernelRow(_softmax("log_softmax", 0), _rows),
    SOFTMAX_CROSS_ENTROPY: KernelRow(_softmax("softmax_cross_entropy", 0, 1), _labelled),
    SOFTMAX_CROSS_ENTROPY_GRADIENT: KernelRow(_softmax("softmax_cross_entropy_gradient", 1, 2), _labelled),
    LABEL_DIFFERENCE: KernelRow(_softmax("label_difference", 1, 2), _labelled),
    GRADIENT_DESCENT: KernelRow(_gradient_descent, floating),
    SGD: KernelRow(_sgd, floating),
    ADAM: KernelRow(_adam, floating),
    **PRODUCT_ROWS,
    **LAYER_ROWS,
}
ROWS.update(fused_rows(ROWS))
