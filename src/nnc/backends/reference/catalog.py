"""Every kernel of the reference backend, in one visible table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nnc.backends.reference import (
    broadcast,
    convolution,
    copy,
    fill,
    gemm,
    movement,
    optimizer,
    pointwise,
    pooling,
    reduction,
    softmax,
)
from nnc.backends.reference.arrays import ReferenceKernel
from nnc.backends.reference.pointwise import binary, unary
from nnc.graph import Op
from nnc.ops.broadcast import BROADCAST_TO, REDUCE_SUM
from nnc.ops.convolution import CONVOLUTION, CONVOLUTION_DATA_GRADIENT, CONVOLUTION_WEIGHT_GRADIENT
from nnc.ops.copy import COPY
from nnc.ops.fill import FILL
from nnc.ops.gemm import GEMM
from nnc.ops.movement import CONCATENATE, EMBED, TRANSPOSE
from nnc.ops.optimizer import ADAM, SGD
from nnc.ops.pointwise import (
    ABSOLUTE,
    ADD,
    AFFINE,
    CAST,
    COS,
    DIVIDE,
    EQUAL,
    ERF,
    EXP,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    LOG,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    NOT_EQUAL,
    POWER,
    PREFERENCE,
    RECIPROCAL,
    RELU,
    SIGMOID,
    SIGN,
    SIN,
    SQRT,
    SQUARE,
    STEP,
    SUBTRACT,
    TANH,
    WHERE,
)
from nnc.ops.pooling import AVERAGE_POOL, AVERAGE_POOL_GRADIENT, MAX_POOL, MAX_POOL_GATHER, MAX_POOL_GRADIENT
from nnc.ops.reduction import ARGMAX, REDUCE_MAX, REDUCE_MEAN, REDUCE_MIN
from nnc.ops.softmax import (
    LABEL_DIFFERENCE,
    LOG_SOFTMAX,
    SOFTMAX,
    SOFTMAX_CROSS_ENTROPY,
    SOFTMAX_CROSS_ENTROPY_GRADIENT,
)

# `Any`: operators of all attribute types.
KERNELS: Mapping[Op[Any], ReferenceKernel] = {
    FILL: fill.fill,
    COPY: copy.copy,
    AFFINE: pointwise.affine,
    CAST: pointwise.cast,
    WHERE: pointwise.where,
    EXP: unary(np.exp),
    LOG: unary(np.log),
    SQRT: unary(np.sqrt),
    RECIPROCAL: unary(np.reciprocal),
    SQUARE: unary(np.square),
    TANH: unary(np.tanh),
    SIGMOID: unary(pointwise.sigmoid),
    RELU: unary(pointwise.relu),
    SIN: unary(np.sin),
    COS: unary(np.cos),
    ERF: unary(pointwise.erf),
    ABSOLUTE: unary(np.abs),
    SIGN: unary(pointwise.sign),
    STEP: unary(pointwise.step),
    ADD: binary(np.add),
    SUBTRACT: binary(np.subtract),
    MULTIPLY: binary(np.multiply),
    DIVIDE: binary(np.divide),
    MAXIMUM: binary(np.maximum),
    MINIMUM: binary(np.minimum),
    POWER: binary(np.power),
    PREFERENCE: binary(pointwise.preference),
    EQUAL: binary(np.equal),
    NOT_EQUAL: binary(np.not_equal),
    LESS: binary(np.less),
    LESS_EQUAL: binary(np.less_equal),
    GREATER: binary(np.greater),
    GREATER_EQUAL: binary(np.greater_equal),
    REDUCE_SUM: broadcast.reduce_sum,
    BROADCAST_TO: broadcast.broadcast_to,
    REDUCE_MEAN: reduction.reduce_mean,
    REDUCE_MAX: reduction.reduce_max,
    REDUCE_MIN: reduction.reduce_min,
    ARGMAX: reduction.argmax,
    TRANSPOSE: movement.transpose,
    CONCATENATE: movement.concatenate,
    EMBED: movement.embed,
    GEMM: gemm.gemm,
    CONVOLUTION: convolution.convolution,
    CONVOLUTION_DATA_GRADIENT: convolution.data_gradient,
    CONVOLUTION_WEIGHT_GRADIENT: convolution.weight_gradient,
    MAX_POOL: pooling.max_pool,
    MAX_POOL_GRADIENT: pooling.max_pool_gradient,
    MAX_POOL_GATHER: pooling.max_pool_gather,
    AVERAGE_POOL: pooling.average_pool,
    AVERAGE_POOL_GRADIENT: pooling.average_pool_gradient,
    SOFTMAX: softmax.softmax,
    LOG_SOFTMAX: softmax.log_softmax,
    SOFTMAX_CROSS_ENTROPY: softmax.softmax_cross_entropy,
    SOFTMAX_CROSS_ENTROPY_GRADIENT: softmax.softmax_cross_entropy_gradient,
    LABEL_DIFFERENCE: softmax.label_difference,
    SGD: optimizer.sgd,
    ADAM: optimizer.adam,
}
