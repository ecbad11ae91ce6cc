"""One small application of every operator: what lists, tables and benchmarks ask rules and backends about.

example(op) = EXAMPLES[op], or default attributes on equal shapes where the operator takes them
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any

from nnc.core.command import AnyCommand, Command
from nnc.core.dtype import BF16, BOOL, F16, F32, I32, I64, DType
from nnc.core.spec import Layout, TensorSpec, spec
from nnc.errors import UsageError
from nnc.graph import VARIADIC, Op
from nnc.ops import (
    attention,
    broadcast,
    detection,
    fill,
    fused,
    generate,
    indexing,
    layout,
    loss,
    movement,
    normalization,
    optimizer,
    order,
    pointwise,
    pooling,
    random,
    recurrent,
    reduction,
    resize,
    rotary,
)
from nnc.ops.convolutions import (
    CONVOLUTION,
    CONVOLUTION_DATA_GRADIENT,
    CONVOLUTION_WEIGHT_GRADIENT,
    ConvolutionAttrs,
    ConvolutionGradientAttrs,
)
from nnc.ops.products import GEMM, GemmAttrs
from nnc.ops.rules import infer
from nnc.ops.softmaxes import LABEL_DIFFERENCE, SOFTMAX_CROSS_ENTROPY, SOFTMAX_CROSS_ENTROPY_GRADIENT
from nnc.ops.window import window_of

# Fields of attributes that say which element type the result has.
_SPEC, _TYPE = "spec", "dtype"


@dataclass(frozen=True, slots=True)
class Example:
    """Attributes and inputs. Every f32 stands for the element type asked about.

    Not so at the positions `fixed`; and those in `wide`, statistics of halves, are f32 for the halves.
    """

    attrs: object
    inputs: tuple[TensorSpec | None, ...]
    fixed: tuple[int, ...] = ()
    wide: tuple[int, ...] = ()

    def typed(self, dtype: DType) -> Example:
        """The same application in another element type."""
        kept = self.fixed + (self.wide if dtype in {F16, BF16} else ())
        inputs = tuple(
            one if one is None or one.dtype is not F32 or position in kept else replace(one, dtype=dtype)
            for position, one in enumerate(self.inputs)
        )
        return replace(self, attrs=_typed(self.attrs, dtype), inputs=inputs)

    def laid_out(self, layout: Layout) -> Example:
        """The same application on tensors of another layout."""
        return replace(self, inputs=tuple(None if one is None else replace(one, layout=layout) for one in self.inputs))


def _typed(attrs: object, dtype: DType) -> object:
    if not is_dataclass(attrs) or isinstance(attrs, type):
        return attrs
    values = {each.name: getattr(attrs, each.name) for each in fields(attrs) if each.name in {_SPEC, _TYPE}}
    changed = {
        name: replace(value, dtype=dtype) if isinstance(value, TensorSpec) else dtype for name, value in values.items()
    }
    return replace(attrs, **changed) if changed else attrs


_SCALAR, _ROW, _MATRIX, _TRIPLE = spec(()), spec((4,)), spec((4, 4)), spec((4,) * 3)
_IMAGE, _HALF, _FILTER = spec((2, 8, 8, 4)), spec((2, 4, 4, 4)), spec((3, 3, 4, 4))
_INDICES, _PLACES, _LABELS, _NUMBER = spec((4,), I64), spec((4, 4), I64), spec((4,), I32), spec((), I64)
_TRUTH = spec((4, 4), BOOL)
_BOXES, _ONE_PER_ROW = spec((4, 5)), spec((4, 1))
_HEADS, _LOGARITHMS = spec((2, 4, 2, 4)), spec((2, 2, 4))
_SEQUENCE, _STATE = spec((4, 2, 4)), spec((2, 4))
_LSTM_GATES, _GRU_GATES, _GRU_KEPT = spec((4, 2, 16)), spec((4, 2, 12)), spec((4, 2, 16))
_LSTM_WEIGHTS, _GRU_WEIGHTS, _GRU_BIAS = spec((4, 16)), spec((4, 12)), spec((12,))
_WIDE = spec((4, 8))

_GUESSES = (_MATRIX, _IMAGE)
_POOL = pooling.PoolAttrs((2, 2), window_of(2, stride=2))
_SAME = window_of(3, padding="same")
_LAST = broadcast.ReduceAttrs((1,))
_PAD = resize.PAD.attributes((0, 2), (0, 2))
_UPSAMPLE = resize.UPSAMPLE.attributes((4, 4), (8, 8))
_ROI = resize.ROI_ALIGN.attributes((2, 2), 2, (2, 8, 8))
_NORMALIZATION = normalization.LAYER_NORM.attributes((1,), (1,))
_ATTENTION = attention.ATTENTION.attributes(0.5)
_SQUARE = Command(pointwise.SQUARE, pointwise.SQUARE.attributes())
_PRODUCT_SQUARED = fused.FusedAttrs(
    2, (fused.FusedStep(Command(GEMM, GemmAttrs()), (0, 1)), fused.FusedStep(_SQUARE, (2,)))
)


def _expression(*commands: AnyCommand) -> fused.FusedAttrs:
    """One command on the result of another."""
    return fused.FusedAttrs(1, tuple(fused.FusedStep(command, (place,)) for place, command in enumerate(commands)))


# Operators that are not served by default attributes on equal shapes. `Any`: operators of all attribute types.
EXAMPLES: Mapping[Op[Any], Example] = MappingProxyType(
    {
        fill.FILL: Example(fill.FillAttrs(0.0, _MATRIX), ()),
        generate.ARANGE: Example(generate.ARANGE.attributes(_ROW), ()),
        random.RANDOM_UNIFORM: Example(random.RANDOM_UNIFORM.attributes(_MATRIX), (_NUMBER,)),
        random.RANDOM_NORMAL: Example(random.RANDOM_NORMAL.attributes(_MATRIX), (_NUMBER,)),
        random.DROPOUT: Example(random.DROPOUT.attributes(), (_MATRIX, _NUMBER)),
        layout.CONVERT_LAYOUT: Example(layout.CONVERT_LAYOUT.attributes(Layout.NCHW), (_IMAGE,)),
        pointwise.CAST: Example(pointwise.CastAttrs(I32), (_MATRIX,)),
        pointwise.WHERE: Example(pointwise.WHERE.attributes(), (_TRUTH, _MATRIX, _MATRIX)),
        pointwise.LOGICAL_NOT: Example(pointwise.LOGICAL_NOT.attributes(), (_TRUTH,)),
        pointwise.LOGICAL_AND: Example(pointwise.LOGICAL_AND.attributes(), (_TRUTH, _TRUTH)),
        pointwise.LOGICAL_OR: Example(pointwise.LOGICAL_OR.attributes(), (_TRUTH, _TRUTH)),
        pointwise.LOGICAL_XOR: Example(pointwise.LOGICAL_XOR.attributes(), (_TRUTH, _TRUTH)),
        broadcast.REDUCE_SUM: Example(_LAST, (_MATRIX,)),
        broadcast.BROADCAST_TO: Example(broadcast.BroadcastAttrs((4, 4)), (_ROW,)),
        fused.FUSED_POINTWISE: Example(_expression(_SQUARE), (_MATRIX,)),
        fused.FUSED_REDUCTION: Example(_expression(_SQUARE, Command(broadcast.REDUCE_SUM, _LAST)), (_MATRIX,)),
        fused.FUSED_OUTPUT: Example(_PRODUCT_SQUARED, (_MATRIX, _MATRIX)),
        reduction.REDUCE_MEAN: Example(_LAST, (_MATRIX,)),
        reduction.REDUCE_MAX: Example(_LAST, (_MATRIX,)),
        reduction.REDUCE_MIN: Example(_LAST, (_MATRIX,)),
        reduction.REDUCE_NORM: Example(_LAST, (_MATRIX,)),
        reduction.ARGMAX: Example(_LAST, (_MATRIX,)),
        reduction.ARGMIN: Example(_LAST, (_MATRIX,)),
        movement.TRANSPOSE: Example(movement.TransposeAttrs((1, 0)), (_MATRIX,)),
        movement.CONCATENATE: Example(movement.ConcatenateAttrs(0), (_MATRIX, _MATRIX)),
        movement.EMBED: Example(movement.EmbedAttrs((8, 4), 0, (4, 1)), (_MATRIX,)),
        indexing.INDEX_SELECT: Example(indexing.INDEX_SELECT.attributes(0), (_MATRIX, _INDICES)),
        indexing.SCATTER_ADD: Example(indexing.SCATTER_ADD.attributes(0, 8), (_MATRIX, _INDICES)),
        indexing.GATHER: Example(indexing.GATHER.attributes(0), (_MATRIX, _PLACES)),
        indexing.SCATTER_ALONG: Example(indexing.SCATTER_ALONG.attributes(0, 8), (_MATRIX, _PLACES)),
        indexing.ONE_HOT: Example(indexing.ONE_HOT.attributes(4, F32), (_INDICES,)),
        order.SORT: Example(order.SORT.attributes(1), (_MATRIX,)),
        order.TOP_K: Example(order.TOP_K.attributes(1, 2), (_MATRIX,)),
        order.CUMULATIVE_SUM: Example(order.CUMULATIVE_SUM.attributes(1), (_MATRIX,)),
        resize.PAD: Example(_PAD, (_MATRIX,)),
        resize.PAD_GRADIENT: Example(_PAD, (_WIDE,)),
        resize.FLIP: Example(resize.FLIP.attributes((1,)), (_MATRIX,)),
        resize.UPSAMPLE: Example(_UPSAMPLE, (_HALF,)),
        resize.UPSAMPLE_GRADIENT: Example(_UPSAMPLE, (_IMAGE,)),
        resize.ROI_ALIGN: Example(_ROI, (_IMAGE, _BOXES), fixed=(1,)),
        resize.ROI_ALIGN_GRADIENT: Example(_ROI, (spec((4, 2, 2, 4)), _BOXES), fixed=(1,)),
        detection.HISTOGRAM: Example(detection.HISTOGRAM.attributes((-1.0, 0.0, 1.0)), (_MATRIX,)),
        detection.NON_MAXIMUM_SUPPRESSION: Example(detection.NON_MAXIMUM_SUPPRESSION.attributes(0.5), (_BOXES,)),
        GEMM: Example(GemmAttrs(), (_MATRIX, _MATRIX, _ROW)),
        CONVOLUTION: Example(ConvolutionAttrs(_SAME), (_IMAGE, _FILTER, _ROW)),
        CONVOLUTION_DATA_GRADIENT: Example(ConvolutionGradientAttrs(_SAME, 1, (8, 8)), (_IMAGE, _FILTER)),
        CONVOLUTION_WEIGHT_GRADIENT: Example(ConvolutionGradientAttrs(_SAME, 1, (3, 3)), (_IMAGE, _IMAGE)),
        pooling.MAX_POOL: Example(_POOL, (_IMAGE,)),
        pooling.MAX_POOL_GRADIENT: Example(_POOL, (_HALF, _IMAGE, _HALF)),
        pooling.MAX_POOL_GATHER: Example(_POOL, (_IMAGE, _IMAGE, _HALF)),
        pooling.AVERAGE_POOL: Example(_POOL, (_IMAGE,)),
        pooling.AVERAGE_POOL_GRADIENT: Example(pooling.AveragePoolGradientAttrs(_POOL, (8, 8)), (_HALF,)),
        SOFTMAX_CROSS_ENTROPY: Example(SOFTMAX_CROSS_ENTROPY.attributes(), (_MATRIX, _LABELS)),
        SOFTMAX_CROSS_ENTROPY_GRADIENT: Example(SOFTMAX_CROSS_ENTROPY_GRADIENT.attributes(), (_ROW, _MATRIX, _LABELS)),
        LABEL_DIFFERENCE: Example(LABEL_DIFFERENCE.attributes(), (_MATRIX, _MATRIX, _LABELS)),
        normalization.LAYER_NORM: Example(_NORMALIZATION, (_MATRIX, _ROW, _ROW)),
        normalization.LAYER_NORM_GRADIENT: Example(
            _NORMALIZATION, (_MATRIX, _MATRIX, _ONE_PER_ROW, _ONE_PER_ROW, _ROW), wide=(2, 3)
        ),
        normalization.RMS_NORM: Example(_NORMALIZATION, (_MATRIX, _ROW)),
        normalization.RMS_NORM_GRADIENT: Example(_NORMALIZATION, (_MATRIX, _MATRIX, _ONE_PER_ROW, _ROW), wide=(2,)),
        normalization.BATCH_NORM: Example(normalization.BATCH_NORM.attributes(), (_MATRIX, *(_ROW,) * 4), wide=(3, 4)),
        loss.LABEL_DISTRIBUTION: Example(loss.LABEL_DISTRIBUTION.attributes(4, 0.1, F32), (_INDICES,)),
        attention.ATTENTION: Example(_ATTENTION, (_HEADS, _HEADS, _HEADS, None)),
        attention.ATTENTION_GRADIENT: Example(_ATTENTION, (*(_HEADS,) * 5, _LOGARITHMS, None), wide=(5,)),
        attention.CAUSAL_BIAS: Example(attention.CAUSAL_BIAS.attributes(_MATRIX), ()),
        rotary.ROTARY: Example(rotary.ROTARY.attributes(), (_HEADS, spec((4, 2)))),
        rotary.ROTARY_ANGLES: Example(rotary.ROTARY_ANGLES.attributes(4, 100.0, F32), (_INDICES,)),
        recurrent.LSTM: Example(recurrent.LSTM.attributes(), (_LSTM_GATES, _LSTM_WEIGHTS, _STATE, _STATE)),
        recurrent.LSTM_GRADIENT: Example(
            recurrent.LSTM_GRADIENT.attributes(),
            (_SEQUENCE, _SEQUENCE, _LSTM_GATES, _SEQUENCE, _LSTM_WEIGHTS, _STATE),
        ),
        recurrent.GRU: Example(recurrent.GRU.attributes(), (_GRU_GATES, _GRU_WEIGHTS, _STATE, _GRU_BIAS)),
        recurrent.GRU_GRADIENT: Example(
            recurrent.GRU_GRADIENT.attributes(), (_SEQUENCE, _GRU_KEPT, _SEQUENCE, _GRU_WEIGHTS, _STATE)
        ),
        recurrent.RNN: Example(recurrent.RNN.attributes(), (_SEQUENCE, _MATRIX, _STATE)),
        recurrent.RNN_GRADIENT: Example(recurrent.RNN_GRADIENT.attributes(), (_SEQUENCE, _SEQUENCE, _MATRIX)),
        optimizer.GRADIENT_DESCENT: Example(
            optimizer.GRADIENT_DESCENT.attributes(), (_MATRIX, _MATRIX, _SCALAR), fixed=(2,)
        ),
        optimizer.SGD: Example(optimizer.SGD.attributes(), (*(_MATRIX,) * 3, _SCALAR), fixed=(3,)),
        optimizer.ADAM: Example(optimizer.ADAM.attributes(), (*(_MATRIX,) * 4, _SCALAR, _SCALAR), fixed=(4, 5)),
        optimizer.AMSGRAD: Example(optimizer.AMSGRAD.attributes(), (*(_MATRIX,) * 5, _SCALAR, _SCALAR), fixed=(5, 6)),
        optimizer.LAMB: Example(optimizer.LAMB.attributes(), (*(_MATRIX,) * 4, _SCALAR, _SCALAR), fixed=(4, 5)),
        optimizer.RMSPROP: Example(optimizer.RMSPROP.attributes(), (*(_MATRIX,) * 4, _SCALAR), fixed=(4,)),
        optimizer.ADAGRAD: Example(optimizer.ADAGRAD.attributes(), (*(_MATRIX,) * 3, _SCALAR), fixed=(3,)),
        optimizer.LION: Example(optimizer.LION.attributes(), (*(_MATRIX,) * 3, _SCALAR), fixed=(3,)),
    }
)


def example_of(op: Op[Any]) -> Example:
    """The operator's row, or default attributes on equal shapes; UsageError where its rule takes none of these."""
    if op in EXAMPLES:
        return EXAMPLES[op]
    required = [each.name for each in fields(op.attributes) if each.default is MISSING]
    arity = 1 if op.inputs is VARIADIC or not isinstance(op.inputs, tuple) else len(op.inputs)
    guesses = () if required else tuple(Example(op.attributes(), (shape,) * arity) for shape in _GUESSES)
    for guess in guesses:
        if outputs_of(op, guess) is not None:
            return guess
    fix = "give it a row in nnc.ops.examples.EXAMPLES"
    raise UsageError(op.name, got="no example", need="attributes and inputs that its rule takes", fix=fix)


def outputs_of(op: Op[Any], example: Example) -> tuple[TensorSpec, ...] | None:
    """What the operator makes of an example, None where its rule refuses it."""
    try:
        return infer(op, example.attrs, example.inputs)
    except UsageError:
        return None
