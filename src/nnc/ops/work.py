"""What running a command costs: floating-point operations, from attributes and specs alone.

    gemm:         2 · |y| · k                     convolution:  2 · |y| · |w| / filters   (its gradients: 2 · |g| · …)
    attention:    2 · scores · (d + e) + 5 · scores, scores = batch · heads · rows · columns, half of them when causal
    pooling:      |y| · |window|                  recurrent:    2 · |z| · units per matrix product, and the gates
    all others:   a small number per element of the largest tensor that the command touches; moving one counts as one

|x| is the number of elements of x. The numbers rank commands against each other and say which share of a step is run
a second time; they are no measurement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from nnc.core.command import AnyCommand
from nnc.core.spec import TensorSpec
from nnc.graph import Op, OpAttr
from nnc.ops.attention import ATTENTION, ATTENTION_GRADIENT, AttentionAttrs
from nnc.ops.convolutions import CONVOLUTION, CONVOLUTION_DATA_GRADIENT, CONVOLUTION_WEIGHT_GRADIENT
from nnc.ops.fused import FUSED_POINTWISE, MOVES, FusedAttrs
from nnc.ops.normalization import BATCH_NORM, LAYER_NORM, LAYER_NORM_GRADIENT, RMS_NORM, RMS_NORM_GRADIENT
from nnc.ops.optimizer import ADAGRAD, ADAM, AMSGRAD, GRADIENT_DESCENT, LAMB, LION, RMSPROP, SGD
from nnc.ops.pooling import (
    AVERAGE_POOL,
    AVERAGE_POOL_GRADIENT,
    MAX_POOL,
    MAX_POOL_GATHER,
    MAX_POOL_GRADIENT,
    AveragePoolGradientAttrs,
    PoolAttrs,
)
from nnc.ops.products import GEMM, GemmAttrs
from nnc.ops.recurrent import GRU, GRU_GRADIENT, LSTM, LSTM_GRADIENT, RNN, RNN_GRADIENT
from nnc.ops.softmaxes import LOG_SOFTMAX, SOFTMAX, SOFTMAX_CROSS_ENTROPY, SOFTMAX_CROSS_ENTROPY_GRADIENT

OptionalSpecs = Sequence[TensorSpec | None]
# `Any`: a column holds rules of all operators; each row below is for the attributes of its own.
WorkRule = Callable[[Any, OptionalSpecs, Sequence[TensorSpec]], int]

WORK = OpAttr[WorkRule]("work")


def work(command: AnyCommand, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """Floating-point operations of one run; an operator without a rule does one per element of its largest tensor."""
    rule = WORK[command.op] if command.op in WORK else per_element(1)
    return rule(command.attrs, inputs, outputs)


def per_element(count: int) -> WorkRule:
    """`count` operations per element of the largest input or output."""

    def rule(attrs: object, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
        return count * max((spec.elements for spec in (*inputs, *outputs) if spec is not None), default=0)

    return rule


def _gemm(attrs: GemmAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    a = _present(inputs[0])
    return 2 * outputs[0].elements * a.shape[-2 if attrs.transpose_a else -1]


def _convolution(attrs: object, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    return _products(outputs[0], _present(inputs[1]))


def _data_gradient(attrs: object, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    return _products(_present(inputs[0]), _present(inputs[1]))


def _weight_gradient(attrs: object, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    return _products(_present(inputs[1]), outputs[0])


def _products(y: TensorSpec, w: TensorSpec) -> int:
    """2 · |y| · (elements of the kernel · channels): each element of y is a sum over these."""
    return 2 * y.elements * (w.elements // max(w.shape[-1], 1))


def _pool(attrs: PoolAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    return min(outputs[0].elements, _present(inputs[0]).elements) * math.prod(attrs.kernel)


def _average_gradient(attrs: AveragePoolGradientAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    return _pool(attrs.pool, inputs, outputs)


def _attention(attrs: AttentionAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """Two matrix products and a softmax."""
    return _scores(attrs, inputs[:3], products=2)


def _attention_gradient(attrs: AttentionAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    """Five matrix products: the scores again, and those of q', k', v' and of the probabilities' gradient."""
    return _scores(attrs, inputs[1:4], products=5)


def _scores(attrs: AttentionAttrs, operands: OptionalSpecs, products: int) -> int:
    q, k, v = map(_present, operands)
    scores = q.shape[0] * q.shape[2] * q.shape[1] * k.shape[1]
    seen = scores // 2 if attrs.causal else scores
    return seen * (products * (q.shape[3] + v.shape[3]) + 5)


def _recurrent(products: int) -> WorkRule:
    """`products` matrix products of z's size with u, and eight operations per gate."""

    def rule(attrs: object, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
        largest = max((spec.elements for spec in (*inputs, *outputs) if spec is not None), default=0)
        units = max((spec.shape[0] for spec in inputs if spec is not None and spec.rank == 2), default=1)
        return largest * (2 * products * units + 8)

    return rule


def _fused(attrs: FusedAttrs, inputs: OptionalSpecs, outputs: Sequence[TensorSpec]) -> int:
    computing = sum(step.command.op not in MOVES for step in attrs.steps)
    return max(computing, 1) * outputs[0].elements


def _present(spec: TensorSpec | None) -> TensorSpec:
    assert spec is not None
    return spec


# `Any`: operators of all attribute types are keys here.
RULES: Mapping[Op[Any], WorkRule] = MappingProxyType(
    {
        GEMM: _gemm,
        CONVOLUTION: _convolution,
        CONVOLUTION_DATA_GRADIENT: _data_gradient,
        CONVOLUTION_WEIGHT_GRADIENT: _weight_gradient,
        MAX_POOL: _pool,
        MAX_POOL_GRADIENT: _pool,
        MAX_POOL_GATHER: _pool,
        AVERAGE_POOL: _pool,
        AVERAGE_POOL_GRADIENT: _average_gradient,
        ATTENTION: _attention,
        ATTENTION_GRADIENT: _attention_gradient,
        LSTM: _recurrent(1),
        LSTM_GRADIENT: _recurrent(1),
        GRU: _recurrent(1),
        GRU_GRADIENT: _recurrent(1),
        RNN: _recurrent(1),
        RNN_GRADIENT: _recurrent(1),
        FUSED_POINTWISE: _fused,
        SOFTMAX: per_element(5),
        LOG_SOFTMAX: per_element(5),
        SOFTMAX_CROSS_ENTROPY: per_element(5),
        SOFTMAX_CROSS_ENTROPY_GRADIENT: per_element(2),
        BATCH_NORM: per_element(7),
        LAYER_NORM: per_element(7),
        LAYER_NORM_GRADIENT: per_element(10),
        RMS_NORM: per_element(5),
        RMS_NORM_GRADIENT: per_element(8),
        GRADIENT_DESCENT: per_element(2),
        SGD: per_element(4),
        ADAM: per_element(12),
        AMSGRAD: per_element(13),
        LAMB: per_element(16),
        RMSPROP: per_element(8),
        ADAGRAD: per_element(6),
        LION: per_element(8),
    }
)
for _op, _rule in RULES.items():
    WORK.set(_op, _rule)
