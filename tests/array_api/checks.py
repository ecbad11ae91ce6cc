"""What functions of the array API standard are asked: each call gives what another implementation gives.

A check names a function, the kinds of element types of its arrays, and calls it with the namespace `xp` of either side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# `Any`: arrays and namespaces of several libraries.
Array = Any
Shape = tuple[int, ...]

KINDS = {
    "b": ("bool",),
    "i": ("int8", "int16", "int32", "int64"),
    "u": ("uint8", "uint16", "uint32", "uint64"),
    "f": ("float32", "float64"),
    "c": ("complex64", "complex128"),
}
SHAPES: tuple[Shape, ...] = ((3, 4), (), (5,), (0,), (2, 0, 3))
PAIRS: tuple[tuple[Shape, Shape], ...] = (((3, 4), (3, 4)), ((), (5,)), ((2, 1), (1, 3)), ((0, 2), (2,)))
SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 1e-30, 3e38)
MATRICES: tuple[Shape, ...] = ((3, 3), (2, 4, 4), (1, 1), (0, 2, 2))


@dataclass(frozen=True, slots=True)
class Check:
    """`call(xp, *arrays)` for arrays of the given values; `name` is that of the function."""

    name: str
    note: str
    arrays: tuple[np.ndarray, ...]
    call: Callable[..., Any]

    def __str__(self) -> str:
        shown = ",".join(f"{one.dtype}{list(one.shape)}" for one in self.arrays)
        return f"{self.name}({shown}){self.note and ' ' + self.note}"


def function_of(xp: Any, name: str) -> Callable[..., Any]:
    """The function with a dotted name."""
    for part in name.split("."):
        xp = getattr(xp, part)
    found: Callable[..., Any] = xp
    return found


def dtypes(kinds: str) -> list[str]:
    """The names of the element types of these kinds."""
    return [name for kind in kinds for name in KINDS[kind]]


def values(dtype: str, shape: Shape, seed: int = 0) -> np.ndarray:
    """Small numbers of both signs, where the type has them."""
    generator = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "c":
        return (generator.normal(size=shape) + 1j * generator.normal(size=shape)).astype(dtype)
    if kind == "f":
        return np.asarray(2 * generator.normal(size=shape), dtype)
    return np.asarray(generator.integers(0 if kind in "bu" else -4, 2 if kind == "b" else 6, shape), dtype)


def special(dtype: str) -> np.ndarray:
    """Infinities, nan, zeros of both signs; the ends of integer types."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        return np.array(SPECIAL, dtype)
    if kind in "iu":
        ends = np.iinfo(dtype)
        return np.array([ends.min, ends.max, 0, 1, ends.max - 1], dtype)
    return values(dtype, (4,))


def plain(name: str) -> Callable[..., Any]:
    """The function of all arrays."""
    return lambda xp, *arrays: function_of(xp, name)(*arrays)


# ---- elements

UNARY = {
    "abs": "iufc", "acos": "fc", "acosh": "fc", "asin": "fc", "asinh": "fc", "atan": "fc", "atanh": "fc",
    "bitwise_invert": "biu", "ceil": "iuf", "conj": "iufc", "cos": "fc", "cosh": "fc", "exp": "fc", "expm1": "fc",
    "floor": "iuf", "imag": "c", "isfinite": "iufc", "isinf": "iufc", "isnan": "iufc", "log": "fc", "log10": "fc",
    "log1p": "fc", "log2": "fc", "logical_not": "b", "negative": "ifc", "positive": "iufc", "real": "c",
    "reciprocal": "fc", "round": "iufc", "sign": "iufc", "signbit": "f", "sin": "fc", "sinh": "fc", "sqrt": "fc",
    "square": "iufc", "tan": "fc", "tanh": "fc", "trunc": "iuf",
}  # fmt: skip
BINARY = {
    "add": "iufc", "atan2": "f", "bitwise_and": "biu", "bitwise_or": "biu", "bitwise_xor": "biu", "copysign": "f",
    "divide": "fc", "equal": "biufc", "floor_divide": "f", "greater": "iuf", "greater_equal": "iuf", "hypot": "f",
    "less": "iuf", "less_equal": "iuf", "logaddexp": "f", "logical_and": "b", "logical_or": "b", "logical_xor": "b",
    "maximum": "iuf", "minimum": "iuf", "multiply": "iufc", "nextafter": "f", "not_equal": "biufc", "pow": "f",
    "remainder": "f", "subtract": "iufc",
}  # fmt: skip
OPERATORS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "__add__": ("iufc", lambda a, b: a + b),
    "__sub__": ("iufc", lambda a, b: a - b),
    "__mul__": ("iufc", lambda a, b: a * b),
    "__truediv__": ("fc", lambda a, b: a / b),
    "__floordiv__": ("f", lambda a, b: a // b),
    "__mod__": ("f", lambda a, b: a % b),
    "__pow__": ("f", lambda a, b: a**b),
    "__eq__": ("biufc", lambda a, b: a == b),
    "__ne__": ("biufc", lambda a, b: a != b),
    "__lt__": ("iuf", lambda a, b: a < b),
    "__le__": ("iuf", lambda a, b: a <= b),
    "__gt__": ("iuf", lambda a, b: a > b),
    "__ge__": ("iuf", lambda a, b: a >= b),
    "__and__": ("biu", lambda a, b: a & b),
    "__or__": ("biu", lambda a, b: a | b),
    "__xor__": ("biu", lambda a, b: a ^ b),
}
SCALARS = {"b": True, "i": 2, "u": 3, "f": 2.5, "c": 1.5 - 2j}


def elements() -> Iterator[Check]:
    """Functions of each element."""
    for name, kinds in UNARY.items():
        for dtype in dtypes(kinds):
            for shape in SHAPES:
                yield Check(name, "", (values(dtype, shape),), plain(name))
            yield Check(name, "special", (special(dtype),), plain(name))
    for name, kinds in BINARY.items():
        yield from pairs(name, kinds, plain(name))
    for name, (kinds, rule) in OPERATORS.items():
        yield from pairs(name, kinds, lambda xp, a, b, rule=rule: rule(a, b))
        for dtype in dtypes(kinds):
            number = SCALARS[np.dtype(dtype).kind]
            array = values(dtype, (3, 2))
            yield Check(name, "number", (array,), lambda xp, a, rule=rule, n=number: rule(a, n))
            yield Check(name, "reflected", (array,), lambda xp, a, rule=rule, n=number: rule(n, a))
    for dtype in dtypes("iu"):
        divisors = np.asarray([1, 2, 3, 5], dtype)
        for name in ("floor_divide", "remainder", "pow", "bitwise_left_shift", "bitwise_right_shift"):
            yield Check(name, "", (values(dtype, (3, 4)), divisors), plain(name))
    for dtype in dtypes("iuf"):
        array = values(dtype, (3, 4))
        yield Check("clip", "", (array,), lambda xp, x: xp.clip(x, 1, 3))
        yield Check("clip", "no least", (array,), lambda xp, x: xp.clip(x, max=2))
        yield Check("clip", "arrays", (array, array[0], array[1]), lambda xp, x, a, b: xp.clip(x, a, xp.maximum(a, b)))


def pairs(name: str, kinds: str, call: Callable[..., Any]) -> Iterator[Check]:
    """Shapes that broadcast, special values against each other, and types that promote."""
    for dtype in dtypes(kinds):
        for left, right in PAIRS:
            yield Check(name, "", (values(dtype, left), values(dtype, right, 1)), call)
        ends = special(dtype)
        yield Check(name, "special", (ends[:, None], ends), call)
    for one, other in PROMOTED:
        if {np.dtype(one).kind, np.dtype(other).kind} <= set(kinds):
            yield Check(name, "promoted", (values(one, (3,)), values(other, (3,), 1)), call)


PROMOTED = (
    ("int8", "int16"), ("int8", "uint8"), ("uint16", "int8"), ("uint32", "int64"), ("uint8", "uint64"),
    ("float32", "float64"), ("float64", "complex64"), ("float32", "complex64"), ("complex64", "complex128"),
)  # fmt: skip

# ---- arrays from numbers


def creation() -> Iterator[Check]:
    """Arrays of numbers, and of the shapes of others."""
    for dtype in dtypes("biufc"):
        kind = np.dtype(dtype).kind
        for name in ("ones", "zeros"):
            yield Check(name, dtype, (), lambda xp, n=name, d=dtype: function_of(xp, n)((2, 3), dtype=getattr(xp, d)))
        yield Check("full", dtype, (), lambda xp, d=dtype, v=SCALARS[kind]: xp.full((2, 0), v, dtype=getattr(xp, d)))
        yield Check("empty", dtype, (), lambda xp, d=dtype: xp.empty((2, 3), dtype=getattr(xp, d)).shape)
        array = values(dtype, (2, 3))
        yield Check("empty_like", "", (array,), lambda xp, x: xp.empty_like(x).shape)
        for name in ("ones_like", "zeros_like", "tril", "triu"):
            yield Check(name, "", (array,), plain(name))
        yield Check("full_like", "", (array,), lambda xp, x, v=SCALARS[kind]: xp.full_like(x, v))
        for k in (-1, 2):
            yield Check("tril", f"k={k}", (values(dtype, (2, 3, 4)),), lambda xp, x, k=k: xp.tril(x, k=k))
            yield Check("triu", f"k={k}", (values(dtype, (2, 3, 4)),), lambda xp, x, k=k: xp.triu(x, k=k))
        yield Check("asarray", dtype, (array,), lambda xp, x, d=dtype: xp.asarray(x, dtype=getattr(xp, d), copy=True))
        yield Check("meshgrid", "xy", (values(dtype, (3,)), values(dtype, (2,), 1)), plain("meshgrid"))
        for other in dtypes("biufc"):
            fits = kind != "c" or np.dtype(other).kind == "c"
            if fits and not (kind == "f" and np.dtype(other).kind == "u"):
                yield Check("astype", other, (array,), lambda xp, x, d=other: xp.astype(x, getattr(xp, d)))
    for dtype in dtypes("iufc"):
        yield Check("eye", dtype, (), lambda xp, d=dtype: xp.eye(3, 4, k=1, dtype=getattr(xp, d)))
    for dtype in dtypes("iuf"):
        yield Check("arange", dtype, (), lambda xp, d=dtype: xp.arange(2, 11, 3, dtype=getattr(xp, d)))
    for dtype in dtypes("fc"):
        yield Check("linspace", dtype, (), lambda xp, d=dtype: xp.linspace(-1, 2, 7, dtype=getattr(xp, d)))
        yield Check(
            "linspace", dtype, (), lambda xp, d=dtype: xp.linspace(0, 1, 4, dtype=getattr(xp, d), endpoint=False)
        )
    yield Check("arange", "down", (), lambda xp: xp.arange(5, 0, -2))
    yield Check(
        "meshgrid",
        "ij",
        (values("int64", (3,)), values("int64", (2,), 1)),
        lambda xp, a, b: xp.meshgrid(a, b, indexing="ij"),
    )


# ---- shapes


def manipulation() -> Iterator[Check]:
    """The same elements elsewhere."""
    for dtype in dtypes("biufc"):
        x, cube = values(dtype, (3, 4)), values(dtype, (2, 1, 3))
        one = lambda name, call, *arrays, x=x: Check(name, "", arrays or (x,), call)  # noqa: E731
        yield one("broadcast_to", lambda xp, a: xp.broadcast_to(a, (2, 2, 3)), cube)
        yield one("broadcast_arrays", lambda xp, a, b: tuple(xp.broadcast_arrays(a, b)), cube, x[:, :1])
        yield one("concat", lambda xp, a, b: xp.concat([a, b], axis=-1), x, x[:, :2])
        yield one("concat", lambda xp, a, b: xp.concat((a, b), axis=None), x, cube)
        yield one("expand_dims", lambda xp, a: xp.expand_dims(a, axis=-1))
        for axis in (None, 0, -1, (0, 1)):
            yield one("flip", lambda xp, a, axis=axis: xp.flip(a, axis=axis))
        yield one("moveaxis", lambda xp, a: xp.moveaxis(a, 0, -1), cube)
        yield one("moveaxis", lambda xp, a: xp.moveaxis(a, (0, 1), (2, 0)), cube)
        yield one("permute_dims", lambda xp, a: xp.permute_dims(a, (2, 0, 1)), cube)
        yield one("repeat", lambda xp, a: xp.repeat(a, 2, axis=1))
        yield one("repeat", lambda xp, a: xp.repeat(a, 3))
        yield one("repeat", lambda xp, a, n: xp.repeat(a, n, axis=0), x, np.array([2, 0, 1]))
        yield one("reshape", lambda xp, a: xp.reshape(a, (4, -1)))
        yield one("reshape", lambda xp, a: xp.reshape(xp.permute_dims(a, (1, 0)), (12,)))
        for shift, axis in ((2, None), (-1, 0), ((1, 2), (0, 1)), (1, (0, 1))):
            yield one("roll", lambda xp, a, s=shift, axis=axis: xp.roll(a, s, axis=axis))
        yield one("squeeze", lambda xp, a: xp.squeeze(a, axis=1), cube)
        yield one("stack", lambda xp, a: xp.stack([a, a], axis=-2))
        yield one("tile", lambda xp, a: xp.tile(a, (2, 1, 3)))
        yield one("tile", lambda xp, a: xp.tile(a, (0,)))
        yield one("unstack", lambda xp, a: tuple(xp.unstack(a, axis=1)))


INDICES: tuple[Any, ...] = (
    0, -1, (1, 2), (slice(None), 1), slice(None, None, -1), slice(1, None), (slice(0, 2), slice(None, None, 2)), ...,
    (..., 0), (None, 0), (..., None), (slice(2, 1),), (slice(-100, 100),), (1, ..., 2),
)  # fmt: skip


def indexing() -> Iterator[Check]:
    """Reading and assigning by indices of all kinds."""
    for dtype in dtypes("biufc"):
        x, number = values(dtype, (3, 4)), SCALARS[np.dtype(dtype).kind]
        for index in INDICES:
            yield Check("__getitem__", f"{index}", (x,), lambda xp, a, i=index: a[i])
            yield Check("__setitem__", f"{index}", (x,), lambda xp, a, i=index, n=number: assigned(xp, a, i, n))
        yield Check("__getitem__", "()", (x[0, 0],), lambda xp, a: a[()])
        yield Check("__getitem__", "mask", (x, x == x[0, 0]), lambda xp, a, m: a[m])
        yield Check("__setitem__", "mask", (x, x == x[0, 0]), lambda xp, a, m, n=number: assigned(xp, a, m, n))
        rows, columns = np.array([0, 2, -1]), np.array([[1], [3]])
        yield Check("__getitem__", "integers", (x, rows, columns), lambda xp, a, i, j: a[i, j])
        yield Check("__getitem__", "integers and a number", (x, rows), lambda xp, a, i: a[i, 1])
        yield Check("__setitem__", "a row", (x, x[2]), lambda xp, a, v: assigned(xp, a, 0, v))
        yield Check("take", "", (x, np.array([2, 0, 2])), lambda xp, a, i: xp.take(a, i, axis=0))
        yield Check("take", "a row", (x[0], np.array([2, 0])), lambda xp, a, i: xp.take(a, i))
        along = np.array([[0, 2, 1, 0]])
        yield Check("take_along_axis", "", (x, along), lambda xp, a, i: xp.take_along_axis(a, i, axis=0))


def assigned(xp: Any, x: Array, index: Any, value: Any) -> Array:
    """A copy of x with the value there."""
    copy = xp.asarray(x, copy=True)
    copy[index] = value
    return copy


# ---- order and sums


def searching() -> Iterator[Check]:
    """Places, order, sets."""
    for dtype in dtypes("iuf"):
        x = values(dtype, (3, 4))
        for name in ("argmax", "argmin"):
            for axis in (None, 0, -1):
                for keep in (False, True):
                    yield Check(
                        name,
                        f"axis={axis}{' keep' * keep}",
                        (x,),
                        lambda xp, a, n=name, axis=axis, k=keep: function_of(xp, n)(a, axis=axis, keepdims=k),
                    )
        row = np.sort(values(dtype, (7,)))
        for side in ("left", "right"):
            yield Check("searchsorted", side, (row, x), lambda xp, a, b, s=side: xp.searchsorted(a, b, side=s))
        yield Check(
            "searchsorted",
            "sorter",
            (row[::-1].copy(), x, np.arange(6, -1, -1)),
            lambda xp, a, b, i: xp.searchsorted(a, b, sorter=i),
        )
        for axis in (0, -1):
            yield Check("sort", f"axis={axis}", (x,), lambda xp, a, axis=axis: xp.sort(a, axis=axis))
            yield Check("argsort", f"axis={axis}", (x,), lambda xp, a, axis=axis: xp.argsort(a, axis=axis, stable=True))
    for dtype in dtypes("biufc"):
        x = values(dtype, (3, 4))
        yield Check("count_nonzero", "", (x,), lambda xp, a: xp.astype(xp.asarray(xp.count_nonzero(a)), xp.int64))
        yield Check("count_nonzero", "axis", (x,), lambda xp, a: xp.count_nonzero(a, axis=1, keepdims=True))
        yield Check("nonzero", "", (x,), plain("nonzero"))
        yield Check("where", "", (x == x[0, 0], x, x[:1]), plain("where"))
        flat = np.resize(values(dtype, (3,)), 7)
        yield Check(
            "unique_values",
            "",
            (flat,),
            lambda xp, a: (xp.count_nonzero(xp.unique_values(a) == a[0], axis=0), xp.unique_values(a).shape),
        )
        for name in ("unique_counts", "unique_inverse", "unique_all"):
            yield Check(name, "", (flat,), lambda xp, a, n=name: tuple(function_of(xp, n)(a)))
    for invert in (False, True):
        pair = (values("int64", (3, 4)), values("int64", (2, 2), 1))
        yield Check("isin", f"{invert}", pair, lambda xp, a, b, i=invert: xp.isin(a, b, invert=i))
    nans = np.array([1.0, math.nan, 1.0, math.nan])
    yield Check("unique_counts", "nan", (nans,), lambda xp, a: tuple(xp.unique_counts(a)))
    x = values("float32", (3,))
    yield Check("where", "number", (x > 0, x), lambda xp, c, a: xp.where(c, a, 2.0))


AXES: tuple[Any, ...] = (None, 0, -1, (0, 2), ())


def statistics() -> Iterator[Check]:
    """Sums and the like along axes."""
    named = {"max": "iuf", "min": "iuf", "sum": "iufc", "prod": "iufc", "mean": "fc", "var": "f", "std": "f"}
    named |= {"all": "biufc", "any": "biufc"}
    for name, kinds in named.items():
        for dtype in dtypes(kinds):
            for shape in ((2, 3, 4), (1, 1, 2)):
                for axis in AXES:
                    for keep in (False, True):
                        yield Check(
                            name,
                            f"axis={axis}{' keep' * keep}",
                            (values(dtype, shape),),
                            lambda xp, a, n=name, axis=axis, k=keep: function_of(xp, n)(a, axis=axis, keepdims=k),
                        )
            if name not in ("max", "min"):
                yield Check(
                    name, "of nothing", (values(dtype, (0, 3)),), lambda xp, a, n=name: function_of(xp, n)(a, axis=0)
                )
    for dtype in dtypes("f"):
        for name in ("var", "std"):
            yield Check(
                name,
                "correction",
                (values(dtype, (5, 3)),),
                lambda xp, a, n=name: function_of(xp, n)(a, axis=0, correction=1),
            )
    for dtype in dtypes("iufc"):
        x = values(dtype, (3, 4))
        for name in ("cumulative_sum", "cumulative_prod"):
            for axis in (0, -1):
                yield Check(
                    name, f"axis={axis}", (x,), lambda xp, a, n=name, axis=axis: function_of(xp, n)(a, axis=axis)
                )
            yield Check(name, "initial", (x[0],), lambda xp, a, n=name: function_of(xp, n)(a, include_initial=True))
        yield Check("diff", "", (x,), lambda xp, a: xp.diff(a, axis=0))
        yield Check("diff", "twice", (x, x[:, :1]), lambda xp, a, b: xp.diff(a, n=2, prepend=b, append=b))
        yield Check("sum", "dtype", (x,), lambda xp, a, d=dtype: xp.sum(a, dtype=getattr(xp, d)))


# ---- linear algebra


def positive(dtype: str, shape: Shape) -> np.ndarray:
    """Symmetric positive matrices, of complex numbers Hermitian ones."""
    a = values(dtype, shape)
    return (a @ np.swapaxes(a, -1, -2).conj() + 3 * np.eye(shape[-1])).astype(dtype)


def linear_algebra() -> Iterator[Check]:
    """Products, factors, norms."""
    for dtype in dtypes("iufc"):
        x, y = values(dtype, (2, 3, 4)), values(dtype, (4, 2), 1)
        yield Check("matmul", "", (x, y), plain("matmul"))
        yield Check("matmul", "rows", (x[0, 0], y), plain("matmul"))
        yield Check("__matmul__", "", (x, y), lambda xp, a, b: a @ b)
        yield Check("matrix_transpose", "", (x,), plain("matrix_transpose"))
        yield Check("tensordot", "", (x, y), lambda xp, a, b: xp.tensordot(a, b, axes=1))
        yield Check("tensordot", "named", (x, y), lambda xp, a, b: xp.tensordot(a, b, axes=((0, 2), (1, 0))))
        yield Check("vecdot", "", (x, x[:1]), plain("vecdot"))
        yield Check("vecdot", "axis", (x, x[:, :, :1]), lambda xp, a, b: xp.vecdot(a, b, axis=-2))
        yield Check("linalg.outer", "", (x[0, 0], y[:, 0]), plain("linalg.outer"))
        yield Check("linalg.cross", "", (x[..., :3], x[0, :, :3]), lambda xp, a, b: xp.linalg.cross(a, b))
        yield Check("linalg.cross", "axis", (x, x[:1]), lambda xp, a, b: xp.linalg.cross(a, b, axis=-2))
        for offset in (0, 1, -2):
            yield Check("linalg.diagonal", f"{offset}", (x,), lambda xp, a, k=offset: xp.linalg.diagonal(a, offset=k))
            yield Check("linalg.trace", f"{offset}", (x,), lambda xp, a, k=offset: xp.linalg.trace(a, offset=k))
        for name, arrays in (("matmul", (x, y)), ("tensordot", (y, y)), ("vecdot", (x, x)), ("matrix_transpose", (x,))):
            yield Check(f"linalg.{name}", "", arrays, plain(f"linalg.{name}"))
    for dtype in dtypes("fc"):
        yield from factors(dtype)
        yield from norms(dtype)


def factors(dtype: str) -> Iterator[Check]:
    """What matrices are made of."""
    for shape in MATRICES:
        x, symmetric = values(dtype, shape) + np.eye(shape[-1], dtype=dtype), positive(dtype, shape)
        yield Check("linalg.cholesky", "", (symmetric,), plain("linalg.cholesky"))
        yield Check("linalg.cholesky", "upper", (symmetric,), lambda xp, a: xp.linalg.cholesky(a, upper=True))
        yield Check("linalg.det", "", (x,), plain("linalg.det"))
        yield Check("linalg.slogdet", "", (x,), lambda xp, a: tuple(xp.linalg.slogdet(a)))
        yield Check("linalg.inv", "", (symmetric,), plain("linalg.inv"))
        yield Check("linalg.eigvalsh", "", (symmetric,), plain("linalg.eigvalsh"))
        yield Check("linalg.eigh", "", (symmetric,), eigen)
        yield Check("linalg.solve", "", (symmetric, x), plain("linalg.solve"))
        yield Check(
            "linalg.solve",
            "vector",
            (symmetric, x[(0,) * (len(shape) - 1)] if x.size else np.ones(2, dtype)),
            plain("linalg.solve"),
        )
        for power in (0, 1, 3, -2):
            yield Check(
                "linalg.matrix_power",
                f"{power}",
                (symmetric,),
                lambda xp, a, n=power: xp.linalg.matrix_power(a, n) / float(200 ** max(n, 0)),
            )
    for shape in (*MATRICES, (4, 2), (2, 3, 5)):
        x = values(dtype, shape)
        yield Check("linalg.svdvals", "", (x,), plain("linalg.svdvals"))
        for full in (False, True):
            yield Check("linalg.svd", f"full={full}", (x,), lambda xp, a, f=full: singular(xp, a, f))
        for mode in ("reduced", "complete"):
            yield Check("linalg.qr", mode, (x,), lambda xp, a, m=mode: triangular(xp, a, m))
        yield Check("linalg.pinv", "", (x,), plain("linalg.pinv"))
        yield Check("linalg.matrix_rank", "", (x,), plain("linalg.matrix_rank"))


def eigen(xp: Any, a: Array) -> tuple[Array, ...]:
    """The values, and that the vectors are orthonormal and belong to them."""
    w, v = xp.linalg.eigh(a)
    turned = xp.conj(xp.matrix_transpose(v))
    return w, xp.matmul(turned, v), xp.matmul(xp.matmul(v, xp.astype(w[..., None], v.dtype) * turned), xp.linalg.inv(a))


def singular(xp: Any, a: Array, full: bool) -> tuple[Array, ...]:
    """The values, that the vectors are orthonormal, and the product."""
    u, s, v = xp.linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    product = xp.matmul(u[..., :k] * xp.astype(s[..., None, :], u.dtype), v[..., :k, :])
    return s, xp.matmul(xp.conj(xp.matrix_transpose(u)), u), xp.matmul(v, xp.conj(xp.matrix_transpose(v))), product


def triangular(xp: Any, a: Array, mode: str) -> tuple[Array, ...]:
    """That the columns are orthonormal, the triangle's shape, and the product."""
    q, r = xp.linalg.qr(a, mode=mode)
    return xp.matmul(xp.conj(xp.matrix_transpose(q)), q), xp.tril(r, k=-1), xp.matmul(q, r)


def norms(dtype: str) -> Iterator[Check]:
    """Norms of matrices and of vectors."""
    x = values(dtype, (2, 3, 4))
    for order in ("fro", "nuc", 1, 2, -1, -2, math.inf, -math.inf):
        for keep in (False, True):
            yield Check(
                "linalg.matrix_norm",
                f"{order}{' keep' * keep}",
                (x,),
                lambda xp, a, o=order, k=keep: xp.linalg.matrix_norm(a, ord=o, keepdims=k),
            )
    for order in (0, 1, 2, 3, 0.5, -1, math.inf, -math.inf):
        for axis in (None, 0, (1, 2)):
            yield Check(
                "linalg.vector_norm",
                f"{order} {axis}",
                (x,),
                lambda xp, a, o=order, axis=axis: xp.linalg.vector_norm(a, ord=o, axis=axis),
            )


# ---- Fourier transforms


def transforms() -> Iterator[Check]:
    """All of the extension."""
    for norm in ("backward", "ortho", "forward"):
        for dtype in dtypes("c"):
            x = values(dtype, (3, 4, 5))
            for name in ("fft", "ifft", "hfft", "irfft"):
                for n, axis in ((None, -1), (6, 1), (3, 0), (2, 2), (7, -1)):
                    yield Check(f"fft.{name}", f"{n} {axis} {norm}", (x,), transform(name, n=n, axis=axis, norm=norm))
            for name in ("fftn", "ifftn", "irfftn"):
                for s, axes in ((None, None), ((3, 6), (0, 2)), (None, (1, 0)), ((2, 4, 8), (0, 1, 2))):
                    yield Check(f"fft.{name}", f"{s} {axes} {norm}", (x,), transform(name, s=s, axes=axes, norm=norm))
    yield from real_transforms()
    for dtype in dtypes("fc"):
        for name in ("fftshift", "ifftshift"):
            for axes in (None, 0, (0, 1)):
                yield Check(f"fft.{name}", f"{axes}", (values(dtype, (3, 4)),), transform(name, axes=axes))


def real_transforms() -> Iterator[Check]:
    """Transforms of real numbers, and frequencies."""
    for norm in ("backward", "ortho", "forward"):
        for dtype in dtypes("f"):
            x = values(dtype, (3, 4, 5))
            for name in ("rfft", "ihfft"):
                for n, axis in ((None, -1), (6, 1), (3, 0), (7, -1)):
                    yield Check(f"fft.{name}", f"{n} {axis} {norm}", (x,), transform(name, n=n, axis=axis, norm=norm))
            for s, axes in ((None, None), ((3, 6), (0, 2)), (None, (1, 0))):
                yield Check("fft.rfftn", f"{s} {axes} {norm}", (x,), transform("rfftn", s=s, axes=axes, norm=norm))
    for name in ("fftfreq", "rfftfreq"):
        for n in (1, 4, 5):
            yield Check(
                f"fft.{name}", f"{n}", (), lambda xp, f=name, n=n: xp.astype(getattr(xp.fft, f)(n, d=0.5), xp.float32)
            )


def transform(name: str, **options: Any) -> Callable[..., Any]:
    """A function of the extension, with options."""
    return lambda xp, a: getattr(xp.fft, name)(a, **options)


FAMILIES: Sequence[Callable[[], Iterator[Check]]] = (
    elements, creation, manipulation, indexing, searching, statistics, linear_algebra, transforms,
)  # fmt: skip
