"""What commands mean: one row or one file per operator, and the functions that apply them.

Every function takes operands of one kind (tensor symbols or eager variables) and returns the same kind.
"""

from nnc.ops.broadcast import broadcast_to, reduce_sum, reshape
from nnc.ops.catalog import OPERATORS
from nnc.ops.convolution import convolution
from nnc.ops.copy import contiguous
from nnc.ops.fill import fill_like
from nnc.ops.gemm import gemm
from nnc.ops.movement import concatenate, slice_axis, transpose
from nnc.ops.pointwise import (
    absolute,
    add,
    affine,
    cast,
    cos,
    divide,
    equal,
    erf,
    exp,
    gelu,
    greater,
    greater_equal,
    less,
    less_equal,
    log,
    maximum,
    minimum,
    multiply,
    not_equal,
    power,
    reciprocal,
    relu,
    sigmoid,
    sign,
    sin,
    sqrt,
    square,
    step,
    subtract,
    tanh,
    where,
)
from nnc.ops.pooling import average_pool, max_pool
from nnc.ops.reduction import argmax, reduce_max, reduce_mean, reduce_min
from nnc.ops.softmax import log_softmax, softmax, softmax_cross_entropy
from nnc.ops.window import Window, window_of

__all__ = [
    "OPERATORS",
    "Window",
    "absolute",
    "add",
    "affine",
    "argmax",
    "average_pool",
    "broadcast_to",
    "cast",
    "concatenate",
    "contiguous",
    "convolution",
    "cos",
    "divide",
    "equal",
    "erf",
    "exp",
    "fill_like",
    "gelu",
    "gemm",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "log",
    "log_softmax",
    "max_pool",
    "maximum",
    "minimum",
    "multiply",
    "not_equal",
    "power",
    "reciprocal",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_sum",
    "relu",
    "reshape",
    "sigmoid",
    "sign",
    "sin",
    "slice_axis",
    "softmax",
    "softmax_cross_entropy",
    "sqrt",
    "square",
    "step",
    "subtract",
    "tanh",
    "transpose",
    "where",
    "window_of",
]
