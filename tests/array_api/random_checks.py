"""Random calls of the array API standard: shapes that broadcast, the ends of each type, axes, numbers beside arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.array_api.checks import BINARY, OPERATORS, UNARY, Check, Shape, dtypes, function_of, plain

# `Any`: arrays and namespaces of several libraries.
AXES_MOST, SIDE_MOST = 4, 4
INTEGER_PAIRS = ("floor_divide", "remainder", "pow", "bitwise_left_shift", "bitwise_right_shift")
SUMS = {"max": "iuf", "min": "iuf", "sum": "iufc", "prod": "iufc", "mean": "f", "var": "f", "std": "f", "all": "biufc",
        "any": "biufc", "count_nonzero": "biufc", "cumulative_sum": "iufc", "cumulative_prod": "iufc", "argmax": "iuf",
        "argmin": "iuf", "sort": "iuf", "argsort": "iuf"}  # fmt: skip


@dataclass(slots=True)
class RandomChecks:
    """Checks drawn from a seed; each call draws the next of its family."""

    generator: np.random.Generator

    def __iter__(self) -> Iterator[Check]:
        families: Sequence[Callable[[], Check]] = (
            self.unary, self.binary, self.operator, self.number, self.integers, self.along, self.cast, self.where,
            self.clip, self.index, self.assign, self.arange, self.linspace, self.shape_change, self.sets, self.product,
        )  # fmt: skip
        while True:
            yield families[self.generator.integers(len(families))]()

    # ---- what is drawn

    def one(self, values: Sequence[Any]) -> Any:
        return values[int(self.generator.integers(len(values)))]

    def shape(self, least: int = 0) -> Shape:
        rank = int(self.generator.integers(0, AXES_MOST))
        return tuple(int(self.generator.integers(least, SIDE_MOST)) for _ in range(rank))

    def beside(self, shape: Shape) -> Shape:
        """A shape that broadcasts with another."""
        kept = shape[int(self.generator.integers(len(shape) + 1)) :]
        return tuple(1 if self.generator.random() < 0.3 else size for size in kept)

    def values(self, dtype: str, shape: Shape, mild: bool = False) -> np.ndarray:
        """Small numbers, whole ones, and unless `mild` those at the ends of the type and those that are no number."""
        kind = np.dtype(dtype).kind
        if kind == "c":
            part = "float32" if dtype == "complex64" else "float64"
            parts = self.values(part, (*shape, 2), mild)
            return np.ascontiguousarray(parts).view(dtype)[..., 0].reshape(shape)
        if kind == "b":
            return self.generator.integers(0, 2, shape).astype(bool)
        found = np.empty(shape, dtype)
        for place in np.ndindex(shape):
            found[place] = self.value(dtype, mild)
        return found

    def value(self, dtype: str, mild: bool = False) -> Any:
        kind = np.dtype(dtype).kind
        if kind == "b":
            return bool(self.generator.integers(2))
        if kind == "c":
            return complex(self.value("float32", mild), self.value("float32", mild))
        if kind in "iu":
            ends = np.iinfo(dtype)
            if mild or self.generator.random() < 0.7:
                return int(self.generator.integers(0 if kind == "u" else -6, 7))
            return self.one((int(ends.min), int(ends.max), int(ends.max) - 1, int(ends.max) // 2 + 2))
        if mild or self.generator.random() < 0.6:
            return float(np.dtype(dtype).type(3 * self.generator.normal()))
        ends = np.finfo(dtype)
        special = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, float(ends.max),
                   -float(ends.max), float(ends.tiny), 16777217.0, -1e9, 1e-7)  # fmt: skip
        return float(np.dtype(dtype).type(self.one(special)))

    def pair(self, kinds: str) -> tuple[str, str]:
        """Two types that promote to one."""
        one = self.one(dtypes(kinds))
        other = one if self.generator.random() < 0.6 else self.one(dtypes(kinds))
        same = {np.dtype(one).kind, np.dtype(other).kind}
        signed = same == {"i", "u"} and np.result_type(one, other).kind == "f"
        fits = len(same) == 1 or same in ({"i", "u"}, {"f", "c"})
        return (one, other) if fits and not signed else (one, one)

    def two(self, kinds: str) -> tuple[np.ndarray, np.ndarray]:
        one, other = self.pair(kinds)
        shape = self.shape()
        arrays = self.values(one, shape), self.values(other, self.beside(shape))
        return arrays if self.generator.random() < 0.5 else arrays[::-1]

    def axis(self, rank: int) -> int:
        return int(self.generator.integers(-rank, rank))

    # ---- families

    def unary(self) -> Check:
        name = self.one(list(UNARY))
        dtype = self.one(dtypes(UNARY[name]))
        return Check(name, "", (self.values(dtype, self.shape()),), plain(name))

    def binary(self) -> Check:
        name = self.one(list(BINARY))
        return Check(name, "", self.two(BINARY[name]), plain(name))

    def operator(self) -> Check:
        name = self.one(list(OPERATORS))
        kinds, rule = OPERATORS[name]
        return Check(name, "", self.two(kinds), lambda xp, a, b: rule(a, b))

    def number(self) -> Check:
        name = self.one(list(OPERATORS))
        kinds, rule = OPERATORS[name]
        dtype = self.one(dtypes(kinds))
        array, number = self.values(dtype, self.shape()), self.value(dtype)
        if self.generator.random() < 0.5:
            return Check(name, f"{number}", (array,), lambda xp, a: rule(a, number))
        return Check(name, f"{number} reflected", (array,), lambda xp, a: rule(number, a))

    def integers(self) -> Check:
        name = self.one(INTEGER_PAIRS)
        dtype = self.one(dtypes("iu"))
        shape = self.shape()
        most = np.iinfo(dtype).bits if "shift" in name else 5
        right = self.generator.integers(0 if name in ("pow", *INTEGER_PAIRS[3:]) else 1, most, self.beside(shape))
        return Check(name, "", (self.values(dtype, shape), np.asarray(right, dtype)), plain(name))

    def along(self) -> Check:
        name = self.one(list(SUMS))
        dtype = self.one(dtypes(SUMS[name]))
        shape = self.shape(1 if name in ("max", "min", "argmax", "argmin") else 0)
        array = self.values(dtype, shape, mild=np.dtype(dtype).kind in "fc" and name not in ("max", "min", "sort"))
        options: dict[str, Any] = {}
        if name in ("cumulative_sum", "cumulative_prod", "sort", "argsort"):
            if not shape:
                array = array.reshape(1)
            options["axis"] = self.axis(max(len(shape), 1))
            if "sort" in name:
                options["descending"] = bool(self.generator.integers(2))
            else:
                options["include_initial"] = bool(self.generator.integers(2))
        else:
            options["keepdims"] = bool(self.generator.integers(2))
            if shape and self.generator.random() < 0.7:
                options["axis"] = self.axis(len(shape))
        return Check(name, f"{options}", (array,), lambda xp, a: function_of(xp, name)(a, **options))

    def cast(self) -> Check:
        one, other = self.one(dtypes("biufc")), self.one(dtypes("biufc"))
        array = self.values(one, self.shape(), mild=True)
        if np.dtype(one).kind in "if" and np.dtype(other).kind == "u":
            array = abs(array)
        if np.dtype(one).kind == "c" and np.dtype(other).kind != "c":
            other = one
        return Check("astype", other, (array,), lambda xp, a: xp.astype(a, getattr(xp, other)))

    def where(self) -> Check:
        left, right = self.two("iufc")
        mask = self.values("bool", self.beside(np.broadcast_shapes(left.shape, right.shape)))
        return Check("where", "", (mask, left, right), plain("where"))

    def clip(self) -> Check:
        dtype = self.one(dtypes("iuf"))
        shape = self.shape()
        array, low, high = (self.values(dtype, one) for one in (shape, self.beside(shape), self.beside(shape)))
        low, high = np.nan_to_num(low), np.nan_to_num(high)
        numbers = sorted((low.ravel()[:1].tolist() or [0])[0:1] + (high.ravel()[:1].tolist() or [1])[0:1])
        if self.generator.random() < 0.5 and all(map(math.isfinite, numbers)):
            return Check("clip", f"{numbers}", (array,), lambda xp, x: xp.clip(x, *numbers))
        return Check("clip", "", (array, low, np.maximum(low, high)), lambda xp, x, a, b: xp.clip(x, a, b))

    def key(self, shape: Shape) -> Any:
        """Integers, slices, an ellipsis, new axes."""
        parts: list[Any] = []
        for size in shape:
            if size and self.generator.random() < 0.4:
                parts.append(int(self.generator.integers(-size, size)))
            else:
                step = self.one((None, 1, 2, -1, -2))
                ends = [None if self.generator.random() < 0.4 else int(self.generator.integers(-size, size + 1))
                        for _ in range(2)]  # fmt: skip
                parts.append(slice(*ends, step))
        if self.generator.random() < 0.3:
            first = int(self.generator.integers(len(parts) + 1))
            parts[first : first + int(self.generator.integers(3))] = [...]
        return tuple(parts)

    def index(self) -> Check:
        array = self.values(self.one(dtypes("biufc")), self.shape())
        if self.generator.random() < 0.3:
            first = array.shape[: int(self.generator.integers(array.ndim + 1))]
            return Check("__getitem__", "mask", (array, self.values("bool", first)), lambda xp, a, m: a[m])
        key = self.key(array.shape)
        return Check("__getitem__", f"{key}", (array,), lambda xp, a: a[key])

    def assign(self) -> Check:
        dtype = self.one(dtypes("biufc"))
        array, number = self.values(dtype, self.shape()), self.value(dtype)
        scalar = np.asarray(number, dtype)
        if self.generator.random() < 0.3:
            mask = self.values("bool", array.shape)
            return Check("__setitem__", "mask", (array, mask, scalar), _assigned_where)
        key = self.key(array.shape)
        if self.generator.random() < 0.5:
            return Check("__setitem__", f"{key}", (array, scalar), lambda xp, a, v: _assigned(xp, a, key, v))
        return Check("__setitem__", f"{key} {number}", (array,), lambda xp, a: _assigned(xp, a, key, number))

    def arange(self) -> Check:
        dtype = self.one([None, *dtypes("if")])
        whole = dtype is None or np.dtype(dtype).kind == "i" or self.generator.random() < 0.5
        start, stop = (int(one) for one in self.generator.integers(-50, 50, 2))
        step = self.one((1, 2, 3, 7, -1, -2, -5)) * (1 if whole else 0.5)
        return Check("arange", f"{start} {stop} {step} {dtype}", (), lambda xp: xp.arange(
            start, stop, step, **({"dtype": getattr(xp, dtype)} if dtype else {})))  # fmt: skip

    def linspace(self) -> Check:
        dtype, count = self.one(dtypes("fc")), int(self.generator.integers(0, 9))
        start, stop, end = self.value("float64", True), self.value("float64", True), bool(self.generator.integers(2))
        return Check("linspace", f"{start} {stop} {count} {end} {dtype}", (), lambda xp: xp.linspace(
            start, stop, count, dtype=getattr(xp, dtype), endpoint=end))  # fmt: skip

    def shape_change(self) -> Check:
        array = self.values(self.one(dtypes("biufc")), self.shape())
        rank = array.ndim
        order = tuple(int(one) for one in self.generator.permutation(rank))
        shift = int(self.generator.integers(-9, 9))
        axis = self.axis(rank) if rank else None
        place = int(self.generator.integers(-rank - 1, rank + 1))
        counts = tuple(int(one) for one in self.generator.integers(0, 3, int(self.generator.integers(1, 4))))
        calls: dict[str, Callable[..., Any]] = {
            "permute_dims": lambda xp, a: xp.permute_dims(a, order),
            "roll": lambda xp, a: xp.roll(a, shift, axis=axis),
            "flip": lambda xp, a: xp.flip(a, axis=axis),
            "expand_dims": lambda xp, a: xp.expand_dims(a, axis=place),
            "stack": lambda xp, a: xp.stack([a, a, a], axis=place),
            "reshape": lambda xp, a: xp.reshape(a, (a.size,)),
            "tile": lambda xp, a: xp.tile(a, counts),
            "repeat": lambda xp, a: xp.repeat(a, 2, axis=axis),
            "concat": lambda xp, a: xp.concat([a, a], axis=axis),
        }
        name = self.one(list(calls))
        return Check(name, f"axis={axis} {place} {counts} {shift}", (array,), calls[name])

    def sets(self) -> Check:
        name = self.one(("unique_counts", "unique_inverse", "unique_all", "nonzero", "searchsorted"))
        array = self.values(self.one(dtypes("iuf")), self.shape(), mild=name != "nonzero")
        if name == "searchsorted":
            return Check(name, "", (np.sort(array.ravel()), array), plain(name))
        if name == "nonzero":
            array = array.reshape(array.shape or (1,))
        return Check(name, "", (array,), lambda xp, a: tuple(function_of(xp, name)(a)))

    def product(self) -> Check:
        one, other = self.pair("iufc")
        rows, inner, columns = (int(one) for one in self.generator.integers(0, 5, 3))
        batch = self.shape()[:2]
        left = self.values(one, (*batch, rows, inner), mild=True)
        right = self.values(other, (*self.beside(batch), inner, columns), mild=True)
        if self.generator.random() < 0.3:
            return Check("vecdot", "", (left, self.values(other, (inner,), True)), plain("vecdot"))
        return Check("matmul", "", (left, right), plain("matmul"))


def _assigned(xp: Any, x: Any, index: Any, value: Any) -> Any:
    copy = xp.asarray(x, copy=True)
    copy[index] = value
    return copy


def _assigned_where(xp: Any, x: Any, mask: Any, value: Any) -> Any:
    return _assigned(xp, x, mask, value)


def random_checks(seed: int, count: int) -> Iterator[Check]:
    """The first `count` of a seed."""
    for check, _ in zip(RandomChecks(np.random.default_rng(seed)), range(count), strict=False):
        yield check
