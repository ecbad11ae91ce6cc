from __future__ import annotations

import numpy as np
import pytest
from tests.backends.llvm.harness import Array, access, check, random

from nnc.codegen.kernels.reduction.reduction import Reduction

RULES = {
    "sum": np.sum,
    "mean": np.mean,
    "maximum": np.max,
    "minimum": np.min,
    "norm2": lambda x, axis: np.sqrt(np.sum(x * x, axis=axis)),
}
CASES = [
    ((64, 10), (1,)),
    ((64, 10), (0,)),
    ((6, 5, 4, 7), (0, 2)),
    ((6, 5, 4, 7), (1, 3)),
    ((100,), (0,)),
    ((3, 1, 4), (1,)),
    ((3, 4), ()),
]


def reduce(rule: str, x: Array, axes: tuple[int, ...]) -> None:
    wide = x.astype(np.float64) if x.dtype.kind == "f" else x
    want = np.asarray(RULES[rule](wide, axis=axes)).astype(x.dtype)
    marks = tuple(axis in axes for axis in range(x.ndim))
    reduction = Reduction(rule, x.shape, (access(x),), marks, access(x).scalar)
    check(reduction, [x], [want], spread=max(1, x.size / max(1, want.size)) ** 0.5)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sums_over_any_axes(case: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    reduce("sum", random(case[0]), case[1])


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_along_rows_and_columns(rule: str) -> None:
    reduce(rule, random((33, 70)), (1,))
    reduce(rule, random((33, 70), np.float64), (0,))


@pytest.mark.parametrize("shape", [(70001,), (5000, 16), (16, 5000), (7, 1000, 33)], ids=str)
def test_long_reductions_are_cut_into_parts(shape: tuple[int, ...]) -> None:
    axes = tuple(range(len(shape))) if len(shape) != 2 else (int(shape[0] < shape[1]),)
    reduce("sum", random(shape), axes)
    reduce("norm2", random(shape), axes)


@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize(("shape", "axis"), [((300, 1203), 0), ((2, 131, 1024), 1), ((150, 600), 0)], ids=str)
def test_long_reductions_of_wide_rows(rule: str, shape: tuple[int, ...], axis: int) -> None:
    x = random(shape)
    reduce(rule, x, (axis,))
    reduce(rule, x[..., ::-1][..., ::2], (axis,))


def test_nan_and_infinity_in_wide_rows() -> None:
    x = random((257, 2050))
    x[100, 3], x[255, 1029], x[256, 2049] = np.nan, np.inf, -np.inf
    for rule in ("sum", "mean", "maximum", "minimum"):
        reduce(rule, x, (0,))


def test_strided_operands() -> None:
    reduce("sum", random((40, 90)).T, (1,))
    reduce("maximum", random((40, 90))[::2, ::3], (0,))


def test_integers() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (30, 17))
    reduce("sum", x, (0,))
    reduce("maximum", x.astype(np.int32), (1,))
    reduce("minimum", np.abs(x).astype(np.uint8), (0, 1))


def test_nothing_sums_to_zero() -> None:
    reduce("sum", random((5, 0)), (1,))
    reduce("sum", random((0, 5)), (0,))
    reduce("sum", random((0, 5)), (1,))


def test_nan_and_infinity() -> None:
    x = random((6, 9))
    x[1, 3], x[2, 2], x[4, 4] = np.nan, np.inf, -np.inf
    for rule in ("sum", "maximum", "minimum"):
        reduce(rule, x, (1,))
        reduce(rule, x, (0,))


def test_a_norm_whose_squares_are_beyond_f32() -> None:
    x = np.array([[3e30, 4e30], [3e-30, 4e-30]], np.float32)
    reduction = Reduction("norm2", x.shape, (access(x),), (False, True), access(x).scalar)
    check(reduction, [x], [np.array([5e30, 5e-30], np.float32)])
