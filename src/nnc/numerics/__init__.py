"""One namespace: what jax.numpy, mlx.core, torch and NumPy have in common, on eager, traced and batched values.

    import nnc
    nnc.where(x > 0, nnc.exp(x), 0.0).sum(axis=1); nnc.linalg.norm(x); nnc.random.normal((2, 3))

The functions stand at the front door, `nnc.NAME`; `nnc.ops` are the operators, and `nnc.array_api` is the standard to
the letter. Here arguments may be lists, numbers and arrays of NumPy, axes stand by position, kinds of numbers meet, and
`dim=` is taken for `axis=`. Gradients flow through all that is continuous; what looks at values is eager alone. Names
that mean two things mean what NumPy, JAX and MLX say. `docs/names.md` lists what is left out, and why.
"""

import builtins
import sys

from nnc.arguments import explain_functions, explained
from nnc.core.values.dtype import BF16 as bfloat16
from nnc.core.values.dtype import BOOL as bool
from nnc.core.values.dtype import BOOL as bool_
from nnc.core.values.dtype import C64 as complex64
from nnc.core.values.dtype import C128 as complex128
from nnc.core.values.dtype import F16 as float16
from nnc.core.values.dtype import F16 as half
from nnc.core.values.dtype import F32 as float
from nnc.core.values.dtype import F32 as float32
from nnc.core.values.dtype import F64 as double
from nnc.core.values.dtype import F64 as float64
from nnc.core.values.dtype import I8 as int8
from nnc.core.values.dtype import I16 as int16
from nnc.core.values.dtype import I16 as short
from nnc.core.values.dtype import I32 as int
from nnc.core.values.dtype import I32 as int32
from nnc.core.values.dtype import I64 as int64
from nnc.core.values.dtype import I64 as long
from nnc.core.values.dtype import U8 as uint8
from nnc.core.values.dtype import U16 as uint16
from nnc.core.values.dtype import U32 as uint32
from nnc.core.values.dtype import U64 as uint64
from nnc.dynamic.arrays.array import ArrayOperand
from nnc.dynamic.arrays.located import located
from nnc.dynamic.transforms.randomness import seed
from nnc.numerics import fft, flatten_util, linalg, random, tree, tree_util
from nnc.numerics import scipy_names as scipy
from nnc.numerics.comparison import *
from nnc.numerics.conversion import AnyTensor as Tensor
from nnc.numerics.creation import *
from nnc.numerics.cumulative import *
from nnc.numerics.draws import multinomial
from nnc.numerics.elementwise import *
from nnc.numerics.generator import Generator
from nnc.numerics.numpy_names import lib, testing
from nnc.numerics.numpy_names.editing import *
from nnc.numerics.numpy_names.host_functions import *
from nnc.numerics.numpy_names.placing import placing
from nnc.numerics.numpy_names.polynomials import *
from nnc.numerics.numpy_names.type_names import *
from nnc.numerics.numpy_names.windows import *
from nnc.numerics.order import *
from nnc.numerics.products import *
from nnc.numerics.pytorch.scattering import *
from nnc.numerics.pytorch.selecting import *
from nnc.numerics.pytorch.statistics import *
from nnc.numerics.random import rand, rand_like, randint, randn, randn_like
from nnc.numerics.reductions import *
from nnc.numerics.scipy_names import special, stats
from nnc.numerics.shapes import *

Array = ArrayOperand
ndarray = ArrayOperand
# Shapes are Python's tuples.
Size: type[tuple[builtins.int, ...]] = tuple
manual_seed = seed

# Errors name the line that called from outside.
_DISTRIBUTIONS = (
    stats.bernoulli, stats.beta, stats.expon, stats.gamma, stats.laplace, stats.multivariate_normal, stats.norm,
    stats.poisson, stats.t, stats.uniform,
)  # fmt: skip
for _module in (
    fft,
    flatten_util,
    lib.stride_tricks,
    linalg,
    random,
    special,
    testing,
    *_DISTRIBUTIONS,
    sys.modules[__name__],
):
    explain_functions(_module, lambda function: located(explained(function), placing(function)))

randperm = random.permutation
digamma, lgamma = special.digamma, special.gammaln

__all__ = [
    "Array", "Generator", "Size", "Tensor", "abs", "absolute", "acos", "acosh", "add", "addcdiv", "addcmul", "addmm",
    "all", "allclose", "amax", "amin", "aminmax", "angle", "any", "append", "apply_along_axis", "apply_over_axes",
    "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin",
    "argpartition", "argsort", "argwhere", "around", "array", "array2string", "array_equal", "array_equiv",
    "array_repr", "array_split", "array_str", "as_tensor", "asanyarray", "asarray", "ascontiguousarray",
    "asfortranarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "atleast_1d", "atleast_2d", "atleast_3d",
    "average", "baddbmm", "bartlett", "base_repr", "bernoulli", "bfloat16", "binary_repr", "bincount", "bitwise_and",
    "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "blackman", "block", "block_diag", "bmm", "bool", "bool_", "broadcast_arrays", "broadcast_shapes",
    "broadcast_tensors", "broadcast_to", "bucketize", "byte", "c_", "can_cast", "cartesian_prod", "cat", "cbrt",
    "cdist", "cdouble", "ceil", "choose", "chunk", "clamp", "clip", "column_stack", "combinations", "complex",
    "complex128", "complex64", "complexfloating", "compress", "concat", "concatenate", "conj", "conjugate",
    "convolve", "copy", "copysign", "copyto", "corrcoef", "correlate", "cos", "cosh", "count_nonzero", "cov", "cross",
    "csingle", "cummax", "cummin", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "deg2rad", "degrees",
    "delete", "diag", "diag_embed", "diag_indices", "diag_indices_from", "diagflat", "diagonal", "diff", "digamma",
    "digitize", "div", "divide", "divmod", "dot", "double", "dsplit", "dstack", "e", "ediff1d", "einsum", "empty",
    "empty_like", "eq", "equal", "erf", "erfc", "erfinv", "errstate", "euler_gamma", "eval", "exp", "exp2",
    "expand_dims", "expm1", "extract", "eye", "fabs", "fft", "fill_diagonal", "finfo", "fix", "flatnonzero",
    "flatten", "flatten_util", "flip", "fliplr", "flipud", "float", "float16", "float32", "float64", "float_power",
    "floating", "floor", "floor_divide", "fmax", "fmin", "fmod", "format_float_positional", "format_float_scientific",
    "frexp", "from_dlpack", "from_numpy", "frombuffer", "fromfile", "fromfunction", "fromiter", "fromstring", "full",
    "full_like", "gather", "gcd", "ge", "gelu", "generic", "genfromtxt", "geomspace", "get_default_dtype",
    "get_printoptions", "geterr", "gradient", "greater", "greater_equal", "gt", "half", "hamming", "hanning",
    "heaviside", "histc", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "hsplit", "hstack",
    "hypot", "i0", "identity", "iinfo", "imag", "index_add", "index_copy", "index_exp", "index_fill", "index_select",
    "indices", "inexact", "inf", "inner", "insert", "int", "int16", "int32", "int64", "int8", "int_", "intc",
    "integer", "interp", "intersect1d", "intp", "invert", "is_complex", "is_floating_point", "is_tensor", "isclose",
    "iscomplex", "iscomplexobj", "isdtype", "isfinite", "isfortran", "isin", "isinf", "isnan", "isneginf", "isposinf",
    "isreal", "isrealobj", "isscalar", "issubdtype", "iterable", "ix_", "kaiser", "kron", "kthvalue", "lcm", "ldexp",
    "le", "left_shift", "lerp", "less", "less_equal", "lexsort", "lgamma", "lib", "linalg", "linspace", "loadtxt",
    "log", "log10", "log1p", "log2", "log_softmax", "logaddexp", "logaddexp2", "logcumsumexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logit", "logspace", "logsumexp", "long", "longlong", "lt",
    "manual_seed", "mask_indices", "masked_fill", "masked_scatter", "masked_select", "matmul", "matrix_transpose",
    "max", "maximum", "mean", "median", "meshgrid", "mgrid", "min", "min_scalar_type", "minimum", "mm", "mod", "mode",
    "modf", "moveaxis", "movedim", "mul", "multinomial", "multiply", "mv", "nan", "nan_to_num", "nanargmax",
    "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod",
    "nanquantile", "nanstd", "nansum", "nanvar", "narrow", "ndarray", "ndenumerate", "ndim", "ndindex", "ne", "neg",
    "negative", "newaxis", "nextafter", "nonzero", "norm", "not_equal", "number", "numel", "ogrid", "ones",
    "ones_like", "outer", "packbits", "pad", "partition", "percentile", "permute", "permute_dims", "pi", "piecewise",
    "place", "polar", "poly", "poly1d", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub",
    "polyval", "positive", "pow", "power", "printoptions", "prod", "promote_types", "ptp", "put", "put_along_axis",
    "putmask", "quantile", "r_", "rad2deg", "radians", "rand", "rand_like", "randint", "randn", "randn_like",
    "random", "randperm", "ravel", "ravel_multi_index", "real", "real_if_close", "reciprocal", "relu", "remainder",
    "repeat", "repeat_interleave", "reshape", "resize", "result_type", "right_shift", "rint", "roll", "rollaxis",
    "roots", "rot90", "round", "row_stack", "rsqrt", "s_", "savetxt", "scatter", "scatter_add", "scatter_reduce",
    "scipy", "searchsorted", "select", "set_printoptions", "setdiff1d", "seterr", "setxor1d", "shape", "short",
    "sigmoid", "sign", "signbit", "signedinteger", "sin", "sinc", "single", "sinh", "size", "softmax", "softplus",
    "sort", "sort_complex", "spacing", "special", "split", "sqrt", "square", "squeeze", "stack", "std", "std_mean",
    "stop_gradient", "sub", "subtract", "sum", "swapaxes", "swapdims", "take", "take_along_axis", "take_along_dim",
    "tan", "tanh", "tensor_split", "tensordot", "testing", "tile", "topk", "trace", "transpose", "trapezoid", "trapz",
    "tree", "tree_util", "tri", "tril", "tril_indices", "tril_indices_from", "trim_zeros", "triu", "triu_indices",
    "triu_indices_from", "true_divide", "trunc", "ubyte", "uint", "uint16", "uint32", "uint64", "uint8", "uintc",
    "uintp", "ulonglong", "unbind", "unflatten", "unfold", "union1d", "unique", "unique_all", "unique_consecutive",
    "unique_counts", "unique_inverse", "unique_values", "unpackbits", "unravel_index", "unsignedinteger", "unsqueeze",
    "unstack", "unwrap", "ushort", "vander", "var", "var_mean", "vdot", "vecdot", "vectorize", "view_as_complex",
    "view_as_real", "vsplit", "vstack", "where", "xlogy", "zeros", "zeros_like",
]  # fmt: skip
