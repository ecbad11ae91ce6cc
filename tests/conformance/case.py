"""What a row of the conformance table is, and the values that its inputs take.

A row says nothing of backends, element types and memory layouts: the tests run each row over all of them.
Integers get the values of a row times 8, rounded, so that one row serves all element types.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnc.core.values.dtype import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, DType
from nnc.core.values.spec import AnyLayout, Layout, Shape, TensorSpec
from nnc.graph import Op
from nnc.ops.rules import NoAttrs

# `Any`: elements of any type, as in the kernels.
Array = NDArray[Any]
Generator = np.random.Generator
Values = Callable[[Generator, Shape, Sequence[Array]], Array]

FLOATS = (F64, F32, F16, BF16)
NUMBERS = (*FLOATS, I64, I32, I16, I8, U8)
NONE = NoAttrs()

SPECIAL_VALUES = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -40.0, 40.0, np.inf, -np.inf, np.nan)


def uniform(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Between -1 and 1."""
    return generator.uniform(-1, 1, shape)


def small(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Between -1/8 and 1/8."""
    return generator.uniform(-0.125, 0.125, shape)


def positive(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Between ½ and 2."""
    return generator.uniform(0.5, 2, shape)


def apart(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """All different, none at 0, and different from the other inputs: away from every kink."""
    count = int(np.prod(shape))
    values = (generator.permutation(count) - count // 2) * 0.11 + 0.05 + 0.013 * len(earlier)
    return np.asarray(values).reshape(shape)


def ties(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Few different values."""
    return generator.integers(-2, 3, shape) / 2


def special(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """Zeros of both signs, infinities, nan, and where functions saturate."""
    return np.resize(np.array(SPECIAL_VALUES), shape)


def truth(generator: Generator, shape: Shape, earlier: Sequence[Array]) -> Array:
    """0 or 1."""
    return generator.integers(0, 2, shape)


def labels(classes: int) -> Values:
    """Class numbers."""
    return lambda generator, shape, earlier: generator.integers(0, classes, shape)


def constant(value: float) -> Values:
    """One value everywhere."""
    return lambda generator, shape, earlier: np.full(shape, value)


@dataclass(frozen=True, slots=True)
class Argument:
    """One input: shape, values, the element type where it is not the one under test, and the layout."""

    shape: Shape
    values: Values = uniform
    dtype: DType | None = None
    layout: AnyLayout = Layout.NHWC

    def spec(self, dtype: DType) -> TensorSpec:
        """The spec for an element type under test."""
        return TensorSpec(self.shape, self.dtype or dtype, self.layout)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A row. `smooth` rows stay away from kinks and from what is not finite, so gradients can be checked on them."""

    op: Op[Any]
    attrs: Any
    arguments: tuple[Argument | None, ...]
    dtypes: tuple[DType, ...] = FLOATS
    note: str = ""
    smooth: bool = True

    def __str__(self) -> str:
        shapes = ",".join(
            "x".join(map(str, argument.shape)) or "scalar" if argument else "none" for argument in self.arguments
        )
        return "-".join(filter(None, (self.op.name, shapes, self.note)))

    def specs(self, dtype: DType) -> tuple[TensorSpec | None, ...]:
        """Specs of the inputs for an element type under test."""
        return tuple(None if argument is None else argument.spec(dtype) for argument in self.arguments)

    def arrays(self, dtype: DType) -> list[Array | None]:
        """The same values on every call."""
        generator = np.random.default_rng(zlib.crc32(str(self).encode()))
        arrays: list[Array | None] = []
        for argument in self.arguments:
            if argument is None:
                arrays.append(None)
                continue
            present = [array for array in arrays if array is not None]
            values = np.asarray(argument.values(generator, argument.shape, present))
            arrays.append(as_type(values, argument.dtype or dtype, scaled=argument.dtype is None))
        return arrays


def as_type(values: Array, dtype: DType, *, scaled: bool) -> Array:
    """Values in an element type; fractions become integers by a factor of 8."""
    if dtype.is_float or not scaled or values.dtype.kind in "iu":
        with np.errstate(over="ignore"):
            exact: Array = values.astype(dtype.numpy)
        return exact
    if dtype is BOOL:
        return np.asarray(values > 0)
    whole = np.rint(8 * np.nan_to_num(values, posinf=9, neginf=-9))
    integers: Array = (np.abs(whole) if dtype is U8 else whole).astype(dtype.numpy)
    return integers


def names_of(cases: Sequence[Case]) -> dict[Case, str]:
    """A name of its own for each row: its text, and behind that of an earlier row which one it is.

    pytest would number all that have one text, the first too, so that none is found by the text.
    """
    earlier = Counter[str]()
    names: dict[Case, str] = {}
    for case in cases:
        earlier[str(case)] += 1
        names[case] = str(case) if earlier[str(case)] == 1 else f"{case}-no{earlier[str(case)]}"
    return names
