"""The Python array API standard, version 2024.12, on eager variables and traced values.

    import nnc.array_api as xp
    xp.sum(xp.exp(x) * y)            # x, y: what nnc.tensor(), nnc.variable() and functions of this namespace give

Gradients flow through all that is continuous. Arrays are values: `x[index] = value` and `x += y` make the name stand
for a new one, and views keep theirs. Python's floats are f32 where no array says otherwise. What looks at values
(`nonzero`, `unique_*`, masks, counts of `repeat`) works eagerly alone.
"""

import math
import sys
from types import ModuleType

from nnc.arguments import explain_functions, explained
from nnc.array_api import fft, linalg
from nnc.array_api.creation import (
    arange,
    asarray,
    astype,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from nnc.array_api.data_types import (
    can_cast,
    finfo,
    iinfo,
    isdtype,
    result_type,
)
from nnc.array_api.elementwise import (
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    clip,
    conj,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    imag,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    pow,
    real,
    reciprocal,
    remainder,
    round,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
)
from nnc.array_api.inspection import NamespaceInfo
from nnc.array_api.linalg import (
    matmul,
    matrix_transpose,
    tensordot,
    vecdot,
)
from nnc.array_api.manipulation import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    tile,
    unstack,
)
from nnc.array_api.searching import (
    argmax,
    argmin,
    argsort,
    count_nonzero,
    isin,
    nonzero,
    searchsorted,
    sort,
    take,
    take_along_axis,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    where,
)
from nnc.array_api.statistical import (
    all,
    any,
    cumulative_prod,
    cumulative_sum,
    diff,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)
from nnc.core.values.dtype import BOOL as bool
from nnc.core.values.dtype import C64 as complex64
from nnc.core.values.dtype import C128 as complex128
from nnc.core.values.dtype import F32 as float32
from nnc.core.values.dtype import F64 as float64
from nnc.core.values.dtype import I8 as int8
from nnc.core.values.dtype import I16 as int16
from nnc.core.values.dtype import I32 as int32
from nnc.core.values.dtype import I64 as int64
from nnc.core.values.dtype import U8 as uint8
from nnc.core.values.dtype import U16 as uint16
from nnc.core.values.dtype import U32 as uint32
from nnc.core.values.dtype import U64 as uint64
from nnc.dynamic.arrays.located import located
from nnc.errors import UsageError

e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None

__array_api_version__ = "2024.12"


# Errors name the line that called from outside.
for _module in (fft, linalg, sys.modules[__name__]):
    explain_functions(_module, lambda function: located(explained(function)))


def __array_namespace_info__() -> NamespaceInfo:
    """What there is."""
    return NamespaceInfo()


def namespace_of(version: str | None) -> ModuleType:
    """This module, for a version that it knows."""
    if version not in (None, "2021.12", "2022.12", "2023.12", __array_api_version__):
        need = f"2021.12 to {__array_api_version__}"
        raise UsageError("__array_namespace__", got=f"api_version={version!r}", need=need)
    return sys.modules[__name__]


__all__ = [
    "__array_api_version__",
    "__array_namespace_info__",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "can_cast",
    "ceil",
    "clip",
    "complex128",
    "complex64",
    "concat",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "divide",
    "e",
    "empty",
    "empty_like",
    "equal",
    "exp",
    "expand_dims",
    "expm1",
    "eye",
    "fft",
    "finfo",
    "flip",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "from_dlpack",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "hypot",
    "iinfo",
    "imag",
    "inf",
    "int16",
    "int32",
    "int64",
    "int8",
    "isdtype",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "linalg",
    "linspace",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "meshgrid",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "nan",
    "negative",
    "newaxis",
    "nextafter",
    "nonzero",
    "not_equal",
    "ones",
    "ones_like",
    "permute_dims",
    "pi",
    "positive",
    "pow",
    "prod",
    "real",
    "reciprocal",
    "remainder",
    "repeat",
    "reshape",
    "result_type",
    "roll",
    "round",
    "searchsorted",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sort",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "tril",
    "triu",
    "trunc",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "var",
    "vecdot",
    "where",
    "zeros",
    "zeros_like",
]
