"""Precision rules: in which floats an operator may run when a network is computed in 16 bits.

LOW       in 16 bits: products, whose sums are kept in f32 by every kernel and rounded once
FOLLOW    in 16 bits between others that do: moves, and functions that enlarge no relative error by much
FULL      as it is: sums, exponentials, losses, optimizers, and all operators without a rule
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from nnc.graph import Op, OpAttr
from nnc.ops.attention import ATTENTION, ATTENTION_GRADIENT
from nnc.ops.broadcast import BROADCAST_TO
from nnc.ops.convolutions import CONVOLUTION, CONVOLUTION_DATA_GRADIENT, CONVOLUTION_WEIGHT_GRADIENT
from nnc.ops.copy import COPY
from nnc.ops.layout import CONVERT_LAYOUT
from nnc.ops.movement import CONCATENATE, EMBED, TRANSPOSE
from nnc.ops.normalization import BATCH_NORM, LAYER_NORM, LAYER_NORM_GRADIENT, RMS_NORM, RMS_NORM_GRADIENT
from nnc.ops.pointwise import (
    ABSOLUTE,
    ADD,
    AFFINE,
    GELU,
    GELU_TANH,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    PREFERENCE,
    RELU,
    SIGMOID,
    SIGN,
    STEP,
    SUBTRACT,
    SWISH,
    TANH,
    WHERE,
)
from nnc.ops.pooling import AVERAGE_POOL, AVERAGE_POOL_GRADIENT, MAX_POOL, MAX_POOL_GATHER, MAX_POOL_GRADIENT
from nnc.ops.products import GEMM
from nnc.ops.random import DROPOUT
from nnc.ops.resize import FLIP, PAD, PAD_GRADIENT
from nnc.ops.rotary import ROTARY


class Runs(Enum):
    """The three classes."""

    LOW = "low"
    FOLLOW = "follow"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Precision:
    """The class of an operator, and the positions of inputs that stay f32 beside 16 bits: statistics, angles."""

    runs: Runs
    kept: tuple[int, ...] = ()


PRECISION = OpAttr[Precision]("precision")

_LOW, _FOLLOW = Precision(Runs.LOW), Precision(Runs.FOLLOW)
# `Any`: operators of all attribute types.
RULES: Mapping[Op[Any], Precision] = MappingProxyType(
    {
        **dict.fromkeys((GEMM, CONVOLUTION, CONVOLUTION_DATA_GRADIENT, CONVOLUTION_WEIGHT_GRADIENT, ATTENTION), _LOW),
        ATTENTION_GRADIENT: Precision(Runs.LOW, (5,)),
        **dict.fromkeys((ADD, SUBTRACT, MULTIPLY, AFFINE, MAXIMUM, MINIMUM, PREFERENCE, WHERE), _FOLLOW),
        **dict.fromkeys((RELU, STEP, ABSOLUTE, SIGN, TANH, SIGMOID, SWISH, GELU, GELU_TANH, DROPOUT), _FOLLOW),
        **dict.fromkeys((COPY, BROADCAST_TO, TRANSPOSE, CONCATENATE, EMBED, CONVERT_LAYOUT), _FOLLOW),
        **dict.fromkeys((PAD, PAD_GRADIENT, FLIP), _FOLLOW),
        **dict.fromkeys((MAX_POOL, MAX_POOL_GRADIENT, MAX_POOL_GATHER, AVERAGE_POOL, AVERAGE_POOL_GRADIENT), _FOLLOW),
        **dict.fromkeys((LAYER_NORM, RMS_NORM), _FOLLOW),
        LAYER_NORM_GRADIENT: Precision(Runs.FOLLOW, (2, 3)),
        RMS_NORM_GRADIENT: Precision(Runs.FOLLOW, (2,)),
        BATCH_NORM: Precision(Runs.FOLLOW, (3, 4)),
        ROTARY: Precision(Runs.FOLLOW, (1,)),
    }
)
for _op, _rule in RULES.items():
    PRECISION.set(_op, _rule)
