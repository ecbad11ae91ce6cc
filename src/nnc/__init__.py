"""NNC: a layered neural network collection.

Imports only point down this list:

    wiring
    cli
    export
    language
    onnx
    sklearn
    amp
    func
    distributions
    forward_rules
    autograd
    keras
    lax
    optim
    utils
    nn
    parallel
    numerics
    array_api
    dynamic
    symbolic
    concrete
    backends
    codegen
    ops
    planning
    core
    graph
    arguments
    classes
    faces
    vocabulary
    addresses
    errors

The names that a user lives with stand here, and their modules are imported when one is first used:

    x = nnc.variable([1.0, 2.0])             tensor, variable, f32 …, ops, no_grad: eager values on one graph
    nnc.where(x > 0, nnc.exp(x), 0.0)        what jax.numpy, MLX, torch and NumPy share; nnc.random, linalg, fft
    nnc.grad(lambda x: (x * x).sum())(x)     value_and_grad, vjp, jvp, hessian: derivatives of functions
    nnc.vmap(function)(batch)                one example's function for a batch, by the rules of operators
    nnc.compile(function)                    one native program per signature; cond, while_loop, scan inside
    nnc.nn.Model(nnc.nn.Dense(10), (64,))    layers, models, optimizers
    nnc.save("a.safetensors", {"x": x})      load
    with nnc.profile() as p: …               where the time goes
    nnc.arena(limit="1GB")                   memory that several models share

Each layer is public and usable without the ones above it. Only `nnc.wiring` knows the backends, and hands them to those
below when they first ask. `import nnc` itself imports nothing: NumPy comes with the first name that needs it, and where
it is not installed `nnc.graph` and `nnc.planning` still work.
"""

import builtins
import sys
from importlib import import_module

# As the module `typing` has it, which takes longer to be imported than this one.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from nnc import amp as amp
    from nnc import array_api, concrete, core, dynamic, errors, graph, nn, numerics, ops, optim, planning, symbolic
    from nnc import autograd as autograd
    from nnc import distributions as distributions
    from nnc import export as export
    from nnc import func as func
    from nnc import keras as keras
    from nnc import language as language
    from nnc import lax as lax
    from nnc import onnx as onnx
    from nnc import parallel as parallel
    from nnc import sklearn as sklearn
    from nnc import utils as utils
    from nnc.amp import autocast
    from nnc.autograd import custom_vjp
    from nnc.concrete.profiling import profile
    from nnc.core.running.device_context import cuda, device, devices, vulkan
    from nnc.core.values.dtype import BF16 as bf16
    from nnc.core.values.dtype import BOOL as bool_
    from nnc.core.values.dtype import F16 as f16
    from nnc.core.values.dtype import F32 as f32
    from nnc.core.values.dtype import F64 as f64
    from nnc.core.values.dtype import I8 as i8
    from nnc.core.values.dtype import I16 as i16
    from nnc.core.values.dtype import I32 as i32
    from nnc.core.values.dtype import I64 as i64
    from nnc.core.values.dtype import U8 as u8
    from nnc.core.values.spec import spec
    from nnc.dynamic.debugging import debug
    from nnc.dynamic.eager import (
        enable_grad,
        inference_mode,
        lazy,
        memoized,
        no_grad,
        set_grad_enabled,
        tensor,
        variable,
    )
    from nnc.dynamic.transforms.batched import vmap
    from nnc.dynamic.transforms.compilation import compile, jit
    from nnc.dynamic.transforms.control_flow import cond, scan, while_loop
    from nnc.dynamic.transforms.differentiation import grad, hessian, jvp, value_and_grad
    from nnc.dynamic.transforms.jacobians import jacfwd, jacobian, jacrev
    from nnc.dynamic.transforms.pullback import vjp
    from nnc.dynamic.transforms.randomness import dropout, normal, seed, uniform
    from nnc.dynamic.transforms.recomputation import checkpoint, iterate
    from nnc.dynamic.transforms.shapes import ShapeDtypeStruct, eval_shape
    from nnc.dynamic.variable import Variable
    from nnc.forward_rules import custom_function, custom_jvp
    from nnc.nn.files.files import load, save, savez, savez_compressed
    from nnc.numerics import *
    from nnc.symbolic.compiler import arena

__version__ = "0.3.0"

# What `nnc.numerics` has: the functions of the four projects.
_NUMERICS = (
    "Array", "Generator", "Size", "Tensor", "abs", "absolute", "acos", "acosh", "add", "addcdiv", "addcmul", "addmm",
    "all", "allclose", "amax", "amin", "aminmax", "angle", "any", "append", "apply_along_axis", "apply_over_axes",
    "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin",
    "argpartition", "argsort", "argwhere", "around", "array", "array2string", "array_equal", "array_equiv",
    "array_repr", "array_split", "array_str", "as_tensor", "asanyarray", "asarray", "ascontiguousarray",
    "asfortranarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "atleast_1d", "atleast_2d", "atleast_3d",
    "average", "baddbmm", "bartlett", "base_repr", "bernoulli", "bfloat16", "binary_repr", "bincount", "bitwise_and",
    "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "blackman", "block", "block_diag", "bmm", "bool", "broadcast_arrays", "broadcast_shapes",
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
)  # fmt: skip

# Where the names of the front door live, and what they are called there.
_LAYERS = (
    "amp", "array_api", "autograd", "concrete", "core", "distributions", "dynamic", "errors", "export", "func",
    "graph", "keras", "language", "lax",
    "nn",
    "numerics", "onnx", "ops", "optim", "parallel", "planning", "sklearn",
    "symbolic", "utils",
)  # fmt: skip
_HOMES = {
    **dict.fromkeys(_NUMERICS, "nnc.numerics"),
    **dict.fromkeys(
        ("tensor", "variable", "enable_grad", "inference_mode", "lazy", "memoized", "no_grad", "set_grad_enabled"),
        "nnc.dynamic.eager",
    ),
    **dict.fromkeys(("grad", "value_and_grad", "jvp", "hessian"), "nnc.dynamic.transforms.differentiation"),
    "vjp": "nnc.dynamic.transforms.pullback",
    **dict.fromkeys(("cond", "while_loop", "scan"), "nnc.dynamic.transforms.control_flow"),
    **dict.fromkeys(("dropout", "normal", "seed", "uniform"), "nnc.dynamic.transforms.randomness"),
    **dict.fromkeys(("load", "save", "savez", "savez_compressed"), "nnc.nn.files"),
    **dict.fromkeys(("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool_"), "nnc.core.values.dtype"),
    **dict.fromkeys(("checkpoint", "iterate"), "nnc.dynamic.transforms.recomputation"),
    **dict.fromkeys(("compile", "jit"), "nnc.dynamic.transforms.compilation"),
    **dict.fromkeys(("jacfwd", "jacobian", "jacrev"), "nnc.dynamic.transforms.jacobians"),
    **dict.fromkeys(("ShapeDtypeStruct", "eval_shape"), "nnc.dynamic.transforms.shapes"),
    "arena": "nnc.symbolic.compiler",
    "autocast": "nnc.amp",
    "custom_vjp": "nnc.autograd",
    **dict.fromkeys(("custom_function", "custom_jvp"), "nnc.forward_rules"),
    "debug": "nnc.dynamic.debugging",
    **dict.fromkeys(("cuda", "device", "devices", "vulkan"), "nnc.core.running.device_context"),
    "profile": "nnc.concrete.profiling",
    "vmap": "nnc.dynamic.transforms.batched",
    "spec": "nnc.core.values.spec",
    "Variable": "nnc.dynamic.variable",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAYERS, *_HOMES})


def _unknown(name: str) -> AttributeError:
    """The error that names our form of another project's name."""
    forms = import_module("nnc.vocabulary.names").MODULE
    error: AttributeError = import_module("nnc.vocabulary.answers").unknown_name(
        "module 'nnc'", name, forms, __dir__, "nnc."
    )
    return error


class _UnknownModules:
    """Asked for modules that nobody else finds: those of other projects are answered with ours."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        """None, the module of ours that another project has under this name, or the error that names ours."""
        if name.startswith("nnc."):
            spec: object = import_module("nnc.vocabulary.modules").found_elsewhere(name)
            return spec
        return None


if "_UnknownModules" not in [getattr(finder, "__name__", "") for finder in sys.meta_path]:
    sys.meta_path.append(_UnknownModules)  # type: ignore[arg-type]  # its spec is of a module that is not imported here


if not TYPE_CHECKING:
    # A type checker reads the imports above instead, so that a name that is not there stays an error.
    def __getattr__(name: str) -> object:
        if name == "backends":
            # No part of the front door: programs for PyTorch ask there what this machine has.
            return import_module("nnc.backends")
        if name not in _LAYERS and name not in _HOMES:
            raise _unknown(name)
        home = import_module("nnc.faces").imported(_HOMES.get(name, f"nnc.{name}"))
        if name in _LAYERS:
            return home
        value = getattr(home, name.rstrip("_").upper() if _HOMES[name] == "nnc.core.values.dtype" else name)
        globals()[name] = value
        return value


# All that can be had without an extra: `language`, `onnx` and `sklearn` are asked for by their names.
__all__ = [
    "ShapeDtypeStruct",
    "Variable",
    "__version__",
    "amp",
    "arena",
    "array_api",
    "autocast",
    "autograd",
    "bf16",
    "bool_",
    "checkpoint",
    "compile",
    "concrete",
    "cond",
    "core",
    "cuda",
    "custom_function",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "device",
    "devices",
    "distributions",
    "dropout",
    "dynamic",
    "enable_grad",
    "errors",
    "eval_shape",
    "export",
    "f16",
    "f32",
    "f64",
    "func",
    "grad",
    "graph",
    "hessian",
    "i16",
    "i32",
    "i64",
    "i8",
    "inference_mode",
    "iterate",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "keras",
    "lax",
    "lazy",
    "load",
    "memoized",
    "nn",
    "no_grad",
    "normal",
    "numerics",
    "ops",
    "optim",
    "parallel",
    "planning",
    "profile",
    "save",
    "savez",
    "savez_compressed",
    "scan",
    "seed",
    "set_grad_enabled",
    "spec",
    "symbolic",
    "tensor",
    "u8",
    "uniform",
    "utils",
    "value_and_grad",
    "variable",
    "vjp",
    "vmap",
    "vulkan",
    "while_loop",
]
# `from nnc import *` leaves Python's own functions as they are.
__all__ += [name for name in _NUMERICS if name not in vars(builtins) and name != "e"]
