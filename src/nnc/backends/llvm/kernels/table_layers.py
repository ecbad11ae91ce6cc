"""Rows of the catalog for the operators of layers: norms, embeddings, attention, recurrent networks."""

from __future__ import annotations

import math
from typing import Any

from nnc.backends.llvm.frame.kernel import Generator
from nnc.backends.llvm.frame.row import Generate, KernelRow, Refuse, Specs, Views, filled, only
from nnc.backends.llvm.frame.widened import in_f32
from nnc.backends.llvm.ir.builder import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, SCALARS, U8, Scalar
from nnc.backends.llvm.kernels.attention import Attention
from nnc.backends.llvm.kernels.indexing import OneHot, Selection
from nnc.backends.llvm.kernels.normalization import ColumnNormalization, RowNorm, RowNormalization
from nnc.backends.llvm.kernels.random import Dropout
from nnc.backends.llvm.kernels.recurrent import Recurrent
from nnc.backends.llvm.kernels.recurrent_cells import CELLS
from nnc.graph import Op
from nnc.ops.attention import ATTENTION, ATTENTION_GRADIENT, AttentionAttrs
from nnc.ops.indexing import INDEX_SELECT, ONE_HOT, SCATTER_ADD, AxisAttrs, OneHotAttrs, ScatterAttrs
from nnc.ops.normalization import (
    BATCH_NORM,
    LAYER_NORM,
    LAYER_NORM_GRADIENT,
    RMS_NORM,
    RMS_NORM_GRADIENT,
    BatchNormAttrs,
    NormalizationAttrs,
)
from nnc.ops.random import DROPOUT, DropoutAttrs
from nnc.ops.recurrent import (
    GRU,
    GRU_GRADIENT,
    LSTM,
    LSTM_GRADIENT,
    RNN,
    RNN_GRADIENT,
    RecurrentAttrs,
    RnnAttrs,
)

# One-hot rows count their classes in 32 bits.
LARGEST_CLASS = 2**31 - 1

# -- norms


def _is_row_norm(attrs: NormalizationAttrs, rank: int, scaled: bool) -> bool:
    """True when the statistics run over the last axes, and scale and bias lie along the same."""
    last = tuple(range(rank - len(attrs.axes), rank))
    return attrs.axes == last and bool(last) and (attrs.parameter_axes == last or not scaled)


def _is_column_norm(attrs: NormalizationAttrs, rank: int, scaled: bool) -> bool:
    """True when the statistics run over all axes but the last, and scale lies along the last."""
    return attrs.axes == tuple(range(rank - 1)) and rank > 1 and (attrs.parameter_axes == (rank - 1,) or not scaled)


def _row_norm(attrs: NormalizationAttrs, inputs: Specs, outputs: Specs) -> str:
    if not _is_row_norm(attrs, inputs[0].rank, len(inputs) > 1):
        return f"statistics over axes {list(attrs.axes)} of {inputs[0].rank}"
    return only(F64, F32, F16, BF16)(attrs, inputs, outputs)


def _norm_gradient(statistics: int) -> Refuse:
    """Refuse what neither form covers; the columns' form is that of the layer norm alone."""

    def refuse(attrs: NormalizationAttrs, inputs: Specs, outputs: Specs) -> str:
        rank, scaled = inputs[0].rank, len(inputs) > 2 + statistics
        columns = statistics == 2 and inputs[0].elements > 0 and _is_column_norm(attrs, rank, scaled)
        if not columns and not _is_row_norm(attrs, rank, scaled):
            return f"statistics over axes {list(attrs.axes)} of {rank}"
        return only(F64, F32, F16, BF16)(attrs, inputs, outputs)

    return refuse


def _batch(attrs: BatchNormAttrs, inputs: Specs, outputs: Specs) -> str:
    return "an empty operand" if inputs[0].elements == 0 else only(F64, F32, F16, BF16)(attrs, inputs, outputs)


def _rows_of_norm(kind: RowNorm, parameters: int) -> Generate:
    """The form of rows; inputs from position `parameters` on are scale and bias."""

    def generate(attrs: NormalizationAttrs, inputs: Views, outputs: Views) -> Generator:
        x = inputs[0]
        columns = math.prod(x.shape[axis] for axis in attrs.axes)
        rows = math.prod(x.shape[: len(x.shape) - len(attrs.axes)])
        given = len(inputs) - parameters
        return RowNormalization(kind, x.scalar, rows, columns, attrs.epsilon, given > 0, given > 1)

    return generate


def _layer_gradient(attrs: NormalizationAttrs, inputs: Views, outputs: Views) -> Generator:
    x, scaled = inputs[1], len(inputs) > 4
    if _is_row_norm(attrs, len(x.shape), scaled):
        return _rows_of_norm(RowNorm.LAYER_GRADIENT, 4)(attrs, inputs, outputs)
    rows, columns = math.prod(x.shape[:-1]), x.shape[-1]
    return ColumnNormalization(True, x.scalar, rows, columns, attrs.epsilon, scale=scaled)


def _batch_norm(attrs: BatchNormAttrs, inputs: Views, outputs: Views) -> Generator:
    x = inputs[0]
    rows, columns = math.prod(x.shape[:-1]), x.shape[-1]
    return ColumnNormalization(False, x.scalar, rows, columns, attrs.epsilon, attrs.momentum)


# -- positions


def _selected(*scalars: Scalar) -> Refuse:
    """Refuse axes without a position, indices that are no integers, and x of other types than `scalars`."""

    def refuse(attrs: AxisAttrs | ScatterAttrs, inputs: Specs, outputs: Specs) -> str:
        size = attrs.size if isinstance(attrs, ScatterAttrs) else inputs[0].shape[attrs.axis]
        return "an axis without positions" if size == 0 else only(*scalars)(attrs, inputs[:1], outputs)

    return refuse


def _select(attrs: AxisAttrs, inputs: Views, outputs: Views) -> Generator:
    (x, index), axis = inputs, attrs.axis
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    return Selection(x.scalar, index.scalar, outer, x.shape[axis], index.elements, inner)


def _scatter(attrs: ScatterAttrs, inputs: Views, outputs: Views) -> Generator:
    (x, index), axis = inputs, attrs.axis
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + len(index.shape) :])
    return Selection(x.scalar, index.scalar, outer, attrs.size, index.elements, inner, adding=True)


def _one_hot(attrs: OneHotAttrs, inputs: Views, outputs: Views) -> Generator:
    return OneHot(outputs[0].scalar, inputs[0].scalar, inputs[0].elements, attrs.classes)


def _few_classes(attrs: OneHotAttrs, inputs: Specs, outputs: Specs) -> str:
    return "too many classes" if attrs.classes > LARGEST_CLASS else ""


# -- attention


def _wide_and_filled(attrs: object, inputs: Specs, outputs: Specs) -> str:
    """Refuse narrow floats, and operands of which there is nothing."""
    if any(spec.elements == 0 for spec in (*inputs, *outputs)):
        return "an empty operand"
    return only(F64, F32)(attrs, [spec for spec in inputs if spec.dtype.name != BOOL.name], outputs)


def _attention(gradient: bool) -> Generate:
    """Operands q, k, v, mask; or g, q, k, v, y, lse, mask."""
    start, mask = (1, 6) if gradient else (0, 3)

    def generate(attrs: AttentionAttrs, inputs: Views, outputs: Views) -> Generator:
        q, k, v = inputs[start : start + 3]
        kind, steps = (inputs[mask].scalar, inputs[mask].access(4).strides) if len(inputs) > mask else (None, ())
        return Attention(
            q.scalar, q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3], attrs.scale,
            attrs.causal, kind, steps, gradient,
        )  # fmt: skip

    return generate


# -- recurrent networks


def _recurrent(kind: str, gradient: str = "") -> Generate:
    """The cell of this kind; the plain recurrence has one for each activation."""

    def generate(attrs: RecurrentAttrs | RnnAttrs, inputs: Views, outputs: Views) -> Generator:
        words = (kind, attrs.activation.value, gradient) if isinstance(attrs, RnnAttrs) else (kind, gradient)
        name = "_".join(filter(None, words))
        y, given = outputs[0], CELLS[name].inputs
        units = inputs[given.index("u")].shape[0]
        bias = "bias" in given and len(inputs) == len(given)
        return Recurrent(name, y.scalar, y.shape[0], y.shape[1], units, attrs.reverse, bias)

    return generate


# -- dropout


def _dropout(attrs: DropoutAttrs, inputs: Views, outputs: Views) -> Generator:
    x = inputs[0]
    return Dropout(x.scalar, x.elements, attrs.rate, attrs.seed, attrs.entirety)


def _floating_x(attrs: object, inputs: Specs, outputs: Specs) -> str:
    return only(F64, F32, F16, BF16)(attrs, inputs[:1], ())


LAYER_ROWS: dict[Op[Any], KernelRow] = {
    DROPOUT: KernelRow(_dropout, _floating_x),
    LAYER_NORM: KernelRow(_rows_of_norm(RowNorm.LAYER, 1), _row_norm),
    RMS_NORM: KernelRow(_rows_of_norm(RowNorm.RMS, 1), _row_norm),
    LAYER_NORM_GRADIENT: KernelRow(_layer_gradient, _norm_gradient(2)),
    RMS_NORM_GRADIENT: KernelRow(_rows_of_norm(RowNorm.RMS_GRADIENT, 3), _norm_gradient(1)),
    BATCH_NORM: KernelRow(_batch_norm, _batch),
    INDEX_SELECT: KernelRow(_select, _selected(*SCALARS.values()), checked=True),
    SCATTER_ADD: KernelRow(_scatter, _selected(F64, F32, I64, I32, I16, I8, U8), checked=True),
    ATTENTION: in_f32(KernelRow(_attention(gradient=False), _wide_and_filled)),
    ATTENTION_GRADIENT: in_f32(KernelRow(_attention(gradient=True), _wide_and_filled)),
    ONE_HOT: KernelRow(_one_hot, _few_classes),
    LSTM: KernelRow(_recurrent("lstm"), filled),
    LSTM_GRADIENT: KernelRow(_recurrent("lstm", "gradient"), filled),
    GRU: KernelRow(_recurrent("gru"), filled),
    GRU_GRADIENT: KernelRow(_recurrent("gru", "gradient"), filled),
    RNN: KernelRow(_recurrent("rnn"), filled),
    RNN_GRADIENT: KernelRow(_recurrent("rnn", "gradient"), filled),
}
